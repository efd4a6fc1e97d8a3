package metrics

import (
	"context"
	"time"
)

// lookTime bounds the search for causes of trouble in a scrape.
const lookTime = 5 * time.Second

// collectTrouble shows the causes of trouble that package inspect finds among the keys, stores
// and sources of the manager: the same that the debug page and tend status show. While nothing is
// wrong there are no series. Objects are left out: a scrape counts them in tend_objects, and a
// look would list them again.
func (c *Collector) collectTrouble(s sink) {
	if c.looker == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTime)
	defer cancel()
	v, err := c.looker.Look(ctx)
	if err != nil {
		return // nothing is told, which is not the same as no trouble
	}
	type labels struct{ controller, kind, what string }
	counts, since := map[labels]int{}, map[labels]time.Time{}
	for i := range v.Causes {
		x := &v.Causes[i]
		of := labels{valid(x.Controller), valid(x.Kind), x.What}
		counts[of] += max(x.Count, 1)
		if first := since[of]; first.IsZero() || !x.Since.IsZero() && x.Since.Before(first) {
			since[of] = x.Since
		}
	}
	for of, n := range counts {
		age := 0.0
		if first := since[of]; !first.IsZero() {
			age = max(time.Since(first), 0).Seconds()
		}
		s.gauge(trouble, float64(n), of.controller, of.kind, of.what)
		s.gauge(troubleAge, age, of.controller, of.kind, of.what)
	}
}
