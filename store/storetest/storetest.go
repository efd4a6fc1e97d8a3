package storetest

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/store"
)

// Options sets up [Run]. Nil and zero fields mean the defaults.
type Options struct {
	// Compact makes the backend forget the history of the kind up to now. Nil
	// writes 2,000 changes of the kind and expects that to be enough: give
	// the backend a short history.
	Compact func(ctx context.Context, b store.Backend, kind string) error
	// Bubble runs every subtest in a bubble of testing/synctest, where leases
	// expire at once, and where it is certain that a watch waits when a commit, the end
	// of its context or Close comes. It is for backends that use no network and no process.
	Bubble bool
	// Parallel runs the subtests in parallel with each other, at most go test's
	// -parallel at a time. It is for backends that wait for a server or a disk, and
	// has no effect with Bubble.
	Parallel bool
	// Patience is how long the suite waits for something that must happen.
	// Zero means 3 minutes: it ends a hang, it measures nothing.
	Patience time.Duration
}

// Run proves that backends made by newBackend keep the contract of
// [store.Backend], and that of [store.Leaser] if they implement it. newBackend
// is called once per subtest and returns an empty backend; the suite closes it.
func Run(t *testing.T, newBackend func(t testing.TB) store.Backend, o *Options) {
	if o == nil {
		o = &Options{}
	}
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) {
			if o.Bubble {
				synctest.Test(t, func(t *testing.T) { c.against(t, newBackend, *o) })
				return
			}
			if o.Parallel {
				t.Parallel()
			}
			c.against(t, newBackend, *o)
		})
	}
}

// check is one subtest. Its name is a sentence of the contract.
type check struct {
	name string
	run  func(e *env)
}

func checks() []check {
	var all []check
	for _, part := range [][]check{getChecks, commitChecks, momentChecks, listChecks, watchChecks, slotChecks, historyChecks, typedChecks, alikeChecks, fieldChecks, leaseChecks, closeChecks} {
		all = append(all, part...)
	}
	return all
}

func (c check) against(t testing.TB, newBackend func(t testing.TB) store.Backend, o Options) {
	if o.Patience == 0 {
		o.Patience = 3 * time.Minute
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), o.Patience,
		fmt.Errorf("storetest: waited %v for what must happen", o.Patience))
	defer cancel()
	e := &env{TB: t, ctx: ctx, b: newBackend(t), o: o}
	defer func() {
		e.revokeAll()
		if err := e.b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}()
	c.run(e)
}

// env is what a check works with. Its helpers end the check when something that
// is not under test fails.
type env struct {
	testing.TB
	ctx context.Context // an env is the arguments of one call tree
	b   store.Backend
	o   Options
	// leases are those that the check was granted.
	leases []store.LeaseID
}

// kind is what most checks use.
const kind = "Thing"

func key(name string) store.Key { return store.Key{Namespace: "ns", Name: name} }

func put(k store.Key, content string) store.Op {
	return store.Op{Kind: kind, Key: k, Put: store.Bytes(content)}
}

func del(k store.Key) store.Op { return store.Op{Kind: kind, Key: k} }

func absent(k store.Key) store.Compare { return store.Compare{Kind: kind, Key: k} }

func at(k store.Key, r store.Revision) store.Compare {
	return store.Compare{Kind: kind, Key: k, Revision: r}
}

// commit makes writes without conditions.
func (e *env) commit(ops ...store.Op) store.Revision {
	e.Helper()
	return e.txn(store.Txn{Ops: ops})
}

func (e *env) txn(t store.Txn) store.Revision {
	e.Helper()
	r, err := e.b.Commit(e.ctx, t)
	if err != nil {
		e.Fatalf("Commit(%v): %v", t, err)
	}
	return r
}

func (e *env) get(k store.Key) store.Record {
	e.Helper()
	r, err := e.b.Get(e.ctx, kind, k)
	if err != nil {
		e.Fatalf("Get(%s): %v", k, err)
	}
	return r
}

// wantRecord compares a record with what it has to be.
func (e *env) wantRecord(what string, r store.Record, k store.Key, created, revision store.Revision, content string) {
	e.Helper()
	if got, want := show(r), fmt.Sprintf("%s %s created %d revision %d %q", kind, k, created, revision, content); got != want {
		e.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

func (e *env) wantGet(k store.Key, created, revision store.Revision, content string) {
	e.Helper()
	e.wantRecord("Get", e.get(k), k, created, revision, content)
}

func (e *env) wantMissing(k store.Key) {
	e.Helper()
	r, err := e.b.Get(e.ctx, kind, k)
	e.wantErr("Get of "+k.String(), err, store.ErrNotFound)
	if err == nil {
		e.Logf("found %s", show(r))
	}
}

// wantErr fails unless err matches.
func (e *env) wantErr(what string, err, want error) {
	e.Helper()
	if !matches(err, want) {
		e.Errorf("%s: got error %v, want %v", what, err, want)
	}
}

// listAll reads all pages.
func (e *env) listAll(kind string, o store.ListOptions) ([]store.Record, store.Revision) {
	e.Helper()
	var all []store.Record
	for {
		p, err := e.b.List(e.ctx, kind, o)
		if err != nil {
			e.Fatalf("List(%s, %+v): %v", kind, o, err)
		}
		if o.Limit > 0 && len(p.Records) > o.Limit {
			e.Fatalf("List with a limit of %d returned %d records", o.Limit, len(p.Records))
		}
		all = append(all, p.Records...)
		if p.Cursor == "" {
			return all, p.Revision
		}
		o.Cursor = p.Cursor
	}
}

// head returns the current revision.
func (e *env) head() store.Revision {
	e.Helper()
	return e.txn(store.Txn{})
}

// settle lets a watch that has nothing to tell come to its wait. Outside of a bubble that
// is only likely: what needs it is done several times.
func (e *env) settle() {
	e.Helper()
	if e.o.Bubble {
		synctest.Wait()
		return
	}
	for range 10 {
		e.head()
		runtime.Gosched()
	}
}

// show prints a record with its content.
func show(r store.Record) string {
	data, err := r.Encode()
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s %s created %d revision %d %q", r.Kind, r.Key, r.Created, r.Revision, data)
}
