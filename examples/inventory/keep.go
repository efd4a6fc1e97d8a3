package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/reconcile/web"
	"github.com/tendhq/tend/store"
)

// keep lets the kernel work on what the file declares, until ctx ends, or with -once
// until everything is as declared.
func (a *app) keep(ctx context.Context) error {
	a.program.Check(a.trustState(ctx))
	if a.o.Listen != "" {
		pages, err := web.New(nil, &web.Options{Program: a.program, Metrics: a.collector, Debug: a.debugPage()})
		if a.program.Check(err); err == nil {
			a.lobby.pages.Store(&pages)
			a.out.Line("serving http://%s/metrics and /debug", a.lobby.addr)
		}
	}
	if a.o.Prune || a.o.Listen != "" {
		a.program.Use(runner(a.sweepNowAndThen), nil)
	}
	began := time.Now()
	o := &program.Options{Once: a.o.Once, Out: a.out, Left: a.left}
	if o.Once {
		o.Timeout = a.o.Timeout
	}
	o.Complete = func(ctx context.Context) error {
		a.out.Line("%s", summary(program.ProgressOf(a.parts...), a.done, a.meter.Calls(), time.Since(began)))
		err := a.sweep(ctx, true)
		if err == nil && a.o.Chaos > 0 {
			err = a.runChaos(ctx)
		}
		if a.o.Once {
			return err
		}
		return nil // it was said, and the program goes on
	}
	err := a.program.Run(ctx, o)
	if tooMany, ok := errors.AsType[*store.CapError](err); ok {
		err = fmt.Errorf("%w\nif that is meant, start with %s", err, confirm(tooMany))
	}
	return err
}

// A runner is a function that the manager runs.
type runner func(ctx context.Context) error

func (f runner) Run(ctx context.Context) error { return f(ctx) }

func (a *app) runChaos(ctx context.Context) error {
	seed := rand.Uint64()
	a.out.Line("chaos: %d alterations, seed %d", a.o.Chaos, seed)
	c := newChaos(a.buckets, a.inForce, seed, a.out.Line)
	a.done.watch(c.Touched)
	defer a.done.watch(nil)
	if err := c.Run(ctx, a.o.Chaos); err != nil {
		return err
	}
	a.out.Line("%s", c.Summary())
	err := program.Wait(ctx, a.parts...)
	if err == nil {
		a.out.Line("%v; %v in all", program.ProgressOf(a.parts...), a.done)
	}
	return err
}

// left is told what is left, and says what fails. Nothing is said while the endpoint
// itself is the reason: that has been said already.
func (a *app) left(l program.Left) {
	hint := ""
	if tooMany, ok := errors.AsType[*store.CapError](l.Err); ok {
		hint = "; if that is meant, start with " + confirm(tooMany)
	}
	if l.Failing && a.meter.Down() == "" {
		a.out.Line("x %s  %s%s", cmp.Or(l.Key.String(), l.Kind), l.Why, hint)
	}
}

func confirm(e *store.CapError) string { return fmt.Sprintf("-confirm-removals %d", len(e.Delete)) }
