package reconcile

import (
	"testing"
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/store"
)

// What fields that are not set mean is what their comments say.
func TestDefaultsAreThoseOfTheComments(t *testing.T) {
	o := Options[string]{Adapt: new(Adapt)}
	if err := o.complete(true); err != nil {
		t.Fatal(err)
	}
	type defaults struct {
		workers, batch, min, max        int
		timeout, cacheWait, resync      time.Duration
		stuck, drain, grace, sync, look time.Duration
	}
	got := defaults{
		o.Workers, o.Batch, o.Adapt.Min, o.Adapt.Max, o.Timeout, o.CacheWait, o.Resync,
		o.stuckAfter(), o.drain(), o.grace(), o.SyncTimeout, o.Adapt.interval,
	}
	if want := (defaults{
		8, 16, 1, 64, 5 * time.Minute, 30 * time.Second, 0,
		30 * time.Second, 30 * time.Second, 45 * time.Second / 4, 0, 5 * time.Second,
	}); got != want {
		t.Errorf("the defaults are %+v, want %+v", got, want)
	}
	if d, ok := Delay(CheckNewer(&store.Meta{Newer: true})); !ok || d != time.Minute {
		t.Errorf("an object of a newer version is looked at again after %v, want a minute", d)
	}
	o = Options[string]{Workers: 3, Adapt: new(Adapt)}
	if err := o.complete(false); err != nil || o.Adapt.Max != 24 || o.Batch != 0 {
		t.Errorf("of 3 workers at most %d are started, and a batch has %d keys: %v; want 24, and none", o.Adapt.Max, o.Batch, err)
	}
}

// One throttled run among many halves the workers, and a mean run time above Latency does, but not one of it.
func TestWorkersAreHalvedByOneThrottledRun(t *testing.T) {
	for want, all := range map[int]introspect.Counts{4: {Success: 9, Throttled: 1}, 9: {Success: 10}} {
		a := adaptive{Adapt: Adapt{Min: 1, Max: 16, Latency: time.Second}}
		if got := a.next(8, all, 10*time.Second, true); got != want {
			t.Errorf("after %+v of a second each there are %d workers in place of 8, want %d", all, got, want)
		}
	}
}
