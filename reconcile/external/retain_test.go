package external_test

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
)

// The tests of this file count what an inventory keeps for each resource beside the newest
// list; how many bytes that is, TestAccountsInRealTime of examples/inventory measures.

// What Detail read of a resource is kept without the item that the list showed: of a list
// that another has replaced, nothing is left.
//
// Seen to fail: every item of the first list was left, held by what Detail had read.
//
// Negative control: mutant "what Detail read keeps the item of its list".
func TestDetailsKeepNothingOfAReplacedList(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		type item = *resource
		const n = 100
		keys, details := w.populate(n), 0
		var first []weak.Pointer[resource] // items of the first list
		o := w.options()
		v := must(external.NewInventory(&external.InventoryOptions[diskSpec, diskStatus, item]{
			Store: w.store, Installation: home, Fresh: time.Minute, DetailFresh: time.Hour,
			List: func(ctx context.Context) iter.Seq2[item, error] {
				note := first == nil
				return func(yield func(item, error) bool) {
					for r, err := range w.cloud.List(ctx) {
						shown := &resource{ID: r.ID, Name: r.Name}
						if note {
							first = append(first, weak.Make(shown))
						}
						if !yield(shown, err) {
							return
						}
					}
				}
			},
			Get: func(ctx context.Context, id string) (item, bool, error) {
				r, there, err := o.Get(ctx, id)
				return &r, there, err
			},
			Detail: func(ctx context.Context, r item) (item, bool, error) {
				details++
				whole, there, err := o.Get(ctx, r.ID)
				return &whole, there, err
			},
			ID: func(r item) string { return r.ID }, IDOf: o.IDOf,
			Owner:   func(r item) (external.Mark, bool) { return o.Owner(*r) },
			Compare: func(d *disk, r item) external.Observation { return o.Compare(d, *r) },
		}))
		w.with(v.Client(external.ClientFuncs[diskSpec, diskStatus]{
			CreateFunc: w.client.Create, UpdateFunc: w.client.Update, DeleteFunc: w.client.Delete,
		}))
		for range 3 {
			w.reconcileAll(keys)
			time.Sleep(2 * time.Minute)
		}
		if details != n || len(first) != n {
			t.Fatalf("%d details were read of a first list of %d, want %d of each", details, len(first), n)
		}
		runtime.GC()
		left := 0
		for _, p := range first {
			if p.Value() != nil {
				left++
			}
		}
		if left > 0 {
			t.Errorf("%d of %d items of the first list are left after the third", left, n)
		}
		runtime.KeepAlive(v)
	})
}

// A map keeps the room of the most that it ever held: what is kept of each resource for the
// time of a first list is not kept in the same map afterwards.
//
// Negative controls: mutants "what an inventory forgets keeps its room" and "keys that come
// back from a list keep their room".
func TestInventoryKeepsNoRoomOfAFirstList(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const n = 100
		w.o.Poll, w.o.ExclusiveCreate = 10*time.Minute, true
		var v *inventory
		full := map[string]external.Room{} // each as it was when it held most
		note := func() {
			for name, m := range v.Rooms() {
				if m.Len > full[name].Len {
					full[name] = m
				}
			}
		}
		details := 0
		v = w.inParts(&details, func(o *invOpts) {
			list := o.List
			o.Fresh, o.DetailFresh = 10*time.Minute, 10*time.Minute
			o.List = func(ctx context.Context) iter.Seq2[resource, error] {
				time.Sleep(time.Second) // all wait for the first list
				return list(ctx)
			}
		})
		w.restart(nil)
		w.with(v.Client(external.ClientFuncs[diskSpec, diskStatus]{
			CreateFunc: func(ctx context.Context, o *disk) error { note(); return w.client.Create(ctx, o) },
			UpdateFunc: w.client.Update, DeleteFunc: w.client.Delete,
		}))
		for i := range n {
			w.declare(func(o *disk) { o.Name = fmt.Sprintf("d%05d", i) })
		}
		_, stop := w.serve(&reconcile.Options[reconcile.Request]{Workers: 1}, []reconcile.Source[reconcile.Request]{v.Changed("lists")})
		defer stop()
		for range 30 {
			time.Sleep(time.Minute)
			synctest.Wait()
			note()
		}
		for name, m := range v.Rooms() {
			was := full[name]
			if was.Len < n*9/10 {
				t.Errorf("%s held %d at most, want about %d: the test shows nothing of it", name, was.Len, n)
			}
			if m.Len < was.Len/2 && m.At == was.At {
				t.Errorf("%s is the map that held %d, and holds %d", name, was.Len, m.Len)
			}
		}
	})
}

// Two sources of one inventory share its lists: one list an interval, and every object is
// looked at, whichever source is the one that lists.
func TestTwoSourcesOfOneInventoryShareItsLists(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.o.Poll = 10 * time.Minute
		keys := w.populate(20)
		v := w.inventory(func(o *invOpts) { o.Fresh = 9 * time.Minute })
		w.restart(nil)
		w.reconcileBy(v)
		_, stop := w.serve(&reconcile.Options[reconcile.Request]{Workers: 2}, []reconcile.Source[reconcile.Request]{v.Changed("one"), v.Changed("two")})
		time.Sleep(35 * time.Minute)
		synctest.Wait()
		stop()
		w.wantCalls(map[string]int{"List": 4, "Get": 0})
		if looks := w.rec.Stats().Calls["observe"].OK; int(looks) < 4*len(keys) {
			t.Errorf("%d looks, want 4 or more at each of %d objects", looks, len(keys))
		}
	})
}
