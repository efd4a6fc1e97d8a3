package tracing

import (
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/tendhq/tend/store"
)

func spanContext(n int) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{byte(n >> 8), byte(n), 1}})
}

// Nothing that is remembered grows for ever, and the newest writes are kept.
func TestMemoryIsBounded(t *testing.T) {
	m := newMemory(10)
	disk := object{"Disk", store.Key{Name: "a"}}
	for n := range 1000 {
		by := spanContext(n)
		m.begin([]object{disk}, by)
		m.end([]object{disk}, by, store.Revision(n+1))
		m.changed(waiting{"disks", n}, disk, store.Revision(n+1))
		m.changed(waiting{"disks", "busy"}, disk, store.Revision(n+1))
		m.add(waiting{"disks", 0}, "add", by)
	}
	if len(m.written) != 10 || len(m.order) != 10 || len(m.underway) != 0 || len(m.causes) > 10 || len(m.older) > 10 {
		t.Errorf("%d writes, %d in order, %d under way, %d and %d keys; want 10, 10, 0, and 10 at most", len(m.written), len(m.order), len(m.underway), len(m.causes), len(m.older))
	}
	links := m.take(waiting{"disks", 0})
	if len(links) != linksPerKey || !links[linksPerKey-1].SpanContext.Equal(spanContext(999)) {
		t.Errorf("%d links, want the newest %d", len(links), linksPerKey)
	}
	if len(m.take(waiting{"disks", 0})) != 0 {
		t.Error("links were taken twice")
	}
	m.changed(waiting{"disks", "new"}, disk, 1000)
	if links := m.take(waiting{"disks", "new"}); len(links) != 1 || !links[0].SpanContext.Equal(spanContext(999)) {
		t.Errorf("the newest write is not remembered: %v", links)
	}
}

// Keys that were noted and never run, because they were forgotten or another server
// has them now, keep no other key out.
//
// Negative control: with new keys turned away while there is no room, no key had a
// link any more.
func TestKeysThatNeverRunKeepNobodyOut(t *testing.T) {
	m := newMemory(10)
	for n := range 1000 {
		m.add(waiting{"disks", n}, "add", spanContext(n))
	}
	for n := range 10 {
		m.add(waiting{"nets", n}, "add", spanContext(n))
		m.add(waiting{"nets", n}, "add", spanContext(n+1))
	}
	for n := range 10 {
		if links := m.take(waiting{"nets", n}); len(links) != 2 {
			t.Errorf("key %d has %d links, want both", n, len(links))
		}
	}
}

// A write that failed, or whose outcome is not known, causes nothing.
func TestWriteThatFailedIsForgotten(t *testing.T) {
	m := newMemory(10)
	disk := object{"Disk", store.Key{Name: "a"}}
	one, two := spanContext(1), spanContext(2)
	m.begin([]object{disk}, one)
	m.begin([]object{disk}, two)
	m.end([]object{disk}, one, 0)
	m.changed(waiting{"disks", "a"}, disk, 7)
	m.end([]object{disk}, two, 7)
	if links := m.take(waiting{"disks", "a"}); len(links) != 1 || !links[0].SpanContext.Equal(two) {
		t.Errorf("linked to %v, want the second write alone", links)
	}
	if len(m.underway) != 0 {
		t.Error("something is under way for ever")
	}
}

// A backend may give several commits one revision, as etcd does to those of one request.
//
// Negative control: mutant "of the writers of one revision the last counts for all".
func TestWritersOfOneRevisionAreToldApart(t *testing.T) {
	m := newMemory(10)
	for n, name := range []string{"a", "b"} {
		m.end([]object{{"Disk", store.Key{Name: name}}}, spanContext(n), 5)
	}
	for n, name := range []string{"a", "b"} {
		m.changed(waiting{"disks", name}, object{"Disk", store.Key{Name: name}}, 5)
		if links := m.take(waiting{"disks", name}); len(links) != 1 || !links[0].SpanContext.Equal(spanContext(n)) {
			t.Errorf("the run of %s is linked to %v, want what wrote it", name, links)
		}
	}
}
