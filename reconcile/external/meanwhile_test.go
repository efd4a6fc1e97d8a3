package external_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/store"
)

// hooked is a store that asks before each read of one record, and after it.
type hooked struct {
	store.Backend
	before func(k store.Key) error
	after  func(kind string)
}

func (h *hooked) Get(ctx context.Context, kind string, k store.Key) (store.Record, error) {
	if h.before != nil {
		if err := h.before(k); err != nil {
			return store.Record{}, err
		}
	}
	r, err := h.Backend.Get(ctx, kind, k)
	if h.after != nil {
		h.after(kind)
	}
	return r, err
}

// A prune deletes nothing while the store does not say whether it is declared.
//
// promise E2. Negative control: mutant "a prune deletes what may be declared".
func TestPruneDeletesNothingWhileTheStoreCannotBeRead(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.populate(50)
		w.orphan("old")
		away := errors.New("the store is away")
		w.backend = &hooked{Backend: w.backend, before: func(k store.Key) error {
			if k.Name == "old" {
				return away
			}
			return nil
		}}
		w.restart(nil)
		done, err := w.inventory().Prune(t.Context(), external.Cap{})
		if !errors.Is(err, away) || len(done) != 0 || w.cloud.Calls("Delete") != 0 {
			t.Errorf("pruned %v, %v; want nothing, and why", done, err)
		}
	})
}

// What an operator allows is taken by one of two servers that ask for it at one moment.
//
// promise E2. Negative control: mutant "two servers take the same allowed deletions".
func TestAllowedDeletesAreTakenOnceByServersOfOneMoment(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		plain := w.backend
		var other *external.Reconciler[diskSpec, diskStatus]
		var keys []store.Key
		var meanwhile atomic.Bool // the other server comes between the next read of what is allowed and its write
		h := &hooked{Backend: plain, after: func(kind string) {
			if kind == external.DeleteHoldKind && meanwhile.CompareAndSwap(true, false) {
				must(other.Reconcile(t.Context(), keys[1]))
			}
		}}
		keys = deleteWorld(t, w, 2)
		w.o.DeleteLimit = 1
		w.restart(nil)
		other = w.rec
		w.backend = h
		w.restart(nil)
		for i, r := range []*external.Reconciler[diskSpec, diskStatus]{w.rec, other} { // what they may delete without a word
			k := store.Key{Namespace: "t", Name: []string{"x", "y"}[i]}
			o := must(w.store.Create(t.Context(), &disk{Meta: store.Meta{Namespace: k.Namespace, Name: k.Name}, Spec: diskSpec{Size: "1", Zone: "z"}}))
			w.cloud.Put(w.client.desired(o))
			must(r.Reconcile(t.Context(), k))
			if err := w.store.Delete(t.Context(), must(w.store.Get(t.Context(), k))); err != nil {
				t.Fatal(err)
			}
			must(r.Reconcile(t.Context(), k))
		}
		before := len(w.cloud.Truth())
		if err := w.rec.AllowDeletes(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		meanwhile.Store(true)
		must(w.rec.Reconcile(w.ctx(), keys[0]))
		if meanwhile.Load() {
			t.Fatal("the other server has not come: this shows nothing")
		}
		if got := before - len(w.cloud.Truth()); got != 1 {
			t.Errorf("%d resources are deleted by two servers, want the one that was allowed", got)
		}
	})
}

// What a write has answered serves looks after another list was made that may be of before the
// write, as long as it is fresh.
//
// Negative control: mutant "what a write answered is forgotten with the next list".
func TestAnswerOfAWriteServesAfterTheNextList(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.populate(2)
		v := w.inventory()
		wantLook(t, v, "t-d00000", true)
		time.Sleep(50 * time.Second)
		r := must(w.cloud.Get(t.Context(), "t-d00000"))
		v.Wrote(r)
		time.Sleep(11 * time.Second)
		wantLook(t, v, "t-d00001", true) // the first list is too old
		wantLook(t, v, "t-d00000", true)
		w.wantCalls(map[string]int{"List": 2, "Get": 1}) // the one above
	})
}

// adder is a sink of keys.
type adder func(key reconcile.Request, o queue.AddOptions) error

func (adder) Synced()                                               {}
func (a adder) Add(key reconcile.Request, o queue.AddOptions) error { return a(key, o) }

// changedWorld runs a source of Changed for each sink, over two disks whose list is read once.
// Turn changes a resource and has the next list made.
func changedWorld(t *testing.T, w *world, to ...adder) (v *inventory, turn func(change func(r *resource), id string)) {
	return changedLetters(t, w, external.LettersUnknown, to...)
}

func changedLetters(t *testing.T, w *world, letters external.Letters, to ...adder) (v *inventory, turn func(change func(r *resource), id string)) {
	w.populate(2)
	v = w.inventory(func(o *invOpts) { o.Fresh, o.Settle, o.Letters = 5*time.Second, time.Minute, letters })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	for _, add := range to {
		go func() { done <- v.Changed("lists").Run(ctx, add) }() // ends at cancel
		synctest.Wait()                                          // they are asked for lists in this order
	}
	t.Cleanup(func() {
		cancel()
		for range to {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
	must(v.Report(t.Context()))
	return v, func(change func(r *resource), id string) {
		t.Helper()
		r := must(w.cloud.Get(t.Context(), id))
		change(&r)
		w.cloud.Put(r)
		time.Sleep(6 * time.Second)
		must(v.Report(t.Context()))
		synctest.Wait()
	}
}

func grow(r *resource) { r.Props = map[string]string{"size": r.Props["size"] + "0"} }

// A list that shows a resource otherwise shortly after a write of ours may show the write: only
// what has settled is drift. And only the resources of this installation are ours to run.
//
// Negative controls: mutants "what a write of ours changed is drift" and "the drift of another
// installation runs our objects".
func TestDriftIsWhatOthersChangedOfOurs(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var added []string
		v, turn := changedWorld(t, w, func(key reconcile.Request, _ queue.AddOptions) error { added = append(added, key.Name); return nil })
		want := func(when string, names ...string) {
			t.Helper()
			if !slices.Equal(added, names) {
				t.Errorf("%s: %q were added, want %q", when, added, names)
			}
			added = nil
		}
		v.Invalidate("t-d00000") // it was written
		turn(grow, "t-d00000")
		want("a list within the time of a write")
		turn(grow, "t-d00001")
		want("a list of another one's drift", "d00001")
		time.Sleep(time.Minute)
		turn(grow, "t-d00000")
		want("when the write has settled", "d00000")
		theirs := must(w.cloud.Get(t.Context(), "t-d00000"))
		theirs.ID, theirs.Name = "theirs", "theirs"
		theirs.Tags = tags(external.Mark{Installation: "there", Kind: "Disk", Key: store.Key{Namespace: "t", Name: "d00000"}})
		w.cloud.Put(theirs)
		turn(func(*resource) {}, "t-d00000")
		want("another installation has come")
		turn(grow, "theirs")
		want("the drift of another installation")
	})
}

// Where the cloud folds letters, drift is that of the object whose key differs from the mark in case only, and of
// no other one.
func TestDriftWakesTheObjectOfItsMark(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var added []string
		_, turn := changedLetters(t, w, external.LettersFold, func(key reconcile.Request, _ queue.AddOptions) error { added = append(added, key.Name); return nil })
		turn(func(r *resource) {
			r.Tags = tags(external.Mark{Installation: home, Kind: "Disk", Key: store.Key{Namespace: "T", Name: "D00001"}})
		}, "t-d00001")
		added = nil
		turn(grow, "t-d00001")
		if !slices.Equal(added, []string{"d00001"}) {
			t.Errorf("%q were added, want d00001", added)
		}
	})
}

// Drift that a list shows while the queue is full is added when there is room.
//
// Negative control: mutant "drift that a full queue refuses is lost".
func TestDriftIsAddedWhenAFullQueueHasRoom(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		full, added := 3, 0
		_, turn := changedWorld(t, w, func(reconcile.Request, queue.AddOptions) error {
			if full--; full >= 0 {
				return queue.ErrFull
			}
			added++
			return nil
		})
		turn(grow, "t-d00000")
		time.Sleep(time.Minute)
		synctest.Wait()
		if added != 1 {
			t.Errorf("%d keys were added after the queue had room, want the one that drifted", added)
		}
	})
}

// Each of several controllers has a source of its own: every one adds what drifted, and the
// keys whose runs wait for a list that one of the sources makes.
//
// Negative controls: mutants "of two sources one hears of drift" and "of two sources one adds
// the keys whose runs wait for a list".
func TestEverySourceAddsWhatDriftedAndWhatWaited(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var added [3][]string
		var to []adder
		for i := range added {
			to = append(to, func(key reconcile.Request, _ queue.AddOptions) error {
				added[i] = append(added[i], key.Name)
				return nil
			})
		}
		v, turn := changedWorld(t, w, to...)
		want := func(when, name string) {
			t.Helper()
			synctest.Wait()
			for i := range added {
				if !slices.Equal(added[i], []string{name}) {
					t.Errorf("%s: source %d added %q, want %s", when, i, added[i], name)
				}
				added[i] = nil
			}
		}
		turn(grow, "t-d00000")
		want("after a drift", "d00000")
		w.reconcileBy(v)
		time.Sleep(6 * time.Second) // the list is too old
		w.runOf(store.Key{Namespace: "t", Name: "d00001"})
		want("after a run that waits for a list", "d00001")
	})
}

// A key whose run waited for a list is urgent and keeps its attempts, though another list shows
// drift of its resource before the queue has room for it.
//
// promise Q3. Negative control: mutant "drift takes back that a key waited for a list".
func TestDriftDoesNotTakeBackThatAKeyWaited(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var full atomic.Bool
		added := map[string]queue.AddOptions{}
		v, turn := changedWorld(t, w,
			func(reconcile.Request, queue.AddOptions) error { return nil }, // makes the lists
			func(key reconcile.Request, o queue.AddOptions) error {
				if full.Load() {
					return queue.ErrFull
				}
				added[key.Name] = o
				return nil
			})
		full.Store(true)
		turn(grow, "t-d00000") // the second source waits for room
		w.reconcileBy(v)
		time.Sleep(6 * time.Second) // the list is too old
		w.runOf(store.Key{Namespace: "t", Name: "d00001"})
		synctest.Wait()
		turn(grow, "t-d00001")
		full.Store(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if o := added["d00000"]; len(added) != 2 || o.Urgent || o.KeepAttempts {
			t.Errorf("added %+v, want both, and the one that drifted not urgent", added)
		}
		if o := added["d00001"]; !o.Urgent || !o.KeepAttempts {
			t.Errorf("the key that waited was added with %+v, want it urgent and with its attempts", o)
		}
	})
}
