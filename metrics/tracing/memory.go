package tracing

import (
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/tendhq/tend/store"
)

// memory holds what runs are going to be linked to.
//
//	commit begins ─▶ underway[object]           a watch may show the write before
//	commit ends ───▶ written[object, revision]  the call that made it returns
//	a change adds a key: one of the two ─▶ causes[controller, key]
//	the key runs: taken from there
type memory struct {
	limit int

	mu       sync.Mutex // guards what follows
	underway map[object][]trace.SpanContext
	written  map[write]trace.SpanContext
	order    []write // of written, a ring once it is full
	oldest   int
	causes   map[waiting][]trace.Link
	older    map[waiting][]trace.Link // of keys that were noted before all in causes
}

type object struct {
	kind string
	key  store.Key
}

// write is one write of an object: commits that share a request to etcd have one revision.
type write struct {
	object
	revision store.Revision
}

// waiting is a key of a controller; key is of the controller's key type.
type waiting struct {
	controller string
	key        any
}

func newMemory(limit int) *memory {
	return &memory{
		limit: limit, underway: make(map[object][]trace.SpanContext),
		written: make(map[write]trace.SpanContext), causes: make(map[waiting][]trace.Link),
	}
}

// begin notes that by is about to write the objects.
func (m *memory) begin(objects []object, by trace.SpanContext) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range objects {
		m.underway[o] = append(m.underway[o], by)
	}
}

// end notes how that went: at no revision, if nothing was written as far as is
// known.
func (m *memory) end(objects []object, by trace.SpanContext, at store.Revision) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range objects {
		m.forgetLocked(o, by)
		if at != 0 {
			m.rememberLocked(write{o, at}, by)
		}
	}
}

func (m *memory) forgetLocked(o object, by trace.SpanContext) {
	all := m.underway[o]
	for i := range all {
		if all[i].Equal(by) {
			all = append(all[:i:i], all[i+1:]...) // a copy: others may read the old one
			break
		}
	}
	if m.underway[o] = all; len(all) == 0 {
		delete(m.underway, o)
	}
}

func (m *memory) rememberLocked(w write, by trace.SpanContext) {
	if _, ok := m.written[w]; !ok {
		if len(m.order) < m.limit {
			m.order = append(m.order, w)
		} else {
			delete(m.written, m.order[m.oldest])
			m.order[m.oldest] = w
			m.oldest = (m.oldest + 1) % m.limit
		}
	}
	m.written[w] = by
}

// changed notes that a change of an object is about to add a key.
func (m *memory) changed(k waiting, o object, at store.Revision) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if by, ok := m.written[write{o, at}]; ok {
		m.addLocked(k, "write", by)
		return
	}
	// The call that wrote it has not returned yet. Of several that are under way
	// one made this change, and it is not known which.
	for _, by := range m.underway[o] {
		m.addLocked(k, "write", by)
	}
}

// add notes a cause of the next run of a key.
func (m *memory) add(k waiting, cause string, by trace.SpanContext) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.addLocked(k, cause, by)
}

func (m *memory) addLocked(k waiting, cause string, by trace.SpanContext) {
	links, ok := m.causes[k]
	if !ok {
		// Keys that never run (they were forgotten, another server has them) would
		// otherwise keep all others out in the end.
		if len(m.causes) >= m.limit {
			m.causes, m.older = make(map[waiting][]trace.Link), m.causes
		}
		links = m.older[k]
		delete(m.older, k)
	}
	for _, l := range links {
		if l.SpanContext.Equal(by) {
			m.causes[k] = links
			return
		}
	}
	if len(links) == linksPerKey {
		links = links[1:]
	}
	m.causes[k] = append(links, trace.Link{SpanContext: by, Attributes: []attribute.KeyValue{attribute.String("tend.cause", cause)}})
}

// take gives the causes of a key's run, and forgets them.
func (m *memory) take(k waiting) []trace.Link {
	m.mu.Lock()
	defer m.mu.Unlock()
	links := append(m.older[k], m.causes[k]...)
	delete(m.causes, k)
	delete(m.older, k)
	return links
}
