package metrics

import (
	"context"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tendhq/tend/internal/declared"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/objects"
)

const (
	readyTimeName = "tend_object_ready_seconds"
	readyTimeHelp = "How long objects took from their creation to their first time ready, of those that were created since this process began."
)

// listTime bounds the listing of one kind for a scrape.
const listTime = 5 * time.Second

func newReadyTimes() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: readyTimeName, Help: readyTimeHelp, Buckets: prometheus.ExponentialBuckets(0.1, 2, 18), // to 3.6 h
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: nativeBuckets,
	}, []string{"kind"})
}

// watched is a kind whose objects are counted at each scrape.
type watched struct {
	objects.Kind
	from  time.Time        // objects that were created before are not timed
	timed map[string]bool  // UIDs of those that were, and are still there
	stale map[string]stale // by UID
}

// stale is an object that is Ready in an older generation than its own: it is not Ready, and
// nothing in it says since when.
type stale struct {
	generation int64     // in which it is Ready
	since      time.Time // when a scrape first found it so
}

// AddObjects adds the objects of a kind: how many are ready, synced, paused and in
// deletion, since when the oldest is not ready, not synced, paused or in deletion, and how
// long objects took to be ready. Ready is one that is as declared, by what is stored: it is not in
// deletion, its last reconcile did not fail (Synced is not False, unless it is paused), and it is
// Ready in its present generation. One whose spec was edited has not been ready since
// the first scrape that found it edited: no object says when. Of a kind of which no object has a condition no age is told: its reconciler
// writes none. Each scrape looks at all of them: take [objects.OfCache], which
// costs the backend nothing. Every server that is scraped counts all objects of its cache,
// so take the maximum over servers, not the sum. Of a cache of shards each server counts the
// objects of its own shards: there take the sum, which is not exact while a shard changes hands. It
// fails on nil and on a kind that was added before.
func (c *Collector) AddObjects(k objects.Kind) error {
	if k == nil {
		return addTo[*watched](c, &c.kinds, nil, "AddObjects", nil)
	}
	return addTo(c, &c.kinds, &watched{Kind: k, from: time.Now(), timed: map[string]bool{}}, "AddObjects", func(w *watched) string { return w.Kind.Kind() })
}

// objectCounts is what one listing found.
type objectCounts struct {
	at            time.Time
	states        map[string]int
	oldest        map[string]time.Time // by state, of those that are in it
	asserts       map[string]bool      // conditions that some object has
	before, stale map[string]stale     // by UID: of the listing before, and of this one
}

func (n *objectCounts) in(state string, since time.Time) {
	n.states[state]++
	n.oldestOf(state, since)
}

func (n *objectCounts) oldestOf(state string, since time.Time) {
	if at, ok := n.oldest[state]; !ok || since.Before(at) {
		n.oldest[state] = since
	}
}

// count adds an object; ready is since when it is ready, in whatever generation, zero if it
// is not.
func (n *objectCounts) count(o objects.Object) (ready time.Time) {
	n.states["all"]++
	if o.Paused {
		n.states["paused"]++
		if !o.PausedSince.IsZero() {
			n.oldestOf("paused", o.PausedSince)
		}
	}
	if o.Deleting() {
		n.in("deleting", o.Deleted)
	}
	since := map[string]time.Time{store.ConditionReady: o.Created, store.ConditionSynced: o.Created}
	is := map[string]bool{store.ConditionReady: declared.Is(&o.Meta, o.Conditions, false)}
	current := store.ReadyAt(&o.Meta, o.Conditions, o.Generation)
	for _, c := range o.Conditions {
		if _, asked := since[c.Type]; asked {
			since[c.Type], n.asserts[c.Type] = c.Since, true
		}
		switch {
		case c.Type == store.ConditionSynced:
			is[c.Type] = c.Status == store.True
		case c.Type == store.ConditionReady && c.Status == store.True:
			if ready = c.Since; !current {
				since[c.Type] = n.staleSince(o, c.ObservedGeneration)
			}
		}
	}
	if current && o.Deleting() {
		since[store.ConditionReady] = o.Deleted
	} else if current && !is[store.ConditionReady] { // its last reconcile failed
		since[store.ConditionReady] = since[store.ConditionSynced]
	}
	delete(n.before, o.UID) // what is left was not seen
	if is[store.ConditionReady] {
		n.states["ready"]++
	} else {
		n.in("not ready", since[store.ConditionReady])
	}
	if is[store.ConditionSynced] {
		n.states["synced"]++
	} else {
		n.in("not synced", since[store.ConditionSynced])
	}
	return ready
}

// staleSince is since when an object is Ready in that generation only, as far as is known.
func (n *objectCounts) staleSince(o objects.Object, generation int64) time.Time {
	s, ok := n.before[o.UID]
	if !ok || s.generation != generation {
		s = stale{generation, n.at}
	}
	n.stale[o.UID] = s
	return s.since
}

// knows reports whether the age of a state means something: in a kind whose reconciler never
// writes a condition, no object gets it, and the age would grow for ever.
func (n *objectCounts) knows(state string) bool {
	switch state {
	case "not ready":
		return n.asserts[store.ConditionReady] || n.asserts[store.ConditionSynced]
	case "not synced":
		return n.asserts[store.ConditionSynced]
	}
	return true
}

// read lists the objects of a kind. Of a kind that cannot be listed nothing is told, which
// is not the same as 0.
func (w *watched) read(s sink, times *prometheus.HistogramVec) {
	ctx, cancel := context.WithTimeout(context.Background(), listTime)
	defer cancel()
	n := objectCounts{at: time.Now(), states: map[string]int{}, oldest: map[string]time.Time{}, asserts: map[string]bool{}, before: w.stale, stale: map[string]stale{}}
	timed := map[string]bool{}
	kind := valid(w.Kind.Kind())
	whole := false // every object was seen, by its UID
	defer func() {
		if !whole {
			// What was not seen may be there all the same.
			maps.Copy(timed, w.timed)
			for uid, s := range w.stale {
				if _, seen := n.stale[uid]; !seen {
					n.stale[uid] = s
				}
			}
		}
		w.timed, w.stale = timed, n.stale
	}()
	nameless := 0
	for o, err := range objects.States(ctx, w.Kind, store.Selector{}) {
		if err != nil || ctx.Err() != nil {
			return
		}
		if o.Err != nil {
			n.states["all"]++ // it cannot be decoded, which tend_cache_undecodable_objects tells
			nameless++
			continue
		}
		ready := n.count(o)
		if o.Created.Before(w.from) || ready.IsZero() {
			if w.timed[o.UID] {
				timed[o.UID] = true
			}
			continue
		}
		if timed[o.UID] = true; !w.timed[o.UID] {
			times.WithLabelValues(kind).Observe(max(ready.Sub(o.Created), 0).Seconds())
		}
	}
	whole = nameless == 0
	s.gauge(objectPartial, truth(objects.Partial(w.Kind)), kind)
	for _, state := range []string{"all", "ready", "synced", "paused", "deleting"} {
		s.gauge(objectStates, float64(n.states[state]), kind, state)
	}
	for _, state := range []string{"not ready", "not synced", "paused", "deleting"} {
		age := 0.0
		if at, ok := n.oldest[state]; ok && n.knows(state) {
			age = max(time.Since(at), 0).Seconds()
		}
		s.gauge(objectOldest, age, kind, state)
	}
}
