package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tendhq/tend/store"
)

// copy copies kinds from one store to another. It needs no types, and shows nothing of what
// it copies.
func (r *command) copy(ctx context.Context, args []string) (err error) {
	from, to, kinds := args[0], args[1], args[2:]
	if from == to {
		return usage("a store cannot be copied to itself")
	}
	src, err := r.openStore(ctx, from, false)
	if err != nil {
		return fmt.Errorf("FROM: %w", err)
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	for _, kind := range kinds {
		some, err := src.List(ctx, kind, store.ListOptions{Limit: 1})
		if err == nil && len(some.Records) == 0 { // a word that is mistyped looks so
			err = fmt.Errorf("%w: FROM has nothing of kind %q", store.ErrNotFound, kind)
		}
		if err != nil {
			return err
		}
	}
	dst, err := r.openStore(ctx, to, true)
	if err != nil {
		return fmt.Errorf("TO: %w", err)
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	if !slices.Contains(kinds, store.InstallationKind) {
		if err := r.warnOfMarks(ctx, dst, src); err != nil {
			return err
		}
	}
	for _, kind := range kinds {
		n, err := store.CopyRecords(ctx, dst, src, kind)
		if err != nil {
			return fmt.Errorf("copy of %s: %d written, more may be left: %w", kind, n, err)
		}
		fmt.Fprintf(r.Stdout, "%s: %d copied, all compared\n", printable(kind), n)
	}
	return nil
}

// warnOfMarks says so if dst does not have the installation of src, whose id the marks of
// external resources carry.
func (r *command) warnOfMarks(ctx context.Context, dst, src store.Backend) error {
	var ids [2]string
	for i, b := range []store.Backend{src, dst} {
		rec, err := b.Get(ctx, store.InstallationKind, store.Key{Name: "id"})
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		id, err := rec.Encode()
		if err != nil {
			return err
		}
		ids[i] = string(id)
	}
	if ids[0] != "" && ids[0] != ids[1] {
		fmt.Fprintf(r.Stderr, "FROM's installation is not copied: a service on TO takes all external resources that it marked before "+
			"for another's. If it is to keep them, copy the kind %s first.\n", store.InstallationKind)
	}
	return nil
}
