package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tendhq/tend/reconcile/external"
)

// What is marked as ours and not declared is an orphan: it was taken out of the
// file while no store remembered it. With -prune it is deleted, if it is empty and
// all of the guards of external.Inventory agree; without, it is told, and left.

// sweepNowAndThen looks after what no object stands for until ctx ends.
func (a *app) sweepNowAndThen(ctx context.Context) error {
	every := time.NewTicker(max(10*a.o.Poll, time.Minute))
	defer every.Stop()
	for {
		select {
		case <-every.C:
			_ = a.sweep(ctx, false) // said, if it is news
		case <-ctx.Done():
			return nil
		}
	}
}

// sweep compares the endpoint with what is declared, and prunes if it was asked
// to. Aloud it says how the two compare, else only what it did and what failed.
func (a *app) sweep(ctx context.Context, aloud bool) error {
	a.sweeping.Lock()
	defer a.sweeping.Unlock()
	r, err := a.inventory.Report(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		if a.meter.Down() == "" { // else that was said already
			a.out.Line("the buckets could not be compared with what is declared: %v", brief(err))
		}
		if a.o.Prune {
			return errors.New("nothing was pruned")
		}
		return nil
	}
	if aloud {
		a.out.Line("%s", reportText(r))
	}
	if !a.o.Prune {
		if aloud && len(r.Orphans) > 0 {
			a.out.Line("%s", leftAloneText(r.Orphans))
		}
		return nil
	}
	return a.prune(ctx)
}

// prune deletes the orphans, or says why not.
func (a *app) prune(ctx context.Context) error {
	done, err := a.inventory.Prune(ctx, external.Cap{})
	for _, f := range done {
		a.out.Line("- %s  pruned: it was ours, and not declared", f.ID)
	}
	if len(done) > 0 {
		_, _ = a.inventory.Report(ctx) // for the debug page; what fails is told at the next sweep
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	a.out.Line("%s", refusal(err))
	return errors.New("not everything was pruned")
}

// trustState is the operator's word that the state, which seems to come from a
// backup, lacks nothing that was declared since.
func (a *app) trustState(ctx context.Context) error {
	if !a.o.TrustState {
		return nil
	}
	return a.inventory.Release(ctx)
}

// foresee is the orphans that a plan would have deleted. It says what would be
// refused, and what is left alone.
func (a *app) foresee(ctx context.Context) ([]external.Finding, error) {
	r, err := a.inventory.Report(ctx)
	if err != nil {
		return nil, brief(err)
	}
	a.out.Line("%s", reportText(r))
	if !a.o.Prune {
		if len(r.Orphans) > 0 {
			a.out.Line("%s", leftAloneText(r.Orphans))
		}
		return nil, nil
	}
	would, err := a.inventory.Prunable(ctx, external.Cap{})
	if errors.Is(err, external.ErrPruneRefused) {
		a.out.Line("a run would refuse: %s", refusal(err))
		return nil, nil
	}
	return would, err
}

// refusal is why a prune did not go as asked, with what it would have done.
func refusal(err error) string {
	text := brief(err).Error()
	if refused, ok := errors.AsType[*external.PruneError](err); ok && len(refused.Would) > 0 {
		text = fmt.Sprintf("nothing was pruned: %s; see -prune-most, -prune-percent and -trust-state. It would have been:\n%s", refused.Reason, orphansText(refused.Would))
	}
	return text
}

// reportText is how the endpoint compares with the file, in one line.
func reportText(r external.Report) string {
	return fmt.Sprintf("compared with the endpoint as listed %v ago: %v", time.Since(r.Listed).Round(100*time.Millisecond), r)
}

// leftAloneText tells of orphans that no -prune deletes.
func leftAloneText(orphans []external.Finding) string {
	return fmt.Sprintf("buckets that carry our mark and are not declared: %d, left alone without -prune:\n%s", len(orphans), orphansText(orphans))
}

func orphansText(orphans []external.Finding) string {
	var names []string
	for _, f := range orphans {
		names = append(names, f.ID)
	}
	return leftText(names)
}
