package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/tendhq/tend/store"
)

// leased is a check of leases. On a backend without any it is one that they are
// refused.
func leased(f func(e *env, l store.Leaser)) func(*env) {
	return func(e *env) {
		if l, ok := e.b.(store.Leaser); ok {
			f(e, l)
			return
		}
		op := put(key("a"), "1")
		op.Lease = 1
		_, err := e.b.Commit(e.ctx, store.Txn{Ops: []store.Op{op}})
		e.wantErr("a put bound to a lease on a backend without leases", err, store.ErrInvalid)
	}
}

func (e *env) grant(l store.Leaser, ttl time.Duration) store.LeaseID {
	e.Helper()
	id, err := l.Grant(e.ctx, ttl)
	if err != nil || id == 0 {
		e.Fatalf("Grant: lease %d, error %v", id, err)
	}
	e.leases = append(e.leases, id)
	return id
}

// revokeAll ends what the check left: on a backend that shares its server with
// others, the end of a lease is a commit in the midst of another check.
func (e *env) revokeAll() {
	if l, ok := e.b.(store.Leaser); ok {
		for _, id := range e.leases {
			_ = l.Revoke(e.ctx, id) // it may have ended, or the backend be closed
		}
	}
}

func bound(name string, id store.LeaseID) store.Op {
	op := put(key(name), name)
	op.Lease = id
	return op
}

// keepAlive renews a lease for half as long again as it lives, and checks that
// its record is there all the time. It says no when this process was held up
// until the lease could rightly have expired: that proves nothing either way.
func (e *env) keepAlive(l store.Leaser, name string) (judged bool) {
	e.Helper()
	const ttl = 2 * store.MinTTL
	sent := time.Now() // the last renewal that was answered, or the grant
	late := func() bool { return time.Since(sent) >= ttl }
	id := e.grant(l, ttl)
	if _, err := e.b.Commit(e.ctx, store.Txn{Ops: []store.Op{bound(name, id)}}); err != nil {
		if late() {
			return false
		}
		e.Fatalf("Commit under a lease %v old: %v", time.Since(sent), err)
	}
	tick := time.NewTicker(ttl * 5 / 8) // the ttl counts from the renewal, whatever was left
	defer tick.Stop()
	for begin := time.Now(); time.Since(begin) < ttl+store.MinTTL; <-tick.C {
		now := time.Now()
		if err := l.Renew(e.ctx, id); err != nil {
			if late() {
				return false
			}
			e.Fatalf("Renew %v after the one before: %v", time.Since(sent), err)
		}
		sent = now
	}
	r, err := e.b.Get(e.ctx, kind, key(name))
	if err != nil && late() {
		return false
	}
	if err != nil || r.Created != r.Revision {
		e.Errorf("%v after the last renewal the record is %s, error %v", time.Since(sent), show(r), err)
	}
	return true
}

// letExpire watches a record go with a lease that is not renewed, or not again. It says
// no when this process was held up until the lease could rightly have expired before.
func (e *env) letExpire(l store.Leaser, name string, renew bool) (judged bool) {
	e.Helper()
	const ttl = 2 * store.MinTTL
	granted := time.Now()
	id, begin := e.grant(l, ttl), granted
	written, err := e.b.Commit(e.ctx, store.Txn{Ops: []store.Op{bound(name, id)}})
	if err == nil && renew {
		begin = time.Now()
		err = l.Renew(e.ctx, id)
	}
	if err != nil {
		if time.Since(granted) >= ttl {
			return false
		}
		e.Fatalf("use of a lease %v old: %v", time.Since(granted), err)
	}
	gone := e.watch(kind, written).changes(1)[0]
	lived := time.Since(begin)
	if gone.key != key(name) || !gone.deleted || lived < ttl {
		e.Errorf("after %v saw %v", lived, gone)
	}
	if e.o.Bubble && lived >= 2*ttl { // elsewhere this process may have been held up
		e.Errorf("a lease of %v lived %v", ttl, lived)
	}
	e.wantMissing(key(name))
	e.wantErr("Renew of a lease that expired", l.Renew(e.ctx, id), store.ErrLeaseGone)
	_, err = e.b.Commit(e.ctx, store.Txn{Ops: []store.Op{bound(name, id)}})
	e.wantErr("Commit under a lease that expired", err, store.ErrLeaseGone)
	e.wantMissing(key(name))
	return true
}

// letBothExpire watches two records go with their lease, in one commit.
func (e *env) letBothExpire(l store.Leaser, name string) (judged bool) {
	e.Helper()
	const ttl = 2 * store.MinTTL
	granted := time.Now()
	id := e.grant(l, ttl)
	written, err := e.b.Commit(e.ctx, store.Txn{Ops: []store.Op{bound(name, id), bound(name+"+", id)}})
	if err != nil {
		if time.Since(granted) >= ttl {
			return false
		}
		e.Fatalf("use of a lease %v old: %v", time.Since(granted), err)
	}
	got := sorted(e.watch(kind, written).changes(2))
	at := got[0].revision
	for i := range got {
		got[i].content = "" // a backend may not have the records any more
	}
	if want := []change{{key(name), at, "", true}, {key(name + "+"), at, "", true}}; !slices.Equal(got, want) {
		e.Errorf("watch saw %v, want both deleted at one revision", got)
	}
	return true
}

// tenTimes lets a check of time be tried again, on a machine that stands still.
func (e *env) tenTimes(l store.Leaser, try func(l store.Leaser, name string) (judged bool)) {
	e.Helper()
	for n := range 10 {
		if try(l, fmt.Sprint("a", n)) {
			return
		}
	}
	e.Fatalf("ten times this machine was too slow to use a lease of %v in time", 2*store.MinTTL)
}

var leaseChecks = []check{
	{"Lease/revoking deletes its records, in one commit", leased(func(e *env, l store.Leaser) {
		id, other := e.grant(l, time.Hour), e.grant(l, time.Hour)
		e.commit(bound("a", id), bound("b", id), bound("c", other), put(key("d"), "d"))
		s := e.watch(kind, e.head())
		if err := l.Revoke(e.ctx, id); err != nil {
			e.Errorf("Revoke: %v", err)
		}
		e.wantMissing(key("a"))
		e.wantMissing(key("b"))
		e.get(key("c"))
		e.get(key("d"))
		r := e.head()
		if got := sorted(s.changes(2)); !slices.Equal(got, []change{{key("a"), r, "a", true}, {key("b"), r, "b", true}}) {
			e.Errorf("watch saw %v, want a and b deleted at revision %d", got, r)
		}
		if err := l.Revoke(e.ctx, id); err != nil {
			e.Errorf("Revoke of a lease that ended: %v", err)
		}
	})},
	{"Lease/that is not renewed expires, not before its time", leased(func(e *env, l store.Leaser) {
		e.tenTimes(l, func(l store.Leaser, name string) bool { return e.letExpire(l, name, false) })
	})},
	{"Lease/that expires deletes all of its records, in one commit", leased(func(e *env, l store.Leaser) {
		e.tenTimes(l, e.letBothExpire)
	})},
	{"Lease/that was renewed expires a whole ttl later", leased(func(e *env, l store.Leaser) {
		e.tenTimes(l, func(l store.Leaser, name string) bool { return e.letExpire(l, name, true) })
	})},
	{"Lease/that is renewed lives on", leased(func(e *env, l store.Leaser) {
		e.tenTimes(l, e.keepAlive)
	})},
	{"Lease/that ended is ErrLeaseGone", leased(func(e *env, l store.Leaser) {
		id := e.grant(l, time.Hour)
		if err := l.Revoke(e.ctx, id); err != nil {
			e.Fatalf("Revoke: %v", err)
		}
		e.wantErr("Renew", l.Renew(e.ctx, id), store.ErrLeaseGone)
		e.wantErr("Renew of a lease that never was", l.Renew(e.ctx, 1<<40), store.ErrLeaseGone)
		_, err := e.b.Commit(e.ctx, store.Txn{Ops: []store.Op{put(key("b"), "1"), bound("a", id)}})
		e.wantErr("Commit", err, store.ErrLeaseGone)
		e.wantMissing(key("a"))
		e.wantMissing(key("b"))
	})},
	{"Lease/an id is given once", leased(func(e *env, l store.Leaser) {
		given := make(map[store.LeaseID]bool)
		for range 20 {
			id := e.grant(l, time.Hour)
			if given[id] {
				e.Fatalf("the lease %d was granted twice", id)
			}
			given[id] = true
			if err := l.Revoke(e.ctx, id); err != nil {
				e.Fatalf("Revoke: %v", err)
			}
		}
	})},
	{"Lease/a record follows the lease of its last put", leased(func(e *env, l store.Leaser) {
		first, second := e.grant(l, time.Hour), e.grant(l, time.Hour)
		all := e.commit(bound("moved", first), bound("freed", first), bound("alone", first), bound("swapped", first),
			bound("remade", first), bound("gone", first))
		e.commit(bound("moved", second), put(key("freed"), "freed"), del(key("remade")), del(key("gone")))
		// A backend may have a shorter way for one put alone, with and without a condition.
		e.commit(put(key("alone"), "alone"))
		e.txn(store.Txn{If: []store.Compare{at(key("swapped"), all)}, Ops: []store.Op{put(key("swapped"), "swapped")}})
		s := e.watch(kind, e.commit(put(key("remade"), "remade")))
		if err := l.Revoke(e.ctx, first); err != nil {
			e.Fatalf("Revoke: %v", err)
		}
		for _, name := range []string{"moved", "freed", "remade", "alone", "swapped"} {
			e.get(key(name))
		}
		s.wantChanges(change{key("mark"), e.commit(put(key("mark"), "")), "", false}) // none of what the lease has no more
		if err := l.Revoke(e.ctx, second); err != nil {
			e.Fatalf("Revoke: %v", err)
		}
		e.wantMissing(key("moved"))
		e.get(key("freed"))
	})},
	{"Lease/a guard on a record that expired fences", leased(func(e *env, l store.Leaser) {
		id := e.grant(l, time.Hour)
		guard := store.Compare{Kind: kind, Key: key("a"), Created: e.commit(bound("a", id))}
		ctx := store.WithGuard(e.ctx, guard)
		if _, err := e.b.Commit(ctx, store.Txn{Ops: []store.Op{put(key("x"), "1")}}); err != nil {
			e.Errorf("Commit of the holder: %v", err)
		}
		if err := l.Revoke(e.ctx, id); err != nil {
			e.Fatalf("Revoke: %v", err)
		}
		e.wantFenced(ctx, store.Txn{Ops: []store.Op{put(key("x"), "2")}})
		e.commit(bound("a", e.grant(l, time.Hour)))
		e.wantFenced(ctx, store.Txn{Ops: []store.Op{put(key("x"), "2")}})
	})},
	{"Lease/what cannot be asked for is refused", leased(func(e *env, l store.Leaser) {
		for _, ttl := range []time.Duration{0, -time.Second, store.MinTTL - 1} {
			_, err := l.Grant(e.ctx, ttl)
			e.wantErr("Grant for "+ttl.String(), err, store.ErrInvalid)
		}
		ctx, cause := e.over()
		_, err := l.Grant(ctx, time.Hour)
		e.wantErr("Grant", err, cause)
		id := e.grant(l, time.Hour)
		e.wantErr("Renew", l.Renew(ctx, id), cause)
		e.wantErr("Revoke", l.Revoke(ctx, id), cause)
		if err := e.b.Close(); err != nil {
			e.Fatalf("Close: %v", err)
		}
		_, err = l.Grant(e.ctx, time.Hour)
		e.wantErr("Grant after Close", err, store.ErrClosed)
		e.wantErr("Renew after Close", l.Renew(e.ctx, id), store.ErrClosed)
		e.wantErr("Revoke after Close", l.Revoke(e.ctx, id), store.ErrClosed)
	})},
}
