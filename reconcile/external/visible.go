package external

import (
	"sync"
	"time"
)

// visibility learns how long the cloud takes to show what a create made, so that each create costs
// about one look: looks that come too early find nothing, have to be made again, and where reads and
// writes share a budget they take it from the creates.
//
//	create ── settle or what was learned ──▶ look ─ there: a little sooner next time
//	                                          └──── nothing, at age a: again at 2a; the first ones not before
type visibility struct {
	mu    sync.Mutex
	lasts time.Duration // zero: nothing was learned
}

// settle is the least time from a create to the look that should find its resource.
const settle = time.Second

// first is the time from a create to its first look.
func (v *visibility) first() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	return max(settle, v.lasts)
}

// missed notes that a look found nothing at that age of the create.
func (v *visibility) missed(age time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lasts = max(v.lasts, 2*age)
}

// found notes that a look found the resource.
func (v *visibility) found() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lasts -= v.lasts / 64
}
