package debug

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
)

// failedKeys is a controller with some pages of keys that failed.
type failedKeys struct {
	reconcile.Inspection
	pages  []queue.Page[reconcile.KeySnapshot]
	errs   map[string]error // of a kick
	kicked []string
}

func (f *failedKeys) Keys(_ context.Context, _ string, q *queue.PageOptions) (queue.Page[reconcile.KeySnapshot], error) {
	if !q.Failed || len(f.pages) == 0 {
		return queue.Page[reconcile.KeySnapshot]{}, fmt.Errorf("asked for %+v with %d pages left", q, len(f.pages))
	}
	page := f.pages[0]
	f.pages = f.pages[1:]
	return page, nil
}

func (f *failedKeys) Do(_ context.Context, a reconcile.Action, key, _ string) error {
	f.kicked = append(f.kicked, string(a)+" "+key)
	return f.errs[key]
}

// Every key that failed is kicked, whatever the page it is on, also when one has left the
// queue meanwhile; any other error ends it and is returned.
//
// Negative controls: mutants "a key that left ends the retry of all" and "only the first
// page of failed keys is retried".
func TestRetryOfFailedKeysReachesAllOfThem(t *testing.T) {
	page := func(more bool, keys ...string) (p queue.Page[reconcile.KeySnapshot]) {
		for _, k := range keys {
			p.Entries = append(p.Entries, reconcile.KeySnapshot{Key: k})
		}
		p.More = more
		return p
	}
	full := errors.New("the queue is full")
	for name, c := range map[string]struct {
		errs   map[string]error
		kicked []string
		err    error
	}{
		"all there":     {kicked: []string{"kick a", "kick b", "kick c"}},
		"one has left":  {errs: map[string]error{"a": fmt.Errorf("key a: %w", reconcile.ErrNoKey)}, kicked: []string{"kick a", "kick b", "kick c"}},
		"one has moved": {errs: map[string]error{"a": fmt.Errorf("key a: %w", reconcile.ErrElsewhere)}, kicked: []string{"kick a", "kick b", "kick c"}},
		"another error": {errs: map[string]error{"b": full}, kicked: []string{"kick a", "kick b"}, err: full},
	} {
		f := &failedKeys{pages: []queue.Page[reconcile.KeySnapshot]{page(true, "a", "b"), page(false, "c")}, errs: c.errs}
		if err := retryFailed(t.Context(), f); !errors.Is(err, c.err) {
			t.Errorf("%s: got %v, want %v", name, err, c.err)
		}
		if !slices.Equal(f.kicked, c.kicked) {
			t.Errorf("%s: %q, want %q", name, f.kicked, c.kicked)
		}
	}
}
