package store

import (
	"context"
	"errors"
	"fmt"
	"reflect"
)

// Copy copies every object of a kind from one store to another, on another
// backend: with status, conditions, uid, generation, intent and times, so that
// what was created in external systems is still known. Only revisions are new.
// It returns how many objects it wrote. An object that is already there with
// the same uid is skipped, so that a copy that broke off can be made again; one
// with another uid is [ErrExists]. Fields that this program does not know are copied
// if both stores have the same codec. Nobody should write to src meanwhile.
func Copy[S, T any](ctx context.Context, dst, src *Store[S, T]) (int, error) {
	n := 0
	o := ListOptions{}
	for {
		page, err := src.backend.List(ctx, src.kind, o)
		if err != nil {
			return n, err
		}
		for _, r := range page.Records {
			wrote, err := copyOne(ctx, dst, src, r)
			if err != nil {
				return n, err
			}
			if wrote {
				n++
			}
		}
		if page.Cursor == "" {
			return n, nil
		}
		o.Cursor = page.Cursor
	}
}

func copyOne[S, T any](ctx context.Context, dst, src *Store[S, T], r Record) (bool, error) {
	f, err := src.decode(r)
	if err != nil {
		return false, err
	}
	if f.schema > dst.version {
		return false, fmt.Errorf("%w: %s %s", ErrNewer, src.kind, r.Key)
	}
	v := &value[S, T]{Object: *dst.Clone(f.Object), store: dst, schema: dst.version}
	if reflect.TypeOf(src.codec) == reflect.TypeOf(dst.codec) { // else dst's cannot look into them
		v.stored = r.Bytes
	}
	_, err = dst.insert(ctx, v)
	if !errors.Is(err, ErrConflict) {
		return err == nil, err
	}
	there, err := dst.Get(ctx, r.Key)
	if err != nil {
		return false, err
	}
	if there.UID != f.UID {
		return false, fmt.Errorf("%w: %s %s with another uid", ErrExists, dst.kind, r.Key)
	}
	return false, nil
}
