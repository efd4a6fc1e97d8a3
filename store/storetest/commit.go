package storetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tendhq/tend/store"
)

// stamped counts its stamps. It is read as what it says of itself.
type stamped struct {
	times, at atomic.Int64
}

func (s *stamped) Encode() ([]byte, error) { return []byte("stamped"), nil }

func (s *stamped) Stamp(r store.Revision) {
	s.times.Add(1)
	s.at.Store(int64(r))
}

// check compares the stamps with what was read: nothing that is kept was encoded.
func (s *stamped) check(e *env, read store.Value, r store.Revision) {
	e.Helper()
	if read == nil {
		if n := s.times.Load(); n != 0 {
			e.Errorf("a Value that was encoded is stamped %d times", n)
		}
		return
	}
	if n, at := s.times.Load(), s.at.Load(); read != store.Value(s) || n != 1 || at != int64(r) {
		e.Errorf("read is %T, stamped %d times, last with revision %d; want the Value itself, stamped once, with %d", read, n, at, r)
	}
}

// over returns a context that has ended, and its cause.
func (e *env) over() (context.Context, error) {
	cause := errors.New("the caller went away")
	ctx, cancel := context.WithCancelCause(e.ctx)
	cancel(cause)
	return ctx, cause
}

// wantConflict checks that t fails and finds the record current, or none, and
// that it changed nothing.
func (e *env) wantConflict(t store.Txn, current store.Record) {
	e.Helper()
	before := e.head()
	_, err := e.b.Commit(e.ctx, t)
	e.wantErr(fmt.Sprintf("Commit if %v", t.If), err, store.ErrConflict)
	var c *store.ConflictError
	if !errors.As(err, &c) {
		e.Errorf("Commit if %v: %T is no *ConflictError", t.If, err)
		return
	}
	if got, want := show(c.Current), show(current); got != want {
		e.Errorf("conflict of %v:\n got %s\nwant %s", t.If, got, want)
	}
	if after := e.head(); after != before {
		e.Errorf("a commit that failed took the store from revision %d to %d", before, after)
	}
}

func (e *env) wantFenced(ctx context.Context, t store.Txn) {
	e.Helper()
	before := e.head()
	_, err := e.b.Commit(ctx, t)
	e.wantErr(fmt.Sprintf("Commit under the guards %v and %v", t.Guards, store.Guards(ctx)), err, store.ErrFenced)
	if after := e.head(); after != before {
		e.Errorf("a fenced commit took the store from revision %d to %d", before, after)
	}
}

var commitChecks = []check{
	{"Commit/all records of a commit carry its revision", func(e *env) {
		e.commit(put(key("c"), "0"))
		r := e.commit(put(key("a"), "1"), put(key("b"), "2"), del(key("c")),
			store.Op{Kind: "Other", Key: key("a"), Put: store.Bytes("3")})
		e.wantGet(key("a"), r, r, "1")
		e.wantGet(key("b"), r, r, "2")
		e.wantMissing(key("c"))
		if o, err := e.b.Get(e.ctx, "Other", key("a")); err != nil || o.Revision != r {
			e.Errorf("record of another kind: revision %d, error %v, want %d", o.Revision, err, r)
		}
	}},
	{"Commit/revisions grow over all kinds", func(e *env) {
		last := e.head()
		for i := range 20 {
			r := e.commit(store.Op{Kind: fmt.Sprint("kind", i%3), Key: key("a"), Put: store.Bytes("x")})
			if r <= last {
				e.Fatalf("revision %d after %d", r, last)
			}
			last = r
		}
	}},
	{"Commit/with no revisions to compare the record must not exist", func(e *env) {
		r := e.txn(store.Txn{If: []store.Compare{absent(key("a"))}, Ops: []store.Op{put(key("a"), "1")}})
		e.wantConflict(store.Txn{If: []store.Compare{absent(key("a"))}, Ops: []store.Op{put(key("a"), "2")}}, e.get(key("a")))
		e.wantGet(key("a"), r, r, "1")
	}},
	{"Commit/a revision must be equal", func(e *env) {
		r1 := e.commit(put(key("a"), "1"))
		r2 := e.txn(store.Txn{If: []store.Compare{at(key("a"), r1)}, Ops: []store.Op{put(key("a"), "2")}})
		for _, r := range []store.Revision{r1, r2 + 1} {
			e.wantConflict(store.Txn{If: []store.Compare{at(key("a"), r)}, Ops: []store.Op{put(key("a"), "3")}}, e.get(key("a")))
			e.wantConflict(store.Txn{If: []store.Compare{at(key("a"), r)}, Ops: []store.Op{del(key("a"))}}, e.get(key("a")))
		}
		e.wantGet(key("a"), r1, r2, "2")
		e.txn(store.Txn{If: []store.Compare{at(key("a"), r2)}, Ops: []store.Op{del(key("a"))}})
		e.wantConflict(store.Txn{If: []store.Compare{at(key("a"), r2)}, Ops: []store.Op{put(key("a"), "4")}}, store.Record{})
		e.wantMissing(key("a"))
	}},
	{"Commit/a create revision must be equal", func(e *env) {
		r1 := e.commit(put(key("a"), "1"))
		r2 := e.commit(put(key("a"), "2"))
		born := store.Compare{Kind: kind, Key: key("a"), Created: r1}
		e.txn(store.Txn{If: []store.Compare{born}, Ops: []store.Op{put(key("b"), "1")}})
		e.wantConflict(store.Txn{If: []store.Compare{{Kind: kind, Key: key("a"), Created: r2}}}, e.get(key("a")))
		both := store.Compare{Kind: kind, Key: key("a"), Created: r1, Revision: r2}
		e.txn(store.Txn{If: []store.Compare{both}})
		e.wantConflict(store.Txn{If: []store.Compare{{Kind: kind, Key: key("a"), Created: r1, Revision: r1}}}, e.get(key("a")))
		e.wantConflict(store.Txn{If: []store.Compare{{Kind: kind, Key: key("a"), Created: r2, Revision: r2}}}, e.get(key("a")))
		e.wantConflict(store.Txn{If: []store.Compare{{Kind: kind, Key: key("a"), Created: r2, Revision: r2}}, Ops: []store.Op{put(key("a"), "4")}}, e.get(key("a")))
		e.commit(del(key("a")))
		e.commit(put(key("a"), "3"))
		e.wantConflict(store.Txn{If: []store.Compare{born}, Ops: []store.Op{put(key("b"), "2")}}, e.get(key("a")))
	}},
	{"Commit/a conflict names the first condition that does not hold", func(e *env) {
		r := e.commit(put(key("a"), "1"), put(key("b"), "1"))
		_, err := e.b.Commit(e.ctx, store.Txn{If: []store.Compare{at(key("a"), r), at(key("b"), r+1), absent(key("a"))}})
		var c *store.ConflictError
		if !errors.As(err, &c) || c.Want != at(key("b"), r+1) || c.Current.Key != key("b") {
			e.Errorf("got %+v, want the conflict of %v", err, at(key("b"), r+1))
		}
	}},
	{"Commit/happens whole or not at all", func(e *env) {
		r := e.commit(put(key("a"), "1"), put(key("b"), "1"))
		e.wantConflict(store.Txn{
			If:  []store.Compare{at(key("a"), r), absent(key("b"))},
			Ops: []store.Op{put(key("a"), "2"), put(key("c"), "2"), del(key("b"))},
		}, e.get(key("b")))
		e.wantGet(key("a"), r, r, "1")
		e.wantGet(key("b"), r, r, "1")
		e.wantMissing(key("c"))
	}},
	{"Commit/conditions see the state before the writes", func(e *env) {
		r := e.txn(store.Txn{If: []store.Compare{absent(key("a")), absent(key("b"))}, Ops: []store.Op{put(key("a"), "1"), put(key("b"), "1")}})
		e.wantGet(key("b"), r, r, "1")
	}},
	{"Commit/a guard that does not hold is ErrFenced, before any conflict", func(e *env) {
		r := e.commit(put(key("lease"), "me"))
		mine := store.Compare{Kind: kind, Key: key("lease"), Created: r}
		e.txn(store.Txn{Guards: []store.Compare{mine}, Ops: []store.Op{put(key("a"), "1")}})
		e.commit(del(key("lease")))
		e.wantFenced(e.ctx, store.Txn{Guards: []store.Compare{mine}, If: []store.Compare{absent(key("a"))}, Ops: []store.Op{put(key("a"), "2")}})
		e.commit(put(key("lease"), "you"))
		e.wantFenced(e.ctx, store.Txn{Guards: []store.Compare{mine}, Ops: []store.Op{del(key("a"))}})
		if data, _ := e.get(key("a")).Encode(); string(data) != "1" {
			e.Errorf("a fenced commit wrote %q", data)
		}
	}},
	{"Commit/conditions and guards on another kind count, whatever is written", func(e *env) {
		other := store.Op{Kind: "Other", Key: key("a"), Put: store.Bytes("1")}
		there := e.commit(put(key("a"), "1"), other)
		newer := e.commit(put(key("a"), "2")) // the record of the same key
		current, err := e.b.Get(e.ctx, "Other", key("a"))
		if err != nil {
			e.Fatalf("Get: %v", err)
		}
		holds := store.Compare{Kind: "Other", Key: key("a"), Created: there, Revision: there}
		for _, ops := range [][]store.Op{nil, {put(key("a"), "3")}, {del(key("a"))}, {del(key("none"))}, {put(key("b"), "3"), other}} {
			for _, c := range []store.Compare{
				{Kind: "Other", Key: key("a")},
				{Kind: "Other", Key: key("a"), Created: newer},
				{Kind: "Other", Key: key("a"), Revision: newer},
			} {
				e.wantConflict(store.Txn{If: []store.Compare{c}, Ops: ops}, current)
				e.wantFenced(e.ctx, store.Txn{Guards: []store.Compare{c}, Ops: ops})
				e.wantFenced(store.WithGuard(e.ctx, c), store.Txn{Ops: ops})
			}
			c := store.Compare{Kind: "Other", Key: key("none"), Created: there}
			e.wantConflict(store.Txn{If: []store.Compare{c}, Ops: ops}, store.Record{})
			e.wantFenced(store.WithGuard(e.ctx, c), store.Txn{Ops: ops})
		}
		e.wantGet(key("a"), there, newer, "2")
		r := e.txn(store.Txn{Guards: []store.Compare{holds}, If: []store.Compare{holds}, Ops: []store.Op{put(key("a"), "3")}})
		e.wantGet(key("a"), there, r, "3")
	}},
	{"Commit/every guard in the context must hold", func(e *env) {
		guarded := func() context.Context {
			ctx := store.WithGuard(e.ctx, store.Compare{Kind: kind, Key: key("one"), Created: e.get(key("one")).Created})
			ctx = store.WithGuard(ctx, at(key("two"), e.get(key("two")).Revision))
			return context.WithoutCancel(ctx)
		}
		e.commit(put(key("one"), "me"), put(key("two"), "me"))
		for _, lost := range []string{"one", "two"} {
			ctx := guarded()
			if _, err := e.b.Commit(ctx, store.Txn{Ops: []store.Op{put(key("a"), "1")}}); err != nil {
				e.Errorf("Commit under guards that hold: %v", err)
			}
			e.commit(del(key(lost)))
			e.wantFenced(ctx, store.Txn{Ops: []store.Op{put(key("a"), "2")}})
			e.commit(put(key(lost), "me"))
			e.wantFenced(ctx, store.Txn{Ops: []store.Op{put(key("a"), "2")}})
		}
		ctx := guarded()
		e.commit(del(key("one")))
		if _, err := e.b.Commit(store.WithoutGuards(ctx), store.Txn{Ops: []store.Op{put(key("a"), "3")}}); err != nil {
			e.Errorf("Commit without guards: %v", err)
		}
	}},
	{"Commit/deleting what does not exist changes nothing", func(e *env) {
		r := e.commit(put(key("a"), "1"))
		s := e.watch(kind, r)
		if got := e.commit(del(key("b"))); got != r {
			e.Errorf("revision %d, want the current %d", got, r)
		}
		mark := e.commit(put(key("mark"), ""))
		s.wantChanges(change{key("mark"), mark, "", false})
	}},
	{"Commit/without writes returns the current revision", func(e *env) {
		r := e.commit(put(key("a"), "1"))
		if got := e.txn(store.Txn{}); got != r {
			e.Errorf("empty transaction: revision %d, want %d", got, r)
		}
		if got := e.txn(store.Txn{If: []store.Compare{at(key("a"), r)}}); got != r {
			e.Errorf("transaction of one condition: revision %d, want %d", got, r)
		}
	}},
	{"Commit/takes MaxTxn conditions and writes and no more", func(e *env) {
		var t store.Txn
		for i := range store.MaxTxn {
			k := key(fmt.Sprint(i))
			t.If = append(t.If, absent(k))
			t.Ops = append(t.Ops, put(k, "x"))
		}
		e.txn(t)
		if all, _ := e.listAll(kind, store.ListOptions{}); len(all) != store.MaxTxn {
			e.Errorf("%d records, want %d", len(all), store.MaxTxn)
		}
		_, err := e.b.Commit(e.ctx, store.Txn{Ops: append(t.Ops, put(key("more"), "x"))})
		e.wantErr("one write more", err, store.ErrInvalid)
		_, err = e.b.Commit(e.ctx, store.Txn{If: t.If, Guards: t.If[:1]})
		e.wantErr("one condition more", err, store.ErrInvalid)
		e.wantMissing(key("more"))
	}},
	{"Commit/takes MaxTxnBytes in one transaction and no more", func(e *env) {
		e.commit(store.Op{Kind: kind, Key: key("probe"), Put: paddedValue(1)})
		if e.get(key("probe")).Value != nil {
			return // it keeps values as they are
		}
		var t store.Txn
		for i := range store.MaxTxn { // with the longest keys, all of them compared
			k := store.Key{Namespace: strings.Repeat("n", store.MaxNamespace), Name: fmt.Sprintf("%0*d", store.MaxName, i)}
			t.If = append(t.If, absent(k))
			t.Ops = append(t.Ops, put(k, "x"))
		}
		t.Ops[0].Put = paddedValue(store.MaxValue)
		t.Ops[1].Put = paddedValue(store.MaxTxnBytes - store.MaxValue - store.MaxTxn + 3)
		_, err := e.b.Commit(e.ctx, t)
		e.wantErr("one byte more", err, store.ErrInvalid)
		if errors.Is(err, store.ErrUnknownOutcome) {
			e.Errorf("the outcome of a transaction that is too large is said to be unknown")
		}
		e.wantMissing(t.Ops[0].Key)
		t.Ops[1].Put = paddedValue(store.MaxTxnBytes - store.MaxValue - store.MaxTxn + 2)
		e.txn(t)
		for i := range t.Ops {
			e.get(t.Ops[i].Key)
		}
	}},
	{"Commit/writing one record twice is ErrInvalid", func(e *env) {
		_, err := e.b.Commit(e.ctx, store.Txn{Ops: []store.Op{put(key("a"), "1"), del(key("a"))}})
		e.wantErr("Commit", err, store.ErrInvalid)
		e.wantMissing(key("a"))
	}},
	{"Commit/a value that cannot be encoded or is too long fails a backend of bytes", func(e *env) {
		e.commit(store.Op{Kind: kind, Key: key("probe"), Put: paddedValue(1)})
		if e.get(key("probe")).Value != nil {
			return // it keeps values as they are
		}
		for name, v := range map[string]store.Value{"broken": brokenValue{}, "long": paddedValue(store.MaxValue + 1)} {
			_, err := e.b.Commit(e.ctx, store.Txn{Ops: []store.Op{put(key("other"), "1"), {Kind: kind, Key: key(name), Put: v}}})
			if err == nil || name == "long" && !errors.Is(err, store.ErrInvalid) {
				e.Errorf("Commit of a %s value: got error %v", name, err)
			}
			e.wantMissing(key(name))
			e.wantMissing(key("other"))
		}
	}},
	{"Commit/a long value comes back whole", func(e *env) {
		content := strings.Repeat("0123456789abcdef", store.MaxValue/16)
		r := e.commit(put(key("a"), content))
		if data, err := e.get(key("a")).Encode(); err != nil || string(data) != content {
			e.Errorf("got %d bytes, error %v, want %d bytes at revision %d", len(data), err, len(content), r)
		}
	}},
	{"Commit/whose context ends under way was made, was not, or says that it cannot tell", func(e *env) {
		for i := range 20 {
			ctx, cancel := context.WithCancel(e.ctx)
			var canceled sync.WaitGroup
			canceled.Go(func() {
				for range i {
					runtime.Gosched()
				}
				cancel()
			})
			a, b := key(fmt.Sprint("a", i)), key(fmt.Sprint("b", i))
			r, err := e.b.Commit(ctx, store.Txn{Ops: []store.Op{put(a, "1"), put(b, "1")}})
			canceled.Wait()
			switch {
			case err == nil:
				e.wantGet(a, r, r, "1")
				e.wantGet(b, r, r, "1")
			case !errors.Is(err, store.ErrUnknownOutcome): // any other promises that nothing was written
				e.wantMissing(a)
				e.wantMissing(b)
			}
		}
	}},
	{"Commit/a Value that is kept is stamped with its revision, once, before it is read", func(e *env) {
		first := &stamped{}
		r := e.commit(store.Op{Kind: kind, Key: key("a"), Put: first})
		first.check(e, e.get(key("a")).Value, r)
		refused := &stamped{}
		_, err := e.b.Commit(e.ctx, store.Txn{If: []store.Compare{absent(key("a"))}, Ops: []store.Op{{Kind: kind, Key: key("a"), Put: refused}}})
		e.wantErr("Commit", err, store.ErrConflict)
		if n := refused.times.Load(); n != 0 {
			e.Errorf("a Value that was not written is stamped %d times", n)
		}
		var late *stamped
		for batch, err := range e.b.Watch(e.ctx, kind, 0) {
			if err != nil {
				e.Fatalf("Watch: %v", err)
			}
			if late == nil && batch.Kind == store.BatchSnapshotEnd {
				late = &stamped{}
				r = e.commit(store.Op{Kind: kind, Key: key("b"), Put: late})
			}
			if late != nil && batch.Kind == store.BatchChanges {
				late.check(e, batch.Changes[0].Value, r)
				break
			}
		}
	}},
	{"Commit/with a context that is over writes nothing", func(e *env) {
		ctx, cause := e.over()
		_, err := e.b.Commit(ctx, store.Txn{Ops: []store.Op{put(key("a"), "1")}})
		e.wantErr("Commit", err, cause)
		if errors.Is(err, store.ErrUnknownOutcome) {
			e.Errorf("outcome of a commit that never began is said to be unknown")
		}
		e.wantMissing(key("a"))
	}},
	{"Commit/of many writers of one record exactly one wins each time", func(e *env) {
		const writers, each = 8, 10
		e.commit(put(key("n"), "0"))
		var won atomic.Int64
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() {
				for range each {
					if err := e.increment(); err != nil {
						e.Errorf("increment: %v", err)
						return
					}
					won.Add(1)
				}
			})
		}
		wg.Wait()
		if data, _ := e.get(key("n")).Encode(); string(data) != fmt.Sprint(won.Load()) {
			e.Errorf("%d increments were acknowledged, the record says %s", won.Load(), data)
		}
	}},
	{"Commit/of owners that let go of an object at once the last one deletes it, once", func(e *env) {
		const owners = 8
		s, err := store.New[struct{}, struct{}](e.b, kind, nil)
		if err != nil {
			e.Fatal(err)
		}
		o := &owned{Meta: store.Meta{Namespace: "ns", Name: "a"}}
		for n := range owners {
			o.AddFinalizer(fmt.Sprint("owner", n))
		}
		if o, err = s.Create(e.ctx, o); err == nil {
			err = s.Delete(e.ctx, o)
		}
		if err != nil {
			e.Fatal(err)
		}
		var wg sync.WaitGroup
		for n := range owners {
			wg.Go(func() {
				if _, err := s.Mutate(e.ctx, o.Key(), func(o *owned) error {
					o.RemoveFinalizer(fmt.Sprint("owner", n))
					return nil
				}); err != nil {
					e.Errorf("owner %d: %v", n, err)
				}
			})
		}
		wg.Wait()
		e.wantMissing(o.Key())
		changes := e.watch(kind, o.Revision).raw(1 + owners) // marked, and one for each
		for i, c := range changes {
			seen, err := s.Decode(c.Record)
			switch {
			case err != nil:
				e.Errorf("change %d: %v", i, err)
			case c.Deleted != (i == owners):
				e.Errorf("change %d of %d: deleted is %v", i, len(changes), c.Deleted)
			case !c.Deleted && len(seen.Finalizers) != owners-i:
				e.Errorf("after %d owners had let go there are %d of %d finalizers", i, len(seen.Finalizers), owners)
			}
		}
	}},
}

// owned is an object of which only the finalizers matter.
type owned = store.Object[struct{}, struct{}]

// increment adds one to the number in record n by compare-and-swap.
func (e *env) increment() error {
	for {
		r, err := e.b.Get(e.ctx, kind, key("n"))
		if err != nil {
			return err
		}
		data, err := r.Encode()
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(data))
		if err != nil {
			return err
		}
		_, err = e.b.Commit(e.ctx, store.Txn{
			If:  []store.Compare{at(key("n"), r.Revision)},
			Ops: []store.Op{put(key("n"), strconv.Itoa(n+1))},
		})
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}

type brokenValue struct{}

func (brokenValue) Encode() ([]byte, error) { return nil, errors.New("cannot be encoded") }

// paddedValue encodes to so many bytes.
type paddedValue int

func (n paddedValue) Encode() ([]byte, error) { return make([]byte, n), nil }
