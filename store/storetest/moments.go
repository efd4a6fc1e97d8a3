package storetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tendhq/tend/store"
)

// ReadWhileWriting makes so many commits on b, which must be empty, and reads b
// meanwhile by Get, List and Watch. It fails t if a read shows a commit in part, or
// a record that is newer than the revision the read is of, and if two reads one
// after the other go back in time. Every commit writes 32 records: one that all
// commits write, and one of groups sets of 31, which take turns. The more groups,
// the more records change between two checkpoints of a backend that makes any.
//
// [Run] does this in a small size. It is exported for tests that do it in a large
// one, or under options of a backend that make checkpoints frequent.
func ReadWhileWriting(t testing.TB, b store.Backend, commits, groups int) {
	t.Helper()
	m := &moments{t: t, b: b, ctx: t.Context(), groups: groups, free: true}
	m.run(commits)
}

var momentChecks = []check{
	{"Reads/each tells when a record was made and when it was written last", func(e *env) {
		first := e.commit(put(key("a"), "1"), put(key("gone"), "1"))
		e.commit(del(key("gone")))
		again := e.commit(put(key("gone"), "2"))
		last := e.commit(put(key("a"), "2"))
		want := map[string]store.Record{
			"a": {Created: first, Revision: last}, "gone": {Created: again, Revision: again},
		}
		check := func(how string, r store.Record) {
			if w := want[r.Key.Name]; r.Created != w.Created || r.Revision != w.Revision {
				e.Errorf("%s says %s, want it created at %d and written at %d", how, show(r), w.Created, w.Revision)
			}
		}
		for _, o := range []store.ListOptions{{}, {Limit: 1}, {Namespace: "ns"}} {
			all, _ := e.listAll(kind, o)
			for _, r := range all {
				check("List", r)
			}
		}
		all, _ := e.listSlots(store.SlotsOf(0, 1), store.ListOptions{})
		for _, r := range all {
			check("ListSlots", r)
		}
		for how, batches := range map[string]iter.Seq2[store.Batch, error]{
			"a snapshot": e.b.Watch(e.ctx, kind, 0), "a change": e.b.Watch(e.ctx, kind, again-1),
			"a snapshot of slots": store.WatchSlots(e.ctx, e.b, kind, store.SlotsOf(0, 1), 0),
		} {
			seen := 0
			for batch, err := range batches {
				if err != nil {
					e.Fatalf("Watch: %v", err)
				}
				for _, c := range batch.Changes {
					check(how, c.Record)
					seen++
				}
				if seen >= len(want) {
					break
				}
			}
		}
	}},
	{"Reads/show whole commits, as of the revision that they say, while others are made", func(e *env) {
		m := &moments{t: e.TB, b: e.b, ctx: e.ctx, groups: 4}
		m.run(30)
	}},
}

// moments is one ReadWhileWriting. Commit n writes n into the record hot and into
// each record of the set n modulo groups, so that the whole state follows from the
// number of the last commit.
type moments struct {
	t      testing.TB
	b      store.Backend
	ctx    context.Context // the arguments of one call tree
	groups int
	free   bool // readers do not wait for the writer, nor the writer for them

	current atomic.Int64 // the commit that is being made
	made    atomic.Int64 // the last one that returned
	over    atomic.Bool  // nothing more is written, or a read failed
}

var hot = key("hot")

const setSize = store.MaxTxn - 1

func (m *moments) member(n, i int) store.Key { return key(fmt.Sprintf("%d-%d", n%m.groups, i)) }

// A momentReader reads for each commit at most so many times: without a bound, a
// backend whose commit waits for fake time would wait for ever. If the moments are
// free it reads all the time.
type momentReader struct {
	read  func() error
	most  int
	begin chan struct{} // closed after the last commit
	reads int
}

func (m *moments) run(commits int) {
	m.t.Helper()
	readers := []*momentReader{{read: m.readPair, most: 20}, {read: m.readList, most: 2}, {read: m.readSnapshot, most: 2}}
	var wg sync.WaitGroup
	for _, r := range readers {
		r.begin = make(chan struct{})
		wg.Go(func() { m.readAlong(r) })
	}
	for n := 1; n <= commits && !m.over.Load(); n++ {
		m.current.Store(int64(n))
		for _, r := range readers {
			if !m.free {
				r.begin <- struct{}{}
			}
		}
		if err := m.commit(n); err != nil {
			m.fail("commit %d: %v", n, err)
		}
		m.made.Store(int64(n))
	}
	m.over.Store(true)
	for _, r := range readers {
		close(r.begin)
	}
	wg.Wait()
	m.t.Logf("campaign: %d commits, %d pairs of reads, %d lists, %d snapshots",
		m.made.Load(), readers[0].reads, readers[1].reads, readers[2].reads)
}

func (m *moments) fail(format string, args ...any) {
	m.t.Errorf(format, args...)
	m.over.Store(true)
}

func (m *moments) readAlong(r *momentReader) {
	for m.free && !m.over.Load() {
		m.readOnce(r)
	}
	for range r.begin {
		for i, under := 0, true; i < r.most && under && !m.over.Load(); i++ {
			under = m.made.Load() < m.current.Load()
			m.readOnce(r)
		}
	}
}

func (m *moments) readOnce(r *momentReader) {
	if err := r.read(); err != nil {
		m.fail("while commit %d was made: %v", m.current.Load(), err)
	}
	r.reads++
}

func (m *moments) commit(n int) error {
	content := strconv.Itoa(n)
	ops := []store.Op{put(hot, content)}
	for i := range setSize {
		ops = append(ops, put(m.member(n, i), content))
	}
	_, err := m.b.Commit(m.ctx, store.Txn{Ops: ops})
	return err
}

// readPair reads three records that the commit under way writes, one after the
// other.
func (m *moments) readPair() error {
	n := int(m.current.Load())
	first, _, err := m.get(m.member(n, 0))
	if err != nil {
		return err
	}
	all, _, err := m.get(hot)
	if err != nil {
		return err
	}
	last, _, err := m.get(m.member(n, setSize-1))
	if err != nil {
		return err
	}
	if all < first || last < first || all >= n && last < n {
		return fmt.Errorf("three records that commit %d writes read, one after the other, as commits %d, %d and %d left them", n, first, all, last)
	}
	return nil
}

// get returns the number in a record, zero if there is no record.
func (m *moments) get(k store.Key) (n int, at store.Revision, err error) {
	r, err := m.b.Get(m.ctx, kind, k)
	if errors.Is(err, store.ErrNotFound) {
		return 0, 0, nil
	}
	if err == nil {
		n, err = number(r)
	}
	if err != nil {
		err = fmt.Errorf("Get(%s): %w", k, err)
	}
	return n, r.Revision, err
}

func number(r store.Record) (int, error) {
	data, err := r.Encode()
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(data))
}

// readList reads a record and then a list, which is not older.
func (m *moments) readList() error {
	_, at, err := m.get(hot)
	if err != nil {
		return err
	}
	var all []store.Record
	var o store.ListOptions
	for {
		p, err := m.b.List(m.ctx, kind, o)
		if errors.Is(err, store.ErrCompacted) {
			return nil // a backend with a short history: the list begins again
		}
		if err != nil {
			return fmt.Errorf("List: %w", err)
		}
		if p.Revision < at {
			return fmt.Errorf("Get returned a record of revision %d, and a later list is at revision %d", at, p.Revision)
		}
		all = append(all, p.Records...)
		if p.Cursor == "" {
			return m.check("a list", all, p.Revision)
		}
		o.Cursor = p.Cursor
	}
}

func (m *moments) readSnapshot() error {
	var all []store.Record
	for b, err := range m.b.Watch(m.ctx, kind, 0) {
		if errors.Is(err, store.ErrCompacted) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("Watch: %w", err)
		}
		if b.Kind == store.BatchSnapshotEnd {
			return m.check("a snapshot", all, b.Revision)
		}
		for _, c := range b.Changes {
			all = append(all, c.Record)
		}
	}
	return errors.New("a watch ended without an error")
}

// check compares what a read shows with the state after the last commit that it
// shows.
func (m *moments) check(what string, all []store.Record, at store.Revision) error {
	got := make(map[store.Key]int, len(all))
	for _, r := range all {
		n, err := number(r)
		if err != nil {
			return err
		}
		if r.Revision > at {
			return fmt.Errorf("%s at revision %d has %s", what, at, show(r))
		}
		if _, twice := got[r.Key]; twice {
			return fmt.Errorf("%s at revision %d has %s twice", what, at, r.Key)
		}
		got[r.Key] = n
	}
	last := got[hot]
	if want := min(last, m.groups)*setSize + min(last, 1); len(got) != want {
		return fmt.Errorf("%s at revision %d shows commit %d and %d records, want %d", what, at, last, len(got), want)
	}
	for n := max(1, last-m.groups+1); n <= last; n++ {
		for i := range setSize {
			if k := m.member(n, i); got[k] != n {
				return fmt.Errorf("%s at revision %d shows commit %d, and %s as commit %d left it, want %d", what, at, last, k, got[k], n)
			}
		}
	}
	return nil
}
