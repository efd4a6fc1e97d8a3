package inspect

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/objects"
)

// Options are what a Looker knows besides what the Manager runs. Nil fields mean that nothing is
// said of it. The functions are called for each verdict; they must be quick and safe for
// concurrent use.
type Options struct {
	Objects []objects.Kind             // the kinds whose objects count
	Buckets func() []*ratelimit.Bucket // no bucket is nil
	Held    func() map[string]string   // by kind, why its inventory may not prune; empty: it may
	Needs   *depend.Graph              // what the objects wait for
}

// Looker makes verdicts about what a Manager runs. It is safe for concurrent use.
type Looker struct {
	m *reconcile.Manager
	o Options

	making chan struct{} // capacity 1: one verdict at a time is enough

	back map[store.Backend]time.Time // when it was first seen to answer again; zero: it was down last; guarded by making

	mu      sync.Mutex // guards what follows
	last    *Verdict
	outages outages   // as of the last one
	next    time.Time // until then the last one is good enough
}

// New makes a Looker for what m runs, also for what is registered later. o may be nil. It fails on
// a nil m.
func New(m *reconcile.Manager, o *Options) (*Looker, error) {
	if m == nil {
		return nil, errors.New("inspect: New: nil Manager")
	}
	l := &Looker{m: m, making: make(chan struct{}, 1), back: map[store.Backend]time.Time{}}
	if o != nil {
		l.o = *o
	}
	l.o.Objects = slices.Clone(l.o.Objects)
	return l, nil
}

const (
	// maxKeys is how many keys of a controller are looked at, of those that are not idle.
	maxKeys = 100_000
	// dear is what a verdict may cost before it is shown again for ten times as long.
	dear = 100 * time.Millisecond
	// longest is how long a verdict is shown again at most.
	longest = 15 * time.Second
)

var errSlowList = errors.New("the list takes too long")

// listTime is how long the lists of all kinds may take: a store that hangs must not keep a verdict
// from those that look for what is wrong.
func listTime(ctx context.Context, now time.Time) time.Duration {
	if last, ok := ctx.Deadline(); ok {
		return last.Sub(now) / 2
	}
	return 2 * time.Second
}

// Look makes a verdict, which is the caller's to read and not to change. It fails when ctx ends before it has looked at everything.
func (l *Looker) Look(ctx context.Context) (*Verdict, error) {
	select {
	case l.making <- struct{}{}:
		defer func() { <-l.making }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	began := time.Now()
	l.mu.Lock()
	last, next := l.last, l.next
	l.mu.Unlock()
	if last != nil && began.Before(next) {
		v := *last
		if age := began.Sub(v.At); age >= time.Second {
			v.Notes = append(slices.Clone(v.Notes), "counted "+short(age)+" ago")
		}
		return &v, nil
	}
	lists, cancel := context.WithTimeoutCause(ctx, listTime(ctx, began), errSlowList)
	defer cancel()
	f := l.gather(ctx, lists, began)
	v := judge(f)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	next = time.Time{}
	if took := time.Since(began); took > dear {
		next = began.Add(min(10*took, longest))
	}
	l.mu.Lock()
	l.last, l.outages, l.next = v, f.outages(), next
	l.mu.Unlock()
	return v, nil
}

// States gives a function that tells the state of an object of a kind, one of [States], as a
// verdict counts it.
func (l *Looker) States(ctx context.Context, kind string) (of func(objects.Object) string, err error) {
	v, err := l.Look(ctx)
	if err != nil {
		return nil, err
	}
	keys, err := l.keys(ctx, kind)
	if err != nil {
		return nil, err
	}
	return func(o objects.Object) string {
		key := ""
		if len(keys) > 0 {
			key = keys[o.Key().String()]
		}
		return v.stateOf(o, key)
	}, nil
}

// stateOf is stateOf as the verdict counted.
func (v *Verdict) stateOf(o objects.Object, key string) string {
	state, silent := stateOf(o, key)
	if silent && v != nil && v.silentAndWell[o.Kind] {
		return ready
	}
	return state
}

// StateOf is the state of one object, one of [States]. It lists nothing. Of one that another server
// runs it is what is stored that tells.
func (l *Looker) StateOf(ctx context.Context, o objects.Object) string {
	printed, key, elsewhere := o.Key().String(), "", false
	l.mu.Lock()
	last, now := l.last, l.outages
	l.mu.Unlock()
	for _, r := range l.m.Runners() {
		c, ok := reconcile.Inspect(r)
		if !ok {
			continue
		}
		snap := c.Snapshot()
		if snap.Kind != o.Kind {
			continue
		}
		isStuck := slices.ContainsFunc(snap.Running, func(r introspect.Run) bool { return r.Stuck && slices.Contains(r.Keys, printed) })
		if k, ok := c.Key(ctx, printed); ok && isStuck {
			key = stuck
		} else if ok {
			key = worse(key, now.stateOf(&k))
		} else if lease, ok := c.LeaseOf(ctx, printed); ok && !lease.Running {
			elsewhere = true
		}
	}
	if elsewhere {
		state, _ := stateOf(o, key)
		return state
	}
	return last.stateOf(o, key)
}

// keys gives the states of a kind's keys by their printed form. Keys that say nothing of their
// objects are left out.
func (l *Looker) keys(ctx context.Context, kind string) (map[string]string, error) {
	all := map[string]string{}
	l.mu.Lock()
	now := l.outages
	l.mu.Unlock()
	for _, r := range l.m.Runners() {
		c, ok := reconcile.Inspect(r)
		if !ok {
			continue
		}
		snap := c.Snapshot()
		if snap.Kind != kind {
			continue
		}
		for k, err := range keysOf(ctx, c) {
			if err != nil && !errors.Is(err, errTooMany) {
				return nil, err
			}
			if state := now.stateOf(&k); err == nil && state != "" {
				all[k.Key] = worse(all[k.Key], state)
			}
		}
		for _, run := range snap.Running {
			for _, key := range run.Keys {
				if run.Stuck {
					all[key] = worse(all[key], stuck)
				}
			}
		}
	}
	return all, nil
}

var errTooMany = fmt.Errorf("they are more than %s", number(maxKeys))

// keysOf yields the keys of a controller that may say something: those whose last run failed or
// was throttled, and those that wait for anything but a time.
func keysOf(ctx context.Context, c reconcile.Inspection) iter.Seq2[reconcile.KeySnapshot, error] {
	return func(yield func(reconcile.KeySnapshot, error) bool) {
		seen := 0
		for _, q := range []queue.PageOptions{
			{Failed: true, Limit: 1000},
			{States: []queue.State{queue.StateBackingOff, queue.StateThrottled, queue.StateHeld, queue.StateParked}, Limit: 1000},
		} {
			for more := true; more; {
				page, err := c.Keys(ctx, "", &q)
				if err == nil && ctx.Err() != nil {
					err = context.Cause(ctx)
				}
				if err != nil {
					yield(reconcile.KeySnapshot{}, err)
					return
				}
				for _, k := range page.Entries {
					if !q.Failed && k.Failing {
						continue // it was among those that failed
					}
					if seen++; seen > maxKeys {
						yield(reconcile.KeySnapshot{}, errTooMany)
						return
					}
					if !yield(k, nil) {
						return
					}
				}
				q.From, more = page.Next, page.More
			}
		}
	}
}

// gather takes the snapshots. Keys and objects are read as they are judged.
func (l *Looker) gather(ctx, lists context.Context, now time.Time) *facts {
	f := &facts{at: now}
	if l.o.Needs != nil {
		f.needs = l.needsOf
	}
	told := map[string]bool{} // checks of controllers and caches
	reasons := map[string]string{}
	checks := l.m.Health()
	for _, c := range checks {
		reasons[c.Name] = c.Reason
	}
	stores := map[store.Backend]bool{}
	for _, r := range l.m.Runners() {
		if c, ok := reconcile.Inspect(r); ok {
			one := controllerFacts{snap: c.Snapshot(), stats: c.QueueStats(), leases: c.Leases(), keys: keysOf(ctx, c)}
			if why := reasons[c.Name()]; why != "" && why != one.snap.Error {
				if one.snap = c.Snapshot(); why != one.snap.Error { // what it says may have changed since
					one.ended = why
				}
			}
			told[c.Name()] = true
			f.controllers = append(f.controllers, one)
		}
		if c, ok := r.(reconcile.Cached); ok {
			told["cache "+c.Name()] = true
			if b := c.Backend(); b != nil && reflect.ValueOf(b).Comparable() && !stores[b] {
				stores[b] = true
				s := storeOf(b)
				s.back = l.backOf(b, s.down != nil, now)
				f.stores = append(f.stores, s)
			}
		}
		if c, ok := r.(interface{ Snapshot() introspect.Cache }); ok {
			f.caches = append(f.caches, c.Snapshot())
		}
	}
	slices.SortFunc(f.controllers, func(a, b controllerFacts) int { return strings.Compare(a.snap.Name, b.snap.Name) })
	slices.SortFunc(f.stores, func(a, b storeFacts) int { return strings.Compare(a.name, b.name) })
	for _, c := range checks {
		if !told[c.Name] {
			f.checks = append(f.checks, c)
		}
	}
	for _, k := range l.o.Objects {
		f.kinds = append(f.kinds, kindFacts{k.Kind(), objects.Partial(k), untilEnd(lists, objects.States(lists, k, store.Selector{}))})
	}
	if l.o.Buckets != nil {
		for _, b := range l.o.Buckets() {
			f.buckets = append(f.buckets, b.Stats())
		}
	}
	if l.o.Held != nil {
		f.held = l.o.Held()
	}
	return f
}

// backOf is since when a backend that was seen down answers again; zero: it does not, or was not seen down.
func (l *Looker) backOf(b store.Backend, down bool, now time.Time) time.Time {
	back, seen := l.back[b]
	switch {
	case down:
		back = time.Time{}
		l.back[b] = back
	case seen && back.IsZero():
		back = now
		l.back[b] = back
	}
	return back
}

// storeOf asks a backend how it is. One that has no String has the name of its package.
func storeOf(b store.Backend) storeFacts {
	s := storeFacts{name: strings.TrimPrefix(fmt.Sprintf("%T", b), "*")}
	s.name, _, _ = strings.Cut(s.name, ".")
	if named, ok := b.(fmt.Stringer); ok {
		s.name = named.String()
	}
	if err := store.Health(b); err != nil {
		if s.down, _ = errors.AsType[*store.UnavailableError](err); s.down == nil {
			s.warn = line(err.Error())
		}
	}
	return s
}

// untilEnd ends a list with ctx.
func untilEnd(ctx context.Context, all iter.Seq2[objects.Object, error]) iter.Seq2[objects.Object, error] {
	return func(yield func(objects.Object, error) bool) {
		for o, err := range all {
			if err == nil && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			if !yield(o, err) {
				return
			}
		}
	}
}

func (l *Looker) needsOf(kind string, key store.Key) (all []need) {
	of := depend.Ref{Kind: kind, Key: key}
	edges, _ := l.o.Needs.View(of)
	for _, e := range edges {
		if e.From == of && e.As == introspect.Needed {
			all = append(all, need{e.To.Kind, e.To.Key, e.Unmet})
		}
	}
	return all
}
