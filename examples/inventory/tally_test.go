package main

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
)

var acme = BucketSpec{Tenant: "acme", Owner: "ops@acme.example", Region: "eu-central-1"}

func TestReadyNeedsStoreAndEndpointToAgreeWithTheFile(t *testing.T) {
	edited := acme
	edited.Versioning = true
	for _, c := range []struct {
		name  string
		given func(*tally)
		ready int
	}{
		{"nothing stored", func(*tally) {}, 0},
		{"stored as ready by an earlier process", func(y *tally) { y.Object("acme-a", standing{spec: acme, ready: true}) }, 0},
		{"seen, but not ready", func(y *tally) { y.Object("acme-a", standing{spec: acme}); y.Seen("acme-a", looked{exists: true}) }, 0},
		{"ready for an older declaration", func(y *tally) {
			y.Object("acme-a", standing{spec: edited, ready: true})
			y.Seen("acme-a", looked{exists: true})
		}, 0},
		{"ready and seen", func(y *tally) {
			y.Object("acme-a", standing{spec: acme, ready: true})
			y.Seen("acme-a", looked{exists: true})
		}, 1},
		{"drifted since", func(y *tally) {
			y.Object("acme-a", standing{spec: acme, ready: true})
			y.Seen("acme-a", looked{exists: true})
			y.Seen("acme-a", looked{exists: true, diff: "off"})
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			y := newTally()
			y.Declare(specsOf([]Entry{acme.entry("acme-a")}))
			c.given(y)
			if got, _ := y.Count(); got.Ready != c.ready || got.Converged() != (c.ready == 1) {
				t.Errorf("count %+v, want %d ready", got, c.ready)
			}
			if left := y.Left(); len(left) != 1-c.ready {
				t.Errorf("left %q, want %d", left, 1-c.ready)
			}
		})
	}
}

func TestUndeclaredObjectHoldsConvergenceUntilItIsGone(t *testing.T) {
	y := newTally()
	y.Object("acme-old", standing{spec: acme, ready: true})
	y.Seen("acme-old", looked{exists: true})
	if c, _ := y.Count(); c.Converged() || c.Deleting != 1 {
		t.Errorf("count %+v, want one to be deleted", c)
	}
	y.Gone("acme-old")
	if c, _ := y.Count(); !c.Converged() {
		t.Errorf("count %+v, want converged", c)
	}
}

func TestWaitEndsWithTheContextAndNamesWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newTally()
		y.Declare(specsOf([]Entry{acme.entry("acme-a"), acme.entry("acme-b")}))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := y.Wait(ctx, count.Converged)
			ended <- err
		}()
		synctest.Wait()
		y.Object("acme-a", standing{spec: acme, ready: true})
		y.Seen("acme-a", looked{exists: true})
		y.Failed("acme-b", "AccessDenied", false)
		cancel()
		if err := <-ended; err == nil {
			t.Error("Wait returned without an error though one bucket is left")
		}
		if want := []string{"acme-b: AccessDenied"}; !slices.Equal(y.Left(), want) {
			t.Errorf("left %q, want %q", y.Left(), want)
		}
	})
}

func TestFailureIsNewsOnceAndEndsWithASuccess(t *testing.T) {
	y := newTally()
	y.Declare(specsOf([]Entry{acme.entry("acme-a")}))
	y.Object("acme-a", standing{spec: acme, ready: true})
	y.Seen("acme-a", looked{exists: true})
	for i, want := range []bool{true, false, false} {
		if got := y.Failed("acme-a", "AccessDenied", false); got != want {
			t.Errorf("failure %d: news %t, want %t", i, got, want)
		}
	}
	if c, _ := y.Count(); c.Ready != 0 || c.Failing != 1 {
		t.Errorf("%+v, want one failing and none ready", c)
	}
	if y.Failed("acme-a", "", false) {
		t.Error("a success is news of a failure")
	}
	if c, _ := y.Count(); c.Ready != 1 || c.Failing != 0 {
		t.Errorf("%+v, want it ready again", c)
	}
}

func TestStuckMeansThatOnlyHopelessOnesAreLeft(t *testing.T) {
	y := newTally()
	y.Declare(specsOf([]Entry{acme.entry("acme-a"), acme.entry("acme-b")}))
	y.Failed("acme-a", "not ours", true)
	if c, _ := y.Count(); c.Stuck() {
		t.Errorf("%+v is stuck while acme-b is still to come", c)
	}
	y.Object("acme-b", standing{spec: acme, ready: true})
	y.Seen("acme-b", looked{exists: true})
	if c, _ := y.Count(); !c.Stuck() || c.Converged() {
		t.Errorf("%+v: want stuck", c)
	}
}
