package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// Copy copies every object of a kind from one store to another, on another
// backend: with status, conditions, uid, generation, intent and times, so that
// what was created in external systems is still known. Only revisions are new.
// It returns how many objects it wrote. An object that is already there with
// the same uid is skipped, so that a copy that broke off can be made again; one
// with another uid is [ErrExists]. Fields that this program does not know are copied.
//
// At the end Copy compares every object of src, as it is then, with that of dst. If one
// differs or is missing, because src was written meanwhile, or either store since an
// earlier copy broke off, the error is [ErrConflict] and names the object: delete it from
// dst, and copy again. No controller should work on the kind meanwhile. Objects that only
// dst has are left alone.
func Copy[S, T any](ctx context.Context, dst, src *Store[S, T]) (int, error) {
	if dst == nil || src == nil {
		return 0, fmt.Errorf("%w: Copy: a nil store", ErrInvalid)
	}
	return copyAll(ctx, dst.core, src.core)
}

func copyAll(ctx context.Context, dst, src *core) (int, error) {
	n := 0
	if err := eachRecord(ctx, src.backend, src.kind, func(r Record) error {
		wrote, err := copyOne(ctx, dst, src, r)
		if wrote {
			n++
		}
		return err
	}); err != nil {
		return n, err
	}
	return n, eachRecord(ctx, src.backend, src.kind, func(r Record) error { return checkCopy(ctx, dst, src, r) })
}

// CopyRecords is [Copy] for a program without the kind's types: it copies the stored bytes as
// they are, of any version or encryption. It returns how many records it wrote. A
// record that is already there is skipped, so that a copy that broke off can be made again.
// At the end every record of src, as it is then, is compared with that of dst: if one is
// missing or has other bytes, the error is [ErrConflict]. No controller should work on the
// kind meanwhile. Leases are not copied. A backend that keeps Go values, as memory does,
// encrypts them each time otherwise ([Options].Encryption), so that they always differ: use
// [Copy], or such a backend without Encryption.
func CopyRecords(ctx context.Context, dst, src Backend, kind string) (int, error) {
	if dst == nil || src == nil {
		return 0, fmt.Errorf("%w: CopyRecords: a nil backend", ErrInvalid)
	}
	n := 0
	if err := eachRecord(ctx, src, kind, func(r Record) error {
		data, err := r.Encode()
		if err != nil {
			return err
		}
		_, err = dst.Commit(ctx, Txn{
			If:  []Compare{{Kind: kind, Key: r.Key}}, // that there is none
			Ops: []Op{{Kind: kind, Key: r.Key, Put: Bytes(data)}},
		})
		switch {
		case err == nil:
			n++
		case errors.Is(err, ErrConflict):
			err = nil // the check compares it
		}
		return err
	}); err != nil {
		return n, err
	}
	return n, eachRecord(ctx, src, kind, func(r Record) error {
		there, err := dst.Get(ctx, kind, r.Key)
		if errors.Is(err, ErrNotFound) {
			return missing(kind, r.Key)
		}
		if err != nil {
			return err
		}
		want, err := r.Encode()
		if err != nil {
			return err
		}
		got, err := there.Encode()
		if err == nil && !bytes.Equal(got, want) {
			err = differs(kind, r.Key)
		}
		return err
	})
}

func missing(kind string, key Key) error {
	return fmt.Errorf("%w: %s %s was created while it was copied: copy again", ErrConflict, kind, key)
}

func differs(kind string, key Key) error {
	return fmt.Errorf("%w: %s %s differs from its copy: delete the copy, and copy again", ErrConflict, kind, key)
}

// eachRecord calls f for every record of the kind, all of one revision, until f fails.
func eachRecord(ctx context.Context, b Backend, kind string, f func(Record) error) error {
	o := ListOptions{}
	for {
		page, err := b.List(ctx, kind, o)
		if err != nil {
			return err
		}
		for _, r := range page.Records {
			if err := f(r); err != nil {
				return err
			}
		}
		if page.Cursor == "" {
			return nil
		}
		o.Cursor = page.Cursor
	}
}

// kernelPart is what every object has besides spec and status, as it is stored.
func kernelPart(o object) string {
	p := o.parts()
	e := fields{*p.Meta, nil, nil, *p.conditions, *p.phase, *p.observed, *p.owners, storedOutputs(p.Intent.Outputs)}
	e.Meta.Revision, e.Meta.Newer = 0, false // each store has its own
	return jsonOf(e)
}

// checkCopy compares an object of src with that of dst.
func checkCopy(ctx context.Context, dst, src *core, r Record) error {
	f, err := src.decode(r)
	if err != nil {
		return err
	}
	there, err := dst.get(ctx, r.Key)
	if errors.Is(err, ErrNotFound) {
		return missing(src.kind, r.Key)
	}
	if err != nil {
		return err
	}
	a, b := f.object.parts(), there.parts()
	if !src.same(&src.spec, a.spec, b.spec) || !src.same(&src.status, a.status, b.status) ||
		kernelPart(f.object) != kernelPart(there) {
		return differs(src.kind, r.Key)
	}
	return nil
}

func copyOne(ctx context.Context, dst, src *core, r Record) (bool, error) {
	f, err := src.decode(r)
	if err != nil {
		return false, err
	}
	if f.schema > dst.version {
		return false, fmt.Errorf("%w: %s %s", ErrNewer, src.kind, r.Key)
	}
	c, err := dst.copyOf(f)
	if err != nil {
		return false, err
	}
	_, err = dst.insert(ctx, c.held(encoder{core: dst, stored: f.record.Bytes}))
	if !errors.Is(err, ErrExists) {
		return err == nil, err
	}
	there, err := dst.get(ctx, r.Key)
	if err != nil {
		return false, err
	}
	if there.meta().UID != f.UID {
		return false, fmt.Errorf("%w: %s %s with another uid", ErrExists, dst.kind, r.Key)
	}
	return false, nil
}
