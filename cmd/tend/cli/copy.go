package cli

import (
	"context"
	"errors"
	"fmt"

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
	for _, kind := range kinds {
		n, err := store.CopyRecords(ctx, dst, src, kind)
		if err != nil {
			return fmt.Errorf("copy of %s: %d written, more may be left: %w", kind, n, err)
		}
		fmt.Fprintf(r.Stdout, "%s: %d copied, all compared\n", printable(kind), n)
	}
	return nil
}
