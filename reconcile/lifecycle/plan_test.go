package lifecycle

import "testing"

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name    string
		v       view
		action  Action
		verdict verdict
	}{
		{"a new object is added", view{}, Added, call},
		{"an Add that was under way at a crash is made again", view{mark: pending}, Added, call},
		{"a known finalizer after a restart is a resync", view{mark: done}, Resynced, call},
		{"nothing changed", view{mark: done, known: true}, Resynced, idle},
		{"a change is an update", view{mark: done, known: true, changed: true}, Updated, call},
		{"its own time has come", view{mark: done, known: true, woken: true}, Resynced, call},
		{"a change is more than its own time", view{mark: done, known: true, woken: true, changed: true}, Updated, call},
		{"without a finalizer a change is an Add", view{known: true, changed: true}, Added, call},
		{"a failing Add waits", view{mark: pending, retry: Added}, Added, wait},
		{"a failing Add is due", view{mark: pending, retry: Added, due: true}, Added, call},
		{"a failing Update waits", view{mark: done, known: true, changed: true, retry: Updated}, Updated, wait},
		{"a failing Resync is due", view{mark: done, known: true, retry: Resynced, due: true}, Resynced, call},
		{"deletion does not wait for the retry of an Add", view{deleting: true, mark: pending, retry: Added}, Deleted, call},
		{"deletion does not wait for the retry of an Update", view{deleting: true, mark: done, known: true, retry: Updated}, Deleted, call},
		{"a failing Delete waits", view{deleting: true, mark: done, retry: Deleted}, Deleted, wait},
		{"deletion of what was never added", view{deleting: true}, 0, rest},
		{"deletion that is over for this handler", view{deleting: true, known: true}, 0, rest},
		{"a simple handler meets an object", view{simple: true}, Added, call},
		{"a simple handler has nothing to do in a deletion", view{simple: true, known: true, deleting: true}, 0, rest},
	} {
		t.Run(c.name, func(t *testing.T) {
			action, verdict := decide(c.v)
			if action != c.action || verdict != c.verdict {
				t.Errorf("decide(%+v) = %v, %v, want %v, %v", c.v, action, verdict, c.action, c.verdict)
			}
		})
	}
}
