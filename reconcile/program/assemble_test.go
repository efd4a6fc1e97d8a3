package program_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/declare"
	"github.com/tendhq/tend/reconcile/event"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

type (
	plan struct{ Servers int }
	held struct{ Running int }
	shop = store.Object[plan, held]
)

// newProgram is a program with a kind that is made ready, on a store of its own.
func newProgram(o *program.ObjectsOptions[plan, held]) (*program.Program, *program.Objects[plan, held]) {
	p := program.New(memory.New(nil))
	p.Manager.Logger = slog.New(slog.DiscardHandler)
	return p, program.AddKind(p, "site", o)
}

// Reconciled by a function, with a child kind that nothing reconciles, a program ends when all
// is as declared, and what it is made of is listed.
//
// Seen to fail: with progress that was not tracked the object without a Ready condition never
// counted, and it went on.
func TestProgramOfKindsRunsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, sites := newProgram(nil)
		pods := program.AddKind(p, "pod", &program.ObjectsOptions[plan, held]{NoReconciler: true})
		var ran int
		sites.Reconcile(func(ctx context.Context, s *shop) (reconcile.Result, error) {
			ran++
			_, err := pods.Create(ctx, &shop{Meta: store.Meta{Name: s.Name, Owners: []store.Owner{sites.OwnerOf(s)}}})
			if errors.Is(err, store.ErrExists) {
				err = nil
			}
			return reconcile.Result{}, err
		}, nil)
		sites.AddSources(reconcile.Owns(pods.Cache()))
		_, err := sites.Create(t.Context(), &shop{Meta: store.Meta{Name: "a"}})
		p.Check(err)
		if err := p.Run(t.Context(), &program.Options{Once: true}); err != nil || ran == 0 {
			t.Errorf("it ended with %v after %d runs", err, ran)
		}
		if _, err := pods.Get(t.Context(), store.Key{Name: "a"}); err != nil {
			t.Errorf("the child: %v", err)
		}
		const want = `store memory.backend
kind site: store, cache, progress, controller of a function, which watches also pod owned
kind pod: store, cache; NoReconciler
`
		if got := p.String(); got != want {
			t.Errorf("it is\n%s\nwant\n%s", got, want)
		}
		if n := len(p.Parts()); n != 3 {
			t.Errorf("%d parts, want the kinds and the events", n)
		}
	})
}

// Events of runs are with the program's Log, or with the one that it was given.
//
// Seen to fail: with a Run that gave the runs no recorder; with a Log of the program's own beside
// the given one.
func TestProgramKeepsTheEventsOfItsRuns(t *testing.T) {
	for _, give := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p, sites := newProgram(nil)
			given := event.NewLog(nil)
			if give {
				p.Use(given, nil)
			}
			sites.Reconcile(func(ctx context.Context, s *shop) (reconcile.Result, error) {
				event.Warn(ctx, sites.Store, s, "NoRoom", "no room for it")
				return reconcile.Result{}, nil
			}, nil)
			made, err := sites.Create(t.Context(), &shop{Meta: store.Meta{Name: "a"}})
			p.Check(err)
			if err := p.Run(t.Context(), &program.Options{Once: true}); err != nil {
				t.Error(err)
			}
			var logs []*event.Log
			for _, part := range p.Parts() {
				if l, ok := part.(*event.Log); ok {
					logs = append(logs, l)
				}
			}
			if len(logs) != 1 || (logs[0] == given) != give {
				t.Fatalf("its logs are %v, given is %v", logs, given)
			}
			kept := logs[0].Events("site", made.Key(), 0)
			if len(kept) != 1 || !kept[0].Warning || kept[0].Reason != "NoRoom" || kept[0].Message != "no room for it" || kept[0].UID != made.UID {
				t.Errorf("kept is %+v", kept)
			}
		})
	}
}

// Whatever is wrong while a program is put together is returned by Run, all of it, and nothing
// runs. What was made until then is of use, and fails with the reason.
//
// Seen to fail: with a Run that returned the first error only; with one that ran in spite of them.
func TestRunReturnsAllThatIsWrong(t *testing.T) {
	p := program.Open(t.Context(), "nosuch:x")
	sites := program.AddKind[plan, held](p, "site", nil)
	_, err := sites.Create(t.Context(), &shop{Meta: store.Meta{Name: "a"}})
	if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "nosuch") {
		t.Errorf("a create on a store that was not opened: %v", err)
	}
	bad := program.AddKind[plan, held](p, "_", nil)
	bad.Reconcile(nil, nil)
	program.AddKind[plan, held](p, "forgotten", nil)
	program.AddKind[plan, held](p, "forgotten", nil)
	errMine := errors.New("mine")
	p.Check(errMine)
	p.Use(nil, errMine)
	p.Use(nil, nil)
	p.BeforeRun(func() error { t.Error("it came to run"); return nil })
	err = p.Run(t.Context(), nil)
	for _, want := range []string{"nosuch", `"_"`, "mine", "no part", `nothing reconciles the kind "forgotten"`, "added before"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\ndoes not say %q", err, want)
		}
	}
	if !errors.Is(err, errMine) {
		t.Error("it does not wrap what Check was given")
	}
}

// A kind that nothing reconciles is an error unless the code says that it is meant, and so are two
// reconcilers, or one beside NoReconciler, and sources without one.
func TestWhatReconcilesAKindIsSaidOnce(t *testing.T) {
	f := func(context.Context, *shop) (reconcile.Result, error) { return reconcile.Result{}, nil }
	for want, build := range map[string]func(p *program.Program, k *program.Objects[plan, held]){
		"nothing reconciles the kind": func(*program.Program, *program.Objects[plan, held]) {},
		"reconciled twice": func(_ *program.Program, k *program.Objects[plan, held]) {
			k.Reconcile(f, nil)
			k.Reconcile(f, nil)
		},
		"NoReconciler is set": func(p *program.Program, k *program.Objects[plan, held]) {
			k.Reconcile(f, nil)
			program.AddKind(p, "b", &program.ObjectsOptions[plan, held]{NoReconciler: true}).Reconcile(f, nil)
		},
		"nothing reconciles the kind \"site\" yet": func(_ *program.Program, k *program.Objects[plan, held]) {
			k.AddSources(reconcile.From(k.Cache()))
		},
		"Cache is set beside": func(_ *program.Program, k *program.Objects[plan, held]) {
			k.Reconcile(f, &reconcile.ForOptions[plan, held]{Cache: &cache.Options[plan, held]{}})
		},
		"a kind was added before": func(p *program.Program, k *program.Objects[plan, held]) {
			k.Reconcile(f, nil)
			p.Wrap(func(b store.Backend) (store.Backend, error) { return b, nil })
		},
	} {
		p, k := newProgram(nil)
		build(p, k)
		if err := p.Run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Without Once what is stored counts where servers share the keys, and runs of this process
// where none does: a stored Ready proves nothing about the world after a restart.
//
// Seen to fail with runs that were tracked whatever Placement said, with none tracked, and with a look at
// the controller's Placement alone: a server that waited for the Manager's lease never was complete.
func TestStoredReadyCountsWhereServersShareTheKeys(t *testing.T) {
	for by, shared := range map[string]bool{"": false, "controller": true, "manager": true, "backend": true} {
		synctest.Test(t, func(t *testing.T) {
			b := must(memory.New(nil))
			if by == "backend" { // the Manager then has a lease by itself
				b = sharedBackend{b}
			}
			p := program.New(b, nil)
			p.Manager.Logger = slog.New(slog.DiscardHandler)
			sites := program.AddKind[plan, held](p, "site", nil)
			o := &reconcile.ForOptions[plan, held]{}
			one, err := lease.NewSingleton(p.Backend(), "sites", nil)
			p.Check(err)
			switch by {
			case "controller":
				o.Placement = one
			case "manager":
				p.Manager.Placement = one
			}
			sites.Reconcile(func(context.Context, *shop) (reconcile.Result, error) {
				return reconcile.Result{}, errors.New("never")
			}, o)
			site, err := sites.Create(t.Context(), &shop{Meta: store.Meta{Name: "a"}})
			p.Check(err)
			site.SetReady()
			_, err = sites.UpdateStatus(t.Context(), site)
			p.Check(err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			complete := false
			err = p.Run(ctx, &program.Options{Complete: func(context.Context) error { complete = true; cancel(); return nil }})
			if complete != shared || err != nil {
				t.Errorf("with keys that are shared by %q, what is stored as ready counted: %t; it ended with %v", by, complete, err)
			}
		})
	}
}

// sharedBackend is a store that other processes can open too.
type sharedBackend struct{ store.FullBackend }

func (sharedBackend) Shared() bool { return true }

// A program that does not run says what went wrong all the same.
func TestErrIsWhatRunWouldReturn(t *testing.T) {
	p, sites := newProgram(nil)
	if err := p.Err(); err != nil {
		t.Errorf("before anything went wrong: %v", err)
	}
	first, second := errors.New("first"), errors.New("second")
	p.Check(first)
	p.Use(sites.Cache(), second)
	if err := p.Err(); !errors.Is(err, first) || !errors.Is(err, second) {
		t.Errorf("Err = %v, want both errors", err)
	}
}

// A file of declarations is a part like any other: it runs, and counts as progress.
func TestDeclaredFileIsAPart(t *testing.T) {
	p, sites := newProgram(nil)
	sites.Reconcile(func(context.Context, *shop) (reconcile.Result, error) { return reconcile.Result{}, nil }, nil)
	p.Use(declare.New(sites.Store, sites.Cache(), "testdata/none.json", nil))
	err := p.Run(t.Context(), &program.Options{Once: true, Timeout: time.Second})
	if left := (*program.LeftError)(nil); !errors.As(err, &left) || !strings.Contains(fmt.Sprint(left.Left), "none.json") {
		t.Errorf("the file that is not there is not left: %v", err)
	}
}

// A Program that ran is not changed: what came then would be lost without a word.
func TestAProgramIsNotChangedWhenItRan(t *testing.T) {
	p, sites := newProgram(&program.ObjectsOptions[plan, held]{NoReconciler: true})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Run(ctx, nil); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(){
		"AddKind": func() { program.AddKind[plan, held](p, "b", nil) }, "Use": func() { p.Use(sites.Cache(), nil) },
		"Check": func() { p.Check(nil) }, "Run": func() { _ = p.Run(ctx, nil) }, "BeforeRun": func() { p.BeforeRun(nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s does not panic", name)
				}
			}()
			change()
		}()
	}
}

// closing counts the ends of a backend.
type closing struct {
	store.Backend
	n *int
}

func (c closing) Close() error { *c.n++; return c.Backend.Close() }

// Run closes the store of Open, wrapped or not, after an error too, and not that of New, which
// stays the caller's.
//
// Seen to fail with a Run that closed both.
func TestWhoOpensAStoreClosesIt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var n int
	count := func(b store.Backend) (store.Backend, error) { return closing{b, &n}, nil }
	for i, p := range []*program.Program{program.Open(ctx, "memory"), program.Open(ctx, "memory"), program.New(memory.New(nil))} {
		p.Wrap(count)
		program.AddKind(p, "site", &program.ObjectsOptions[plan, held]{NoReconciler: true})
		if i == 1 {
			p.Check(errors.New("bad"))
		}
		if err := p.Run(ctx, nil); (err != nil) != (i == 1) {
			t.Error(i, err)
		}
		if want := min(i+1, 2); n != want {
			t.Errorf("closed %d times after program %d, want %d", n, i, want)
		}
	}
}

// Objects that ForOptions.Only leaves to other controllers are none that a program waits for: nothing
// here ever runs them.
//
// Before, a program with Once waited for them for ever.
func TestOnceWaitsForNoObjectOfAnotherController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, sites := newProgram(nil)
		sites.Reconcile(func(ctx context.Context, s *shop) (reconcile.Result, error) {
			s.SetReady()
			_, err := sites.UpdateStatus(ctx, s)
			return reconcile.Result{}, err
		}, &reconcile.ForOptions[plan, held]{Only: func(s *shop) bool { return s.Labels["class"] == "mine" }})
		for name, class := range map[string]string{"a": "mine", "b": "other"} {
			_, err := sites.Create(t.Context(), &shop{Meta: store.Meta{Name: name, Labels: map[string]string{"class": class}}})
			p.Check(err)
		}
		if err := p.Run(t.Context(), &program.Options{Once: true, Timeout: time.Hour}); err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
}
