package queue

// line is the keys that may run: in bands, and by tenant inside each band if the
// queue has tenants.
type line struct {
	bands
	fair *fairness
}

func (l *line) push(es *entries, d *sides, i uint32) {
	if l.fair != nil {
		l.seq++
		l.fair.push(es, d.of(i).tenant, i, l.seq)
		return
	}
	l.bands.push(es, i)
}

func (l *line) remove(es *entries, d *sides, i uint32) {
	if l.fair != nil {
		l.fair.remove(es, d.of(i).tenant, i)
		return
	}
	l.bands.remove(es, i)
}

// top is the highest band with a key that may run, plus one.
func (l *line) top() int {
	if l.fair != nil {
		return l.fair.top()
	}
	return l.bands.top()
}

func (l *line) pop(es *entries) uint32 {
	if l.fair != nil {
		l.turn++
		return l.fair.pop(es, l.turn%agingEvery == 0)
	}
	return l.bands.pop(es)
}

// enlist and discharge count the running keys of the tenant of entry i.
func (l *line) enlist(d *sides, i uint32) {
	if l.fair != nil {
		l.fair.running(d.of(i).tenant, 1)
	}
}

// discharge tells whether keys may run now that could not before.
func (l *line) discharge(d *sides, i uint32) bool {
	return l.fair != nil && l.fair.running(d.of(i).tenant, -1)
}

// len is the number of keys that may run.
func (l *line) len() int {
	if l.fair != nil {
		return l.fair.n
	}
	return l.bands.len()
}

// depths adds the number of keys in each band.
func (l *line) depths(to *[maxBands]int) {
	if l.fair != nil {
		l.fair.depths(to)
		return
	}
	for b := range l.all() {
		to[b] += int(l.lane(b).n)
	}
}

// eldest is the entry that is ready for longest.
func (l *line) eldest(es *entries) (i uint32, ok bool) {
	switch {
	case l.top() == 0:
		return 0, false
	case l.fair != nil:
		return l.fair.oldest(es).head - 1, true
	}
	return l.oldest(es), true
}

// depth is the number of keys, those of tenants that may not run included.
func (l *line) depth() int {
	if l.fair == nil {
		return l.bands.len()
	}
	n := 0
	for _, t := range l.fair.of {
		if t != nil {
			n += t.depth()
		}
	}
	return n
}
