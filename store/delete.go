package store

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

var zeroTime time.Time

// Delete deletes the object if it is at o's revision. While it has finalizers it
// is only marked: Deleted is set and the generation grows, and the write that removes
// the last finalizer deletes it. Deleting what is already marked does nothing,
// at whatever revision. The errors are those of [Store.Update].
func (s *Store[S, T]) Delete(ctx context.Context, o *Object[S, T]) error {
	if o == nil {
		return s.noObject()
	}
	f, err := s.findMarked(ctx, o)
	if err != nil || f.Deleting() {
		return err
	}
	_, op, err := s.deletion(f)
	if err != nil {
		return err
	}
	_, err = s.write(ctx, op, s.at(o.Key(), f.record.Revision))
	return err
}

// deletion returns the write that deletes f, or marks it.
func (s *Store[S, T]) deletion(f found[S, T]) (*value[S, T], Op, error) {
	if f.schema > s.version && len(f.Finalizers) > 0 {
		return nil, Op{}, fmt.Errorf("%w: %s %s", ErrNewer, s.kind, f.Key())
	}
	v := &value[S, T]{Object: *f.Object, store: s, schema: s.version, stored: f.record.Bytes, full: true}
	op := Op{Kind: s.kind, Key: f.Key()}
	if len(f.Finalizers) > 0 {
		v.Deleted = now()
		v.Generation++
		op.Put = v
	}
	return v, op, nil
}

// findMarked is findAt, except that the revision is not compared for an object
// that is already marked, as long as it is the same one.
func (s *Store[S, T]) findMarked(ctx context.Context, o *Object[S, T]) (found[S, T], error) {
	f, err := s.find(ctx, o.Key())
	if err != nil {
		return f, err
	}
	if f.record.Revision == o.Revision || f.Deleting() && f.UID == o.UID {
		return f, nil
	}
	return s.findAt(ctx, o)
}

// DeleteUndecodable deletes an object whose stored bytes cannot be decoded, for an
// operator: [Store.Delete] cannot tell whether it has finalizers, and fails with a
// [*DecodeError]. What its finalizers protected, such as resources in a cloud, is left
// behind; the deletion is logged as a warning. An object that can be decoded is
// [ErrInvalid], one that was written meanwhile a [*ConflictError].
func (s *Store[S, T]) DeleteUndecodable(ctx context.Context, k Key) error {
	r, err := s.backend.Get(ctx, s.kind, k)
	if err != nil {
		return err
	}
	if _, err := s.decode(r); err == nil {
		return fmt.Errorf("%w: %s %s can be decoded, use Delete", ErrInvalid, s.kind, k)
	}
	if _, err := s.write(ctx, Op{Kind: s.kind, Key: k}, s.at(k, r.Revision)); err != nil {
		return err
	}
	s.log().WarnContext(ctx, "undecodable object deleted, its finalizers are not known", "kind", s.kind,
		"namespace", k.Namespace, "name", k.Name, "revision", uint64(r.Revision))
	return nil
}

// RemoveFinalizer takes a finalizer away by force, for an operator: the program
// that owns it will not come back. What the finalizer protected may be
// left behind; the removal is logged as a warning. Removing what is not there
// does nothing. It returns the object as stored then.
func (s *Store[S, T]) RemoveFinalizer(ctx context.Context, k Key, name string) (*Object[S, T], error) {
	removed := false
	o, err := s.Mutate(ctx, k, func(o *Object[S, T]) error {
		removed = o.RemoveFinalizer(name)
		return nil
	})
	if err == nil && removed {
		s.log().WarnContext(ctx, "finalizer removed by force", "kind", s.kind, "namespace", k.Namespace, "name", k.Name,
			"uid", o.UID, "finalizer", name, "deleting", o.Deleting(), "left", len(o.Finalizers))
	}
	return o, err
}

func (s *Store[S, T]) log() *slog.Logger {
	if s.logger != nil {
		return s.logger
	}
	return slog.Default()
}
