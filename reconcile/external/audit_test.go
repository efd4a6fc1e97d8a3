package external_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/internal/campaign"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/store"
)

// auditor compares and prunes every minute while a simulation goes on, by an
// inventory that lists each time, and holds what comes of it against the truth:
//
//   - what is reported as missing was not there for all of the last minute,
//   - what is reported as an orphan, or pruned, is not declared.
type auditor struct {
	w   *world
	inv *inventory
	// plain reads the declarations past whatever breaks those of the inventory.
	plain *store.Store[diskSpec, diskStatus]

	mu    sync.Mutex // guards what follows; it outlives restarts of the system
	there map[string]bool
	wrong error // the first violation
	runs  int
	done  int // resources pruned
}

func newAuditor(w *world) *auditor {
	return &auditor{w: w, plain: must(store.New[diskSpec, diskStatus](w.backend, "Disk", nil))}
}

// start audits until the func that it returns is called, which waits for its end.
func (a *auditor) start(edit func(*invOpts)) (stop func()) {
	a.inv = a.w.inventory(func(o *invOpts) {
		o.IDOf, o.Fresh = nil, 1
		if edit != nil {
			edit(o)
		}
	})
	ctx, cancel := context.WithCancel(a.w.t.Context())
	var loop sync.WaitGroup
	loop.Go(func() {
		every := time.NewTicker(time.Minute)
		defer every.Stop()
		for {
			select {
			case <-every.C:
				a.audit(ctx)
			case <-ctx.Done():
				return
			}
		}
	})
	return func() { cancel(); loop.Wait() }
}

func (a *auditor) audit(ctx context.Context) {
	there, declared := a.present(), a.declared()
	r, err := a.inv.Report(ctx)
	stillThere, stillDeclared := a.present(), a.declared()
	a.mu.Lock()
	before := a.there
	a.there = stillThere
	a.mu.Unlock()
	if err == nil {
		a.mu.Lock()
		a.runs++
		a.mu.Unlock()
		for _, f := range r.Missing {
			if before[f.ID] && there[f.ID] && stillThere[f.ID] {
				a.violated("%s is reported as missing, and is there", f)
			}
		}
		for _, f := range r.Orphans {
			if declared[f.Mark.UID] && stillDeclared[f.Mark.UID] {
				a.violated("%s is reported as an orphan, and is declared", f)
			}
		}
	}
	declared = a.declared()
	done, _ := a.inv.Prune(ctx, external.Cap{Count: -1, Percent: 100})
	stillDeclared = a.declared()
	for _, f := range done {
		if declared[f.Mark.UID] && stillDeclared[f.Mark.UID] {
			a.violated("%s was pruned, and is declared", f)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done += len(done)
}

// present are the ids of what is there; in this cloud no id is used again.
func (a *auditor) present() map[string]bool {
	all := map[string]bool{}
	for _, r := range a.w.cloud.Truth() {
		if !r.Deleting {
			all[r.ID] = true
		}
	}
	return all
}

// declared are the uids of all objects.
func (a *auditor) declared() map[string]bool {
	all := map[string]bool{}
	for o, err := range a.plain.All(context.Background(), store.Selector{}) {
		if err != nil {
			panic(err)
		}
		all[o.UID] = true
	}
	return all
}

func (a *auditor) violated(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.wrong == nil {
		a.wrong = fmt.Errorf("%v: "+format, append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
	}
}

// invariant is for a Simulation.
func (a *auditor) invariant() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.wrong
}

// leaveBehind puts something of ours into the cloud that is not declared.
func (w *world) leaveBehind() func(*rand.Rand) (string, error) {
	n := 0
	return func(*rand.Rand) (string, error) {
		n++
		name := fmt.Sprint("left", n)
		r := w.cloud.Put(resource{Name: name, Tags: tags(external.Mark{
			Installation: home, Kind: "Disk", Key: store.Key{Namespace: "t", Name: name}, UID: "u-" + name,
		})})
		return "leave behind " + r.ID, nil
	}
}

// promise E2, under everything at once: what a report says is true, only what
// is not declared is pruned, and in the end all of that is.
//
// Negative controls: TestSimulationCatchesAPartOfAListTakenForTheWhole, and: with load
// taking a list that ended with an error for complete, a disk was reported as missing.
func TestSimulationWithPrunesEndsAsDeclared(t *testing.T) {
	for seed := range campaign.Seeds(t, 3, campaign.Length()) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			a := newAuditor(w)
			if err := w.simulateAudited(seed, a, nil); err != nil {
				t.Error(err)
			}
			if a.runs < 20 || a.done == 0 {
				t.Errorf("seed %d: %d audits, %d pruned: that proves nothing", seed, a.runs, a.done)
			}
			t.Logf("campaign: %d audits, %d pruned", a.runs, a.done)
		})
	}
}

// simulateAudited simulates by mark, or, with every third seed, by exclusive creates and a
// list, with an auditor whose inventory is edited.
func (w *world) simulateAudited(seed uint64, a *auditor, edit func(*invOpts)) error {
	naming, way := external.ByMark, straight
	if seed%3 == 2 {
		naming, way = external.ByUs, exclusively
	}
	s := w.simulation(seed, naming, way)
	s.Acts = append(s.Acts, w.leaveBehind())
	double := s.Invariant
	s.Invariant = func() error {
		if err := a.invariant(); err != nil {
			return err
		}
		return double()
	}
	begin := s.Start
	s.Start = func() (func(), error) {
		stop, err := begin()
		if err != nil {
			return stop, err
		}
		end := a.start(edit)
		return func() { end(); stop() }, nil
	}
	if err := s.Run(w.t.Context()); err != nil {
		return err
	}
	return a.invariant()
}

// halves is a backend whose lists end in the middle, now and then, without an error.
type halves struct {
	store.Backend
	n int
}

func (b *halves) List(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
	p, err := b.Backend.List(ctx, kind, o)
	if b.n++; b.n%3 == 0 && o.Limit != 1 {
		p.Records, p.Cursor = p.Records[:len(p.Records)/2], ""
	}
	return p, err
}

func TestSimulationCatchesAPartOfAListTakenForTheWhole(t *testing.T) {
	for name, c := range map[string]struct {
		broken func(w *world) func(*invOpts)
		says   string
	}{
		"of the cloud": {
			broken: func(*world) func(*invOpts) {
				return func(o *invOpts) {
					list := o.List
					o.List = func(ctx context.Context) iter.Seq2[resource, error] {
						return func(yield func(resource, error) bool) {
							for r, err := range list(ctx) {
								if err != nil || !yield(r, nil) {
									return // without an error
								}
							}
						}
					}
				}
			},
			says: "is reported as missing, and is there",
		},
		"of the declarations": {
			broken: func(w *world) func(*invOpts) {
				return func(o *invOpts) {
					o.Store = must(store.New[diskSpec, diskStatus](&halves{Backend: w.backend}, "Disk", nil))
				}
			},
			says: "is reported as an orphan, and is declared",
		},
	} {
		t.Run(name, func(t *testing.T) {
			caught := false
			for seed := uint64(0); seed < 5 && !caught; seed++ {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					err := w.simulateAudited(seed, newAuditor(w), c.broken(w))
					caught = err != nil && strings.Contains(err.Error(), c.says)
				})
			}
			if !caught {
				t.Error("an inventory that takes a part for the whole passed the simulation")
			}
		})
	}
}
