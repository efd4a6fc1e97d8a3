package storetest

import (
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/tendhq/tend/store"
)

// quarter is a fourth of the slots.
func quarter(i int) store.SlotSet { return store.SlotsOf(i, 4) }

// fewSlots are so few that a backend may read each by itself: some of fillStore's keys, and of an author's.
var fewSlots = func() (few store.SlotSet) {
	for i := range 4 {
		k := keyIn(i, i)
		for _, k := range []store.Key{k, {Namespace: k.Namespace + "1", Name: k.Name}, keyIn(i, 9)} {
			few.Add(store.Slot(k))
		}
	}
	for i := range 12 {
		few.Add(store.Slot(store.Key{Namespace: fmt.Sprint("ns", i%2), Name: fmt.Sprint("n", 5*i)}))
	}
	return few
}()

// keyIn returns a key of a quarter of the slots; different numbers are different keys.
func keyIn(i, number int) store.Key {
	slots := quarter(i)
	for n := number << 16; ; n++ {
		if k := key(fmt.Sprint("q", n)); slots.HasKey(k) {
			return k
		}
	}
}

func of(all map[store.Key]string, slots store.SlotSet) map[store.Key]string {
	some := make(map[store.Key]string)
	for k, v := range all {
		if slots.HasKey(k) {
			some[k] = v
		}
	}
	return some
}

// listSlots reads a whole list.
func (e *env) listSlots(slots store.SlotSet, o store.ListOptions) (all []store.Record, rev store.Revision) {
	e.Helper()
	for {
		p, err := store.ListSlots(e.ctx, e.b, kind, slots, o)
		if err != nil {
			e.Fatalf("ListSlots(%v, %+v): %v", slots, o, err)
		}
		if rev != 0 && p.Revision != rev {
			e.Errorf("a page of revision %d in a list of %d", p.Revision, rev)
		}
		all, rev = append(all, p.Records...), p.Revision
		if o.Cursor = p.Cursor; o.Cursor == "" {
			return all, rev
		}
	}
}

// watchSlots begins a watch of some slots that ends with the check.
func (e *env) watchSlots(slots store.SlotSet, after store.Revision) *stream {
	next, stop := iter.Pull2(store.WatchSlots(e.ctx, e.b, kind, slots, after))
	e.Cleanup(stop)
	return &stream{e: e, kind: kind, next: next, at: after, live: after != 0}
}

// follow reads up to and with a revision, which no change of the watch's slots need have.
func (s *stream) follow(upTo store.Revision) (all []change) {
	s.e.Helper()
	for s.at < upTo {
		all = append(all, plain(s.batch().Changes)...)
	}
	return all
}

var slotChecks = []check{
	{"Slots/a list has the records of these slots and no others", func(e *env) {
		want := e.fillStore(60)
		for _, limit := range []int{0, 1, 7, 1000} {
			for i := range 4 {
				all, rev := e.listSlots(quarter(i), store.ListOptions{Limit: limit})
				e.wantRecords(fmt.Sprintf("quarter %d with a limit of %d", i, limit), all, of(want, quarter(i)), rev)
				all, rev = e.listSlots(quarter(i), store.ListOptions{Namespace: "ns1", Limit: limit})
				e.wantRecords(fmt.Sprintf("quarter %d of ns1 with a limit of %d", i, limit), all, only(of(want, quarter(i)), "ns1"), rev)
			}
		}
		for _, limit := range []int{0, 1, 7} {
			all, rev := e.listSlots(fewSlots, store.ListOptions{Limit: limit})
			e.wantRecords(fmt.Sprintf("few slots with a limit of %d", limit), all, of(want, fewSlots), rev)
		}
		if all, rev := e.listSlots(store.SlotSet{}, store.ListOptions{}); len(all) != 0 || rev != e.head() {
			e.Errorf("no slots: got %d records at %d, want none at %d", len(all), rev, e.head())
		}
		all, rev := e.listSlots(store.AllSlots(), store.ListOptions{})
		e.wantRecords("all slots", all, want, rev)
	}},
	{"Slots/pages show one instant whatever is written meanwhile", func(e *env) {
		want := of(e.fillStore(60), quarter(1))
		var got []store.Record
		o := store.ListOptions{Limit: 3}
		for i := 0; ; i++ {
			p, err := store.ListSlots(e.ctx, e.b, kind, quarter(1), o)
			if err != nil {
				e.Fatalf("page %d: %v", i, err)
			}
			got = append(got, p.Records...)
			if o.Cursor = p.Cursor; o.Cursor == "" {
				e.wantRecords("ListSlots", got, want, p.Revision)
				return
			}
			if i < 20 { // a list that is not pinned ends nevertheless
				e.disturb(i)
				e.commit(put(keyIn(1, i), "new"))
			}
		}
	}},
	{"Slots/a watch sends a snapshot of these slots, and then their changes", func(e *env) {
		want := e.fillStore(40)
		s := e.watchSlots(quarter(2), 0)
		all, rev := s.snapshot()
		e.wantRecords("snapshot", all, of(want, quarter(2)), rev)
		a, b := keyIn(2, 1), keyIn(3, 1)
		e.commit(put(b, "x"))
		r1 := e.commit(put(a, "1"))
		r2 := e.commit(put(b, "y"), put(a, "2"), put(keyIn(1, 1), "z"))
		e.commit(del(b))
		r3 := e.commit(del(a))
		s.wantChanges(change{a, r1, "1", false}, change{a, r2, "2", false}, change{a, r3, "2", true})
	}},
	{"Slots/a commit to other slots is told as progress", func(e *env) {
		s := e.watchSlots(quarter(0), e.commit(put(keyIn(0, 1), "1")))
		for i := range 3 {
			if got := s.follow(e.commit(put(keyIn(1+i, 1), "x"))); len(got) != 0 {
				e.Errorf("changes of other slots: %v", got)
			}
		}
		if got := s.follow(e.commit(del(keyIn(1, 1)))); len(got) != 0 {
			e.Errorf("a deletion of another slot: %v", got)
		}
	}},
	{"Slots/after a revision exactly what changed since", func(e *env) {
		var all []change
		for i := range 24 {
			k := keyIn(i%4, i%8)
			all = append(all, change{k, e.commit(put(k, fmt.Sprint(i))), fmt.Sprint(i), false})
		}
		for i := range 4 {
			for _, from := range []int{0, 5, 23} {
				want := slices.DeleteFunc(slices.Clone(all[from+1:]), func(c change) bool { s := quarter(i); return !s.HasKey(c.key) })
				mark := keyIn(i, 100+from)
				want = append(want, change{mark, e.commit(put(mark, "")), "", false})
				s := e.watchSlots(quarter(i), all[from].revision)
				e.wantSame(fmt.Sprintf("quarter %d after number %d", i, from), withoutMarks(s.follow(want[len(want)-1].revision), mark), want)
			}
		}
	}},
	{"Slots/watches of different slots that begin while records are written miss nothing", func(e *env) {
		start := e.commit(put(key("start"), ""))
		first := e.watchSlots(quarter(0), start) // the others begin while it runs
		first.follow(e.commit(put(keyIn(0, 0), "")))
		var writers sync.WaitGroup
		for w := range 3 {
			writers.Go(func() { e.scribble(w, 60) })
		}
		streams := make([]*stream, 8)
		for i := range streams {
			streams[i] = e.watchSlots(quarter(i%4), start)
			streams[i].batch()
		}
		writers.Wait()
		end := e.commit(put(key("end"), ""))
		whole := e.watch(kind, start).follow(end)
		for i, s := range streams {
			restarted := e.watchSlots(quarter(i%4), start)
			got := restarted.follow(end)
			slots := quarter(i % 4)
			want := slices.DeleteFunc(slices.Clone(whole), func(c change) bool { return !slots.HasKey(c.key) })
			e.wantSame(fmt.Sprintf("quarter %d", i%4), got, want)
			from := s.at
			late := slices.DeleteFunc(slices.Clone(want), func(c change) bool { return c.revision <= from })
			e.wantSame(fmt.Sprintf("quarter %d, begun while records were written", i%4), s.follow(end), late)
		}
	}},
	{"Slots/a watch from before another one of its slots began misses nothing", func(e *env) {
		first := e.watchSlots(quarter(0), 0) // a stream of these slots alone, which goes on
		first.snapshot()
		start := e.commit(put(keyIn(0, 0), ""))
		a := keyIn(1, 0)
		r1 := e.commit(put(a, "1"))
		first.follow(r1)
		r2 := e.commit(put(a, "2"))
		e.watchSlots(quarter(1), r1).wantChanges(change{a, r2, "2", false})
		e.watchSlots(quarter(1), start).wantChanges(change{a, r1, "1", false}, change{a, r2, "2", false})
	}},
	{"Slots/a context that is over gives its cause", func(e *env) {
		e.commit(put(keyIn(0, 0), "1"))
		ctx, cause := e.over()
		_, err := store.ListSlots(ctx, e.b, kind, quarter(0), store.ListOptions{})
		e.wantErr("ListSlots", err, cause)
		var last error
		for _, last = range store.WatchSlots(ctx, e.b, kind, quarter(0), 0) {
			if last != nil {
				break
			}
		}
		e.wantErr("WatchSlots", last, cause)
	}},
	{"Slots/a revision that is not in the history is ErrCompacted", func(e *env) {
		old := e.commit(put(keyIn(0, 1), "1"))
		e.commit(put(keyIn(0, 1), "2"))
		e.watchSlots(quarter(0), e.head()+1000).wantEnd(store.ErrCompacted)
		e.compact()
		e.watchSlots(quarter(0), old).wantEnd(store.ErrCompacted)
	}},
}

// withoutMarks drops the marks of the streams before that another key has.
func withoutMarks(all []change, mine store.Key) []change {
	return slices.DeleteFunc(all, func(c change) bool { return c.content == "" && c.key != mine })
}
