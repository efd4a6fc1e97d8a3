package reconciletest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// The errors of a [Cloud], besides [QuotaError] and those of the context.
var (
	ErrNotFound = errors.New("cloud: no such resource")
	ErrExists   = errors.New("cloud: the name is taken")
	ErrServer   = errors.New("cloud: internal server error")
	// ErrTimeout says nothing about whether the call took effect. It has a
	// Timeout method, like the errors of package net.
	ErrTimeout error = timeoutError{}
)

type timeoutError struct{}

func (timeoutError) Error() string { return "cloud: request timed out" }
func (timeoutError) Timeout() bool { return true }

// QuotaError is the answer to a call beyond the quota. The call had no effect.
type QuotaError struct{ RetryAfter time.Duration }

func (e *QuotaError) Error() string {
	return fmt.Sprintf("cloud: too many requests, retry after %v", e.RetryAfter)
}

// CloudOptions says how bad the cloud is. The zero value is a perfect one:
// immediate, consistent, unlimited.
type CloudOptions struct {
	// Seed makes the faults. With the same seed the same calls in the same
	// order meet the same faults.
	Seed uint64
	// UniqueNames makes the name a resource's id: the caller chooses it, and a
	// second resource of that name is [ErrExists]. Otherwise the cloud makes up
	// an id at each creation, and any number may share a name.
	UniqueNames bool
	// Latency is how long a call takes at most; zero: no time at all.
	Latency time.Duration
	// Lag is how long a write takes at most until reads and lists show it.
	Lag time.Duration
	// DeleteTakes is how long a resource is still there after Delete.
	DeleteTakes time.Duration
	// Rate is the quota in calls per second over all calls, with a burst of one
	// second's worth; zero: none.
	Rate rate.Limit
	// ReadRate and WriteRate are quotas of their own, in calls per second, for
	// Get and List and for Create, Update and Delete, each with a burst of one
	// second's worth; zero: none besides Rate. [Cloud.Grant] changes them.
	ReadRate, WriteRate rate.Limit
	// RetryAfter is the least that a refused call is told to wait; zero: until
	// the next call fits into the quota.
	RetryAfter time.Duration
	// Errors is the part of calls, from 0 to 1, that fail without effect.
	Errors float64
	// FailEvery makes every call with a number that it divides fail without
	// effect; zero: none.
	FailEvery int
	// Lost is the part of writes that take effect although the answer is
	// [ErrTimeout].
	Lost float64
	// Late is how long after such an answer a Create takes effect at most. It is
	// refused then if the name is taken by that time. Zero: at once.
	Late time.Duration
	// BrokenPages is the part of list pages that fail, after the pages before
	// were delivered.
	BrokenPages float64
	// PageSize is the length of a list page; zero: 1000.
	PageSize int
}

// Resource is one thing in a [Cloud].
type Resource struct {
	ID       string // as the cloud knows it
	Name     string
	Tags     map[string]string
	Props    map[string]string
	Deleting bool // Delete was called, and takes its time
}

func (r Resource) clone() Resource {
	r.Tags, r.Props = maps.Clone(r.Tags), maps.Clone(r.Props)
	return r
}

// Cloud is a pretend provider of resources, with the faults that real ones
// have, from a seed. It lives in the time of its caller, so in a synctest
// bubble a day passes at once. Methods may be called from many goroutines.
//
//	call ─ step ─ latency ─ quota ─ fault ─ truth ── after a lag ──▶ what reads show
//	                                          ▲
//	                          Drift, Truth: behind the API
type Cloud struct {
	o CloudOptions

	mu     sync.Mutex // guards all below; never held while sleeping or in a step
	steps  *Steps
	random *rand.Rand
	healed bool
	serial int
	things map[string]*thing
	ids    []string // of things, in order, as of the last look at them
	added  []string // ids that may have come since, in no order
	calls  map[string]int
	all    allowance // over all calls
	reads  allowance
	writes allowance
	part   float64 // of the quotas that is granted; see Grant
	served int     // calls within the quota, for FailEvery
}

// allowance is a token bucket with a burst of one second's worth.
type allowance struct {
	rate   float64 // calls per second; zero: no limit
	tokens float64
	refill time.Time
}

func newAllowance(limit rate.Limit, now time.Time) allowance {
	return allowance{rate: float64(limit), tokens: max(float64(limit), 1), refill: now}
}

// fill adds the tokens that came since the last call, of the part that is granted, and
// says how long the next whole one takes.
func (a *allowance) fill(now time.Time, part float64) (wait time.Duration) {
	if a.rate == 0 {
		return 0
	}
	rate := a.rate * part
	a.tokens = min(a.tokens+now.Sub(a.refill).Seconds()*rate, max(rate, 1))
	a.refill = now
	if a.tokens >= 1-1e-6 {
		return 0
	}
	return time.Duration((1-a.tokens)/rate*float64(time.Second)).Round(time.Millisecond) + time.Millisecond
}

func (a *allowance) take() {
	if a.rate != 0 {
		a.tokens--
	}
}

// thing is a resource with its past: what it truly is comes last.
type thing struct {
	versions []version
	gone     time.Time // when a slow delete is over; zero: none is going on
}

type version struct {
	Resource
	absent  bool
	visible time.Time // from when on reads show it
}

// NewCloud makes an empty cloud. It returns an error for a part that is not
// between 0 and 1, and for a negative number.
func NewCloud(o *CloudOptions) (*Cloud, error) {
	c := &Cloud{things: map[string]*thing{}, calls: map[string]int{}}
	if o != nil {
		c.o = *o
	}
	for name, part := range map[string]float64{"Errors": c.o.Errors, "Lost": c.o.Lost, "BrokenPages": c.o.BrokenPages} {
		if part < 0 || part > 1 {
			return nil, fmt.Errorf("reconciletest: CloudOptions.%s is %v, want a part from 0 to 1", name, part)
		}
	}
	if c.o.ReadRate < 0 || c.o.WriteRate < 0 || c.o.RetryAfter < 0 || c.o.FailEvery < 0 || c.o.Late < 0 ||
		c.o.Rate < 0 || c.o.PageSize < 0 || c.o.Lag < 0 || c.o.Latency < 0 || c.o.DeleteTakes < 0 {
		return nil, errors.New("reconciletest: CloudOptions: no number may be negative")
	}
	if c.o.PageSize == 0 {
		c.o.PageSize = 1000
	}
	c.random = rand.New(rand.NewPCG(c.o.Seed, c.o.Seed^0x7e4d))
	now := time.Now()
	c.all, c.reads, c.writes = newAllowance(c.o.Rate, now), newAllowance(c.o.ReadRate, now), newAllowance(c.o.WriteRate, now)
	c.part = 1
	return c, nil
}

// Create makes a resource of r's Name, Tags and Props and returns it with its
// id.
func (c *Cloud) Create(ctx context.Context, r Resource) (Resource, error) {
	var made Resource // not read unless the create took effect at once
	err := c.write(ctx, "Create", func(now time.Time) error {
		r = r.clone()
		if r.ID = r.Name; !c.o.UniqueNames {
			c.serial++
			r.ID = fmt.Sprintf("r-%06d", c.serial)
		}
		if _, taken := c.trueLocked(r.ID, now); taken {
			return fmt.Errorf("create %q: %w", r.Name, ErrExists)
		}
		c.setLocked(r, now)
		made = r.clone()
		return nil
	})
	if err != nil {
		return Resource{}, err // also when it was made and the answer was lost
	}
	return made, nil
}

// Update replaces the Name (unless names are ids), Tags and Props of the
// resource with r's id.
func (c *Cloud) Update(ctx context.Context, r Resource) error {
	return c.write(ctx, "Update", func(now time.Time) error {
		is, ok := c.trueLocked(r.ID, now)
		if !ok {
			return fmt.Errorf("update %q: %w", r.ID, ErrNotFound)
		}
		next := r.clone()
		if next.Deleting = is.Deleting; c.o.UniqueNames {
			next.Name = is.Name
		}
		c.setLocked(next, now)
		return nil
	})
}

// Delete removes a resource, or begins to. One that is gone is
// [ErrNotFound]; deleting it twice is no error.
func (c *Cloud) Delete(ctx context.Context, id string) error {
	return c.write(ctx, "Delete", func(now time.Time) error {
		is, ok := c.trueLocked(id, now)
		switch {
		case !ok:
			return fmt.Errorf("delete %q: %w", id, ErrNotFound)
		case is.Deleting:
		case c.o.DeleteTakes > 0:
			is.Deleting = true
			c.setLocked(is, now)
			c.things[id].gone = now.Add(c.o.DeleteTakes)
		default:
			c.dropLocked(id, now)
		}
		return nil
	})
}

// Get reads a resource, as far as it can be seen yet.
func (c *Cloud) Get(ctx context.Context, id string) (Resource, error) {
	if err := c.enter(ctx, "Get"); err != nil {
		return Resource{}, err
	}
	r, ok := c.visible(id)
	if err := c.leave("Get"); err != nil {
		return Resource{}, err
	}
	if !ok {
		return Resource{}, fmt.Errorf("get %q: %w", id, ErrNotFound)
	}
	return r, nil
}

// List goes through all resources that can be seen, by id, a page per call. A
// page that fails yields the error and ends the list.
func (c *Cloud) List(ctx context.Context) iter.Seq2[Resource, error] {
	return func(yield func(Resource, error) bool) {
		for after, more := "", true; more; {
			var page []Resource
			var err error
			if page, more, err = c.Page(ctx, after); err != nil {
				yield(Resource{}, err)
				return
			}
			for _, r := range page {
				if after = r.ID; !yield(r, nil) {
					return
				}
			}
		}
	}
}

// Page is one call of a list: the resources that can be seen and come after that
// id ("" at first), and whether there are more of them.
func (c *Cloud) Page(ctx context.Context, after string) (page []Resource, more bool, err error) {
	if err = c.enter(ctx, "List"); err == nil {
		page, more = c.page(after)
		err = errors.Join(c.brokenPage(), c.leave("List"))
	}
	if err != nil {
		return nil, false, fmt.Errorf("list: %w", err)
	}
	return page, more, nil
}

// orderedLocked is the ids of all things in order. They are sorted when some
// came or went, not for every page.
func (c *Cloud) orderedLocked() []string {
	if len(c.added) > 0 || len(c.ids) != len(c.things) {
		c.ids = slices.DeleteFunc(append(c.ids, c.added...), func(id string) bool { return c.things[id] == nil })
		slices.Sort(c.ids)
		c.ids, c.added = slices.Compact(c.ids), nil
	}
	return c.ids
}

// putLocked is for an id that may be new.
func (c *Cloud) putLocked(id string, t *thing) {
	if c.things[id] == nil {
		c.added = append(c.added, id)
	}
	c.things[id] = t
}

func (c *Cloud) page(after string) ([]Resource, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var page []Resource
	ids := c.orderedLocked()
	from, _ := slices.BinarySearch(ids, after)
	for _, id := range ids[from:] {
		if id == after {
			continue
		}
		if r, ok := c.visibleLocked(id, time.Now()); ok {
			if len(page) == c.o.PageSize {
				return page, true
			}
			page = append(page, r)
		}
	}
	return page, false
}

func (c *Cloud) brokenPage() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.chanceLocked(c.o.BrokenPages) {
		return ErrServer
	}
	return nil
}

// write makes a call that changes something.
func (c *Cloud) write(ctx context.Context, op string, change func(now time.Time) error) error {
	if err := c.enter(ctx, op); err != nil {
		return err
	}
	c.mu.Lock()
	var err error
	late := op == "Create" && c.o.Late > 0 && c.chanceLocked(c.o.Lost)
	lost := late
	if late {
		time.AfterFunc(time.Duration(c.random.Int64N(int64(c.o.Late))), func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			_ = change(time.Now()) // its answer was lost
		})
	} else {
		err = change(time.Now())
		lost = err == nil && c.chanceLocked(c.o.Lost)
	}
	c.mu.Unlock()
	if dead := c.leave(op); dead != nil {
		return dead
	}
	if lost {
		return fmt.Errorf("%s: %w", op, ErrTimeout)
	}
	return err
}

// enter is the way of a request to the cloud; an error means that it had no
// effect.
func (c *Cloud) enter(ctx context.Context, op string) error {
	c.mu.Lock()
	steps, latency := c.steps, c.o.Latency
	if latency > 0 {
		latency = time.Duration(c.random.Int64N(int64(latency)))
	}
	c.mu.Unlock()
	if err := steps.step("before cloud " + op); err != nil {
		return err
	}
	if err := sleep(ctx, latency); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[op]++
	if err := c.quotaLocked(op, time.Now()); err != nil {
		return err
	}
	c.served++
	if c.chanceLocked(c.o.Errors) || c.o.FailEvery > 0 && !c.healed && c.served%c.o.FailEvery == 0 {
		return fmt.Errorf("%s: %w", op, ErrServer)
	}
	return nil
}

// leave is the way of the answer back.
func (c *Cloud) leave(op string) error {
	c.mu.Lock()
	steps := c.steps
	c.mu.Unlock()
	return steps.step("after cloud " + op)
}

// quotaLocked pays for a call from every quota that it counts against, or from none.
func (c *Cloud) quotaLocked(op string, now time.Time) error {
	own := &c.writes
	if op == "Get" || op == "List" {
		own = &c.reads
	}
	if wait := max(c.all.fill(now, c.part), own.fill(now, c.part)); wait > 0 {
		c.calls["refused"]++
		return &QuotaError{RetryAfter: max(wait, c.o.RetryAfter)}
	}
	c.all.take()
	own.take()
	return nil
}

func (c *Cloud) chanceLocked(part float64) bool {
	return part > 0 && !c.healed && c.random.Float64() < part
}

// trueLocked is what there is, whatever reads show.
func (c *Cloud) trueLocked(id string, now time.Time) (Resource, bool) {
	t := c.things[id]
	if t == nil {
		return Resource{}, false
	}
	if !t.gone.IsZero() && !now.Before(t.gone) {
		at := t.gone
		t.gone = time.Time{}
		c.appendLocked(t, version{absent: true}, at)
	}
	last := t.versions[len(t.versions)-1]
	return last.clone(), !last.absent
}

func (c *Cloud) visible(id string) (Resource, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.visibleLocked(id, time.Now())
}

// visibleLocked is the newest version whose time has come, and forgets those
// before it.
func (c *Cloud) visibleLocked(id string, now time.Time) (Resource, bool) {
	c.trueLocked(id, now) // ends a slow delete whose time is over
	t := c.things[id]
	if t == nil {
		return Resource{}, false
	}
	seen := -1
	for i, v := range t.versions {
		if !v.visible.After(now) {
			seen = i
		}
	}
	if seen < 0 {
		return Resource{}, false
	}
	t.versions = t.versions[seen:]
	v := t.versions[0]
	if v.absent && len(t.versions) == 1 {
		delete(c.things, id)
	}
	return v.clone(), !v.absent
}

func (c *Cloud) setLocked(r Resource, now time.Time) {
	t := c.things[r.ID]
	if t == nil {
		t = &thing{}
		c.putLocked(r.ID, t)
	}
	c.appendLocked(t, version{Resource: r}, now)
}

func (c *Cloud) dropLocked(id string, now time.Time) {
	t := c.things[id]
	t.gone = time.Time{}
	c.appendLocked(t, version{absent: true}, now)
}

func (c *Cloud) appendLocked(t *thing, v version, now time.Time) {
	v.visible = now
	if c.o.Lag > 0 {
		v.visible = now.Add(time.Duration(c.random.Int64N(int64(c.o.Lag) + 1)))
	}
	t.versions = append(t.versions, v)
}

func sleep(ctx context.Context, d time.Duration) error {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}
