package external_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/reconciletest"
	"github.com/tendhq/tend/store"
)

// orphan puts a resource with our mark into the cloud that is not declared.
func (w *world) orphan(name string) {
	w.cloud.Put(resource{Name: name, Tags: tags(external.Mark{
		Installation: home, Kind: "Disk", Key: store.Key{Namespace: "t", Name: name}, UID: "u-" + name,
	})})
}

func TestPruneDeletesOrphansAndNothingElse(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.populate(20)
		w.orphan("old-1")
		w.orphan("old-2")
		w.cloud.Put(resource{Name: "nobodys"})
		v := w.inventory()
		done, err := v.Prune(t.Context(), external.Cap{})
		if err != nil || len(done) != 2 || done[0].ID != "old-1" || done[1].ID != "old-2" {
			t.Errorf("pruned %v, %v; want old-1 and old-2", done, err)
		}
		if n := len(w.cloud.Truth()); n != 21 {
			t.Errorf("%d resources left, want 21", n)
		}
		if done, err := v.Prune(t.Context(), external.Cap{}); err != nil || len(done) != 0 {
			t.Errorf("again: %v, %v; want nothing to do", done, err)
		}
	})
}

// promise E2: each of these must delete nothing, and say what it would have
// deleted.
//
// Negative controls: with each of the checks in objection taken out, one at a
// time, its row failed; so did "half a list" when load took every list for
// complete.
func TestPruneRefusesWhatMayBeAMistake(t *testing.T) {
	broken := func(err error) func(w *world, o *invOpts) {
		return func(w *world, o *invOpts) {
			list := o.List
			o.List = func(ctx context.Context) iter.Seq2[resource, error] {
				return func(yield func(resource, error) bool) {
					for r, e := range list(ctx) {
						if !yield(r, e) {
							return
						}
					}
					yield(resource{}, err)
				}
			}
		}
	}
	for name, c := range map[string]struct {
		with   func(w *world, o *invOpts)
		before func(w *world, v *inventory)
		says   string
		would  int
	}{
		"half a list": {with: broken(reconciletest.ErrServer), says: "compared"},
		"an empty cloud page": {
			with: func(w *world, o *invOpts) {
				o.List = func(context.Context) iter.Seq2[resource, error] { return func(func(resource, error) bool) {} }
			},
			says: "", // nothing is an orphan then, so there is nothing to refuse
		},
		"nothing declared": {
			before: func(w *world, _ *inventory) {
				for o, err := range w.store.All(w.t.Context(), store.Selector{}) {
					if err != nil || w.store.Delete(w.t.Context(), o) != nil {
						w.t.Fatal("delete")
					}
				}
			},
			says: "nothing is declared", would: 101,
		},
		"declarations that cannot be read": {
			with: func(w *world, o *invOpts) {
				steps := &reconciletest.Steps{Kill: 1}
				o.Store = must(store.New[diskSpec, diskStatus](steps.Backend(w.backend), "Disk", nil))
			},
			says: "compared",
		},
		"declarations that are only partly readable": {
			before: func(w *world, _ *inventory) {
				must(w.backend.Commit(w.t.Context(), store.Txn{Ops: []store.Op{{Kind: "Disk", Key: store.Key{Name: "x"}, Put: store.Bytes("{")}}}))
			},
			says: "compared",
		},
		"held":             {before: func(_ *world, v *inventory) { v.Hold("still loading") }, says: "still loading", would: 1},
		"no way to delete": {with: func(_ *world, o *invOpts) { o.Delete = nil }, says: "InventoryOptions.Delete", would: 1},
		"too many":         {before: orphans(12), says: "at most 10 may be deleted at once (Cap: 10 % of them, and one in any case; never more than 10)", would: 13},
		"few of ours among many of others": {
			with: func(_ *world, o *invOpts) { o.Cap = external.Cap{Count: -1, Percent: 5} },
			before: func(w *world, v *inventory) {
				for i := range 1000 {
					w.cloud.Put(resource{Name: fmt.Sprint("theirs-", i)})
				}
				orphans(6)(w, v)
			},
			says: "at most 5", would: 7,
		},
		"too large a share": {with: func(_ *world, o *invOpts) { o.Cap = external.Cap{Count: -1, Percent: 5} }, before: orphans(6), says: "at most 5 may be deleted at once (Cap: 5 % of them, and one in any case)", would: 7},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.populate(100)
				w.orphan("old")
				v := w.inventory(func(o *invOpts) {
					if c.with != nil {
						c.with(w, o)
					}
				})
				if c.before != nil {
					c.before(w, v)
				}
				had := len(w.cloud.Truth())
				done, err := v.Prune(t.Context(), external.Cap{})
				if c.says == "" {
					if err != nil || len(done) != 0 {
						t.Errorf("pruned %v, %v; want nothing", done, err)
					}
				} else {
					var refused *external.PruneError
					if !errors.Is(err, external.ErrPruneRefused) || !errors.As(err, &refused) || !strings.Contains(err.Error(), c.says) || len(refused.Would) != c.would {
						t.Errorf("error %v, want a refusal that says %q and lists %d", err, c.says, c.would)
					}
				}
				if n := len(w.cloud.Truth()); n != had || w.cloud.Calls("Delete") != 0 {
					t.Errorf("%d resources of %d left, %d deletes", n, had, w.cloud.Calls("Delete"))
				}
			})
		})
	}
}

func orphans(n int) func(*world, *inventory) {
	return func(w *world, _ *inventory) {
		for i := range n {
			w.orphan(fmt.Sprintf("old-%d", i))
		}
	}
}

func TestOperatorMayRaiseTheCapForOnePrune(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.populate(10)
		orphans(15)(w, nil)
		v := w.inventory()
		if _, err := v.Prune(t.Context(), external.Cap{}); !errors.Is(err, external.ErrPruneRefused) {
			t.Fatalf("error %v, want a refusal", err)
		}
		if done, err := v.Prune(t.Context(), external.Cap{Count: 15, Percent: 100}); err != nil || len(done) != 15 {
			t.Errorf("pruned %d, %v; want 15", len(done), err)
		}
	})
}

// promise E2: a store that was restored from a backup lacks what was declared
// since. Prune notices that the revision went back, and waits for an operator.
//
// Negative control: without noteStore holding the prune the disk declared
// last was deleted.
func TestPruneIsHeldAfterARestoreOfTheStore(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.populate(20)
		var back restored
		back.Backend = w.backend
		v := w.inventory(func(o *invOpts) {
			o.Store = must(store.New[diskSpec, diskStatus](&back, "Disk", nil))
		})
		w.orphan("old")
		if done, err := v.Prune(t.Context(), external.Cap{}); err != nil || len(done) != 1 {
			t.Fatalf("before the restore: %v, %v", done, err)
		}
		w.orphan("t-new") // as if it had been declared after the backup was made
		back.by = 5
		time.Sleep(2 * time.Minute)
		if _, err := v.Prune(t.Context(), external.Cap{}); !errors.Is(err, external.ErrPruneRefused) || !strings.Contains(err.Error(), "backup") {
			t.Errorf("after the restore: %v, want a refusal that speaks of a backup", err)
		}
		back.by = 0 // it has caught up, which proves nothing
		if _, err := v.Prune(t.Context(), external.Cap{}); !errors.Is(err, external.ErrPruneRefused) {
			t.Errorf("after it caught up: %v, want a refusal", err)
		}
		if err := v.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if done, err := v.Prune(t.Context(), external.Cap{}); err != nil || len(done) != 1 {
			t.Errorf("after the operator's word: %v, %v", done, err)
		}
	})
}

// restored is a backend whose revision is lower than it was.
type restored struct {
	store.Backend
	by store.Revision
}

func (b *restored) List(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
	p, err := b.Backend.List(ctx, kind, o)
	p.Revision -= b.by
	return p, err
}

// promise E2: what changed between the list and the delete counts.
//
// Negative controls: without asking about the mark again the two that changed
// were deleted, without asking the store the declared one was.
func TestPruneAsksAgainBeforeEachDelete(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.populate(50)
		for _, name := range []string{"declared", "remarked", "unmarked"} {
			w.orphan(name)
		}
		v := w.inventory()
		if r, err := v.Report(t.Context()); err != nil || len(r.Orphans) != 3 {
			t.Fatalf("report %+v, %v", r, err)
		}
		// The list is served from memory from here on; the store is read by Prune
		// before it deletes, so the new declaration has to come between the two.
		armed := false
		o := w.options()
		o.Get = func(ctx context.Context, id string) (resource, bool, error) {
			if !armed {
				armed = true
				must(w.store.Create(ctx, &disk{Meta: store.Meta{Namespace: "t", Name: "declared"}}))
				w.cloud.Put(resource{ID: "remarked", Name: "remarked", Tags: tags(external.Mark{Installation: "there", Kind: "Disk", Key: store.Key{Name: "x"}})})
				w.cloud.Put(resource{ID: "unmarked", Name: "unmarked"})
			}
			r, err := w.cloud.Get(ctx, id)
			return r, err == nil, err
		}
		// By cloud ids: the declaration does not know its resource yet.
		o.IDOf = func(o *disk) string {
			if o.Name == "declared" {
				return ""
			}
			return nameOf(o)
		}
		v = must(external.NewInventory(&o))
		if done, err := v.Prune(t.Context(), external.Cap{}); err != nil || len(done) != 0 || w.cloud.Calls("Delete") != 0 {
			t.Errorf("pruned %v, %v; want nothing", done, err)
		}
	})
}

// What carries another mark than on the list is left, in whatever part of it the two differ:
// another installation has taken it since.
//
// promise E2. Negative control: mutant "a prune asks for the key of a mark alone".
func TestPruneAsksForTheWholeMarkAgain(t *testing.T) {
	for name, take := range map[string]func(*external.Mark){
		"another installation": func(m *external.Mark) { m.Installation = "there" },
		"another kind":         func(m *external.Mark) { m.Kind = "Net" },
		"another object":       func(m *external.Mark) { m.UID = "u-next" },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.populate(50)
				w.orphan("old")
				get := w.options().Get
				v := w.inventory(func(o *invOpts) {
					o.Get = func(ctx context.Context, id string) (resource, bool, error) {
						m := external.Mark{Installation: home, Kind: "Disk", Key: store.Key{Namespace: "t", Name: "old"}, UID: "u-old"}
						take(&m)
						w.cloud.Put(resource{ID: "old", Name: "old", Tags: tags(m)})
						return get(ctx, id)
					}
				})
				if would := must(v.Prunable(t.Context(), external.Cap{})); len(would) != 1 {
					t.Fatalf("a prune would delete %v, want the orphan: this shows nothing", would)
				}
				if done, err := v.Prune(t.Context(), external.Cap{}); err != nil || len(done) != 0 || w.cloud.Calls("Delete") != 0 {
					t.Errorf("pruned %v, %v; want nothing", done, err)
				}
			})
		})
	}
}

// deleteFails lets the deletion of one resource fail.
func (w *world) deleteFails(id string, err error) func(*invOpts) {
	return func(o *invOpts) {
		o.Delete = func(ctx context.Context, r resource) error {
			if r.ID == id {
				return err
			}
			return w.cloud.Delete(ctx, r.ID)
		}
	}
}

func TestPruneEndsAtTheFirstFailure(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.populate(50)
		orphans(3)(w, nil)
		v := w.inventory(w.deleteFails("old-1", errDisk))
		done, err := v.Prune(t.Context(), external.Cap{})
		if !errors.Is(err, errDisk) || len(done) != 1 || done[0].ID != "old-0" {
			t.Errorf("pruned %v, %v; want old-0 and then the failure", done, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := v.Prune(ctx, external.Cap{}); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
}

// What was in use goes after what used it, and then there is nothing to name. Of a prune
// that another failure ends, the error names both.
//
// Negative controls: mutants "what was in use is named although it went" and "a failure of a
// prune hides what is in use".
func TestPruneNamesWhatIsStillInUse(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.populate(50)
		orphans(5)(w, nil)
		left := 5
		v := w.inventory(func(o *invOpts) {
			o.Delete = func(ctx context.Context, r resource) error {
				if r.ID != fmt.Sprint("old-", left-1) { // each is used by the next one
					return fmt.Errorf("%w by the next one", external.ErrInUse)
				}
				left--
				return w.cloud.Delete(ctx, r.ID)
			}
		})
		if done, err := v.Prune(t.Context(), external.Cap{}); err != nil || len(done) != 5 {
			t.Errorf("pruned %v, %v; want all five and no error", done, err)
		}
	})
	bubble(t, func(t *testing.T, w *world) {
		w.populate(50)
		orphans(3)(w, nil)
		v := w.inventory(func(o *invOpts) {
			o.Delete = func(_ context.Context, r resource) error {
				if r.ID == "old-0" {
					return fmt.Errorf("%w: it is mounted", external.ErrInUse)
				}
				return errDisk
			}
		})
		if done, err := v.Prune(t.Context(), external.Cap{}); len(done) != 0 || !errors.Is(err, errDisk) || !errors.Is(err, external.ErrInUse) {
			t.Errorf("pruned %v, %v; want nothing, the failure and what is in use", done, err)
		}
	})
}

// A cap that a call gives counts though one of its numbers is left out.
//
// Negative control: mutant "a cap without a count overrides nothing".
func TestCapOfACallMayLeaveANumberOut(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.populate(50)
		orphans(8)(w, nil)
		v := w.inventory()
		for _, few := range []external.Cap{{}, {Count: 20}, {Percent: 12}} {
			if done, err := v.Prune(t.Context(), few); !errors.Is(err, external.ErrPruneRefused) || len(done) != 0 {
				t.Errorf("with %+v: pruned %v, %v; want a refusal", few, done, err)
			}
		}
		if done, err := v.Prune(t.Context(), external.Cap{Percent: 100}); err != nil || len(done) != 8 {
			t.Errorf("with all percent: pruned %v, %v; want all eight", done, err)
		}
	})
}
