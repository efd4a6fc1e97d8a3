package external_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/reconciletest"
	"github.com/tendhq/tend/store"
)

// inParts is an inventory whose list shows names and a serial number, as S3's
// shows names and dates: neither the mark nor what is declared.
func (w *world) inParts(details *int, edit ...func(*invOpts)) *inventory {
	whole := w.options().Get
	return w.inventory(append([]func(*invOpts){func(o *invOpts) {
		o.List = func(ctx context.Context) iter.Seq2[resource, error] {
			return func(yield func(resource, error) bool) {
				for r, err := range w.cloud.List(ctx) {
					if !yield(resource{ID: r.ID, Name: r.Name, Props: map[string]string{"born": r.Props["born"]}}, err) {
						return
					}
				}
			}
		}
		o.Detail = func(ctx context.Context, r resource) (resource, bool, error) {
			*details++
			if r.Tags != nil || r.Props["size"] != "" {
				w.t.Errorf("Detail is asked about what is whole: %+v", r)
			}
			return whole(ctx, r.ID)
		}
		o.DetailFresh = time.Hour
	}}, edit...)...)
}

// Looks at what the list does not show are paid for once in DetailFresh, and the
// list tells in between that the resource is there.
//
// Negative control: with recallLocked never content with a detail, 500 were read.
func TestDetailsAreReadOnceAndKeptForAsLongAsTheyMayBe(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const n = 100
		keys, details := w.populate(n), 0
		v := w.inParts(&details)
		w.reconcileBy(v)
		for range 5 {
			w.reconcileAll(keys)
			must(v.Report(t.Context()))
			time.Sleep(10 * time.Minute)
		}
		if details != n {
			t.Errorf("%d details were read in an hour, want one for each of %d", details, n)
		}
		w.wantCalls(map[string]int{"List": 5, "Create": 0, "Update": 0})
		time.Sleep(15 * time.Minute)
		wantLook(t, v, "t-d00000", true)
		if details != n+1 {
			t.Errorf("%d details were read, want one more after an hour", details-n)
		}
	})
}

// Another resource under the same id is not taken for the one before it: the
// list shows that it is younger.
//
// Negative control: without the comparison in adoptLocked the mark of the first
// was shown for the second.
func TestDetailsOfWhatTheListShowsOtherwiseAreReadAgain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.populate(1)
		details := 0
		v := w.inParts(&details)
		wantLook(t, v, "t-d00000", true)
		w.cloud.Put(resource{ID: "t-d00000", Name: "t-d00000", Props: map[string]string{"born": "later"}})
		time.Sleep(2 * time.Minute)
		r, exists, err := v.Look(t.Context(), "t-d00000")
		if err != nil || !exists || len(r.Tags) != 0 || details != 2 {
			t.Errorf("look %+v, %v, %v after %d details; want the second one, without a mark", r, exists, err, details)
		}
	})
}

func TestWriteInvalidatesDetailsToo(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		keys, details := w.populate(2), 0
		v := w.inParts(&details)
		w.reconcileBy(v)
		w.reconcileAll(keys)
		must(w.store.Mutate(t.Context(), keys[0], func(o *disk) error { o.Spec.Size = "2"; return nil }))
		must(w.rec.Reconcile(w.ctx(), keys[0]))
		time.Sleep(2 * time.Minute)
		for range 2 {
			w.reconcileAll(keys)
		}
		w.wantCalls(map[string]int{"Update": 1})
		if details != 3 {
			t.Errorf("%d details, want three: of each, and of the one that was written again", details)
		}
	})
}

// What is gone since it was listed is missing, and not there.
func TestResourceThatWentSinceItWasListedIsMissing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		keys, details := w.populate(3), 0
		v := w.inParts(&details)
		wantLook(t, v, "t-"+keys[0].Name, true) // lists
		w.cloud.Remove("t-" + keys[1].Name)
		if r, err := v.Report(t.Context()); err != nil || r.Present != 2 || len(r.Missing) != 1 || r.Missing[0].Key != keys[1] {
			t.Errorf("report %+v, %v; want one missing", r, err)
		}
		wantLook(t, v, "t-"+keys[1].Name, false)
	})
}

// What cannot be read is said, and is neither an orphan nor anything else. A
// report that is cut short is none.
//
// promise E2
//
// Negative control: with an error of Detail taken for an answer, the one counted
// as foreign and the other as unclaimed.
func TestUnreadableDetailsAreAFindingAndNothingIsDoneAboutThem(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.populate(20)
		w.orphan("old-1")
		w.orphan("old-2")
		details, closed := 0, map[string]error{"old-1": errors.New("access denied"), "t-d00003": errors.New("access denied")}
		var cut context.CancelFunc
		v := w.inParts(&details, func(o *invOpts) {
			read := o.Detail
			o.Detail = func(ctx context.Context, r resource) (resource, bool, error) {
				if cut != nil {
					cut()
					return r, false, context.Canceled
				}
				if err := closed[r.ID]; err != nil {
					return r, false, err
				}
				return read(ctx, r)
			}
		})
		r, err := v.Report(t.Context())
		if err != nil || len(r.Unreadable) != 2 || r.Unreadable[0].ID != "old-1" || r.Unreadable[1].Key.Name != "d00003" ||
			len(r.Orphans) != 1 || len(r.Different)+len(r.Missing)+len(r.Unclaimed)+r.Foreign != 0 {
			t.Errorf("report %+v, %v", r, err)
		}
		if done, err := v.Prune(t.Context(), external.Cap{}); err != nil || len(done) != 1 || done[0].ID != "old-2" {
			t.Errorf("pruned %v, %v; want old-2", done, err)
		}
		time.Sleep(2 * time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		cut = cancel
		if _, err := v.Prune(ctx, external.Cap{}); !errors.Is(err, context.Canceled) || !errors.Is(err, external.ErrPruneRefused) {
			t.Errorf("cut short: %v, want a refusal", err)
		}
	})
}

// A detail that fails is a failure of its look, and of no other.
func TestLookFailsWithItsDetail(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.populate(2)
		details := 0
		v := w.inParts(&details, func(o *invOpts) {
			read := o.Detail
			o.Detail = func(ctx context.Context, r resource) (resource, bool, error) {
				if r.ID == "t-d00000" {
					return r, false, reconciletest.ErrServer
				}
				return read(ctx, r)
			}
		})
		if _, _, err := v.Look(t.Context(), "t-d00000"); !errors.Is(err, reconciletest.ErrServer) {
			t.Errorf("look = %v, want the failure", err)
		}
		wantLook(t, v, "t-d00001", true)
	})
}

// Prunable says what Prune would do, its refusals included, and does nothing.
func TestPrunableIsPruneWithoutTheDeletes(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.populate(20)
		w.orphan("old-1")
		v := w.inventory()
		if would, err := v.Prunable(t.Context(), external.Cap{}); err != nil || len(would) != 1 || would[0].ID != "old-1" {
			t.Errorf("prunable %v, %v; want old-1", would, err)
		}
		v.Hold("wait")
		var refused *external.PruneError
		if _, err := v.Prunable(t.Context(), external.Cap{}); !errors.As(err, &refused) || len(refused.Would) != 1 {
			t.Errorf("held: %v, want a refusal with old-1", err)
		}
		w.wantCalls(map[string]int{"Delete": 0})
		if o, err := w.store.List(t.Context(), store.Selector{}); err != nil || len(o) != 20 {
			t.Errorf("%d declarations, %v", len(o), err)
		}
	})
}

// A list that takes longer than it may be old serves the callers that waited for it:
// else each of them would read its resource after all, and list again.
//
// Negative control: with the age asked for after the list, 20 were read.
func TestListThatTakesLongServesThoseWhoWaitedForIt(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.cloud = must(reconciletest.NewCloud(&reconciletest.CloudOptions{UniqueNames: true, PageSize: 1, Latency: 20 * time.Second}))
		w.restart(nil)
		w.populate(20) // twenty pages, some three minutes
		v := w.inventory()
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() { wantLook(t, v, fmt.Sprintf("t-d%05d", i), true) })
		}
		all.Wait()
		w.wantCalls(map[string]int{"Get": 0, "List": 20}) // pages
	})
}

// A resource in use is left and named, and ends no prune.
//
// Negative control: with ErrInUse treated as any failure, old-2 stayed.
func TestPruneLeavesWhatIsInUseAndGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.populate(50)
		orphans(3)(w, nil)
		v := w.inventory(w.deleteFails("old-1", fmt.Errorf("%w: it is mounted", external.ErrInUse)))
		done, err := v.Prune(t.Context(), external.Cap{})
		if !errors.Is(err, external.ErrInUse) || !strings.Contains(err.Error(), "old-1") || len(done) != 2 {
			t.Errorf("pruned %v, %v; want old-0 and old-2, and a word about old-1", done, err)
		}
	})
}

// What was read of a resource just before a write, or so soon after it that the cloud
// may still have shown what was, is used once. That a newer list has settled says
// nothing of a detail that is older.
//
// Negative control: kept, it was shown again as soon as a list had settled, for the rest
// of DetailFresh.
func TestDetailsReadBeforeAWriteHadSettledAreNotKept(t *testing.T) {
	for name, write := range map[string]func(v *inventory, id string) (read func()){
		"after the write": func(v *inventory, id string) func() { v.Invalidate(id); return func() {} },
		"meanwhile":       func(v *inventory, id string) func() { return func() { v.Invalidate(id) } },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				key, details := w.populate(1)[0], 0
				id := "t-" + key.Name
				reading := func() {}
				v := w.inParts(&details, func(o *invOpts) {
					read := o.Detail
					o.Detail = func(ctx context.Context, r resource) (resource, bool, error) {
						whole, exists, err := read(ctx, r)
						reading()
						return whole, exists, err
					}
				})
				if _, err := v.Report(t.Context()); err != nil { // lists, and reads the details
					t.Fatal(err)
				}
				v.Invalidate(id) // so that the next report reads them again
				time.Sleep(time.Minute)
				reading = write(v, id)
				if _, err := v.Report(t.Context()); err != nil {
					t.Fatal(err)
				}
				reading = func() {}
				r := w.client.desired(must(w.store.Get(t.Context(), key)))
				r.ID, r.Props["size"], r.Props["born"] = id, "written", ""
				w.cloud.Put(r)
				time.Sleep(2 * time.Minute)
				got, exists, err := v.Look(t.Context(), id)
				if err != nil || !exists || got.Props["size"] != "written" {
					t.Errorf("look %+v, %v, %v; want what was written", got, exists, err)
				}
			})
		})
	}
}

// Details that were read of a resource as a list shows it no more, or that others have read
// again meanwhile, are used once.
//
// Negative controls: mutants "details of a resource that a newer list shows otherwise are kept"
// and "details that end later are newer".
func TestDetailsThatWereOvertakenAreNotKept(t *testing.T) {
	for name, overtake := range map[string]func(w *world, v *inventory, was resource){
		"by a list that shows another resource": func(w *world, v *inventory, was resource) {
			w.cloud.Put(resource{ID: was.ID, Name: was.Name, Tags: was.Tags, Props: map[string]string{"born": "later", "size": "2"}})
			time.Sleep(2 * time.Minute)
			wantLook(w.t.(*testing.T), v, "t-d00001", true) // lists
		},
		"by younger details": func(w *world, v *inventory, was resource) {
			w.cloud.Put(resource{ID: was.ID, Name: was.Name, Tags: was.Tags, Props: map[string]string{"size": "2"}})
			time.Sleep(time.Second)
			wantLook(w.t.(*testing.T), v, was.ID, true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.populate(2)
				const id = "t-d00000"
				details, first := 0, true
				var v *inventory
				v = w.inParts(&details, func(o *invOpts) {
					read := o.Detail
					o.Detail = func(ctx context.Context, r resource) (resource, bool, error) {
						whole, exists, err := read(ctx, r)
						if first {
							first = false
							overtake(w, v, whole)
						}
						return whole, exists, err
					}
				})
				wantLook(t, v, id, true)
				for range 2 {
					if r, exists, err := v.Look(t.Context(), id); err != nil || !exists || r.Props["size"] != "2" {
						t.Errorf("look %+v, %v, %v; want the newer one", r, exists, err)
					}
				}
				if details != 3-map[bool]int{true: 1}[name == "by younger details"] {
					t.Errorf("%d details were read", details)
				}
			})
		})
	}
}

type (
	vaultSpec struct {
		Size, Zone string
		Key        string `tend:"secret"`
	}
	vault = store.Object[vaultSpec, diskStatus]
)

// The diff of a client that looks by itself may quote a secret: no plan, change or condition shows it.
func TestDiffOfAClientShowsNoSecret(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		vaults := must(store.New[vaultSpec, diskStatus](w.backend, "vault", nil))
		must(vaults.Create(t.Context(), &vault{Meta: store.Meta{Name: "v"}, Spec: vaultSpec{Key: "open-sesame-4711"}}))
		var told []external.Change
		rec := must(external.New(vaults, external.Always[vaultSpec, diskStatus](external.ClientFuncs[vaultSpec, diskStatus]{
			ObserveFunc: func(_ context.Context, o *vault) (external.Observation, error) {
				return external.Observation{Exists: true, Owner: external.Ours, Diff: "it has no " + o.Spec.Key}, nil
			},
			UpdateFunc: func(context.Context, *vault) error { return nil },
		}), &external.Options[vaultSpec, diskStatus]{Changes: func(_ context.Context, c external.Change) { told = append(told, c) }}))
		plan := must(rec.Plan(t.Context()))
		must(rec.Reconcile(t.Context(), store.Key{Name: "v"}))
		shown := fmt.Sprintf("%+v %+v %+v", plan, told, must(vaults.Get(t.Context(), store.Key{Name: "v"})).Conditions)
		if len(told) != 1 || strings.Contains(shown, "sesame") || strings.Count(shown, "it has no "+store.Redacted) != 2 {
			t.Errorf("a plan, a change and the conditions are %s", shown)
		}
	})
}

// What a cloud answers may repeat what it was sent.
//
// Negative control: with the error as it came, the report had the key in it.
func TestUnreadableDetailsAreReportedWithoutSecrets(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		vaults := must(store.New[vaultSpec, diskStatus](w.backend, "vault", nil))
		must(vaults.Create(t.Context(), &vault{Meta: store.Meta{Name: "v"}, Spec: vaultSpec{Key: "open-sesame-4711"}}))
		w.cloud.Put(resource{ID: "v", Name: "v"})
		v := must(external.NewInventory(&external.InventoryOptions[vaultSpec, diskStatus, resource]{
			Store: vaults, Installation: home,
			List:    func(ctx context.Context) iter.Seq2[resource, error] { return w.cloud.List(ctx) },
			Get:     w.options().Get,
			ID:      func(r resource) string { return r.ID },
			IDOf:    func(o *vault) string { return o.Name },
			Owner:   readMark,
			Compare: func(*vault, resource) external.Observation { return external.Observation{} },
			Detail: func(context.Context, resource) (resource, bool, error) {
				return resource{}, false, errors.New(strings.Repeat("x", store.MaxMessage-70) + "no access with open-sesame-4711")
			},
		}))
		r, err := v.Report(t.Context())
		if err != nil || len(r.Unreadable) != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		if d := r.Unreadable[0].Diff; !strings.Contains(d, "no access") || strings.Contains(d, "open") {
			t.Errorf("…%s", d[len(d)-60:])
		}
	})
}

// Nothing is kept of a resource that a list does not show any more.
func TestDetailsOfWhatIsGoneAreForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.populate(2)
		details := 0
		v := w.inParts(&details)
		must(v.Report(t.Context()))
		w.cloud.Remove("t-d00000")
		time.Sleep(2 * time.Minute)
		wantLook(t, v, "t-d00001", true) // lists
		if n := v.Remembered(); n != 1 {
			t.Errorf("%d resources are remembered, want the one that is there", n)
		}
	})
}

// promise E2: an update and a deletion rest on whose a resource is by details that are no older than
// Fresh, however long DetailFresh is: the list shows no marks, so what was tagged for another meanwhile
// looks as before.
//
// It was updated, and deleted, by what was read up to DetailFresh before. Negative control: mutant
// "a deletion goes by details of yesterday".
func TestWhatIsTouchedIsOursByDetailsThatAreFresh(t *testing.T) {
	for name, act := range map[string]func(w *world, k store.Key){
		"deletion": func(w *world, k store.Key) {
			if err := w.store.Delete(w.t.Context(), must(w.store.Get(w.t.Context(), k))); err != nil {
				w.t.Fatal(err)
			}
		},
		"update": func(w *world, k store.Key) {
			must(w.store.Mutate(w.t.Context(), k, func(o *disk) error { o.Spec.Size = "2"; return nil }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				keys, details := w.populate(2), 0
				v := w.inParts(&details)
				w.reconcileBy(v)
				w.reconcileAll(keys)
				time.Sleep(10 * time.Minute)
				r := w.cloud.Peek("t-d00000")
				r.Tags = tags(external.Mark{Installation: "another", Kind: "Disk", Key: keys[0]})
				w.cloud.Put(r)
				act(w, keys[0])
				_, _ = w.rec.Reconcile(w.ctx(), keys[0])
				_, _ = w.rec.Reconcile(w.ctx(), keys[0])
				w.wantCalls(map[string]int{"Update": 0, "Delete": 0, "Get": 3})
				if details != 2 {
					t.Errorf("%d details were read, want one of each; what the %s rests on is read by Get", details, name)
				}
			})
		})
	}
}

// What differs and is left so costs no look beyond those of DetailFresh: nothing is written that would rest
// on it.
//
// Negative control: mutant "an old detail of what is left as it is is read again".
func TestOldDetailsOfWhatIsLeftAsItIsAreEnough(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		keys, details := w.populate(2), 0
		v := w.inParts(&details)
		w.reconcileBy(v)
		for _, k := range keys {
			must(w.store.Mutate(t.Context(), k, func(o *disk) error {
				o.Spec.Size = "2"
				o.Annotations = map[string]string{external.PolicyAnnotation: "observe"}
				return nil
			}))
		}
		for range 4 {
			w.reconcileAll(keys)
			time.Sleep(10 * time.Minute)
		}
		w.wantCalls(map[string]int{"Get": 2, "Update": 0})
		if details != 2 {
			t.Errorf("%d details were read, want one of each", details)
		}
	})
}

// A client that looks at the resource by itself where that is asked for ([external.Fresh]) looks once more
// before a write, and not again and again.
//
// The run never ended. Negative control: mutant "a look past the inventory rests on its old details".
func TestClientThatLooksPastTheInventoryLooksTwice(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		keys, details, looks := w.populate(1), 0, 0
		v := w.inParts(&details)
		client := v.Client(external.ClientFuncs[diskSpec, diskStatus]{
			CreateFunc: w.client.Create, UpdateFunc: w.client.Update, DeleteFunc: w.client.Delete,
		})
		byInventory := client.ObserveFunc
		client.ObserveFunc = func(ctx context.Context, o *disk) (external.Observation, error) {
			switch {
			case !external.Fresh(ctx):
				return byInventory(ctx, o)
			case looks > 5:
				return external.Observation{}, errors.New("it looks again and again")
			}
			looks++
			return w.client.Observe(ctx, o)
		}
		w.with(client)
		w.reconcileAll(keys)
		time.Sleep(10 * time.Minute)
		must(w.store.Mutate(t.Context(), keys[0], func(o *disk) error { o.Spec.Size = "2"; return nil }))
		must(w.rec.Reconcile(w.ctx(), keys[0]))
		w.wantCalls(map[string]int{"Update": 1})
		if looks != 1 {
			t.Errorf("%d looks past the inventory, want one", looks)
		}
	})
}
