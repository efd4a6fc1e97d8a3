package event_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile/event"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// Events are in the store after a restart, a repeated one once with its count, and of all the newest.
//
// Seen to fail: without the trim all of them stayed; with a trim that sorted the other way the
// newest went; with a name that was made of the time too a repeated one was kept twice.
func TestKeptEventsAreBoundedAndOutliveTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := must(memory.New(nil))
		kept := func() (messages []string) {
			for o, err := range must(store.New[event.Event, struct{}](b, "event", nil)).All(t.Context(), store.Selector{}) {
				if err != nil {
					t.Fatal(err)
				}
				messages = append(messages, fmt.Sprint(o.Spec.Message, " ", o.Spec.Count))
			}
			slices.Sort(messages)
			return messages
		}
		process := func(f func(l *event.Log)) {
			l := must(event.Keep(b, 20))
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- l.Run(ctx) }() // ends at cancel
			f(l)
			synctest.Wait()
			cancel()
			if err := <-done; err != nil || l.Dropped() != 0 {
				t.Errorf("Run: %v, %d dropped", err, l.Dropped())
			}
		}
		say := func(l *event.Log, name, message string) {
			_ = l.Record(t.Context(), event.Event{Kind: "disk", Key: store.Key{Name: name}, Reason: "Full", Message: message, Time: time.Now(), Count: 1})
			synctest.Wait()
			time.Sleep(time.Second)
		}
		process(func(l *event.Log) {
			say(l, "a", "again")
			time.Sleep(10 * time.Minute)
			say(l, "a", "again")
		})
		if got := kept(); !slices.Equal(got, []string{"again 2"}) {
			t.Errorf("kept are %q", got)
		}
		process(func(l *event.Log) {
			for i := range 100 {
				say(l, "b", fmt.Sprintf("the %02dth", i))
			}
		})
		got := kept()
		if len(got) < 20 || len(got) > 22 || !slices.Contains(got, "the 99th 1") || slices.Contains(got, "the 70th 1") || slices.Contains(got, "again 2") {
			t.Errorf("of a hundred more, %d are kept: %q", len(got), got)
		}
	})
	if _, err := event.Keep(must(memory.New(nil)), 0); err == nil {
		t.Error("no events at all were to be kept")
	}
}
