package reconcile

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// parts are goroutines of a controller that Run waits for at its end, for a bounded time,
// and names if they go on.
type parts struct {
	mu  *sync.Mutex // the kernel's; guards all
	all map[*part]struct{}
}

type part struct {
	name string
	done chan struct{} // closed as its last act
}

// start runs f.
func (p *parts) start(name string, f func()) {
	x := &part{name: name, done: make(chan struct{})}
	p.mu.Lock()
	if p.all == nil {
		p.all = make(map[*part]struct{})
	}
	p.all[x] = struct{}{}
	p.mu.Unlock()
	go func() { // ends with f; waited for by wait
		defer func() {
			p.mu.Lock()
			delete(p.all, x)
			p.mu.Unlock()
			close(x.done)
		}()
		f()
	}()
}

// wait waits until none is left, or gives the names of those that are left when ctx ends.
// A part may start others.
func (p *parts) wait(ctx context.Context) (left []string) {
	for {
		p.mu.Lock()
		all := slices.Collect(maps.Keys(p.all))
		p.mu.Unlock()
		if len(all) == 0 {
			return nil
		}
		for _, x := range all {
			if !waitFor(ctx, x.done) {
				left = append(left, x.name)
			}
		}
		if len(left) > 0 {
			slices.Sort(left)
			return slices.Compact(left)
		}
	}
}

// waitFor waits until done is closed or nil, or reports false when ctx ends. What has
// ended counts as ended even if ctx has too.
func waitFor(ctx context.Context, done <-chan struct{}) bool {
	if done == nil {
		return true
	}
	select {
	case <-done:
		return true
	default:
	}
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}
