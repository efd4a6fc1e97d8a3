package declare_test

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/declare"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

type disk struct {
	Size int    `json:"size"`
	Zone string `json:"zone"`
}

// promise S6: a file that leaves a field out and a client that fills it in come to rest.
func TestAFileAndLateInitialisationComeToRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "disks.json")
		if err := os.WriteFile(path, []byte(`[{"meta":{"name":"a"},"spec":{"size":1}}]`), 0o600); err != nil {
			t.Fatal(err)
		}
		disks := must(store.New[disk, struct{}](must(memory.New(nil)), "disk", nil))
		var looks, made atomic.Int64
		r := must(external.New(disks, external.ClientFuncs[disk, struct{}]{
			ObserveFunc: func(_ context.Context, o *store.Object[disk, struct{}]) (external.Observation, error) {
				n := looks.Add(1)
				time.Sleep(time.Millisecond)
				late := o.Spec.Zone == "" && n < 2000
				if late {
					o.Spec.Zone = "zone-17"
				}
				return external.Observation{Exists: made.Load() > 0, UpToDate: true, LateInitialized: late && made.Load() > 0}, nil
			},
			CreateFunc: func(context.Context, *store.Object[disk, struct{}]) error { made.Add(1); return nil },
			UpdateFunc: func(context.Context, *store.Object[disk, struct{}]) error { return nil },
			DeleteFunc: func(context.Context, *store.Object[disk, struct{}]) error { return nil },
		}, &external.Options[disk, struct{}]{Naming: external.ByUs}))
		c := must(r.Controller("", nil, nil))
		f := must(declare.New(disks, must(cache.New(disks, nil)), path, nil))
		var m reconcile.Manager
		if err := m.Register(c, f.Controller()); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- m.Run(ctx) }()
		time.Sleep(time.Minute) // of the bubble
		if n := looks.Load(); n > 6 {
			t.Errorf("%d looks in a minute, want 5 or so", n)
		}
		o := must(disks.Get(ctx, store.Key{Name: "a"}))
		if o.Generation != 2 || o.Spec != (disk{1, "zone-17"}) || !f.Progress().Complete() {
			t.Errorf("after a minute it is %+v in generation %d; the file's progress is %+v, left %v", o.Spec, o.Generation, f.Progress(), f.Left())
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

type tagged struct {
	Size int
	Tags []string
}

// promise R5: a client that fills a list in in another order at each look does not look at the
// cloud without a pause, although it is the key's own runs that change the spec.
func TestLateInitialisationThatFlapsIsSlowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend, err := memory.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := store.New[tagged, struct{}](backend, "disk", nil)
		if err != nil {
			t.Fatal(err)
		}
		type disk = store.Object[tagged, struct{}]
		var looks atomic.Int64
		none := func(context.Context, *disk) error { return nil }
		r, err := external.New(s, external.ClientFuncs[tagged, struct{}]{
			ObserveFunc: func(_ context.Context, o *disk) (external.Observation, error) {
				n := looks.Add(1)
				time.Sleep(10 * time.Millisecond)
				switch {
				case n > 3000:
					o.Spec.Tags = []string{"settled"}
				case n%2 == 0:
					o.Spec.Tags = []string{"b", "a"}
				default:
					o.Spec.Tags = []string{"a", "b"}
				}
				return external.Observation{Exists: true, UpToDate: true, LateInitialized: true}, nil
			},
			CreateFunc: none, UpdateFunc: none, DeleteFunc: none,
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		c, err := r.Controller("", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		var m reconcile.Manager
		if err := m.Register(c); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- m.Run(ctx) }()
		if _, err := s.Create(ctx, &disk{Meta: store.Meta{Name: "x"}, Spec: tagged{Size: 1}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if n := looks.Load(); n > 30 {
			t.Errorf("%d looks in a minute, want about 24", n)
		}
		slowed := c.Snapshot().Slowed
		if len(slowed) != 1 || slowed[0].Field != "Tags" || slowed[0].Old == slowed[0].New {
			t.Errorf("the snapshot has %+v, want the tags in two orders", slowed)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
