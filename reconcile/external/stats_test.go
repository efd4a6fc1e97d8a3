package external_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile/external"
)

// Drift is what another writer changed. A new spec is work, a difference that the
// policy lets be is known, and a failure to put drift right is not another one.
func TestDriftIsCountedOnceAndNotForNewSpecs(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		actual, refusal := "1", error(nil)
		client, _ := funcs(func(f *external.ClientFuncs[diskSpec, diskStatus]) {
			f.ObserveFunc = func(_ context.Context, o *disk) (external.Observation, error) {
				return external.Observation{Exists: true, UpToDate: actual == o.Spec.Size}, nil
			}
			f.UpdateFunc = func(_ context.Context, o *disk) error {
				if refusal == nil {
					actual = o.Spec.Size
				}
				return refusal
			}
		})
		w.with(client)
		want := func(when string, n uint64) {
			t.Helper()
			if got := w.rec.Stats().Drifted; got != n {
				t.Errorf("%s: %d times drifted, want %d", when, got, n)
			}
		}
		w.declare()
		w.run()
		w.edit(func(o *disk) { o.Spec.Size = "2" })
		w.run()
		w.run()
		want("after a new spec", 0)

		actual, refusal = "7", errors.New("no")
		w.fails()
		want("when it was found", 1)
		w.fails()
		want("when it could not be put right", 1)
		refusal = ratelimit.Throttled(nil, time.Now(), errors.New("busy"))
		w.fails()
		refusal = nil
		w.run()
		w.run()
		want("after it was put right", 1)

		actual = "8"
		w.run()
		want("the second time", 2)
		w.edit(func(o *disk) { o.Annotations = map[string]string{external.PolicyAnnotation: "observe"} })
		actual = "9"
		w.run()
		want("the third time", 3)
		w.run()
		want("when the policy lets it be", 3)

		s := w.rec.Stats()
		if s.Kind != "Disk" || s.Calls["update"] != (introspect.Calls{OK: 3, Failed: 2, Throttled: 1}) ||
			s.Calls["observe"].OK != 11 || s.Calls["create"] != (introspect.Calls{}) {
			t.Errorf("%+v", s)
		}
	})
}
