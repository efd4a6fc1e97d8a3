package external_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/reconciletest"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/objects"
)

// keyed is a client of a resource whose update makes another key, as a look says beforehand.
func keyed(upToDate func() bool, update func(o *disk) error) external.ClientFuncs[diskSpec, diskStatus] {
	f, _ := funcs(func(f *external.ClientFuncs[diskSpec, diskStatus]) {
		f.ObserveFunc = func(context.Context, *disk) (external.Observation, error) {
			return external.Observation{Exists: true, UpToDate: upToDate(), Rotates: !upToDate(), Owner: external.Ours}, nil
		}
		f.UpdateFunc = func(_ context.Context, o *disk) error { return update(o) }
	})
	return f
}

func never() bool { return false }

// promise E3: outputs that were announced and are not on record are lost, whatever the record says of the create: the
// resource may have been adopted, and a later create may have failed before an earlier one was seen.
//
// Seen to fail with losses of resources that are on record as created alone.
func TestOutputsAreLostWhateverBecameOfTheCreate(t *testing.T) {
	for name, edit := range map[string]func(*store.Intent){
		"adopted":         func(*store.Intent) {},
		"a failed create": func(i *store.Intent) { i.Failed = time.Now() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.o.Publisher = &outlet{}
				w.with(keyed(func() bool { return true }, nil))
				w.declare()
				w.intent(func(i *store.Intent) { i.OutputsDue = true; edit(i) })
				w.run()
				w.wantCondition(store.ConditionReady, store.False, external.ReasonOutputsLost)
			})
		})
	}
}

// A create that failed says nothing of the outputs of a resource before it, which may be seen again: they were
// not published, and are off the record.
//
// Seen to fail with the failure that ends what is due.
func TestFailedCreateForgetsNoEarlierOutputs(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.o.Publisher = &outlet{err: errors.New("down")}
		there := true
		f, _ := funcs(func(f *external.ClientFuncs[diskSpec, diskStatus]) {
			f.ObserveFunc = func(context.Context, *disk) (external.Observation, error) {
				return external.Observation{Exists: there, UpToDate: there, Owner: external.Ours}, nil
			}
			f.CreateFunc = func(context.Context, *disk) error { return errors.New("409") }
		})
		w.with(f)
		w.declare()
		w.intent(func(i *store.Intent) {
			i.Succeeded, i.Outputs = time.Now(), store.NewOutputs(map[string]string{"key": "not-published"})
		})
		there = false
		w.run() // of a process that has not seen it: the creation grace
		time.Sleep(time.Hour)
		w.fails()
		there = true
		w.run()
		w.wantCondition(store.ConditionReady, store.False, external.ReasonOutputsLost)
	})
}

// A loss that cannot be mended is no reason to look at the cloud each second.
//
// Seen to fail with a look a second after each run that found a loss, and with an event at each run.
func TestLossIsNoLoop(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.o.Publisher = &outlet{}
		w.o.Policy = func(*disk) (external.Policy, error) {
			return external.Observe | external.Create, nil
		}
		f := keyed(func() bool { return true }, nil)
		f.RotateFunc = func(context.Context, *disk) error { return errors.New("forbidden by the policy") }
		w.with(f)
		w.declare()
		w.intent(func(i *store.Intent) { i.OutputsDue, i.Succeeded = true, time.Now() })
		w.run()
		if res := w.run(); res.RequeueAfter < 30*time.Second {
			t.Errorf("the next look is after %v", res.RequeueAfter)
		}
		if said := w.reasons(); len(said) != 1 || said[0] != external.ReasonOutputsLost {
			t.Errorf("two runs say %q, want the loss once", said)
		}
	})
}

// How a publisher fails does not count as how the run did, and a panic of it holds up no more than an error.
//
// Seen to fail with errors that are joined, a terminal error that is passed on, and a panic that is not contained.
func TestFaultOfAPublisherIsItsOwn(t *testing.T) {
	denied := errors.New("access denied")
	for name, fault := range map[string]func() error{
		"conflict":  func() error { return fmt.Errorf("vault: %w", store.ErrConflict) },
		"terminal":  func() error { return reconcile.Terminal(errors.New("no such vault")) },
		"throttled": func() error { return ratelimit.Throttled(nil, time.Now().Add(time.Minute), errors.New("429")) },
		"panic":     func() error { panic("vault") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.o.Publisher = faulty(fault)
				updates := error(nil)
				w.with(keyed(never, func(*disk) error { return updates }))
				w.declare()
				w.intent(func(i *store.Intent) {
					i.Succeeded, i.Outputs = time.Now(), store.NewOutputs(map[string]string{"key": "waits"})
				})
				_, _ = w.rec.Reconcile(w.ctx(), key) // from here on it has the finalizer
				updates = denied
				if err := w.fails(); !errors.Is(err, denied) || errors.Is(err, store.ErrConflict) || errors.Is(err, reconcile.ErrTerminal) || ratelimit.IsThrottled(err) {
					t.Errorf("a run whose update failed ends with %v", err)
				}
				updates = nil
				if _, err := w.rec.Reconcile(w.ctx(), key); errors.Is(err, reconcile.ErrTerminal) {
					t.Errorf("a run that updated the resource ends with the terminal error %v", err)
				}
				w.wantCondition(store.ConditionReady, store.False, external.ReasonNotPublished)
			})
		})
	}
}

type faulty func() error

func (f faulty) Publish(context.Context, *disk, map[string]string) error { return f() }
func (f faulty) Withdraw(context.Context, *disk) error                   { return f() }

// Outputs that a call returned count, although it failed after that. One that was throttled, or not made, lost none.
//
// Seen to fail with the outputs of calls that succeeded alone, and with a throttled update that is a loss.
func TestFailedUpdateAndItsOutputs(t *testing.T) {
	for name, c := range map[string]struct {
		update    func(o *disk) error
		published string
		reason    string
	}{
		"returned them": {func(o *disk) error { hands(o, "new"); return errors.New("409 of a later step") }, "new", ""},
		"throttled":     {func(*disk) error { return ratelimit.Throttled(nil, time.Now().Add(time.Second), errors.New("429")) }, "", ""},
		"unknown":       {func(*disk) error { return errors.New("502") }, "", external.ReasonOutputsLost},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p, done := &outlet{}, false
				w.o.Publisher = p
				w.with(keyed(func() bool { return done }, c.update))
				w.declare()
				w.intent(func(i *store.Intent) { i.Succeeded = time.Now() })
				_, _ = w.rec.Reconcile(w.ctx(), key)
				done = true // what was asked for was taken back
				w.run()
				if got := p.has["password"]; got != c.published {
					t.Errorf("published %q, want %q", got, c.published)
				}
				want := store.True
				if c.reason != "" {
					want = store.False
				}
				w.wantCondition(store.ConditionReady, want, c.reason)
			})
		})
	}
}

// lookedAtInBulk is a client of funcs that observes many by one call. It has all their methods, Rotate among them.
type lookedAtInBulk struct {
	external.ClientFuncs[diskSpec, diskStatus]
}

func (lookedAtInBulk) ObserveBatch(_ context.Context, objects []*disk) []external.Outcome[external.Observation] {
	all := make([]external.Outcome[external.Observation], len(objects))
	for i := range all {
		all[i].Value = external.Observation{Exists: true, UpToDate: true, Owner: external.Ours}
	}
	return all
}

// rotatedInBulk has a method of its own in place of the func.
type rotatedInBulk struct {
	lookedAtInBulk
	rotate func(context.Context, *disk) error
}

func (c rotatedInBulk) Rotate(ctx context.Context, o *disk) error { return c.rotate(ctx, o) }

// promise E3: a client that is called for many objects at once replaces the lost outputs of each, if it can. One that
// embeds funcs and has none to rotate is as one without the method.
//
// Seen to fail with a gathered client that is not looked into, with the embedded method taken for its func, with the
// func asked for where a method stands in its place, and with an object that is Ready during the call.
func TestGatheredClientRotates(t *testing.T) {
	for name, can := range map[string]bool{"rotates": true, "has a method": true, "has no func": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p := &outlet{}
				w.o.Publisher = p
				rotate := func(_ context.Context, o *disk) error {
					w.wantCondition(store.ConditionReady, store.False, "")
					hands(o, "new")
					return nil
				}
				f, _ := funcs(func(*external.ClientFuncs[diskSpec, diskStatus]) {})
				var c external.Client[diskSpec, diskStatus] = lookedAtInBulk{f}
				if name == "has a method" {
					c = rotatedInBulk{lookedAtInBulk{f}, rotate}
				} else if can {
					f.RotateFunc = rotate
					c = lookedAtInBulk{f}
				}
				w.with(external.Always(must(external.Gather(c, nil))))
				w.declare()
				w.intent(func(i *store.Intent) { i.Succeeded = time.Now() })
				w.run()
				w.wantCondition(store.ConditionReady, store.True, "")
				w.intent(func(i *store.Intent) { i.OutputsDue = true })
				w.run()
				w.run()
				if can {
					w.wantCondition(store.ConditionReady, store.True, "")
				} else {
					w.wantCondition(store.ConditionReady, store.False, external.ReasonOutputsLost)
				}
				if got := p.has["password"]; (got == "new") != can {
					t.Errorf("published %q", got)
				}
			})
		})
	}
}

// An update that is throttled again and again, and may replace what is published, does not make its object Ready and
// not Ready in turn: each try would store both.
//
// Seen to fail with the condition of before that comes back after each.
func TestThrottledUpdatesLeaveTheObjectNotReady(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, done, busy := &outlet{}, true, true
		w.o.Publisher = p
		w.with(keyed(func() bool { return done }, func(o *disk) error {
			w.wantCondition(store.ConditionReady, store.False, "")
			if busy {
				return ratelimit.Throttled(nil, time.Now().Add(time.Second), errors.New("429"))
			}
			hands(o, "new")
			return nil
		}))
		w.declare()
		w.intent(func(i *store.Intent) { i.Succeeded = time.Now() })
		w.run()
		w.wantCondition(store.ConditionReady, store.True, "")
		done = false
		var first store.Condition
		for n := range 3 {
			w.fails()
			c, _ := w.get().Condition(store.ConditionReady)
			if n == 0 {
				first = c
			}
			if c.Status != store.False || c != first {
				t.Errorf("after %d tries Ready is %+v, and it was %+v", n+1, c, first)
			}
			time.Sleep(time.Minute)
		}
		busy = false
		w.run()
		w.wantCondition(store.ConditionReady, store.True, "")
	})
}

// What may have been made by a create of unknown outcome, and is taken over by an update before that is known, is not
// Ready as long as what the update returned is not published.
//
// Seen to fail without a question for outputs on record.
func TestTakenOverBeforeItsCreateIsKnownIsNotReadyUnpublished(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, made := &outlet{}, false
		w.o.Publisher, w.o.Naming = p, external.ByMark
		w.o.Policy = func(*disk) (external.Policy, error) { return external.All | external.Adopt, nil }
		w.restart(nil)
		f, _ := funcs(func(f *external.ClientFuncs[diskSpec, diskStatus]) {
			f.ObserveFunc = func(_ context.Context, o *disk) (external.Observation, error) {
				o.Intent.ExternalName = "r-1"
				return external.Observation{Exists: made, Owner: external.Unmarked, Rotates: true}, nil
			}
			f.CreateFunc = func(context.Context, *disk) error { made = true; return external.Unknown(errors.New("502")) }
			f.UpdateFunc = func(_ context.Context, o *disk) error { hands(o, "of the update"); return nil }
		})
		w.with(f)
		w.declare()
		w.fails()
		_, _ = w.rec.Reconcile(w.ctx(), key)
		o := w.get()
		if ready, _ := o.Condition(store.ConditionReady); o.Intent.Outputs != (store.Outputs{}) && ready.Status == store.True {
			t.Error("it is Ready, and its outputs are on record")
		}
		if o.Intent.Outputs == (store.Outputs{}) && p.has["password"] == "" {
			t.Errorf("the update did not take it over: %+v", o.Intent)
		}
	})
}

// A loss ends where a person says that it replaced what was lost.
//
// Seen to fail without the answer.
func TestPersonEndsALoss(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := &outlet{has: map[string]string{"password": "by hand"}}
		w.o.Publisher = p
		w.with(keyed(func() bool { return true }, nil))
		w.declare()
		w.intent(func(i *store.Intent) { i.OutputsDue, i.Succeeded = true, time.Now() })
		w.run()
		w.wantCondition(store.ConditionReady, store.False, external.ReasonOutputsLost)
		must(objects.Of(w.store).Answer(t.Context(), key, objects.OutputsRestored, ""))
		w.run()
		w.wantCondition(store.ConditionReady, store.True, "")
		if p.has["password"] != "by hand" || p.gone != 0 {
			t.Errorf("published is %v, and %d times it was withdrawn", p.has, p.gone)
		}
	})
}

// What was published of a resource that went is not that of the one that is taken over in its place.
//
// Seen to fail with the publication that stays.
func TestAdoptionWithdrawsWhatAnEarlierResourceReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, first := takeOver(t, external.ByMark, nil)
		p := &outlet{}
		w.o.Publisher = p
		w.restart(nil)
		w.run()
		w.run()
		p.has = map[string]string{"password": "of the first"}
		if err := w.cloud.Delete(context.Background(), first); err != nil {
			t.Fatal(err)
		}
		f, _ := funcs(func(f *external.ClientFuncs[diskSpec, diskStatus]) {
			f.ObserveFunc, f.UpdateFunc = w.client.Observe, w.client.Update
			f.CreateFunc = func(context.Context, *disk) error { return errors.New("the quota is used up") }
		})
		w.with(f)
		w.run() // of a process that has not seen it: the creation grace
		time.Sleep(time.Hour)
		w.fails()
		byHand := w.cloud.Put(reconciletest.Resource{Name: "by-hand-2", Props: map[string]string{"size": "1", "zone": "z"}}).ID
		if _, err := objects.Of(w.store).Answer(t.Context(), key, objects.Adopt, byHand); err != nil {
			t.Fatal(err)
		}
		w.run()
		w.run()
		w.wantCondition(store.ConditionReady, store.True, "")
		if p.gone != 1 || p.has != nil || w.get().Intent.ExternalName != byHand {
			t.Errorf("withdrawn %d times, %v is published, and %q is on record", p.gone, p.has, w.get().Intent.ExternalName)
		}
	})
}

// Observe is given outputs that wait for their publication: what it says of them is not shown.
//
// Seen to fail with conditions that are looked at in kinds with secret fields alone.
func TestConditionOfObserveShowsNoOutputs(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.o.Publisher = &outlet{err: errors.New("down")}
		f := keyed(func() bool { return true }, nil)
		f.ObserveFunc = func(_ context.Context, o *disk) (external.Observation, error) {
			o.SetCondition(store.Condition{Type: "Told", Status: store.True, Message: "it is " + o.Intent.Outputs.Values()["password"]})
			return external.Observation{Exists: true, UpToDate: true, Owner: external.Ours}, nil
		}
		w.with(f)
		w.declare()
		w.intent(func(i *store.Intent) {
			i.Succeeded, i.Outputs = time.Now(), store.NewOutputs(map[string]string{"password": "pass-word-1"})
		})
		w.fails()
		if c, _ := w.get().Condition("Told"); strings.Contains(c.Message, "pass-word") {
			t.Errorf("the condition says %q", c.Message)
		}
	})
}

// promise E3: what a create of unknown outcome returned is published once its resource is found, by a look or by a
// person, and not before. Where an earlier create may have made what is found it is lost.
//
// Seen to fail with outputs of creates of known outcome alone, with a publication that does not wait, with those of a
// create that made nothing, with a second create that fails and whose outputs, made before the call, are taken for those
// of the first, and with one that meets the resource and leaves nothing due.
func TestOutputsOfACreateOfUnknownOutcome(t *testing.T) {
	answer := func(a objects.Answer, name string) func(*testing.T, *world) {
		return func(t *testing.T, w *world) { must(objects.Of(w.store).Answer(t.Context(), key, a, name)) }
	}
	for name, c := range map[string]struct {
		naming external.Naming
		second error // of another create; nil: it finds that the resource is there
		then   func(*testing.T, *world)
		has    string
		reason string
	}{
		"found by its name":           {external.ByUs, nil, nil, "of create 1", ""},
		"a second create fails":       {external.ByUs, errors.New("403"), nil, "of create 1", ""},
		"a second create meets it":    {external.ByUs, external.ErrExists, nil, "of create 1", external.ReasonOutputsLost}, // or what its own first try made
		"nor is the second one known": {external.ByUs, external.Unknown(errors.New("502")), nil, "of create 1", external.ReasonOutputsLost},
		"a person knows it":           {external.ByCloud, nil, answer(objects.Created, "r-1"), "of create 1", ""},
		"a person knows of none":      {external.ByCloud, nil, answer(objects.NotCreated, ""), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p, creates := &outlet{}, 0
				w.o.Publisher, w.o.Naming, w.o.ExclusiveCreate = p, c.naming, errors.Is(c.second, external.ErrExists)
				w.restart(nil)
				f, _ := funcs(func(f *external.ClientFuncs[diskSpec, diskStatus]) {
					f.ObserveFunc = func(context.Context, *disk) (external.Observation, error) {
						found := creates > 1 || c.then != nil && creates > 0 && w.get().Intent.ExternalName != ""
						return external.Observation{Exists: found, UpToDate: true, Owner: external.Ours}, nil
					}
					f.CreateFunc = func(_ context.Context, o *disk) error {
						if creates++; creates == 1 || c.second != nil {
							hands(o, fmt.Sprint("of create ", creates)) // it makes them, and then calls
						}
						if creates > 1 {
							return c.second
						}
						return external.Unknown(errors.New("503 of a later step"))
					}
				})
				w.with(f)
				w.declare()
				w.fails()
				w.wantCondition(store.ConditionReady, store.False, external.ReasonCreating)
				if c.then != nil {
					_, _ = w.rec.Reconcile(w.ctx(), key)
					if p.has != nil {
						t.Errorf("%v is published of a create of unknown outcome", p.has)
					}
					c.then(t, w)
				}
				_, _ = w.rec.Reconcile(w.ctx(), key) // the second create may fail
				w.run()
				want := store.True
				if c.reason != "" {
					want = store.False
				}
				w.wantCondition(store.ConditionReady, want, c.reason)
				if got := p.has["password"]; got != c.has {
					t.Errorf("published %q, want %q", got, c.has)
				}
			})
		})
	}
}

// promise E3: a person's word that lost outputs were restored is refused while a call may replace them, and until the
// end of that call is on record, also after the process died in it: what the person published may be what was replaced.
// After the next run it counts.
//
// Seen to fail: with an answer that ended the loss during the call, which failed or died after it had replaced the
// outputs: the object was Ready with credentials that are no more.
func TestNoAnswerIsTakenWhileOutputsAreReplaced(t *testing.T) {
	type call struct {
		name   string
		client func(call func(*disk) error) external.ClientFuncs[diskSpec, diskStatus]
	}
	rotate := call{"rotate", func(call func(*disk) error) external.ClientFuncs[diskSpec, diskStatus] {
		f := keyed(func() bool { return true }, nil)
		f.RotateFunc = func(_ context.Context, o *disk) error { return call(o) }
		return f
	}}
	for _, c := range []call{rotate, {"update", func(call func(*disk) error) external.ClientFuncs[diskSpec, diskStatus] { return keyed(never, call) }}} {
		for _, dies := range []bool{false, true} {
			t.Run(fmt.Sprint(c.name, ", dies ", dies), func(t *testing.T) {
				bubble(t, func(t *testing.T, w *world) {
					w.o.Publisher = &outlet{}
					user, steps := w.store, &reconciletest.Steps{}
					w.restart(steps)
					answer := func() error {
						_, err := objects.Of(user).Answer(t.Context(), key, objects.OutputsRestored, "")
						return err
					}
					calls := 0
					f := c.client(func(*disk) error {
						calls++
						if err := answer(); !errors.Is(err, objects.ErrNotPending) {
							t.Errorf("during the call the answer is taken: %v", err)
						}
						if dies {
							steps.Kill = steps.Count() + 1
						}
						return errors.New("502")
					})
					w.with(f)
					w.declare()
					w.intent(func(i *store.Intent) { i.OutputsDue, i.Succeeded = true, time.Now() })
					w.fails()
					if calls != 1 {
						t.Fatalf("%d calls", calls)
					}
					if dies {
						if err := answer(); !errors.Is(err, objects.ErrNotPending) {
							t.Errorf("after a death in the call the answer is taken: %v", err)
						}
						w.restart(nil)
						w.o.Policy = func(*disk) (external.Policy, error) { return external.Observe | external.Create, nil } // no call again
						w.with(f)
						w.run()
					}
					w.wantCondition(store.ConditionReady, store.False, external.ReasonOutputsLost)
					if err := answer(); err != nil {
						t.Errorf("after the run: %v", err)
					}
				})
			})
		}
	}
}

// An update that was not called, for the time of the run was over, has lost nothing; and one that returns no outputs,
// although its look said so, does not end a loss of before.
//
// Seen to fail: with an update that counts as called, and with one that forgets what was due before it.
func TestAnUpdateThatReturnsNothingChangesNoLoss(t *testing.T) {
	for name, lost := range map[string]bool{"not called": false, "returns none": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.o.Publisher, w.o.Timeout = &outlet{}, time.Minute
				done, calls := false, 0
				f := keyed(func() bool { return done }, func(*disk) error { calls++; return nil })
				look := f.ObserveFunc
				f.ObserveFunc = func(ctx context.Context, o *disk) (external.Observation, error) {
					if !lost && !done {
						time.Sleep(2 * time.Minute)
					}
					return look(ctx, o)
				}
				w.with(f)
				w.declare()
				w.intent(func(i *store.Intent) { i.OutputsDue, i.Succeeded = lost, time.Now() })
				_, _ = w.rec.Reconcile(w.ctx(), key)
				if (calls > 0) != lost {
					t.Fatalf("the update was called %d times", calls)
				}
				done = true
				w.run()
				if lost {
					w.wantCondition(store.ConditionReady, store.False, external.ReasonOutputsLost)
				} else {
					w.wantCondition(store.ConditionReady, store.True, "")
				}
			})
		})
	}
}

// A run that is over publishes nothing: what its create returned is on record, for the server that has the key now.
//
// Seen to fail: with a publisher that is called whether the run is over or not.
func TestARunThatIsOverPublishesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := &outlet{}
		w.o.Publisher = p
		ctx, cancel := context.WithCancel(w.ctx())
		made := false
		f, _ := funcs(func(f *external.ClientFuncs[diskSpec, diskStatus]) {
			f.ObserveFunc = func(context.Context, *disk) (external.Observation, error) {
				return external.Observation{Exists: made, UpToDate: true, Owner: external.Ours}, nil
			}
			f.CreateFunc = func(_ context.Context, o *disk) error { made = true; hands(o, "new"); cancel(); return nil }
		})
		w.with(f)
		w.declare()
		_, _ = w.rec.Reconcile(ctx, key)
		if p.has != nil || w.get().Intent.Outputs == (store.Outputs{}) {
			t.Errorf("published is %v, on record %+v", p.has, w.get().Intent)
		}
		w.run()
		if p.has["password"] != "new" {
			t.Errorf("published is %v", p.has)
		}
	})
}
