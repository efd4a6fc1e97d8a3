package external_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile/external"
)

// Taking a resource over is decided by the look that found it; an update that took it over
// asks for a look at what came of it. Then there is silence: what is ours already, and as
// declared, is not looked at twice. By an inventory the first look is the list's.
//
// Negative controls: with a decideExisting that does not ask for the mark nothing was
// updated; with writes that invalidate nothing the one that was unmarked was looked at
// by the list alone, which shows it as it was.
func TestAdoptingLooksOnceBeforeAndOnceAfter(t *testing.T) {
	for name, c := range map[string]struct {
		tags        func(map[string]string) map[string]string
		byInventory bool
		calls       map[string]int
	}{
		"unmarked":               {tags: func(map[string]string) map[string]string { return nil }, calls: map[string]int{"Get": 2, "Update": 1}},
		"of an earlier object":   {tags: earlier, calls: map[string]int{"Get": 2, "Update": 1}},
		"ours":                   {tags: same, calls: map[string]int{"Get": 1, "Update": 0}},
		"unmarked, by inventory": {tags: func(map[string]string) map[string]string { return nil }, byInventory: true, calls: map[string]int{"List": 1, "Get": 1, "Update": 1}},
		"ours, by inventory":     {tags: same, byInventory: true, calls: map[string]int{"List": 1, "Get": 0, "Update": 0}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.o.Policy = func(*disk) (external.Policy, error) { return external.All | external.Adopt, nil }
				w.o.Poll = time.Hour
				w.restart(nil)
				if c.byInventory {
					w.reconcileBy(w.inventory(func(o *invOpts) { o.Fresh = time.Hour }))
				}
				r := w.client.desired(w.declare())
				r.Tags = c.tags(r.Tags)
				w.cloud.Put(r)
				stop := w.start(nil, 1)
				time.Sleep(50 * time.Minute)
				synctest.Wait()
				stop()
				c.calls["Create"] = 0
				w.wantCalls(c.calls)
				if o := w.get(); !o.Ready() {
					t.Errorf("not ready: %+v", o.Conditions)
				}
			})
		})
	}
}

func same(tags map[string]string) map[string]string { return tags }

func earlier(tags map[string]string) map[string]string {
	tags["tend/uid"] = "earlier"
	return tags
}
