package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

type (
	note  = store.Object[struct{ Text string }, struct{}]
	notes = store.Store[struct{ Text string }, struct{}]
)

func newNotes(t testing.TB, b store.Backend) *notes {
	t.Helper()
	s, err := store.New[struct{ Text string }, struct{}](b, "note", nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// promise S1, promise S4
//
// Negative control: mutant "the writes of a transaction are not noted".
func TestWritesOfATransactionHappenTogether(t *testing.T) {
	for name, o := range map[string]*memory.Options{"values": nil, "bytes": {Encode: true}} {
		t.Run(name, func(t *testing.T) {
			b := newMemory(t, o)
			s, n := newBuckets(t, b, nil), newNotes(t, b)
			old := must[*bucket](t)(s.Create(t.Context(), named("old")))
			gone := must[*bucket](t)(s.Create(t.Context(), named("gone")))
			kept := must[*bucket](t)(s.Create(t.Context(), named("kept")))
			var wrote store.Writes
			ctx := store.WithWrites(t.Context(), &wrote)

			var tx store.Tx
			edited := s.Clone(old)
			edited.Spec.Region = "eu-2"
			a := s.CreateIn(&tx, named("new"))
			c := s.UpdateIn(&tx, edited)
			d := s.DeleteIn(&tx, gone)
			e := s.UpdateStatusIn(&tx, kept) // changes nothing
			f := n.CreateIn(&tx, &note{Meta: store.Meta{Name: "why"}, Spec: struct{ Text string }{"moved"}})
			if a.Object() != nil || e.Object() != nil {
				t.Error("there are results before Commit")
			}
			if err := tx.Commit(ctx); err != nil {
				t.Fatal(err)
			}
			r := a.Object().Revision
			if c.Object().Revision != r || f.Object().Revision != r || c.Object().Generation != 2 || e.Object().Revision != kept.Revision || d.Object() != nil {
				t.Errorf("results %+v %+v %+v %+v", a.Object().Meta, c.Object().Meta, e.Object().Meta, f.Object().Meta)
			}
			if got := stored(t, s, old); got.Revision != r || got.Spec.Region != "eu-2" {
				t.Errorf("stored %+v", got)
			}
			_, err := s.Get(t.Context(), gone.Key())
			wantErr(t, "the deleted object", err, store.ErrNotFound)
			for _, k := range []store.Key{old.Key(), gone.Key(), named("new").Key()} {
				if !wrote.Has(b, "Bucket", k, r) {
					t.Errorf("the write of %s is not noted", k)
				}
			}
			if !wrote.Has(b, "note", store.Key{Name: "why"}, r) || wrote.Has(b, "Bucket", kept.Key(), r) {
				t.Error("the writes are noted otherwise than they were made")
			}
			wantErr(t, "a second Commit", tx.Commit(ctx), store.ErrInvalid)
		})
	}
}

// promise S1
func TestTransactionOfWhichOneWriteFailsChangesNothing(t *testing.T) {
	b := newMemory(t, nil)
	s := newBuckets(t, b, nil)
	there := must[*bucket](t)(s.Create(t.Context(), named("there")))
	stale := s.Clone(there)
	there.Spec.Region = "eu-2"
	must[*bucket](t)(s.Update(t.Context(), there))
	stale.Spec.Region = "eu-3"
	other := newBuckets(t, newMemory(t, nil), nil)
	invalid := named("invalid")
	invalid.Labels = map[string]string{"": "x"}
	for name, c := range map[string]struct {
		add  func(tx *store.Tx)
		want error
	}{
		"exists":       {func(tx *store.Tx) { s.CreateIn(tx, named("there")) }, store.ErrExists},
		"stale":        {func(tx *store.Tx) { s.UpdateIn(tx, stale) }, store.ErrConflict},
		"stale delete": {func(tx *store.Tx) { s.DeleteIn(tx, stale) }, store.ErrConflict},
		"missing":      {func(tx *store.Tx) { m := named("missing"); m.Revision = 1; s.UpdateStatusIn(tx, m) }, store.ErrNotFound},
		"invalid":      {func(tx *store.Tx) { s.CreateIn(tx, invalid) }, store.ErrInvalid},
		"nil":          {func(tx *store.Tx) { s.CreateIn(tx, nil) }, store.ErrInvalid},
		"nil delete":   {func(tx *store.Tx) { s.DeleteIn(tx, nil) }, store.ErrInvalid},
		"twice":        {func(tx *store.Tx) { s.CreateIn(tx, named("new")) }, store.ErrInvalid},
		"two backends": {func(tx *store.Tx) { other.CreateIn(tx, named("x")) }, store.ErrInvalid},
		"too many": {func(tx *store.Tx) {
			for i := range store.MaxTxn {
				s.CreateIn(tx, named("n"+string(rune('A'+i))))
			}
		}, store.ErrInvalid},
	} {
		var tx store.Tx
		w := s.CreateIn(&tx, named("new"))
		c.add(&tx)
		wantErr(t, name, tx.Commit(t.Context()), c.want)
		if _, err := s.Get(t.Context(), named("new").Key()); !errors.Is(err, store.ErrNotFound) || w.Object() != nil {
			t.Errorf("%s: the other write was made: %v", name, err)
		}
	}
	if err := new(store.Tx).Commit(t.Context()); err != nil {
		t.Error(err)
	}
}

// An object that a transaction reads and does not change is at the revision that was read.
//
// Negative control: mutant "a transaction forgets the condition of what it does not change".
func TestTransactionHoldsWhatItDoesNotChange(t *testing.T) {
	b := newMemory(t, nil)
	between := &beforeCommit{Backend: b}
	s := newBuckets(t, between, nil)
	seen := must[*bucket](t)(s.Create(t.Context(), named("seen")))
	between.do = func() {
		between.do = nil
		if _, err := s.Mutate(t.Context(), seen.Key(), func(o *bucket) error { o.Spec.Region = "eu-9"; return nil }); err != nil {
			t.Error(err)
		}
	}
	var tx store.Tx
	s.UpdateIn(&tx, seen)
	s.CreateIn(&tx, named("new"))
	wantErr(t, "Commit", tx.Commit(t.Context()), store.ErrConflict)
}

// What a first try was about to store is no result of the second, in which there was nothing
// to do.
//
// Negative control: mutant "a transaction that is tried again tells of its first try".
func TestTransactionThatIsTriedAgainTellsOfTheLastTry(t *testing.T) {
	between := &beforeCommit{Backend: newMemory(t, nil)}
	s := newBuckets(t, between, nil)
	held := named("held")
	held.Finalizers = []string{"test/hold"}
	held = must[*bucket](t)(s.Create(t.Context(), held))
	between.do = func() { // another deletes it first
		between.do = nil
		if err := s.Delete(t.Context(), s.Clone(held)); err != nil {
			t.Error(err)
		}
	}
	var tx store.Tx
	d := s.DeleteIn(&tx, held)
	n := s.CreateIn(&tx, named("new"))
	wantErr(t, "the first try", tx.Commit(t.Context()), store.ErrConflict)
	if d.Object() != nil || n.Object() != nil {
		t.Errorf("a try that failed has results %+v and %+v", d.Object(), n.Object())
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d.Object() != nil || n.Object() == nil {
		t.Errorf("the second try has results %+v and %+v, want that of the created object alone", d.Object(), n.Object())
	}
}

type beforeCommit struct {
	store.Backend
	do func()
}

func (b *beforeCommit) Commit(ctx context.Context, t store.Txn) (store.Revision, error) {
	if b.do != nil {
		b.do()
	}
	return b.Backend.Commit(ctx, t)
}

// promise L1: a transaction is fenced as a single write is.
func TestTransactionIsFenced(t *testing.T) {
	b := newMemory(t, nil)
	s := newBuckets(t, b, &store.Options[bucketSpec, bucketStatus]{RequireGuard: true})
	var tx store.Tx
	s.CreateIn(&tx, named("a"))
	wantErr(t, "without a guard", tx.Commit(t.Context()), store.ErrUnguarded)
	ctx := store.WithGuard(t.Context(), store.Compare{Kind: "lease", Key: store.Key{Name: "x"}, Created: 7})
	wantErr(t, "with a guard that does not hold", tx.Commit(ctx), store.ErrFenced)
	ctx = store.WithGuard(t.Context(), store.Compare{Kind: "lease", Key: store.Key{Name: "x"}})
	if err := tx.Commit(ctx); err != nil {
		t.Error(err)
	}
}

// A transaction that was refused has written nothing, and may be tried again: then it is made
// once.
//
// promise S1. Negative control: mutant "a transaction that was refused is over".
func TestTransactionThatWasRefusedMayBeTriedAgain(t *testing.T) {
	s := newBuckets(t, newMemory(t, nil), nil)
	inTheWay, err := s.Create(t.Context(), named("b"))
	if err != nil {
		t.Fatal(err)
	}
	var tx store.Tx
	a, b := s.CreateIn(&tx, named("a")), s.CreateIn(&tx, named("b"))
	for range 2 {
		wantErr(t, "while one of its objects is there", tx.Commit(t.Context()), store.ErrExists)
		_, err := s.Get(t.Context(), named("a").Key())
		wantErr(t, "the other object", err, store.ErrNotFound)
	}
	if err := s.Delete(t.Context(), inTheWay); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, w := range []*store.TxWrite[bucketSpec, bucketStatus]{a, b} {
		if got := stored(t, s, w.Object()); got.Revision != w.Object().Revision {
			t.Errorf("stored %+v, want what the transaction has written", got)
		}
	}
	wantErr(t, "a Commit after one that succeeded", tx.Commit(t.Context()), store.ErrInvalid)
}

func TestTransactionOfUnknownOutcomeIsNotedSo(t *testing.T) {
	b := &unknown{Backend: newMemory(t, nil)}
	s := newBuckets(t, b, nil)
	var wrote store.Writes
	var tx store.Tx
	w := s.CreateIn(&tx, named("a"))
	wantErr(t, "Commit", tx.Commit(store.WithWrites(t.Context(), &wrote)), store.ErrUnknownOutcome)
	if !wrote.Unsure(b, "Bucket") || w.Object() != nil {
		t.Error("the write is not noted as one of unknown outcome")
	}
	wantErr(t, "a second Commit", tx.Commit(t.Context()), store.ErrInvalid)
}

type unknown struct{ store.Backend }

func (unknown) Commit(context.Context, store.Txn) (store.Revision, error) {
	return 5, store.ErrUnknownOutcome
}
