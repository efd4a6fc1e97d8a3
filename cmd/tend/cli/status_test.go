package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tendhq/tend/cmd/tend/cli"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/inspect"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/reconcile/web/api"
	"github.com/tendhq/tend/reconcile/web/debug"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/file"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/objects"
)

// when runs the command until it prints what is wanted, as the service works meanwhile.
func (c *tend) when(code int, want string, args ...string) (stdout string) {
	c.t.Helper()
	limit := time.Now().Add(time.Minute) // turns a hang into a failure, and measures nothing
	for {
		var out strings.Builder
		got := cli.Run(c.t.Context(), args, cli.Config{Stdout: &out, Stderr: new(strings.Builder), Getenv: func(name string) string { return c.env[name] }})
		if got == code && strings.Contains(out.String(), want) {
			return out.String()
		}
		if time.Now().After(limit) {
			c.t.Fatalf("tend %s: exit code %d, want %d, and it never printed %q:\n%s", strings.Join(args, " "), got, code, want, out.String())
		}
	}
}

// tend status prints the verdict of the service's page, and its exit code says whether it is well.
func TestStatusSaysWhatIsWrongAndExitsWithIt(t *testing.T) {
	d, c := service(t)
	_ = must(d.Create(t.Context(), &disk{Meta: store.Meta{Name: "good"}}))
	well := c.when(cli.Done, "All is well: the 1 object is as declared.\n1 ready\n", "status")
	wantAll(t, well, "store    memory answers\n", "workers  0 of 8 are busy\n")
	for _, name := range []string{"bad-1", "bad-2"} {
		_ = must(d.Create(t.Context(), &disk{Meta: store.Meta{Name: name}}))
	}
	ill := c.when(cli.Failed, "2 of disk", "status")
	wantAll(t, ill, "Not well. 2 of 3 objects are not as declared", "1 cause; 1 needs a person.\n2 given up, 1 ready\n",
		`given up: the name is taken \u001b[31m`+"\n  2 of disk, since 20", ", for example bad-", "\n    tend edit disk bad-", "\n    tend kick disk bad-")
	var v inspect.Verdict
	if err := json.Unmarshal([]byte(c.run(cli.Failed, "", "status", "-o", "json")), &v); err != nil || v.Level != inspect.NotWell || len(v.Causes) != 1 || v.Causes[0].Count != 2 {
		t.Errorf("as JSON it is %+v, %v", v, err)
	}
	wantAll(t, c.said, "the service is not well")
	wantAll(t, c.run(cli.Done, "", "help"), "(of status: it is not well)")
}

// A key that is no object, such as a declared file, has no command of tend: status leads to its page.
//
// Before: it said "tend why" and "tend kick", which no command line is.
func TestStatusLeadsToThePageOfAKeyThatIsNoObject(t *testing.T) {
	silent := slog.New(slog.DiscardHandler)
	m := &reconcile.Manager{Logger: silent}
	for name, refuses := range map[string]error{"fails": errors.New("no such zone"), "broken": reconcile.Terminal(errors.New("line 1 is broken"))} {
		c := must(reconcile.New(name, reconcile.Func[string](func(context.Context, string) (reconcile.Result, error) { return reconcile.Result{}, refuses }),
			&reconcile.Options[string]{Logger: silent}))
		err := c.Watch(reconcile.Every("files", time.Hour, func(context.Context) (map[string]int, error) { return map[string]int{"my files": 1}, nil }))
		if err := errors.Join(err, m.Register(c)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }() // ended by cancel, waited for in the cleanup
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	server := httptest.NewServer(must(debug.New(m, &debug.Options{Logger: silent})))
	t.Cleanup(server.Close)
	c := &tend{t: t, env: map[string]string{}}
	c.when(cli.Failed, "c=fails&key=my+files", "status", "-debug", server.URL+"/debug")
	text := c.when(cli.Failed, "c=broken&key=my+files", "status", "-debug", server.URL+"/debug")
	wantAll(t, text, "2 causes", "for example my files\n    see "+server.URL+"/debug?c=fails&key=my+files\n\n", "\n    mend what the error names\n    see "+server.URL+"/debug?c=broken&key=my+files\n")
	if strings.Contains(text, "tend why") || strings.Contains(text, "tend kick") {
		t.Errorf("it says commands that are none:\n%s", text)
	}
}

// status asks a service; without one that answers it says so, and by another exit code.
func TestStatusOfNoService(t *testing.T) {
	_, c := service(t)
	closed := httptest.NewServer(nil)
	closed.Close()
	c.run(cli.Unreachable, "", "status", "-debug", closed.URL+"/debug")
	c.run(cli.Failed, "", "status", "-debug", c.env["TEND_SERVER"])
	wantAll(t, c.said, "-debug names something else")
	path := filepath.Join(t.TempDir(), "tend.db")
	if err := must(file.Open(path)).Close(); err != nil {
		t.Fatal(err)
	}
	c.run(cli.Usage, "", "status", "-store", "file:"+path) // 1 would say that it is not well
	wantAll(t, c.said, "status asks a service (-server or -debug): a store alone does not say whether all is well")
}

// get -state shows the objects that the service counts in these states; of a store alone, those that
// what is stored tells of.
//
// Before: an object whose key was given up was in no list but that of all.
func TestGetByState(t *testing.T) {
	d, c := service(t)
	for _, name := range []string{"good", "bad-1", "bad-2"} {
		_ = must(d.Create(t.Context(), &disk{Meta: store.Meta{Name: name}}))
	}
	_ = must(d.Create(t.Context(), &disk{Meta: store.Meta{Name: "still", Paused: true}}))
	c.when(cli.Failed, "2 given up, 1 paused, 1 ready", "status")
	for states, want := range map[string]string{"given up": "bad-1 bad-2", "given up, paused": "bad-1 bad-2 still", "ready": "good", "stuck": ""} {
		var names []string
		for i, line := range strings.Split(strings.TrimSpace(c.run(cli.Done, "", "get", "disk", "-state", states)), "\n") {
			if i > 0 {
				names = append(names, strings.Fields(line)[0])
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("-state %q: %q, want %q", states, got, want)
		}
	}
	c.run(cli.Usage, "", "get", "disk", "-state", "good")
	wantAll(t, c.said, "a state is one of undecodable, stuck, given up")
	c.run(cli.Usage, "", "get", "disk", "good", "-state", "ready")
	path := filepath.Join(t.TempDir(), "tend.db")
	b := must(file.Open(path))
	stored := newDisks(b)
	for _, o := range []*disk{{Meta: store.Meta{Name: "a"}}, {Meta: store.Meta{Name: "p", Paused: true}}} {
		_ = must(stored.Create(t.Context(), o))
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if text := c.run(cli.Done, "", "get", "disk", "-state", "paused", "-store", "file:"+path); !strings.Contains(text, "\np ") || strings.Contains(text, "\na ") {
		t.Errorf("of the store alone:\n%s", text)
	}
}

// A server of a sharded program tells of its share, and names the servers beside it: one that is asked for what
// fails says that it does not know of the others, and why those fail that it knows.
//
// Before: kinds, and get -state, showed a third as if it were all. A function that stores nothing has no
// conditions, and get -state said neither the state nor the error.
func TestServerOfSeveralSaysThatItKnowsItsShare(t *testing.T) {
	kind, silent := newDisks(must(memory.New(nil))), slog.New(slog.DiscardHandler)
	c := must(reconcile.For(kind, func(_ context.Context, o *disk) (reconcile.Result, error) {
		if strings.HasPrefix(o.Name, "bad") {
			return reconcile.Result{}, reconcile.Terminal(errors.New("the name is taken"))
		}
		return reconcile.Result{}, nil
	}, &reconcile.ForOptions[spec, status]{Options: reconcile.Options[reconcile.Request]{Logger: silent}, Cache: &cache.Options[spec, status]{Shards: 2}}))
	m := &reconcile.Manager{Logger: silent, Placement: must(lease.NewSharded(kind.Backend(), "disks", 2, &lease.Options{Server: "a", Logger: silent}))}
	if err := m.Register(c); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }() // ended by cancel, waited for in the cleanup
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	mux := http.NewServeMux()
	kinds := []objects.Kind{objects.OfCache(c.Cache())}
	mux.Handle("/debug", must(debug.New(m, &debug.Options{Objects: kinds, Logger: silent, Servers: func() map[string]string {
		return map[string]string{"b": "http://b.example/debug"}
	}})))
	mux.Handle("/objects", must(api.New(kinds, &api.Options{Logger: silent, Allow: func(*http.Request, api.Access) error { return nil }})))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	asks := &tend{t: t, env: map[string]string{"TEND_SERVER": server.URL + "/objects"}}
	for _, name := range []string{"good", "bad"} {
		_ = must(kind.Create(t.Context(), &disk{Meta: store.Meta{Name: name}}))
	}
	wantAll(t, asks.when(cli.Failed, "1 given up, 1 ready", "status"), "(of disk those of this server's shards are counted)", "\nbeside   b http://b.example/debug\n")
	var page struct {
		Level   string
		Servers []struct{ Name, Page string }
	}
	if err := json.Unmarshal([]byte(asks.run(cli.Failed, "", "status", "-o", "json")), &page); err != nil || page.Level != inspect.NotWell || len(page.Servers) != 1 || page.Servers[0].Name != "b" {
		t.Errorf("as JSON it is %+v, %v", page, err)
	}
	part := "of disk these are the objects of the shards of the server that was asked; beside it: b http://b.example/debug\n"
	wantAll(t, asks.run(cli.Done, "", "kinds"), "disk  2        1\n")
	wantAll(t, asks.said, part)
	wantAll(t, asks.run(cli.Done, "", "kinds", "-o", "json"), `"partial": true`)
	got := asks.run(cli.Done, "", "get", "disk", "-state", "given up,failing")
	wantAll(t, got, "KEY  STATE     PHASE", "\nbad  given up  -", "the name is taken\n")
	if wantAll(t, asks.said, part); strings.Count(asks.said, part) != 1 || strings.Contains(got, "good") {
		t.Errorf("it says %s\n%s", asks.said, got)
	}
	wantAll(t, asks.run(cli.Done, "", "why", "disk", "good"), "it is as declared; its runs store nothing about it")
	wantAll(t, asks.run(cli.Done, "", "why", "disk", "bad"), "not reconciled yet, or its runs store nothing", "the name is taken")
}
