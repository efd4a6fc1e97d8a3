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
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

// promise R5: a program that keeps a label otherwise than the file has it is slowed.
func TestAFileAndAProgramThatDisagreeAboutALabelAreSlowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "disks.json")
		if err := os.WriteFile(path, []byte(`[{"meta":{"name":"a","labels":{"tier":"1"}},"spec":{"size":1}}]`), 0o600); err != nil {
			t.Fatal(err)
		}
		disks := must(store.New[disk, struct{}](must(memory.New(nil)), "disk", nil))
		ca := must(cache.New(disks, nil))
		var runs atomic.Int64
		c := must(reconcile.For(disks, func(ctx context.Context, o *store.Object[disk, struct{}]) (reconcile.Result, error) {
			if runs.Add(1) > 3000 {
				return reconcile.Result{}, nil
			}
			time.Sleep(time.Millisecond)
			_, err := disks.Mutate(ctx, o.Key(), func(o *store.Object[disk, struct{}]) error { o.Labels["tier"] = "2"; return nil })
			return reconcile.Result{}, err
		}, &reconcile.ForOptions[disk, struct{}]{When: reconcile.LabelsChanged[disk, struct{}]}))
		f := must(declare.New(disks, ca, path, nil))
		var m reconcile.Manager
		if err := m.Register(c, f.Controller()); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- m.Run(ctx) }()
		time.Sleep(time.Minute) // of the bubble
		if n := runs.Load(); n < 30 || n > 250 {
			t.Errorf("%d runs in a minute, want about two for each time that the file puts its label back", n)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
