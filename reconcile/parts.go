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
	mu  *sync.Mutex              // the kernel's; guards all
	all map[chan struct{}]string // names, by the channel that is closed as the last act
}

// start runs f.
func (p *parts) start(name string, f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.startLocked(name, f)
}

// startLocked gives a channel that is closed when f has ended.
func (p *parts) startLocked(name string, f func()) <-chan struct{} {
	done := make(chan struct{})
	p.all[done] = name
	go func() { // ends with f; waited for by wait
		defer func() {
			p.mu.Lock()
			delete(p.all, done)
			p.mu.Unlock()
			close(done)
		}()
		f()
	}()
	return done
}

// wait waits until none is left but those of the names in except, or gives the names of
// those that are left when ctx ends. A part may start others.
func (p *parts) wait(ctx context.Context, except ...string) (left []string) {
	for {
		p.mu.Lock()
		all := maps.Clone(p.all)
		p.mu.Unlock()
		maps.DeleteFunc(all, func(_ chan struct{}, name string) bool { return slices.Contains(except, name) })
		if len(all) == 0 {
			return nil
		}
		for done, name := range all {
			if !waitFor(ctx.Done(), done) {
				left = append(left, name)
			}
		}
		if len(left) > 0 {
			slices.Sort(left)
			return slices.Compact(left)
		}
	}
}

// waitFor waits until all are closed, or reports false when until is; nil: it never is. What
// has ended counts as ended even if until is closed too.
func waitFor(until <-chan struct{}, all ...<-chan struct{}) bool {
	for _, done := range all {
		select {
		case <-done:
		case <-until:
			if !closed(done) {
				return false
			}
		}
	}
	return true
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
