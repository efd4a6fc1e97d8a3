package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"
)

// keep loads the inventory, lets the kernel work on it, follows the file, and in
// the end drains and says what is left.
func (a *app) keep(ctx context.Context, entries []Entry) error {
	listener, err := a.listen()
	if err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	if a.o.Once {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, a.o.Timeout, errTimeout)
		defer cancel()
	}
	// The kernel outlives ctx: it has to drain. The onlookers outlive the kernel:
	// they see how its last runs end.
	kernelCtx, stopKernel := context.WithCancel(context.WithoutCancel(ctx))
	lookCtx, stopLooking := context.WithCancel(context.WithoutCancel(ctx))
	defer stopKernel()
	defer stopLooking()
	var kernel, onlookers sync.WaitGroup
	var kernelErr error
	kernel.Go(func() {
		kernelErr = a.kernel.Run(kernelCtx)
		end(errors.Join(errors.New("the kernel ended"), kernelErr))
	})
	onlookers.Go(func() { a.follow(lookCtx) })
	onlookers.Go(func() { a.showProgress(lookCtx) })
	if listener != nil {
		onlookers.Go(func() { a.serve(lookCtx, listener) })
	}

	err = a.work(ctx, entries)

	a.sayStopping(ctx)
	stopKernel()
	kernel.Wait()
	stopLooking()
	onlookers.Wait()
	return a.conclude(err, kernelErr)
}

// work is what is done while the kernel runs. It returns nil when it ended as it
// should: converged with -once, interrupted without.
func (a *app) work(ctx context.Context, entries []Entry) error {
	began := time.Now()
	if err := a.apply(ctx, entries); err != nil {
		return err
	}
	if err := a.trustState(ctx); err != nil {
		return err
	}
	var others sync.WaitGroup
	defer others.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	others.Go(func() { a.redeclare(ctx) })
	if a.o.Prune || a.o.Listen != "" {
		others.Go(func() { a.sweepNowAndThen(ctx) })
	}
	others.Go(func() { a.file.Run(ctx, func(data []byte) { a.edit(ctx, data) }, a.unreadable) })

	c, err := a.tally.Wait(ctx, a.settled)
	if err == nil && c.Converged() {
		a.out.Line("%s", summary(c, a.done, a.meter.Calls(), time.Since(began)))
		err = a.sweep(ctx, true)
	}
	if err == nil && a.o.Chaos > 0 {
		err = a.runChaos(ctx)
	}
	if a.o.Once {
		return err
	}
	<-ctx.Done()
	return nil
}

// settled is when -once has nothing to wait for any more; without it, when there
// is something to celebrate.
func (a *app) settled(c count) bool {
	return c.Converged() || a.o.Once && c.Stuck()
}

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
	now, err := a.tally.Wait(ctx, count.Converged)
	if err == nil {
		a.out.Line("%v; %v in all", now, a.done)
	}
	return err
}

// apply makes the entries the inventory in force.
func (a *app) apply(ctx context.Context, entries []Entry) error {
	held, err := a.kernel.Held(ctx)
	if err != nil {
		return err
	}
	if err := a.takeOver(held, specsOf(entries), func() error { return a.kernel.Load(ctx, entries, a.o.Removals) }); err != nil {
		return err
	}
	a.mu.Lock()
	a.entries = entries
	a.mu.Unlock()
	return nil
}

// takeOver counts by what the store holds until load has put what is declared in its
// place: what load refuses to remove was never being deleted.
func (a *app) takeOver(held, declared map[string]BucketSpec, load func() error) error {
	both := maps.Clone(held)
	maps.Copy(both, declared)
	a.tally.Declare(both)
	if err := load(); err != nil {
		a.tally.Declare(held)
		return err
	}
	a.tally.Declare(declared)
	return nil
}

func specsOf(entries []Entry) map[string]BucketSpec {
	declared := map[string]BucketSpec{}
	for _, e := range entries {
		declared[e.Name] = e.spec()
	}
	return declared
}

// redeclare loads the inventory again when something that it declares has gone
// from the store: an entry that was taken out and put back, while its deletion
// went on, has to wait for the end of that.
func (a *app) redeclare(ctx context.Context) {
	for {
		if _, err := a.tally.Wait(ctx, func(c count) bool { return c.Vanished > 0 }); err != nil {
			return
		}
		a.loading.Lock()
		err := a.apply(ctx, a.inForce())
		a.loading.Unlock()
		if err != nil {
			a.out.Line("%v", err)
		}
		// What was created shows in the cache in a moment; what failed is tried
		// again in a second.
		soon, cancel := context.WithTimeout(ctx, time.Second)
		_, _ = a.tally.Wait(soon, func(c count) bool { return err == nil && c.Vanished == 0 })
		cancel()
	}
}

// edit takes over a new content of the file, or says why not; then what was in
// force stays so.
func (a *app) edit(ctx context.Context, data []byte) {
	a.loading.Lock()
	defer a.loading.Unlock()
	entries, err := parseInventory(data)
	if err == nil {
		err = checkLengths(entries, a.buckets.ownership)
	}
	if err != nil {
		a.out.Line("%s is broken; what was declared before stays in force:\n%v", a.o.File, err)
		return
	}
	if err := a.apply(ctx, entries); err != nil {
		a.out.Line("%v; what was declared before stays in force", err)
		return
	}
	a.out.Line("%s was edited: %d buckets declared", a.o.File, len(entries))
}

func (a *app) unreadable(err error) {
	a.out.Line("%v; what was declared before stays in force", err)
}

// showProgress renews the progress line until ctx ends.
func (a *app) showProgress(ctx context.Context) {
	for {
		c, changed := a.tally.Count()
		if c.Converged() || len(a.inForce()) == 0 {
			a.out.Progress("")
		} else {
			a.out.Progress(c.String())
		}
		select {
		case <-changed:
		case <-ctx.Done():
			a.out.Progress("")
			return
		}
	}
}

func (a *app) sayStopping(ctx context.Context) {
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errTimeout) {
		a.out.Line("stopping: letting the runs under way finish")
	}
}

// conclude says what is left, and turns it into the error of -once.
func (a *app) conclude(err, kernelErr error) error {
	left := a.tally.Left()
	if len(a.inForce()) == 0 {
		left = nil // nothing was taken over, so nothing was worked on; err says why
	}
	switch {
	case len(left) > 0:
		a.out.Text(fmt.Sprintf("left, of %d declared:\n%s", len(a.inForce()), leftText(left)))
	case !a.o.Once:
		a.out.Text(fmt.Sprintf("all %d as declared; %v", len(a.inForce()), a.done))
	}
	if a.o.Once && len(left) > 0 {
		err = errors.Join(err, fmt.Errorf("%d buckets are not as declared", len(left)))
	}
	return errors.Join(err, kernelErr)
}
