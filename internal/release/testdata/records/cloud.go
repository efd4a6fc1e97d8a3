package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/store"
)

// resource is a file of the directory that is the cloud.
type resource struct {
	Name string `json:"-"`
	Tags map[string]string
	Size int
}

// resources are those that carry the mark.
func (s *side) resources(mark external.Mark) (found []resource, err error) {
	files, err := os.ReadDir(s.Cloud)
	for _, f := range files {
		r := resource{Name: f.Name()}
		data, err := os.ReadFile(filepath.Join(s.Cloud, r.Name))
		if err == nil {
			err = json.Unmarshal(data, &r)
		}
		if err != nil {
			return nil, err
		}
		if mark.Compare(external.MarkOf(r.Tags)) == external.Ours {
			found = append(found, r)
		}
	}
	return found, err
}

// reconciler makes the sites as declared. The cloud chooses the name of a resource, which has no other
// mark than ours. Lose has it lose the answer to each create; tune may be nil.
func (s *side) reconciler(installation string, lose bool, tune func(*external.Options[specification, status])) (*external.Reconciler[specification, status], error) {
	put := func(name string, o *thing) error {
		data, err := json.Marshal(resource{Tags: external.NewMark(installation, "Site", o).SetTags(nil), Size: o.Spec.Size})
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(s.Cloud, name), data, 0o600)
	}
	options := &external.Options[specification, status]{
		Naming: external.ByMark, CreationGrace: time.Nanosecond, PollJitter: -1,
		Location: func(*store.Object[specification, status]) string { return "here" },
	}
	if tune != nil {
		tune(options)
	}
	return external.New(s.sites, external.ClientFuncs[specification, status]{
		ObserveFunc: func(_ context.Context, o *thing) (external.Observation, error) {
			found, err := s.resources(external.NewMark(installation, "Site", o))
			if len(found) == 0 {
				return external.Observation{}, err
			}
			o.Intent.ExternalName = found[0].Name
			return external.Observation{Exists: true, UpToDate: found[0].Size == o.Spec.Size, Owner: external.Ours}, nil
		},
		CreateFunc: func(_ context.Context, o *thing) error {
			name := fmt.Sprintf("r%d", time.Now().UnixNano())
			if err := put(name, o); err != nil {
				return err
			}
			if lose {
				return external.Unknown(errors.New("the answer was lost"))
			}
			o.Intent.ExternalName = name
			created(o)
			return nil
		},
		UpdateFunc: func(_ context.Context, o *thing) error { return put(o.Intent.ExternalName, o) },
		DeleteFunc: func(_ context.Context, o *thing) error {
			return os.Remove(filepath.Join(s.Cloud, o.Intent.ExternalName))
		},
	}, options)
}

// reconcile runs a site until it is settled: Ready with one resource as declared, or gone with it.
func (s *side) reconcile(ctx context.Context, at store.Key, lose bool, tune func(*external.Options[specification, status])) error {
	installation, err := store.Installation(ctx, s.backend)
	if err != nil {
		return err
	}
	r, err := s.reconciler(installation, lose, tune)
	if err != nil {
		return err
	}
	var failed error
	for range 20 {
		o, err := s.sites.Get(ctx, at)
		gone := errors.Is(err, store.ErrNotFound)
		if err != nil && !gone {
			return err
		}
		mark := external.Mark{Installation: installation, Kind: "Site", Key: at}
		found, err := s.resources(mark)
		if err != nil {
			return err
		}
		if gone && len(found) == 0 || !gone && !o.Deleting() && o.Ready() && len(found) == 1 && found[0].Size == o.Spec.Size && found[0].Name == o.Intent.ExternalName {
			_, err = r.Reconcile(ctx, at) // once more, which writes nothing
			again, errGet := s.sites.Get(ctx, at)
			if err == nil && !gone && (errGet != nil || again.Revision != o.Revision) {
				err = fmt.Errorf("a run of %s that has nothing to do wrote it: %v, error %w", at, again, errGet)
			}
			return err
		}
		if _, failed = r.Reconcile(ctx, at); failed != nil && (lose || tune != nil) {
			return nil
		}
	}
	o, err := s.sites.Get(ctx, at)
	return fmt.Errorf("site %s is not settled: %v, %w; the last run failed with: %w", at, o, err, failed)
}
