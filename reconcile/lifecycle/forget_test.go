package lifecycle

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lease"
)

// remembered is how many keys handlers know something of.
func remembered(l *Lifecycle[widgetSpec, widgetStatus]) int {
	w := l.work.(*handlerWork[widgetSpec, widgetStatus])
	w.led.mu.Lock()
	defer w.led.mu.Unlock()
	return len(w.led.keys)
}

// What the handlers of a server remember is of the keys that it runs. A key that
// another server took over is not kept, nor, when its object has gone there, for ever.
//
// Promise Q7. Negative control: with Forget doing nothing, the first server remembered
// all 100, and in the end those that it had lost.
func TestNothingIsKeptOfKeysThatMovedToAnotherServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100
		s := newWidgets(t)
		server := func(name string) *Lifecycle[widgetSpec, widgetStatus] {
			p, err := lease.NewSharded(s.Backend(), "test", 16, &lease.Options{Server: name})
			if err != nil {
				t.Fatal(err)
			}
			nothing := func(context.Context, *widget) (reconcile.Result, error) { return reconcile.Result{}, nil }
			l := mustNew(t, on[widgetSpec, widgetStatus](t, s.Backend(), "widget"),
				Handler[widgetSpec, widgetStatus]{Name: "whole", Add: nothing},
				Handler[widgetSpec, widgetStatus]{Name: "simple", Simple: true, Add: nothing})
			start(t, l, nil, &reconcile.Options[reconcile.Request]{Placement: p})
			return l
		}
		first := server("first")
		for i := range n {
			create(t, s, fmt.Sprint(i))
		}
		restFor(time.Minute)
		if got := remembered(first); got != n {
			t.Fatalf("%d keys are remembered, want %d", got, n)
		}
		second := server("second")
		restFor(time.Minute)
		mine, others := remembered(first), remembered(second)
		if mine == 0 || others == 0 || mine+others != n {
			t.Errorf("%d and %d keys are remembered, want %d together", mine, others, n)
		}
		for i := range n {
			remove(t, s, fmt.Sprint(i))
		}
		restFor(time.Minute)
		for i := range n {
			expectGone(t, s, fmt.Sprint(i))
		}
		expectForgotten(t, first)
		expectForgotten(t, second)
	})
}

// A handler whose object was another server's meanwhile is called as after a restart:
// what it saw last is not what the object was last.
func TestKeyThatCameBackIsShownAsAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		s := newWidgets(t)
		p, err := lease.NewManual(nil, "test")
		if err != nil {
			t.Fatal(err)
		}
		p.Set(true, 0)
		simple := d.handler("simple", nil)
		simple.Simple = true
		start(t, mustNew(t, s, d.handler("whole", nil), simple), nil, &reconcile.Options[reconcile.Request]{Placement: p})
		create(t, s, "a")
		restFor(time.Second)
		d.expect(t, "whole Added 1", "simple Added 1")
		p.Set(false, 0)
		restFor(time.Second)
		edit(t, s, "a", resize(2))
		synctest.Wait() // the cache shows it: else the list and the change are two runs
		p.Set(true, 0)
		restFor(time.Second)
		d.expect(t, "whole Resynced 2", "simple Added 2")
	})
}
