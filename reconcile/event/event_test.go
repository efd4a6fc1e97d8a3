package event_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tendhq/tend/reconcile/event"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

type login struct {
	User     string
	Password string `tend:"secret"`
}

func must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}

func logins() *store.Store[login, struct{}] {
	return must(store.New[login, struct{}](must(memory.New(nil)), "login", nil))
}

// An event says whose it is and when it was, and has nothing of what is secret in its object.
//
// Seen to fail: with a message that was passed on as it came the password was in it, and with one that was cut before
// it was looked through its first half was.
func TestEventHasNoSecret(t *testing.T) {
	l, s := event.NewLog(nil), logins()
	ctx := event.With(t.Context(), l.Record)
	o := must(s.Create(ctx, &store.Object[login, struct{}]{Meta: store.Meta{Name: "a"}, Spec: login{"me", "hunter2-hunter2"}}))
	event.Record(ctx, s, o, "Refused", "the server refused hunter2-hunter2 of me")
	event.Warn(ctx, s, o, "Long", strings.Repeat("x", 1<<20))
	got := l.Events("login", o.Key(), 0)
	if len(got) != 2 || !got[0].Warning || got[1].Warning || got[1].Reason != "Refused" || got[1].UID != o.UID || got[1].Time.IsZero() || got[1].Count != 1 {
		t.Fatalf("events are %+v", got)
	}
	if m := got[1].Message; strings.Contains(m, "hunter2") || !strings.Contains(m, "refused") {
		t.Errorf("the message is %q", m)
	}
	if n := len(got[0].Message); n > store.MaxMessage {
		t.Errorf("a message has %d bytes", n)
	}
	for n := range len(o.Spec.Password) { // a secret at the cut is taken out whole, and not its begin left
		event.Record(ctx, s, o, "Cut", strings.Repeat("x", store.MaxMessage-len("hunter2-hunter2")+n-2)+o.Spec.Password)
		if m := l.Events("login", o.Key(), 1)[0].Message; strings.Contains(m, "hunter") {
			t.Errorf("cut, the message ends with %q", m[len(m)-20:])
		}
	}
}

// Without a recorder an event is nothing, and one that fails or panics harms no run.
//
// Seen to fail: with a call of the recorder that contained no panic.
func TestRecorderHarmsNoRun(t *testing.T) {
	s := logins()
	o := must(s.Create(t.Context(), &store.Object[login, struct{}]{Meta: store.Meta{Name: "a"}}))
	calls := 0
	for _, to := range []event.Recorder{
		nil,
		func(context.Context, event.Event) error { calls++; return errors.New("full") },
		func(context.Context, event.Event) error { calls++; panic("full") },
	} {
		event.Record(event.With(t.Context(), to), s, o, "Created", "it is there")
	}
	event.Record(t.Context(), s, o, "Created", "it is there")
	if calls != 2 {
		t.Errorf("%d calls, want 2", calls)
	}
}

// Repeated events are counted, and passed on at most every five minutes.
func Example() {
	disks := must(store.New[struct{}, struct{}](must(memory.New(nil)), "disk", nil))
	events := event.NewLog(nil) // a program.Program has one, and shows it on its page
	ctx := event.With(context.Background(), events.Record)
	disk := must(disks.Create(ctx, &store.Object[struct{}, struct{}]{Meta: store.Meta{Name: "a"}}))
	for range 3 {
		event.Warn(ctx, disks, disk, "CannotCreate", "no such region")
	}
	for _, e := range events.Events("disk", disk.Key(), 0) {
		fmt.Println(e.Count, e.Warning, e.Reason, e.Message)
	}
	// Output: 3 true CannotCreate no such region
}
