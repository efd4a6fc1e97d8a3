package depend_test

import (
	"context"
	"errors"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// restorable is a backend that a backup can take the place of, while its users go on.
type restorable struct {
	mu   sync.Mutex
	now  store.Backend
	swap context.CancelCauseFunc
	life context.Context
}

func newRestorable(t testing.TB) *restorable {
	b := &restorable{}
	b.put(t.Context(), must(memory.New(nil))(t))
	return b
}

var errRestored = errors.New("the server is restarted with a backup")

func (b *restorable) put(ctx context.Context, now store.Backend) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.swap != nil {
		b.swap(errRestored)
	}
	b.now = now
	b.life, b.swap = context.WithCancelCause(ctx)
}

func (b *restorable) at() (store.Backend, context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now, b.life
}

// backup is a copy of a kind as it is.
func backup(t testing.TB, b store.Backend, kind string) store.Backend {
	to := must(memory.New(nil))(t)
	if _, err := store.Copy(t.Context(), must(store.New[Spec, Status](to, kind, nil))(t), must(store.New[Spec, Status](b, kind, nil))(t)); err != nil {
		t.Fatal(err)
	}
	return to
}

func (b *restorable) Get(ctx context.Context, kind string, key store.Key) (store.Record, error) {
	now, _ := b.at()
	return now.Get(ctx, kind, key)
}

func (b *restorable) List(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
	now, _ := b.at()
	return now.List(ctx, kind, o)
}

func (b *restorable) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	now, _ := b.at()
	return now.Commit(ctx, txn)
}

func (b *restorable) Watch(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		now, life := b.at()
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(life, func() { cancel(errRestored) })()
		if after > 0 && context.Cause(ctx) == nil {
			if page, err := now.List(ctx, kind, store.ListOptions{}); err == nil && page.Revision < after {
				after = 0 // a revision of another history: all is told from the beginning
			}
		}
		for batch, err := range now.Watch(ctx, kind, after) {
			if !yield(batch, err) {
				return
			}
		}
	}
}

func (b *restorable) Close() error { return nil }

// The store of the users, or that of what they need, is restored from a backup of before the
// first use, while both servers run. The users' runs take their holds again, within seconds,
// and what is deleted then stays until its user has gone.
//
// promise E2
func TestStoreRestoredFromABackupKeepsTheOrder(t *testing.T) {
	for name, restored := range map[string]string{"of the users": "machine", "of what they need": "vpc", "of both": ""} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCloud()
				stores := map[string]*restorable{"vpc": newRestorable(t), "machine": newRestorable(t)}
				vpc, theirs := newHalf(t, stores["vpc"], "vpc", c), newHalf(t, stores["vpc"], "vpc", c)
				machine := newHalf(t, stores["machine"], "machine", c)
				defer vpc.run(t)()
				must(vpc.store.Create(t.Context(), &Thing{Meta: store.Meta{Name: "v"}}))(t)
				must(machine.store.Create(t.Context(), &Thing{Meta: store.Meta{Name: "m"}, Spec: Spec{Needs: []string{"v"}}}))(t)
				settle()
				backups := make(map[string]store.Backend)
				for kind, b := range stores {
					backups[kind] = backup(t, b, kind)
				}
				inBackup := must(store.New[Spec, Status](backups["vpc"], "vpc", nil))(t)
				if v := must(inBackup.Get(t.Context(), store.Key{Name: "v"}))(t); v.HasFinalizer(depend.Finalizer("machine")) {
					t.Fatal("the backup is not of before the first use")
				}
				defer machine.run(t, depend.On(theirs.cache, needed, nil))()
				settle()
				get := func(h *half, name string) *Thing {
					o, err := h.store.Get(t.Context(), store.Key{Name: name})
					if errors.Is(err, store.ErrNotFound) {
						return nil
					}
					return must(o, err)(t)
				}
				if m := get(machine, "m"); !m.Ready() || m.Annotations[depend.HoldsAnnotation] == "" {
					t.Fatalf("the machine does not use the VPC: %+v", m)
				}
				for kind, b := range stores {
					if restored == "" || restored == kind {
						b.put(t.Context(), backups[kind])
					}
				}
				time.Sleep(10 * time.Second) // caches begin a watch again
				synctest.Wait()
				for _, h := range []*half{vpc, machine} {
					name := h.kind[:1]
					check(t, h.store.Delete(t.Context(), get(h, name)))
					time.Sleep(time.Hour)
					synctest.Wait()
					if h == vpc && get(vpc, "v") == nil {
						t.Error("it was deleted under its user")
					}
				}
				if get(vpc, "v") != nil || get(machine, "m") != nil || c.len() > 0 || len(c.refused) > 0 {
					t.Errorf("left: %+v, %+v, %d resources; refused: %v", get(vpc, "v"), get(machine, "m"), c.len(), c.refused)
				}
			})
		})
	}
}

// The store of what is needed is restored from a backup of before the object was ready, and so
// of before its first use: the hold is taken again when the object is ready again.
//
// promise E2. Negative control: the mutant "a finalizer that is lost while its user waits is not taken again".
func TestStoreRestoredToBeforeItsObjectWasReadyKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud()
		vpcs, machines := newRestorable(t), newRestorable(t)
		vpc, theirs := newHalf(t, vpcs, "vpc", c), newHalf(t, vpcs, "vpc", c)
		vpc.fail = func(*Thing) error { time.Sleep(2 * time.Second); return nil } // a VPC takes a while
		machine := newHalf(t, machines, "machine", c)
		must(vpc.store.Create(t.Context(), &Thing{Meta: store.Meta{Name: "v"}}))(t)
		must(machine.store.Create(t.Context(), &Thing{Meta: store.Meta{Name: "m"}, Spec: Spec{Needs: []string{"v"}}}))(t)
		old := backup(t, vpcs, "vpc")
		defer vpc.run(t)()
		time.Sleep(10 * time.Second)
		defer machine.run(t, depend.On(theirs.cache, needed, nil))()
		settle()
		vpcs.put(t.Context(), old)
		wantHeld(t, c, vpc, machine)
	})
}

// The store of the users is restored from a backup in which a user is ready and has no hold,
// as after a version without dependencies: nothing else of it changes, and it takes its hold
// again all the same.
//
// promise E2. Negative control: the mutant "a hold that a user lost is not taken again".
func TestStoreRestoredToAReadyUserWithoutAHoldKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud()
		vpcs, machines := newRestorable(t), newRestorable(t)
		vpc, theirs := newHalf(t, vpcs, "vpc", c), newHalf(t, vpcs, "vpc", c)
		machine := newHalf(t, machines, "machine", c)
		must(vpc.store.Create(t.Context(), &Thing{Meta: store.Meta{Name: "v"}}))(t)
		defer vpc.run(t)()
		settle()
		m := must(machine.store.Create(t.Context(), &Thing{Meta: store.Meta{Name: "m", Finalizers: []string{finalizer}}, Spec: Spec{Needs: []string{"v"}}}))(t)
		m.SetReady()
		must(machine.store.UpdateStatus(t.Context(), m))(t)
		old := backup(t, machines, "machine")
		defer machine.run(t, depend.On(theirs.cache, needed, nil))()
		settle()
		machines.put(t.Context(), old)
		wantHeld(t, c, vpc, machine)
	})
}

// wantHeld says that machine m holds VPC v within ten seconds, and that the VPC is not deleted
// under it.
func wantHeld(t *testing.T, c *cloud, vpc, machine *half) {
	t.Helper()
	time.Sleep(10 * time.Second)
	synctest.Wait()
	v := must(vpc.store.Get(t.Context(), store.Key{Name: "v"}))(t)
	m := must(machine.store.Get(t.Context(), store.Key{Name: "m"}))(t)
	if !v.Ready() || !v.HasFinalizer(depend.Finalizer("machine")) || m.Annotations[depend.HoldsAnnotation] != `["=vpc/v"]` {
		t.Errorf("ten seconds after the restore: %+v, %+v; want a ready VPC that is held", v, m)
	}
	check(t, vpc.store.Delete(t.Context(), v))
	time.Sleep(time.Hour)
	synctest.Wait()
	if _, err := vpc.store.Get(t.Context(), store.Key{Name: "v"}); err != nil || len(c.refused) > 0 {
		t.Errorf("it was deleted under its user: %v; refused: %d", err, len(c.refused))
	}
}
