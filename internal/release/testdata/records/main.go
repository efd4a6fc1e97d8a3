// Command records is one of two versions of tend that write records for each other, in a rehearsed
// deployment: internal/release -beside runs it. It does the steps whose names it reads, one a line, and answers each
// with a line that says what it finds in the store then.
//
// main.go, steps.go and cloud.go are compiled with both versions: for the older one with old.go, for this one
// with new.go, and with conduct.go, which conducts the two.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/tendhq/tend/store"
)

// stepLimit ends a step that does not come to its end by itself: one takes milliseconds.
const stepLimit = time.Minute

// place says where the store is, and the cloud.
type place struct {
	Store  string // file, etcd or postgres
	At     string // a path, an endpoint, a connection string
	Schema string // of PostgreSQL
	Cloud  string // a directory
}

// placeEnv hands the place to a side.
const placeEnv = "TEND_RECORDS"

// answer is what a side says of the store after a step.
type answer struct {
	Error string `json:",omitempty"`
	// Objects are as this version reads them, by kind and key.
	Objects map[string]any
	// Raw are the same as they are stored, but for encrypted ones.
	Raw map[string]any
	// Steps are those that a plan of the external resources has.
	Steps        []string
	Installation string
}

// Both versions have these types, and each one has fields besides that the other does not know: Own.
type (
	specification struct {
		Size     int               `json:"size"`
		Zone     string            `json:"zone,omitempty"`
		Tags     map[string]string `json:"tags,omitempty"`
		List     []string          `json:"list"`
		At       time.Time         `json:"at,omitzero"`
		Raw      json.RawMessage   `json:"raw,omitempty"`
		Part     *part             `json:"part,omitempty"`
		Password string            `json:"password,omitempty" tend:"secret"`
		Own
	}
	part struct {
		Name string `json:"name"`
		Own
	}
	status struct {
		Seen  int               `json:"seen"`
		At    time.Time         `json:"at,omitzero"`
		Notes map[string]string `json:"notes,omitempty"`
		Own
	}
	thing = store.Object[specification, status]

	// The specs of the two versions of a kind.
	earlier struct {
		Size int `json:"size"`
		Own
	}
	later struct {
		Bytes int `json:"bytes"`
		Own
	}
)

// side is one version on one store.
type side struct {
	place
	backend store.Backend

	things, sealed, declared, sites *store.Store[specification, status]
	earlier                         *store.Store[earlier, status]
	later                           *store.Store[later, status]
}

func main() {
	on := flag.String("store", "", "rehearse on this store (file, etcd, postgres) ...")
	with := flag.String("with", "", "... with this `program`, another version, beside")
	flag.Parse()
	var err error
	if *with != "" {
		err = conduct(*on, *with)
	} else {
		err = serve()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "records:", err)
		os.Exit(1)
	}
}

// serve does steps until its input ends. A file is open during a step only.
func serve() error {
	s := &side{}
	if err := json.Unmarshal([]byte(os.Getenv(placeEnv)), &s.place); err != nil {
		return err
	}
	answers := json.NewEncoder(os.Stdout)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		a, err := s.answer(lines.Text())
		if err != nil {
			a.Error = err.Error()
		}
		if err := answers.Encode(a); err != nil {
			return err
		}
	}
	if s.backend == nil {
		return nil
	}
	return s.backend.Close()
}

func (s *side) answer(step string) (a answer, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
	defer cancel()
	if s.backend == nil {
		if err := s.open(ctx); err != nil {
			return a, err
		}
	}
	err = s.do(ctx, step)
	if err == nil {
		a, err = s.look(ctx)
	}
	if s.Store == "file" {
		err = errors.Join(err, s.backend.Close())
		s.backend = nil
	}
	return a, err
}

func (s *side) open(ctx context.Context) (err error) {
	if s.backend, err = openBackend(ctx, s.place); err != nil {
		return err
	}
	encryption, err := store.NewEncryption([]store.EncryptionKey{{ID: "a", Secret: bytes.Repeat([]byte{7}, 32)}}, nil)
	if err != nil {
		return err
	}
	var errs [6]error
	s.things, errs[0] = store.New[specification, status](s.backend, "Thing", nil)
	s.sealed, errs[1] = store.New(s.backend, "Sealed", &store.Options[specification, status]{Encryption: encryption})
	s.declared, errs[2] = store.New[specification, status](s.backend, "Declared", nil)
	s.sites, errs[3] = store.New[specification, status](s.backend, "Site", nil)
	s.earlier, errs[4] = store.New[earlier, status](s.backend, "Converted", nil)
	s.later, errs[5] = store.New(s.backend, "Converted", &store.Options[later, status]{
		Version: 2,
		Convert: []store.Conversion{func(o map[string]any) error {
			spec, ok := o["spec"].(map[string]any)
			if !ok {
				return fmt.Errorf("a spec of type %T", o["spec"])
			}
			spec["bytes"] = spec["size"]
			delete(spec, "size")
			return nil
		}},
	})
	return errors.Join(errs[:]...)
}

// look reads everything, and writes it back as it was read, which must not be a write.
func (s *side) look(ctx context.Context) (a answer, err error) {
	a = answer{Objects: make(map[string]any), Raw: make(map[string]any)}
	for _, things := range []*store.Store[specification, status]{s.things, s.sealed, s.declared, s.sites} {
		if err := lookAt(ctx, things, a); err != nil {
			return a, err
		}
	}
	if err := lookAt(ctx, s.later, a); err != nil {
		return a, err
	}
	if a.Installation, err = store.Installation(ctx, s.backend); err != nil {
		return a, err
	}
	r, err := s.reconciler(a.Installation, false, nil)
	if err != nil {
		return a, err
	}
	plan, err := r.Plan(ctx)
	for _, step := range plan.Steps {
		a.Steps = append(a.Steps, step.Action+" "+step.Key.String())
	}
	return a, err
}

func lookAt[S any](ctx context.Context, s *store.Store[S, status], a answer) error {
	all, err := s.List(ctx, store.Selector{})
	if err != nil {
		return fmt.Errorf("list of %s: %w", s.Kind(), err)
	}
	for _, o := range all {
		name := s.Kind() + " " + o.Key().String()
		a.Objects[name] = o
		for what, write := range map[string]func(context.Context, *store.Object[S, status]) (*store.Object[S, status], error){
			"Update": s.Update, "UpdateStatus": s.UpdateStatus, "UpdateIntent": s.UpdateIntent,
		} {
			if again, err := write(ctx, s.Clone(o)); err != nil || again.Revision != o.Revision {
				return fmt.Errorf("%s of %s as it was read: %v, error %w", what, name, again, err)
			}
		}
		r, err := s.Backend().Get(ctx, s.Kind(), o.Key())
		if err != nil {
			return err
		}
		var raw any
		if data, err := r.Encode(); err == nil && json.Unmarshal(data, &raw) == nil {
			a.Raw[name] = raw
		}
	}
	return nil
}
