package external_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/store"
)

// An object whose every failure reads differently must not drive out what is known
// of the others.
//
// Negative control: without KeepPerObject the quiet object's event was gone.
//
// case 95
func TestNoisyObjectDrivesOutNoOthersEvents(t *testing.T) {
	r := external.NewThrottledWith(nil, 0, 100, 8, 0)
	say := func(kind, name, message string) {
		_ = r.Record(t.Context(), external.Event{Kind: kind, Key: store.Key{Name: name}, Reason: "CannotCreate", Message: message, Time: time.Now(), Count: 1})
	}
	say("disk", "quiet", "once")
	for i := range 1000 {
		say("disk", "noisy", fmt.Sprint("request ", i, " failed"))
		say("net", "noisy", "always the same")
	}
	of := r.Events
	if e := of("disk", store.Key{Name: "quiet"}, 0); len(e) != 1 || e[0].Message != "once" {
		t.Errorf("the quiet one: %+v", e)
	}
	if e := of("disk", store.Key{Name: "noisy"}, 0); len(e) != 8 || e[0].Message != "request 999 failed" {
		t.Errorf("the noisy one: %d events, %+v", len(e), e[0])
	}
	if e := of("net", store.Key{}, 0); len(e) != 1 || e[0].Count != 1000 {
		t.Errorf("of kind net: %+v", e)
	}
	if e := of("", store.Key{Name: "noisy"}, 3); len(e) != 3 || e[0].Kind != "net" {
		t.Errorf("by key alone, three: %+v", e)
	}
	if e := of("disk", store.Key{Name: "none"}, 0); e != nil {
		t.Errorf("of no object: %+v", e)
	}
	if n := len(r.Events("", store.Key{}, 0)); n != 10 {
		t.Errorf("%d events are kept, want 1 + 8 + 1", n)
	}
	// Over all objects the bound is Keep, and what is forgotten is forgotten whole.
	for i := range 500 {
		say("disk", fmt.Sprint("disk-", i), "made")
	}
	if n := len(r.Events("", store.Key{}, 0)); n != 100 {
		t.Errorf("%d events are kept, want 100", n)
	}
	if e := of("disk", store.Key{Name: "disk-0"}, 0); e != nil {
		t.Errorf("of one that was forgotten: %+v", e)
	}
}

// An event for which there was no room is passed on when it is heard again: it was not before.
//
// Negative control: mutant "an event for which there was no room was passed on".
func TestEventWithoutRoomIsPassedOnWhenItIsHeardAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []external.Event
		r := external.NewThrottledWith(func(_ context.Context, e external.Event) error {
			got = append(got, e)
			return nil
		}, time.Hour, 0, 0, 1)
		say := func(reason string) {
			_ = r.Record(t.Context(), external.Event{Reason: reason, Key: key, Time: time.Now(), Count: 1})
		}
		say("first")
		say("no room")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }() // ends at cancel
		for range 2 {
			synctest.Wait()
			say("first")
			synctest.Wait()
			say("no room")
		}
		synctest.Wait()
		if len(got) != 2 || got[0].Reason != "first" || got[1].Reason != "no room" || got[1].Count != 2 || r.Dropped() != 1 {
			t.Errorf("passed on %+v with %d dropped, want each once, the second at its second time", got, r.Dropped())
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// An event that the recorder fails on is counted as dropped; its like waits for Every all the
// same, so that a recorder that fails is not asked for each event.
//
// Negative control: mutant "an event that the recorder failed on is not dropped".
func TestEventsThatTheRecorderFailsOnAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		r := external.NewThrottledWith(func(context.Context, external.Event) error {
			if asked++; asked == 2 {
				panic("a bug")
			}
			return errDisk
		}, time.Hour, 0, 0, 0)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }() // ends at cancel
		for hour := range 3 {
			for range 5 {
				_ = r.Record(t.Context(), external.Event{Reason: "x", Key: key, Time: time.Now(), Count: 1})
				synctest.Wait()
			}
			if asked != hour+1 || r.Dropped() != hour+1 {
				t.Errorf("in hour %d: asked %d times, %d dropped; want one in each hour", hour, asked, r.Dropped())
			}
			time.Sleep(time.Hour)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
