package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/tendhq/tend/store"
)

// A view is a way to read a part of a history: a kind, or some slots of it.
type view struct {
	kind  string
	slots store.SlotSet
}

func (v *view) String() string {
	return fmt.Sprintf("%s in %d slots", v.kind, v.slots.Len())
}

func views() (all []view) {
	for _, k := range []string{kind, otherKind} {
		all = append(all, view{k, store.AllSlots()})
	}
	for i := range 4 {
		all = append(all, view{kind, quarter(i)})
	}
	all = append(all, view{kind, fewSlots})
	return append(all, view{otherKind, quarter(0).Union(quarter(3))})
}

const otherKind = "Thing2" // kind is a prefix of it

// of are the changes after a revision that the view lets through.
func (v *view) of(log []logged, after store.Revision) (some []change) {
	for _, c := range log {
		if c.kind == v.kind && c.revision > after && v.slots.HasKey(c.key) {
			some = append(some, c.change)
		}
	}
	return some
}

func (v *view) watch(e *env, after store.Revision) (s *stream, stop func()) {
	next, stop := iter.Pull2(store.WatchSlots(e.ctx, e.b, v.kind, v.slots, after))
	return &stream{e: e, kind: v.kind, next: next, at: after, live: after != 0}, stop
}

// resumes reads what the view gets after a revision, which is to be want, or nothing
// but ErrCompacted: then it reports false.
func (v *view) resumes(e *env, after store.Revision, want []change) bool {
	e.Helper()
	s, stop := v.watch(e, after)
	defer stop()
	var got []change
	for len(got) < len(want) {
		b, err, ok := s.next()
		if len(got) == 0 && errors.Is(err, store.ErrCompacted) {
			return false
		}
		if err != nil || !ok {
			e.Errorf("%v after %d: the watch ended after %d of %d changes: %v", v, after, len(got), len(want), err)
			return true
		}
		s.check(b)
		got = append(got, plain(b.Changes)...)
	}
	e.wantSame(fmt.Sprintf("%v after %d", v, after), byKey(got), byKey(want))
	return true
}

// lists reads what the view has at a revision, which is what the log made until then, or
// nothing but ErrCompacted: then it reports false.
func (v *view) lists(e *env, log []logged, at store.Revision) bool {
	e.Helper()
	want := make(map[store.Key]string)
	fold(want, v.of(slices.DeleteFunc(slices.Clone(log), func(c logged) bool { return c.revision > at }), 0))
	var got []store.Record
	for o := (store.ListOptions{At: at, Limit: 3}); ; {
		p, err := store.ListSlots(e.ctx, e.b, v.kind, v.slots, o)
		if errors.Is(err, store.ErrCompacted) {
			return false
		}
		if err != nil || p.Revision != at {
			e.Errorf("%v at %d: a page of revision %d: %v", v, at, p.Revision, err)
			return true
		}
		got = append(got, p.Records...)
		if o.Cursor = p.Cursor; o.Cursor == "" {
			e.wantRecords(fmt.Sprintf("%v at %d", v, at), got, want, at)
			return true
		}
	}
}

// logged is a change of a kind.
type logged struct {
	change
	kind string
}

// byKey puts the changes of one revision in one order.
func byKey(cs []change) []change {
	return slices.SortedStableFunc(slices.Values(cs), func(a, b change) int {
		return cmp.Or(cmp.Compare(a.revision, b.revision), strings.Compare(a.key.String(), b.key.String()))
	})
}

// An author commits at random, and keeps the log of it.
type author struct {
	e    *env
	rnd  *rand.Rand
	log  []logged
	live map[string]string // by kind and key
	keys []store.Key
}

func (e *env) author() *author {
	a := &author{e: e, rnd: rand.New(rand.NewPCG(15, 0)), live: make(map[string]string)}
	for i := range 8 {
		k := keyIn(i%4, i)
		a.keys = append(a.keys, k, store.Key{Namespace: k.Namespace + "1", Name: k.Name})
	}
	return a
}

// commit changes the keys of the kinds, each at random: made, changed or deleted.
func (a *author) commit(kinds []string, keys []store.Key, deletes bool) store.Revision {
	var t store.Txn
	var cs []logged
	for _, kind := range kinds {
		for _, k := range keys {
			id := kind + " " + k.String()
			was, exists := a.live[id]
			op, c := store.Op{Kind: kind, Key: k}, change{key: k, content: was, deleted: true}
			if !exists || !deletes || a.rnd.IntN(3) > 0 {
				c.content, c.deleted = fmt.Sprint(len(a.log), id), false
				op.Put = store.Bytes(c.content)
			}
			t.Ops, cs = append(t.Ops, op), append(cs, logged{c, kind})
			if a.live[id] = c.content; c.deleted {
				delete(a.live, id)
			}
		}
	}
	r := a.e.txn(t)
	for _, c := range cs {
		c.revision = r
		a.log = append(a.log, c)
	}
	return r
}

// some commits n times, and in the end a change that each view shows.
func (a *author) some(n int) (head store.Revision) {
	for range n {
		kinds := []string{kind, otherKind}[a.rnd.IntN(2):]
		if a.rnd.IntN(3) == 0 {
			kinds = []string{kind}
		}
		a.rnd.Shuffle(len(a.keys), func(i, j int) { a.keys[i], a.keys[j] = a.keys[j], a.keys[i] })
		a.commit(kinds, a.keys[:1+a.rnd.IntN(4)], true)
	}
	return a.mark()
}

func (a *author) mark() store.Revision {
	return a.commit([]string{kind, otherKind}, []store.Key{keyIn(0, 9), keyIn(1, 9), keyIn(2, 9), keyIn(3, 9)}, false)
}

// held counts the revisions, in rising order, whose history is held. One that is not held
// may only come before those that are. It asks for all at once: a server takes its time.
func held(e *env, what string, revisions []store.Revision, is func(store.Revision) bool) (n int) {
	e.Helper()
	held := make([]bool, len(revisions))
	var wg sync.WaitGroup
	for i, r := range revisions {
		wg.Go(func() { held[i] = is(r) })
	}
	wg.Wait()
	for i, r := range revisions {
		switch {
		case held[i]:
			n++
		case n > 0:
			e.Errorf("%s: revision %d is not held, and %d is", what, r, revisions[i-1])
		}
	}
	return n
}

// eachView calls f for all views at once.
func eachView(f func(v *view)) {
	var wg sync.WaitGroup
	for _, v := range views() {
		wg.Go(func() { f(&v) })
	}
	wg.Wait()
}

func between(from, to store.Revision) (all []store.Revision) {
	for r := max(from, 1); r <= to; r++ {
		all = append(all, r)
	}
	return all
}

var historyChecks = []check{
	{"History/is resumed and listed at every revision, through each filter", func(e *env) {
		a := e.author()
		head := a.some(15)
		all := between(a.log[0].revision-1, head)
		eachView(func(v *view) {
			before := all[:len(all)-1]
			if n := held(e, v.String(), before, func(r store.Revision) bool { return v.resumes(e, r, v.of(a.log, r)) }); n < len(before) {
				e.Errorf("%v: of %d revisions of a short history %d are held", v, len(before), n)
			}
			if held(e, v.String(), all, func(r store.Revision) bool { return v.lists(e, a.log, r) }) == 0 {
				e.Errorf("%v has no list at %d, which is the newest", v, head)
			}
		})
	}},
	{"History/is resumed from its newest revision, and not from beyond", func(e *env) {
		a := e.author()
		head := a.some(3)
		var streams []*stream
		for _, v := range views() {
			beyond, stop := v.watch(e, head+1)
			beyond.wantEnd(store.ErrCompacted)
			stop()
			_, err := store.ListSlots(e.ctx, e.b, v.kind, v.slots, store.ListOptions{At: head + 1})
			e.wantErr(fmt.Sprintf("a list of %v at %d, which is not reached", &v, head+1), err, store.ErrInvalid)
			s, stop := v.watch(e, head)
			e.Cleanup(stop)
			streams = append(streams, s)
		}
		a.mark()
		for i, v := range views() {
			want := v.of(a.log, head)
			e.wantSame(fmt.Sprintf("%v after the newest", &v), byKey(streams[i].changes(len(want))), byKey(want))
		}
	}},
	{"History/what is left of one that was cut is whole", func(e *env) {
		a := e.author()
		cut := a.some(6)
		if e.o.Compact != nil {
			e.compact()
		} else {
			for range compactWrites {
				a.commit([]string{kind}, []store.Key{key("compact")}, false)
			}
		}
		head := a.some(6)
		eachView(func(v *view) {
			resumes := func(r store.Revision) bool { return v.resumes(e, r, v.of(a.log, r)) }
			first := cut + store.Revision(sort.Search(int(head-cut)-1, func(n int) bool { return resumes(cut + store.Revision(n)) }))
			some := slices.Concat(between(a.log[0].revision, cut), between(first-2, first+2), between(head-10, head-1))
			slices.Sort(some)
			some = slices.DeleteFunc(slices.Compact(some), func(r store.Revision) bool { return r >= head })
			if held(e, v.String(), some, resumes) == 0 {
				e.Errorf("%v after %d, right before the newest change: %v", v, head-1, store.ErrCompacted)
			}
			held(e, v.String(), some, func(r store.Revision) bool { return v.lists(e, a.log, r) })
		})
	}},
}
