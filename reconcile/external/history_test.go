package external_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/reconciletest"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// backup is a copy of the world's store as it is now.
func (w *world) backup() store.Backend {
	w.t.Helper()
	b := must(memory.New(nil))
	if _, err := store.Copy(w.t.Context(), must(store.New[diskSpec, diskStatus](b, "Disk", nil)), w.store); err != nil {
		w.t.Fatal(err)
	}
	return b
}

// write edits a disk so often, so that the store's revision grows.
func (w *world) write(k store.Key, times int) {
	for range times {
		must(w.store.Mutate(w.t.Context(), k, func(o *disk) error { o.Spec.Size += "1"; return nil }))
	}
}

// promise E2: a store that was restored from a backup while no process ran lacks what
// was declared since. The marks of its resources say when that was, and nothing
// deletes them, not even a process that comes later and finds the store busy again.
//
// Negative controls: without noteOrphans the first Prune deleted the disk
// declared last; without lastSign's bound by v.made the writes that follow the
// restore had the first Prune delete it; without keepHold the third process did.
func TestPruneIsHeldAfterARestoreWhileNobodyRan(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		keys := w.populate(30)
		w.reconcileAll(keys)
		time.Sleep(time.Hour)
		saved := w.backup()
		time.Sleep(time.Hour)
		lost := must(w.store.Create(t.Context(), &disk{Meta: store.Meta{Namespace: "t", Name: "new"}, Spec: diskSpec{Size: "1", Zone: "z"}}))
		must(w.rec.Reconcile(w.ctx(), lost.Key()))
		time.Sleep(time.Hour)

		w.backend = saved // everybody has ended, and begins again
		prune := func(v *inventory) error {
			done, err := v.Prune(t.Context(), external.Cap{})
			if len(done) != 0 || w.cloud.Peek("t-new").ID == "" {
				t.Fatalf("pruned %v", done)
			}
			return err
		}
		w.restart(nil)
		first := w.inventory()
		must(w.store.Create(t.Context(), &disk{Meta: store.Meta{Namespace: "t", Name: "later"}, Spec: diskSpec{Size: "1", Zone: "z"}}))
		for _, k := range keys { // the restored store is written to
			must(w.store.Mutate(t.Context(), k, func(o *disk) error { o.Spec.Size = "2"; return nil }))
			must(w.rec.Reconcile(w.ctx(), k))
		}
		var refused *external.PruneError
		if _, err := first.Prunable(t.Context(), external.Cap{}); !errors.As(err, &refused) {
			t.Errorf("Prunable = %v, want a refusal", err)
		}
		if err := prune(first); !errors.As(err, &refused) || !strings.Contains(refused.Reason, "backup") || len(refused.Would) != 1 || refused.Would[0].ID != "t-new" {
			t.Errorf("after the restore: %v, want a refusal that speaks of a backup and names t-new", err)
		}
		if s := first.Snapshot(); !strings.Contains(s.Held, "backup") {
			t.Errorf("snapshot %+v, want why it is held", s)
		}
		time.Sleep(time.Hour)
		w.restart(nil)
		if err := prune(w.inventory()); !errors.Is(err, external.ErrPruneRefused) {
			t.Errorf("a process that came later: %v, want a refusal", err)
		}
		if err := w.inventory().Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if done, err := first.Prune(t.Context(), external.Cap{}); err != nil || len(done) != 1 || done[0].ID != "t-new" {
			t.Errorf("after an operator's word: pruned %v, %v; want t-new", done, err)
		}
	})
}

// A store that was lost, and begun again under the same installation, remembers
// nothing; what the cloud has of before is not pruned.
func TestPruneIsHeldWhenTheStoreWasLost(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.reconcileAll(w.populate(30))
		w.cloud.Heal()
		time.Sleep(time.Hour)
		w.backend = must(memory.New(nil))
		w.restart(nil)
		v := w.inventory()
		must(w.store.Create(t.Context(), &disk{Meta: store.Meta{Namespace: "t", Name: "d00000"}, Spec: diskSpec{Size: "1", Zone: "z"}}))
		if done, err := v.Prune(t.Context(), external.Cap{Count: -1, Percent: 100}); !errors.Is(err, external.ErrPruneRefused) || !strings.Contains(err.Error(), "empty") || len(done) != 0 {
			t.Errorf("pruned %v, %v; want a refusal", done, err)
		}
	})
}

// What the store outlived is no sign of a restore: its declaration is gone because
// another process took it away.
func TestOrphanThatTheStoreOutlivedIsPruned(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		keys := w.populate(30)
		w.reconcileAll(keys)
		must(w.store.Mutate(t.Context(), keys[0], func(o *disk) error {
			o.Annotations = map[string]string{external.PolicyAnnotation: "observe,create,update"}
			return nil
		}))
		if err := w.store.Delete(t.Context(), must(w.store.Get(t.Context(), keys[0]))); err != nil { // and leaves its resource behind
			t.Fatal(err)
		}
		must(w.rec.Reconcile(w.ctx(), keys[0]))
		time.Sleep(time.Hour)
		must(w.store.Mutate(t.Context(), keys[1], func(o *disk) error { o.SetProgressing("Testing", ""); return nil }))
		time.Sleep(time.Hour)
		w.restart(nil)
		v := w.inventory()
		if done, err := v.Prune(t.Context(), external.Cap{}); err != nil || len(done) != 1 || done[0].Key != keys[0] {
			t.Errorf("pruned %v, %v; want %s", done, err, keys[0])
		}
	})
}

// A list that still shows what was deleted with its object is no sign of a restore.
func TestListThatLagsIsNoSignOfARestore(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		keys := w.populate(30)
		v := w.inventory()
		must(w.rec.Reconcile(w.ctx(), keys[0]))
		if _, err := v.Report(t.Context()); err != nil { // lists
			t.Fatal(err)
		}
		if err := w.store.Delete(t.Context(), must(w.store.Get(t.Context(), keys[0]))); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			must(w.rec.Reconcile(w.ctx(), keys[0]))
		}
		if done, err := v.Prune(t.Context(), external.Cap{}); err != nil || len(done) != 0 || v.Snapshot().Held != "" {
			t.Errorf("pruned %v, %v, held by %q; want nothing", done, err, v.Snapshot().Held)
		}
	})
}

// An orphan may be gone when it is read once more. Owner is asked about resources that are there. Where it cannot
// be read there is no report.
//
// Seen to fail: Owner was called with a nil pointer.
func TestOwnerIsAskedAboutResourcesThatAreThere(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.populate(1)
		time.Sleep(10 * time.Minute)
		mark := external.Mark{Installation: home, Kind: "Disk", Key: store.Key{Namespace: "t", Name: "new"}, UID: "u", Declared: time.Now().Unix()}
		var broken error
		v := must(external.NewInventory(&external.InventoryOptions[diskSpec, diskStatus, *resource]{
			Store: w.store, Installation: home,
			List: func(context.Context) iter.Seq2[*resource, error] {
				return func(yield func(*resource, error) bool) { yield(&resource{ID: "new", Tags: tags(mark)}, nil) }
			},
			Get:     func(context.Context, string) (*resource, bool, error) { return nil, false, broken },
			ID:      func(r *resource) string { return r.ID },
			IDOf:    nameOf,
			Owner:   func(r *resource) (external.Mark, bool) { return readMark(*r) },
			Compare: func(*disk, *resource) external.Observation { return external.Observation{UpToDate: true} },
			Delete:  func(context.Context, *resource) error { t.Error("it was deleted"); return nil },
		}))
		if done, err := v.Prune(t.Context(), external.Cap{}); err != nil || len(done) != 0 {
			t.Errorf("pruned %v, %v; want nothing: it is gone", done, err)
		}
		broken = errDisk
		if r, err := v.Report(t.Context()); !errors.Is(err, errDisk) {
			t.Errorf("%v, %v; want that it could not be read", r, err)
		}
	})
}

// An operator's word counts for every process, also for one that has seen the store go
// back by itself.
//
// promise E2. Negative control: mutant "a release elsewhere is forgotten where the store went back".
func TestReleaseCountsWhereTheStoreWentBack(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		keys := w.populate(30)
		w.reconcileAll(keys)
		saved := w.backup()
		w.write(keys[0], 100)
		time.Sleep(time.Hour)
		live := &switched{Backend: w.backend}
		w.backend = live
		w.restart(nil)
		first := w.inventory()
		if _, err := first.Report(t.Context()); err != nil {
			t.Fatal(err)
		}
		live.Backend = saved // under a process that goes on
		w.cloud.Put(reconciletest.Resource{Name: "t-orphan", Tags: tags(external.Mark{Installation: home, Kind: "Disk", Key: store.Key{Namespace: "t", Name: "orphan"}})})
		time.Sleep(time.Hour)
		if _, err := first.Prune(t.Context(), external.Cap{}); !errors.Is(err, external.ErrPruneRefused) {
			t.Fatalf("after the restore: %v, want a refusal", err)
		}
		if err := w.inventory().Release(t.Context()); err != nil { // another process
			t.Fatal(err)
		}
		if done, err := first.Prune(t.Context(), external.Cap{}); err != nil || len(done) != 1 {
			t.Errorf("after an operator's word to another process: pruned %v, %v; want one", done, err)
		}
		live.Backend = must(memory.New(nil)) // a second time
		must(must(store.New[diskSpec, diskStatus](live.Backend, "Disk", nil)).Create(t.Context(), &disk{Meta: store.Meta{Namespace: "t", Name: "new"}}))
		time.Sleep(time.Hour)
		if _, err := first.Prune(t.Context(), external.Cap{}); !errors.Is(err, external.ErrPruneRefused) {
			t.Errorf("after a second restore: %v, want a refusal", err)
		}
	})
}

// switched is a backend that is restored while processes use it.
type switched struct{ store.Backend }

// leaping is a backend whose revision is so much higher since it was restored.
type leaping struct {
	store.Backend
	by store.Revision
}

func (b *leaping) List(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
	p, err := b.Backend.List(ctx, kind, o)
	p.Revision += b.by
	return p, err
}

// promise E2: a backend that was restored under processes that go on, and lets its revision leap in
// place of going back, as store/postgres does, has an operator asked before what was declared since the
// backup is pruned.
//
// It was pruned: only a revision that went back counted. Negative control: mutant "a leap of the store is not noticed".
func TestPruneIsHeldAfterALeapOfTheStore(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.populate(30)
		live := &leaping{Backend: w.backend}
		w.backend = live
		w.restart(nil)
		v := w.inventory()
		if _, err := v.Report(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		live.by = 1e9 // a restore: the declaration of the orphan is lost
		w.orphan("lost")
		var refused *external.PruneError
		if done, err := v.Prune(t.Context(), external.Cap{}); !errors.As(err, &refused) || !strings.Contains(refused.Reason, "backup") || len(done) != 0 {
			t.Fatalf("after the leap: pruned %v, %v; want a refusal that speaks of a backup", done, err)
		}
		time.Sleep(time.Hour)
		w.restart(nil)
		if _, err := w.inventory().Prune(t.Context(), external.Cap{}); !errors.Is(err, external.ErrPruneRefused) {
			t.Errorf("a process that came later: %v, want a refusal", err)
		}
		if err := v.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if done, err := v.Prune(t.Context(), external.Cap{}); err != nil || len(done) != 1 {
			t.Errorf("after an operator's word: pruned %v, %v; want one", done, err)
		}
	})
}

// A failover that lost nothing asks no operator: the first list after it shows nothing that is not
// declared. One that was begun before says nothing.
//
// promise E2. Negative control: mutant "a list of before a leap says that nothing is missed".
func TestLeapAfterWhichNothingIsMissedHoldsNoPrune(t *testing.T) {
	for name, c := range map[string]struct {
		wait time.Duration
		held bool
	}{
		"a list of before": {0, true},
		"a list of after":  {time.Hour, false},
		"one that may lag": {70 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.populate(30)
				live := &leaping{Backend: w.backend}
				w.backend = live
				w.restart(nil)
				v := w.inventory(func(o *invOpts) { o.Settle = 2 * time.Minute })
				report := func() {
					if _, err := v.Report(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				report()
				live.by = 1 << 40
				report() // notices it
				time.Sleep(c.wait)
				report()
				w.orphan("left")
				time.Sleep(time.Hour)
				if done, err := v.Prune(t.Context(), external.Cap{}); errors.Is(err, external.ErrPruneRefused) != c.held {
					t.Errorf("pruned %v, %v; want a refusal: %v", done, err, c.held)
				}
			})
		})
	}
}

// promise E2: lists alone notice that the store went back, and later writes do not hide it from the
// process that prunes once a night.
//
// Only reports looked: then the revision had been overtaken. Negative control: mutant "a list does not look at the store".
func TestListNoticesThatTheStoreWentBack(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		keys := w.populate(30)
		w.reconcileAll(keys)
		saved := w.backup()
		w.write(keys[0], 100)
		live := &switched{Backend: w.backend}
		w.backend = live
		w.restart(nil)
		v := w.inventory()
		list := func() {
			if _, _, err := v.Look(t.Context(), "t-d00000"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
		}
		list()
		live.Backend = saved
		list()
		w.write(keys[0], 200) // the revision is beyond what it was
		for range 2 {         // nothing is missed yet
			must(v.Report(t.Context()))
			time.Sleep(time.Hour)
		}
		w.orphan("lost")
		if done, err := v.Prune(t.Context(), external.Cap{}); !errors.Is(err, external.ErrPruneRefused) || !strings.Contains(err.Error(), "backup") {
			t.Errorf("pruned %v, %v; want a refusal that speaks of a backup", done, err)
		}
	})
}

// late is a backend whose answers about holds are told a second after they were read, once it is armed.
type late struct {
	store.Backend
	armed atomic.Bool
}

func (b *late) List(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
	p, err := b.Backend.List(ctx, kind, o)
	if kind == external.HoldKind && b.armed.CompareAndSwap(true, false) {
		time.Sleep(time.Second)
	}
	return p, err
}

// An answer of the store that another one has overtaken says nothing of a restore: lists and reports
// ask at the same time.
//
// It held all prunes. Negative control: mutant "an answer that was overtaken is a restore".
func TestAnswerThatWasOvertakenIsNoRestore(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		keys := w.populate(30)
		w.orphan("left")
		slow := &late{Backend: w.backend}
		w.backend = slow
		w.restart(nil)
		v := w.inventory()
		if _, err := v.Report(t.Context()); err != nil {
			t.Fatal(err)
		}
		slow.armed.Store(true)
		done := make(chan error, 1)
		go func() { // ends with the report
			_, err := v.Report(t.Context())
			done <- err
		}()
		time.Sleep(time.Millisecond) // the first one has read the store
		w.write(keys[0], 1)
		if _, err := v.Report(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if pruned, err := v.Prune(t.Context(), external.Cap{}); err != nil || len(pruned) != 1 {
			t.Errorf("pruned %v, %v; want one, and no word of a restore", pruned, err)
		}
	})
}
