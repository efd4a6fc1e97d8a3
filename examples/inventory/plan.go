package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// plan shows what a run would do, and does nothing of it: the inventory is
// loaded into a copy of the state, in memory, and the same code that decides in
// a run decides about that. It returns the exit code: 0 nothing to do, 2
// changes, 1 an error.
func plan(ctx context.Context, o options, out, notes io.Writer) (int, error) {
	a := newApp(o, notes)
	entries, err := a.openFile()
	if err != nil {
		return 1, err
	}
	var p external.Plan
	err = a.withServer(func(url string) error {
		state, err := openState(ctx, o.Store)
		if err != nil {
			return fmt.Errorf("-store: %w", err)
		}
		p, err = a.plan(ctx, state, url, entries)
		return errors.Join(err, state.Close())
	})
	if err != nil {
		return p.ExitCode(err), err
	}
	if o.JSON {
		err = p.WriteJSON(out)
	} else {
		err = p.WriteText(out)
	}
	return p.ExitCode(err), err
}

// openState opens the state. A file that is not there is not made.
func openState(ctx context.Context, url string) (store.Backend, error) {
	path, _ := strings.CutPrefix(url, "file:")
	if _, err := os.Stat(path); path != url && errors.Is(err, os.ErrNotExist) {
		return memory.New(nil)
	}
	return store.Open(ctx, url)
}

func (a *app) plan(ctx context.Context, state store.Backend, url string, entries []Entry) (external.Plan, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, a.o.Timeout, errTimeout)
	defer cancel()
	scratch, err := memory.New(nil)
	if err != nil {
		return external.Plan{}, err
	}
	defer scratch.Close()
	if err := copyState(ctx, scratch, state); err != nil {
		return external.Plan{}, err
	}
	if err := a.prepare(ctx, state, program.New(scratch, nil), url, entries); err != nil {
		return external.Plan{}, err
	}
	if err := a.load(ctx); err != nil {
		return external.Plan{}, err
	}
	if err := a.trustState(ctx); err != nil {
		return external.Plan{}, err
	}
	orphans, err := a.foresee(ctx)
	if err != nil {
		return external.Plan{}, err
	}
	buckets, err := a.reconciler.Plan(ctx, orphans...)
	if err != nil {
		return buckets, err
	}
	files, err := a.files.reconciler.Plan(ctx)
	if err != nil {
		return files, err
	}
	if err := a.tellCost(entries, buckets.Changes(), files); err != nil {
		return buckets, err
	}
	return together(buckets, files), nil
}

// together is both plans in the order in which they are done.
func together(buckets, files external.Plan) external.Plan {
	if len(files.Steps)+files.Kept == 0 {
		return buckets
	}
	return external.Plan{
		Kind: buckets.Kind + ", " + files.Kind, Steps: external.Sequence(buckets, files), Kept: buckets.Kept + files.Kept,
	}
}

// load makes the scratch store hold what the file declares, as a run would or although it
// would refuse.
func (a *app) load(ctx context.Context) error {
	data, err := os.ReadFile(a.o.File)
	if err != nil {
		return err
	}
	if err := loadKind(ctx, a, a.declared.Store, data, a.decode, a.maxRemovals); err != nil {
		return err
	}
	return loadKind(ctx, a, a.files.declared.Store, data, a.decodeFiles, a.maxFileRemovals)
}

func loadKind[S, T any](ctx context.Context, a *app, s *store.Store[S, T], data []byte,
	decode func([]byte) ([]*store.Object[S, T], error), most func(stored int) int,
) error {
	set, err := decode(data)
	if err != nil {
		return err
	}
	before, err := s.List(ctx, store.Selector{})
	if err != nil {
		return err
	}
	_, err = s.Apply(ctx, set, declaredBy, most(len(before)))
	if tooMany, refused := errors.AsType[*store.CapError](err); refused {
		a.out.Line("a run would refuse: %v; if that is meant, start it with %s", err, confirm(tooMany))
		_, err = s.Apply(ctx, set, declaredBy, math.MaxInt)
	}
	return err
}

// copyState copies what is on record of the buckets and the files, and that prunes are held, if they are:
// a plan is not to promise otherwise.
func copyState(ctx context.Context, to, from store.Backend) error {
	for _, kind := range []string{kind, fileKind, external.HoldKind} {
		if _, err := store.CopyRecords(ctx, to, from, kind); err != nil {
			return fmt.Errorf("reading the state: %w", err)
		}
	}
	return nil
}
