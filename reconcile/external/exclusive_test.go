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

// An exclusive create is the question whether the resource is there: the list alone
// comes before it.
func TestListIsEnoughForAnExclusiveCreate(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		exclusive(w, 0)
		w.restart(nil)
		w.declare()
		w.run()
		w.wantCalls(map[string]int{"List": 1, "Get": 0, "Create": 1})
		w.run()
		w.wantCalls(map[string]int{"List": 1, "Get": 1, "Create": 1})
		w.wantCondition(store.ConditionReady, store.True, "")
	})
	bubble(t, func(t *testing.T, w *world) { // the same with a create that overwrites
		w.listed = true
		w.restart(nil)
		w.declare()
		w.run()
		w.wantCalls(map[string]int{"List": 1, "Get": 1, "Create": 1})
	})
}

// promise E2: the list does not show a resource of others yet, and the create finds the
// name taken: nothing of it is touched, neither then nor with the object's deletion.
//
// Negative control: mutant "a name that is taken counts as created".
func TestExclusiveCreateThatIsRefusedTouchesNothingOfOthers(t *testing.T) {
	for name, tags := range map[string]map[string]string{
		"unmarked":    nil,
		"another's":   tags(external.Mark{Installation: "there", Kind: "Disk", Key: key, UID: "u"}),
		"another key": tags(external.Mark{Installation: home, Kind: "Disk", Key: store.Key{Namespace: "t", Name: "b"}, UID: "u"}),
	} {
		bubble(t, func(t *testing.T, w *world) {
			exclusive(w, 0)
			w.restart(nil)
			w.declare(func(o *disk) { o.Name = "first" })
			must(w.rec.Reconcile(w.ctx(), store.Key{Namespace: key.Namespace, Name: "first"})) // makes the list
			was := w.cloud.Put(resource{Name: nameOf(&disk{Meta: store.Meta{Namespace: key.Namespace, Name: key.Name}}), Tags: tags, Props: map[string]string{"size": "7"}})
			w.declare()
			if err := w.fails(); !errors.Is(err, external.ErrExists) {
				t.Fatalf("%s: %v, want ErrExists", name, err)
			}
			for range 8 {
				time.Sleep(10 * time.Second)
				_, _ = w.rec.Reconcile(w.ctx(), key)
			}
			w.wantCondition(store.ConditionSynced, store.False, external.ReasonNotOurs)
			w.delete()
			for range 8 {
				time.Sleep(10 * time.Second)
				_, _ = w.rec.Reconcile(w.ctx(), key)
			}
			if !w.gone() {
				t.Errorf("%s: the object is still there: %+v", name, w.get().Conditions)
			}
			if is := w.cloud.Peek(was.ID); fmt.Sprint(is) != fmt.Sprint(was) {
				t.Errorf("%s: the resource is %+v, want it untouched: %+v", name, is, was)
			}
		})
	}
}

// promise E1: the SDK's own retry of a create whose answer was lost is told that the
// name is taken, by what the first try made. It cannot be seen yet when the object is
// deleted.
//
// Negative control: mutant "a name that is taken is a failed create"; with that the
// resource was left behind.
func TestResourceOfARetriedCreateIsNotLeftBehind(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.cloud = must(reconciletest.NewCloud(&reconciletest.CloudOptions{Seed: 1, UniqueNames: true, Lag: 20 * time.Second}))
		exclusive(w, 0)
		w.restart(nil)
		retried := w.client
		w.with(w.inventory().Client(external.ClientFuncs[diskSpec, diskStatus]{
			CreateFunc: func(ctx context.Context, o *disk) error {
				_ = retried.Create(ctx, o)
				return retried.Create(ctx, o)
			},
			UpdateFunc: retried.Update, DeleteFunc: retried.Delete,
		}))
		w.declare()
		if err := w.fails(); !errors.Is(err, external.ErrExists) {
			t.Fatalf("%v, want ErrExists", err)
		}
		w.delete()
		w.takeOver(w.store)
		if left := sizes(w.cloud); left != "" || !w.gone() {
			t.Errorf("left behind: %q; the object is gone: %v", left, w.gone())
		}
	})
}

// The names are ours, and the ids the cloud's: what a create made whose answer was lost is
// found by its mark, since the create itself is only told that the name is taken.
//
// Seen to fail: a create with each backoff, each refused, for ever.
//
// Negative control: mutant "a resource whose name is taken is not looked for by its mark".
func TestExclusiveCreateOfALostAnswerIsFoundByItsMark(t *testing.T) {
	for _, detailed := range []bool{false, true} {
		bubble(t, func(t *testing.T, w *world) {
			exclusive(w, 0)
			w.restart(nil)
			w.with(w.inventory(func(o *invOpts) {
				if o.IDOf = nil; detailed { // the list shows no marks
					o.Detail = func(_ context.Context, r resource) (resource, bool, error) { return r, true, nil }
				}
			}).Client(w.losing(w.client.Create).(external.ClientFuncs[diskSpec, diskStatus])))
			w.declare()
			w.fails()
			var err error
			for range 5 {
				_, err = w.rec.Reconcile(w.ctx(), key)
				time.Sleep(31 * time.Second)
			}
			got := w.cloud.Truth()
			switch i := w.get().Intent; {
			case len(got) != 1:
				t.Fatalf("disks %+v, want one", got)
			case detailed && !errors.Is(err, external.ErrExists):
				t.Errorf("%v by a list without marks, want ErrExists", err)
			case !detailed && (err != nil || i.ExternalName != got[0].ID || i.Succeeded.Before(i.Pending)):
				t.Errorf("%v, the record is %+v; want the name %s on record", err, i, got[0].ID)
			}
		})
	}
}

// promise E2: that a list does not show a resource is no proof that it is gone: a
// deletion looks at the resource itself.
//
// Negative control: mutant "a list is enough to end a deletion".
func TestEndOfADeletionIsNotTakenFromAList(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		exclusive(w, 0)
		w.o.CreationGrace = time.Second
		hidden := false
		w.restart(nil)
		w.with(w.inventory(func(o *invOpts) {
			list := o.List
			o.List = func(ctx context.Context) iter.Seq2[resource, error] {
				return func(yield func(resource, error) bool) {
					for r, err := range list(ctx) {
						if hidden {
							continue
						}
						if !yield(r, err) {
							return
						}
					}
				}
			}
		}).Client(external.ClientFuncs[diskSpec, diskStatus]{CreateFunc: w.client.Create, UpdateFunc: w.client.Update, DeleteFunc: w.client.Delete}))
		w.declare()
		w.run()
		hidden = true
		time.Sleep(2 * time.Minute)
		w.delete()
		w.takeOver(w.store)
		if left := sizes(w.cloud); left != "" || !w.gone() {
			t.Errorf("left behind: %q; the object is gone: %v", left, w.gone())
		}
	})
}

func TestExclusiveCreateNeedsANameOfOurs(t *testing.T) {
	w := newWorld(t)
	for _, n := range []external.Naming{external.ByCloud, external.ByMark} {
		_, err := external.New(w.store, external.Nop[diskSpec, diskStatus](), &external.Options[diskSpec, diskStatus]{Naming: n, ExclusiveCreate: true})
		if err == nil || !strings.Contains(err.Error(), "ExclusiveCreate") {
			t.Errorf("naming %d: %v, want ExclusiveCreate refused", n, err)
		}
	}
}

// promise E1: where creates are not declared to be exclusive, a name that is taken is a failed
// create like any other. Nothing is pending, and no human is asked.
//
// Negative control: mutant "a name that is taken leaves every create pending".
func TestNameThatIsTakenIsAFailureWithoutExclusiveCreate(t *testing.T) {
	for _, n := range []external.Naming{external.ByCloud, external.ByUs, external.ByMark} {
		bubble(t, func(t *testing.T, w *world) {
			w.o.Naming = n
			w.restart(nil)
			client, calls := funcs(func(f *external.ClientFuncs[diskSpec, diskStatus]) {
				f.ObserveFunc = func(context.Context, *disk) (external.Observation, error) { return external.Observation{}, nil }
				f.CreateFunc = func(context.Context, *disk) error { return external.ErrExists }
			})
			w.with(external.Always[diskSpec, diskStatus](client))
			w.declare()
			for range 2 {
				if err := w.fails(); !errors.Is(err, external.ErrExists) {
					t.Errorf("naming %d: got error %v, want %v", n, err, external.ErrExists)
				}
			}
			if i := w.get().Intent; i.Failed.Before(i.Pending) || i.Failed.IsZero() || i.Attempt != 2 {
				t.Errorf("naming %d: the record is %+v after %q, want two failures", n, i, *calls)
			}
		})
	}
}
