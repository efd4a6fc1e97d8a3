package reconcile_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
)

// Ten edits while a run is under way make one more run, and that run sees the
// object as it is then, not as any of the edits left it: nothing but the key
// travels.
//
// promise R1. Negative control: with AsReconciler remembering the first object
// that it saw of each key and giving that out again, as a queue of events would,
// the second run sees size 0.
func TestRunSeesTheObjectAsItIsNowHoweverManyChangesLedToIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		objects := newStore(t, newBackend(t), "thing")
		created, err := objects.Create(t.Context(), &thing{Meta: store.Meta{Name: "a"}})
		if err != nil {
			t.Fatal(err)
		}
		var seen []int
		gate := make(chan struct{})
		c, err := reconcile.For(objects, func(_ context.Context, o *thing) (reconcile.Result, error) {
			seen = append(seen, o.Spec.Size)
			<-gate
			return reconcile.Result{}, nil
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		start(t, c)
		for size := 1; size <= 10; size++ {
			if _, err := objects.Mutate(t.Context(), created.Key(), func(o *thing) error {
				o.Spec.Size = size
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		close(gate)
		synctest.Wait()
		if len(seen) != 2 || seen[0] != 0 || seen[1] != 10 {
			t.Errorf("runs saw sizes %v, want the first (0) and the last (10)", seen)
		}
	})
}
