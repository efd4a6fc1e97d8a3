package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/tendhq/tend/store"
)

// stream is a watch under observation. It checks with every batch what holds for
// all of them.
type stream struct {
	e       *env
	kind    string
	next    func() (store.Batch, error, bool)
	at      store.Revision
	live    bool // the snapshot is over
	pending []store.Change
}

// watch begins a watch that ends with the check.
func (e *env) watch(kind string, after store.Revision) *stream {
	return e.watchContext(e.ctx, kind, after)
}

func (e *env) watchContext(ctx context.Context, kind string, after store.Revision) *stream {
	next, stop := iter.Pull2(e.b.Watch(ctx, kind, after))
	e.Cleanup(stop)
	return &stream{e: e, kind: kind, next: next, at: after, live: after != 0}
}

// batch returns the next batch; an error ends the check.
func (s *stream) batch() store.Batch {
	s.e.Helper()
	b, err, ok := s.next()
	if !ok || err != nil {
		s.e.Fatalf("watch of %s after %d ended: %v", s.kind, s.at, err)
	}
	s.check(b)
	return b
}

// check holds a batch against those before it.
func (s *stream) check(b store.Batch) {
	s.e.Helper()
	if b.Revision < s.at {
		s.e.Errorf("%s batch of revision %d after %d", b.Kind, b.Revision, s.at)
	}
	switch b.Kind {
	case store.BatchChanges:
		s.checkChanges(b)
	case store.BatchSnapshot, store.BatchSnapshotEnd:
		if s.live {
			s.e.Errorf("%s in the midst of changes", b.Kind)
		}
		s.checkSnapshot(b)
	case store.BatchProgress:
		if !s.live || len(b.Changes) > 0 {
			s.e.Errorf("progress at %d with %d changes, snapshot over: %v", b.Revision, len(b.Changes), s.live)
		}
	default:
		s.e.Errorf("batch of the kind %v", b.Kind)
	}
	if b.Kind != store.BatchSnapshot {
		s.at = b.Revision
	}
	s.live = s.live || b.Kind == store.BatchSnapshotEnd
}

func (s *stream) checkChanges(b store.Batch) {
	s.e.Helper()
	if !s.live {
		s.e.Errorf("changes before the end of the snapshot")
	}
	last := s.at
	for i, c := range b.Changes {
		again := i > 0 && c.Revision == b.Changes[i-1].Revision
		if c.Kind != s.kind || c.Revision < last || c.Revision == last && !again {
			s.e.Errorf("watch of %s: change %s after revision %d", s.kind, show(c.Record), last)
		}
		last = c.Revision
	}
	if len(b.Changes) == 0 || last != b.Revision {
		s.e.Errorf("batch of %d changes up to %d says revision %d", len(b.Changes), last, b.Revision)
	}
}

func (s *stream) checkSnapshot(b store.Batch) {
	s.e.Helper()
	if b.Kind == store.BatchSnapshotEnd && len(b.Changes) > 0 {
		s.e.Errorf("the end of the snapshot carries %d records", len(b.Changes))
	}
	for _, c := range b.Changes {
		if c.Kind != s.kind || c.Deleted || c.Revision > b.Revision || c.Created == 0 {
			s.e.Errorf("snapshot of %s at %d has %s, deleted %v", s.kind, b.Revision, show(c.Record), c.Deleted)
		}
	}
}

// snapshot reads up to and with the end of the snapshot.
func (s *stream) snapshot() ([]store.Record, store.Revision) {
	s.e.Helper()
	var all []store.Record
	for {
		b := s.batch()
		if b.Kind == store.BatchSnapshotEnd {
			return all, b.Revision
		}
		for _, c := range b.Changes {
			all = append(all, c.Record)
		}
	}
}

// change is a change as the checks write it down.
type change struct {
	key      store.Key
	revision store.Revision
	content  string
	deleted  bool
}

// changes reads n changes.
func (s *stream) changes(n int) []change {
	s.e.Helper()
	return plain(s.raw(n))
}

func (s *stream) raw(n int) []store.Change {
	s.e.Helper()
	for len(s.pending) < n {
		s.pending = append(s.pending, s.batch().Changes...)
	}
	some := s.pending[:n]
	s.pending = s.pending[n:]
	return some
}

func plain(cs []store.Change) []change {
	out := make([]change, len(cs))
	for i, c := range cs {
		data, err := c.Encode()
		out[i] = change{c.Key, c.Revision, string(data), c.Deleted}
		if err != nil {
			out[i].content = err.Error()
		}
	}
	return out
}

func (s *stream) wantChanges(want ...change) {
	s.e.Helper()
	s.e.wantSame("watch of "+s.kind, s.changes(len(want)), want)
}

// wantSame prints where two histories part; whole ones are too long to read.
func (e *env) wantSame(what string, got, want []change) {
	e.Helper()
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	if i < max(len(got), len(want)) {
		e.Errorf("%s, of %d and %d changes, from number %d:\n got %+v\nwant %+v", what, len(got), len(want), i,
			got[i:min(len(got), i+5)], want[i:min(len(want), i+5)])
	}
}

// wantEnd reads on until the stream ends and checks with what.
func (s *stream) wantEnd(want error) {
	s.e.Helper()
	for {
		_, err, ok := s.next()
		if !ok {
			s.e.Errorf("watch ended without an error, want %v", want)
			return
		}
		if err != nil {
			s.e.wantErr("end of the watch", err, want)
			if _, err, ok := s.next(); ok {
				s.e.Errorf("after its last error the watch went on, error %v", err)
			}
			return
		}
	}
}

// told reads a watch on a goroutine of its own, so that it waits in the watch while
// nothing changes. The error is that of its end.
func (e *env) told(ctx context.Context, after store.Revision) (changes <-chan change, end <-chan error) {
	found, ended := make(chan change), make(chan error, 1)
	go func() {
		for b, err := range e.b.Watch(ctx, kind, after) {
			if err != nil {
				ended <- err
				return
			}
			for _, c := range plain(b.Changes) {
				select {
				case found <- c:
				case <-e.ctx.Done():
				}
			}
		}
		ended <- errors.New("no error")
	}()
	return found, ended
}

var watchChecks = []check{
	{"Watch/after 0 sends a snapshot, its end, and then changes", func(e *env) {
		want := e.fillStore(10)
		s := e.watch(kind, 0)
		all, rev := s.snapshot()
		e.wantRecords("snapshot", all, want, rev)
		if rev != e.head() {
			e.Errorf("snapshot of revision %d, want %d", rev, e.head())
		}
		k := store.Key{Namespace: "ns0", Name: "n0"}
		s.wantChanges(
			change{key("a"), e.commit(put(key("a"), "1")), "1", false},
			change{k, e.commit(put(k, "2")), "2", false},
			change{key("a"), e.commit(del(key("a"))), "1", true},
		)
	}},
	{"Watch/of nothing sends only the end of the snapshot", func(e *env) {
		r := e.commit(store.Op{Kind: "Other", Key: key("a"), Put: store.Bytes("x")})
		s := e.watch(kind, 0)
		if all, rev := s.snapshot(); len(all) != 0 || rev != r {
			e.Errorf("got %d records at %d, want none at %d", len(all), rev, r)
		}
		s.wantChanges(change{key("a"), e.commit(put(key("a"), "1")), "1", false})
	}},
	{"Watch/after a revision sends exactly what changed since", func(e *env) {
		var all []change
		for i := range 10 {
			k := key(fmt.Sprint(i % 3))
			if i == 7 {
				all = append(all, change{k, e.commit(del(k)), "4", true})
				continue
			}
			all = append(all, change{k, e.commit(put(k, fmt.Sprint(i))), fmt.Sprint(i), false})
		}
		streams := make([]*stream, len(all))
		for i := range all {
			streams[i] = e.watch(kind, all[i].revision)
			streams[i].wantChanges(all[i+1:]...)
		}
		mark := change{key("mark"), e.commit(put(key("mark"), "")), "", false}
		for _, s := range streams {
			s.wantChanges(mark)
		}
	}},
	{"Watch/a record that goes and comes again is told each time", func(e *env) {
		s := e.watch(kind, e.commit(put(key("a"), "0")))
		var want []change
		for i := range 5 {
			want = append(want, change{key("a"), e.commit(del(key("a"))), fmt.Sprint(i), true})
			want = append(want, change{key("a"), e.commit(put(key("a"), fmt.Sprint(i+1))), fmt.Sprint(i + 1), false})
		}
		s.wantChanges(want...)
	}},
	{"Watch/that waits is told of each commit, before there is another", func(e *env) {
		changes, end := e.told(e.ctx, e.commit(put(key("x"), "0")))
		for i := range 12 {
			e.settle()
			want := change{key("a"), 0, fmt.Sprint(i / 2), i%2 == 1}
			switch i % 4 {
			case 0:
				want.revision = e.commit(put(want.key, want.content))
			case 2:
				want.revision = e.commit(store.Op{Kind: "Other", Key: key("a"), Put: store.Bytes("x")}, put(want.key, want.content))
			default:
				want.revision = e.commit(del(want.key))
			}
			select {
			case got := <-changes:
				e.wantSame("a watch that waited", []change{got}, []change{want})
			case err := <-end:
				e.Fatalf("a watch that waited for %+v ended: %v", want, err)
			case <-e.ctx.Done():
				e.Fatalf("a watch that waited was not told of %+v", want)
			}
		}
	}},
	{"Watch/nothing runs before it is ranged over, nor after the loop", func(e *env) {
		e.fillStore(3)
		sequence := e.b.Watch(e.ctx, kind, 0)
		e.commit(put(key("later"), "x"))
		for b, err := range sequence { // a snapshot of when the loop began
			if err != nil || b.Kind == store.BatchSnapshotEnd && b.Revision != e.head() {
				e.Errorf("a watch that was made before a commit, and ranged over after it, begins at %d, not at %d: %v", b.Revision, e.head(), err)
			}
			if err != nil || b.Kind == store.BatchSnapshotEnd {
				break
			}
		}
		const n = 500
		e.wantNoGoroutines(n, "watches that are not ranged over", func() { e.b.Watch(e.ctx, kind, 1) })
		e.wantNoGoroutines(n, "watches whose loops ended", func() {
			for _, err := range e.b.Watch(e.ctx, kind, 0) {
				if err != nil {
					e.Fatalf("watch: %v", err)
				}
				break
			}
		})
	}},
	{"Watch/sends no other kind", func(e *env) {
		r := e.commit(put(key("a"), "1"))
		s := e.watch(kind, r)
		for _, k := range []string{"Thin", "Thing2", "thing", "_Thing"} {
			e.commit(store.Op{Kind: k, Key: key("a"), Put: store.Bytes("x")})
		}
		s.wantChanges(change{key("b"), e.commit(put(key("b"), "1")), "1", false})
	}},
	{"Watch/a deletion carries the last record at the revision of its end", func(e *env) {
		born := e.commit(put(key("a"), "1"))
		s := e.watch(kind, e.commit(put(key("a"), "last")))
		gone := e.commit(del(key("a")))
		c := s.raw(1)[0]
		if !c.Deleted {
			e.Errorf("the change does not say that it is a deletion")
		}
		e.wantRecord("deletion", c.Record, key("a"), born, gone, "last")
	}},
	{"Watch/one commit is in one batch", func(e *env) {
		s := e.watch(kind, e.commit(put(key("x"), "0")))
		var ops []store.Op
		var want []change
		for i := range store.MaxTxn - 2 {
			ops = append(ops, put(key(fmt.Sprint(i)), "1"))
		}
		for round := range 20 {
			all := append(slices.Clone(ops), del(key("x")), store.Op{Kind: "Other", Key: key("a"), Put: store.Bytes(fmt.Sprint(round))})
			r := e.commit(all...)
			want = want[:0]
			for i := range ops {
				want = append(want, change{key(fmt.Sprint(i)), r, "1", false})
			}
			if round == 0 {
				want = append(want, change{key("x"), r, "0", true})
			}
			b := s.batch()
			for b.Kind == store.BatchProgress {
				b = s.batch()
			}
			e.wantSame(fmt.Sprintf("round %d: one batch", round), sorted(plain(b.Changes)), sorted(want))
		}
	}},
	{"Watch/many watchers and writers: everybody sees the same, in order, once", func(e *env) {
		start := e.commit(put(key("start"), ""))
		const watchers, writers, each = 5, 4, 50
		histories := make([][]change, watchers)
		var wg sync.WaitGroup
		for i := range watchers {
			wg.Go(func() { histories[i] = e.follow(start, writers*each) })
		}
		for w := range writers {
			wg.Go(func() { e.scribble(w, each) })
		}
		wg.Wait()
		for i, h := range histories {
			e.wantSame(fmt.Sprintf("watcher %d beside the first", i), h, histories[0])
		}
		e.wantState(append([]change{{key: key("start")}}, histories[0]...))
	}},
	{"Watch/a snapshot and the changes after it make the whole", func(e *env) {
		e.fillStore(20)
		var wg sync.WaitGroup
		for w := range 3 {
			wg.Go(func() { e.scribble(w, 50) })
		}
		var streams []*stream
		var states []map[store.Key]string
		for range 10 {
			s := e.watch(kind, 0)
			all, _ := s.snapshot()
			state := make(map[store.Key]string)
			for _, r := range all {
				if _, twice := state[r.Key]; twice {
					e.Errorf("%s is in the snapshot twice", r.Key)
				}
				data, _ := r.Encode()
				state[r.Key] = string(data)
			}
			streams, states = append(streams, s), append(states, state)
		}
		wg.Wait()
		mark := e.commit(put(key("mark"), "x"))
		want, rev := e.listAll(kind, store.ListOptions{})
		for i, s := range streams {
			for s.at < mark {
				fold(states[i], plain(s.batch().Changes))
			}
			e.wantRecords(fmt.Sprintf("watcher %d", i), want, states[i], rev)
		}
	}},
	{"Watch/a revision that the store has not reached is ErrCompacted", func(e *env) {
		e.commit(put(key("a"), "1"))
		e.watch(kind, e.head()+1000).wantEnd(store.ErrCompacted)
	}},
	{"Watch/a revision older than the history is ErrCompacted", func(e *env) {
		old := e.commit(put(key("a"), "1"))
		e.commit(put(key("a"), "2"))
		e.compact()
		r := e.commit(put(key("b"), "1"))
		e.watch(kind, old).wantEnd(store.ErrCompacted)
		s := e.watch(kind, r)
		s.wantChanges(change{key("c"), e.commit(put(key("c"), "1")), "1", false})
		all, _ := e.watch(kind, 0).snapshot()
		if live, _ := e.listAll(kind, store.ListOptions{}); len(all) != len(live) {
			e.Errorf("a new snapshot has %d records, want %d", len(all), len(live))
		}
	}},
	{"Watch/a watcher that is too slow is cut off alone", func(e *env) {
		start := e.commit(put(key("a"), "0"))
		slow, quick := e.watch(kind, start), e.watch(kind, start)
		step := func(i int) change {
			c := change{key("b"), 0, fmt.Sprint(i), false}
			c.revision = e.commit(put(c.key, c.content))
			quick.wantChanges(c)
			return c
		}
		slow.wantChanges(step(-1))
		var history []change
		n := compactWrites // makes the slow one too slow, unless Compact does
		if e.o.Compact != nil {
			n = 20
		}
		for i := range n {
			history = append(history, step(i))
		}
		if e.o.Compact != nil {
			e.compact()
		}
		step(-2)
		e.wantPrefix(slow, history)
		step(-3)
	}},
	{"Watch/a watcher that is behind by many batches gets each revision once", func(e *env) {
		s := e.watch(kind, e.commit(put(key("start"), "")))
		s.wantChanges(change{key("mark"), e.commit(put(key("mark"), "")), "", false})
		const commits, each = 120, 10
		var want []change
		for n := range commits {
			var ops []store.Op
			for i := range each {
				ops = append(ops, put(key(fmt.Sprintf("%d-%d", n, i)), "x"))
			}
			r := e.commit(ops...)
			for i := range each {
				want = append(want, change{key(fmt.Sprintf("%d-%d", n, i)), r, "x", false})
			}
		}
		got := s.changes(len(want))
		byRevision := func(a, b change) int {
			return cmp.Or(cmp.Compare(a.revision, b.revision), strings.Compare(a.key.Name, b.key.Name))
		}
		if !slices.IsSortedFunc(got, func(a, b change) int { return cmp.Compare(a.revision, b.revision) }) {
			e.Errorf("the changes are not in the order of their revisions")
		}
		slices.SortFunc(got, byRevision)
		slices.SortFunc(want, byRevision)
		e.wantSame("watch of "+kind, got, want)
		s.wantChanges(change{key("end"), e.commit(put(key("end"), "")), "", false})
	}},
	{"Watch/ends with the cause of its context", func(e *env) {
		cause := errors.New("no longer wanted")
		ctx, cancel := context.WithCancelCause(e.ctx)
		s := e.watchContext(ctx, kind, 0)
		s.snapshot()
		cancel(cause)
		s.wantEnd(cause)
		ctx, cancel = context.WithCancelCause(e.ctx)
		_, end := e.told(ctx, e.head())
		e.settle()
		cancel(cause)
		select {
		case err := <-end:
			e.wantErr("end of a watch that waited", err, cause)
		case <-e.ctx.Done():
			e.Errorf("a watch that waits does not end with its context")
		}
		over, cause := e.over()
		e.watchContext(over, kind, 0).wantEnd(cause)
	}},
	{"Watch/a busy stream ends with its context too", func(e *env) {
		cause := errors.New("no longer wanted")
		ctx, cancel := context.WithCancelCause(e.ctx)
		defer cancel(nil)
		n := 0
		for b, err := range e.b.Watch(ctx, kind, 0) {
			if err != nil {
				e.wantErr("end of the watch", err, cause)
				return
			}
			if b.Kind == store.BatchChanges || b.Kind == store.BatchSnapshotEnd {
				e.commit(put(key("a"), "x")) // so that there is always more
			}
			if n++; n == 5 {
				cancel(cause)
			}
			if n > 1000 {
				e.Fatalf("%d batches after the context ended", n-5)
			}
		}
	}},
	{"Watch/an impossible kind is ErrInvalid", func(e *env) {
		e.watch("a/b", 0).wantEnd(store.ErrInvalid)
		e.watch("", 1).wantEnd(store.ErrInvalid)
	}},
	{"Watch/a reader may stop at any element", func(e *env) {
		e.fillStore(3)
		for n := range 5 {
			for _, err := range e.b.Watch(e.ctx, kind, 0) {
				if err != nil {
					e.Fatalf("watch: %v", err)
				}
				e.commit(put(key(fmt.Sprint(n)), "x"))
				if n--; n < 0 {
					break
				}
			}
		}
	}},
}

var closeChecks = []check{
	{"Close/every method is ErrClosed afterwards, and watches end with it", func(e *env) {
		e.fillStore(10)
		page, err := e.b.List(e.ctx, kind, store.ListOptions{Limit: 1})
		if err != nil {
			e.Fatalf("List: %v", err)
		}
		s := e.watch(kind, 0)
		s.snapshot()
		_, ended := e.told(e.ctx, e.head())
		e.settle()
		for range 2 {
			if err := e.b.Close(); err != nil {
				e.Errorf("Close: %v", err)
			}
		}
		s.wantEnd(store.ErrClosed)
		e.wantErr("a watch that waited", <-ended, store.ErrClosed)
		_, err = e.b.Get(e.ctx, kind, key("a"))
		e.wantErr("Get", err, store.ErrClosed)
		_, err = e.b.List(e.ctx, kind, store.ListOptions{})
		e.wantErr("List", err, store.ErrClosed)
		_, err = e.b.List(e.ctx, kind, store.ListOptions{Limit: 1, Cursor: page.Cursor})
		e.wantErr("List of another page", err, store.ErrClosed)
		for _, ops := range [][]store.Op{{put(key("a"), "1")}, {del(key("a"))}, nil} {
			_, err = e.b.Commit(e.ctx, store.Txn{Ops: ops})
			e.wantErr(fmt.Sprintf("Commit of %d writes", len(ops)), err, store.ErrClosed)
		}
		_, err = store.ListSlots(e.ctx, e.b, kind, quarter(0), store.ListOptions{})
		e.wantErr("ListSlots", err, store.ErrClosed)
		e.watchSlots(quarter(0), 1).wantEnd(store.ErrClosed)
		e.watch(kind, 0).wantEnd(store.ErrClosed)
		e.watch(kind, 1).wantEnd(store.ErrClosed)
	}},
}

// wantNoGoroutines does something n times and fails if that leaves goroutines, each time
// that it is tried: checks that run beside this one have some too.
func (e *env) wantNoGoroutines(n int, what string, do func()) {
	e.Helper()
	left := 0
	for range 3 {
		before := runtime.NumGoroutine()
		for range n {
			do()
		}
		e.settle()
		if left = runtime.NumGoroutine() - before; left < n/2 {
			return
		}
	}
	e.Errorf("%d %s left %d goroutines", n, what, left)
}

// compactWrites is how many changes make a backend forget older ones.
const compactWrites = 2000

// compact makes the backend forget the history of the kind up to now.
func (e *env) compact() {
	e.Helper()
	if e.o.Compact != nil {
		if err := e.o.Compact(e.ctx, e.b, kind); err != nil {
			e.Fatalf("compact: %v", err)
		}
		return
	}
	for i := range compactWrites {
		e.commit(store.Op{Kind: kind, Key: key("compact"), Put: store.Bytes(fmt.Sprint(i))})
	}
}

// follow reads n changes after a revision. It runs on a goroutine of its own and
// therefore does not end the check.
func (e *env) follow(after store.Revision, n int) (all []change) {
	for b, err := range e.b.Watch(e.ctx, kind, after) {
		if err != nil {
			e.Errorf("watch after %d saw %d of %d changes: %v", after, len(all), n, err)
			return all
		}
		if b.Kind != store.BatchProgress && b.Kind != store.BatchChanges {
			e.Errorf("watch after %d: %v", after, b.Kind)
		}
		if all = append(all, plain(b.Changes)...); len(all) >= n {
			return all
		}
	}
	e.Errorf("watch after %d ended without an error", after)
	return all
}

// scribble makes n commits that each change one record.
func (e *env) scribble(writer, n int) {
	for i := range n {
		k := key(fmt.Sprintf("w%d-%d", writer, i%7))
		op := put(k, fmt.Sprint(i))
		if i%10 == 9 { // the record exists: it was written 7 commits ago
			op = del(k)
		}
		if _, err := e.b.Commit(e.ctx, store.Txn{Ops: []store.Op{op}}); err != nil {
			e.Errorf("Commit: %v", err)
			return
		}
	}
}

// wantState checks that the changes from the beginning lead to what is stored.
func (e *env) wantState(history []change) {
	e.Helper()
	state := make(map[store.Key]string)
	fold(state, history)
	all, rev := e.listAll(kind, store.ListOptions{})
	e.wantRecords("the store, by its history,", all, state, rev)
}

func fold(state map[store.Key]string, changes []change) {
	for _, c := range changes {
		if c.deleted {
			delete(state, c.key)
		} else {
			state[c.key] = c.content
		}
	}
}

// wantPrefix reads a slow stream: it must be the history from its beginning, up
// to its end or to ErrCompacted.
func (e *env) wantPrefix(slow *stream, history []change) {
	e.Helper()
	var got []change
	for len(got) < len(history) {
		b, err, ok := slow.next()
		if err != nil || !ok {
			e.wantErr("end of the slow watch", err, store.ErrCompacted)
			break
		}
		got = append(got, plain(b.Changes)...)
	}
	n := min(len(got), len(history))
	e.wantSame("the slow watcher beside the quick one", got[:n], history[:n])
}

func sorted(cs []change) []change {
	return slices.SortedFunc(slices.Values(cs), func(a, b change) int {
		if a.key.Name < b.key.Name {
			return -1
		}
		return 1
	})
}
