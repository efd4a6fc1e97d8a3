package external_test

import (
	"testing"
	"time"

	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// A resource that differs, and that the policy forbids to update, still uses what the
// object needed before: that stays held, although the object is Ready.
//
// promise E2
func TestWhatAResourceThatMayNotBeUpdatedUsesStaysHeld(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		zones := must(store.New[struct{}, struct{}](w.backend, "Zone", nil))
		known := must(cache.New(zones, nil))
		for _, name := range []string{"old", "new"} {
			o := must(zones.Create(t.Context(), &store.Object[struct{}, struct{}]{Meta: store.Meta{Name: name}}))
			o.SetReady()
			must(zones.UpdateStatus(t.Context(), o))
		}
		go func() { _ = known.Run(t.Context()) }()
		<-known.Synced()
		disks := must(cache.New(w.store, nil))
		w.o.Depends = must(depend.New(disks, depend.On(known, func(o *disk) []store.Key {
			return []store.Key{{Name: o.Labels["zone"]}}
		}, nil), nil))
		w.o.Policy = func(*disk) (external.Policy, error) {
			return external.Observe | external.Create | external.Delete, nil
		}
		w.restart(nil)
		o := w.converged(func(o *disk) { o.Labels = map[string]string{"zone": "old"} })
		if o.Annotations[depend.HoldsAnnotation] != `["=Zone/old"]` {
			t.Fatalf("it holds %s", o.Annotations[depend.HoldsAnnotation])
		}
		w.edit(func(o *disk) { o.Labels["zone"], o.Spec.Size = "new", "2" })
		w.run()
		time.Sleep(time.Second)
		w.run()
		w.wantCondition(store.ConditionSynced, store.True, external.ReasonDiffers)
		if got := w.get().Annotations[depend.HoldsAnnotation]; got != `["=Zone/old","=Zone/new"]` {
			t.Errorf("the disk still uses the old zone, and the object holds %s", got)
		}
	})
}
