package store

import (
	"cmp"
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
	return s.core.delete(ctx, o)
}

func (s *core) delete(ctx context.Context, o object) error {
	f, err := s.findMarked(ctx, o)
	if err != nil || f.Deleting() {
		return err
	}
	op, err := s.deletion(f)
	if err != nil {
		return err
	}
	_, err = s.write(ctx, op, s.at(f.Key(), f.record.Revision))
	return err
}

// deletion returns the write that deletes f, or marks it.
func (s *core) deletion(f found) (Op, error) {
	op := Op{Kind: s.kind, Key: f.Key()}
	if len(f.Finalizers) == 0 {
		return op, nil
	}
	if f.schema > s.version {
		return op, fmt.Errorf("%w: %s %s", ErrNewer, s.kind, f.Key())
	}
	v := f.object.held(encoder{core: s, stored: f.record.Bytes})
	marked, _ := v.parts()
	m := marked.meta()
	m.Deleted = now()
	m.Generation++
	op.Put = v
	return op, nil
}

// findMarked is findAt, except that the revision is not compared for an object
// that is already marked, as long as it is the same one.
func (s *core) findMarked(ctx context.Context, o object) (found, error) {
	m := o.meta()
	if m == nil {
		return found{}, s.noObject()
	}
	f, err := s.find(ctx, m.Key())
	if err != nil {
		return f, err
	}
	if f.record.Revision == m.Revision || f.Deleting() && f.UID == m.UID {
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
	return s.core.deleteUndecodable(ctx, k)
}

func (s *core) deleteUndecodable(ctx context.Context, k Key) error {
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
	return typed[S, T](s.core.removeFinalizer(ctx, k, name))
}

func (s *core) removeFinalizer(ctx context.Context, k Key, name string) (object, error) {
	removed := false
	o, err := s.mutate(ctx, k, func(o object) error {
		removed = o.meta().RemoveFinalizer(name)
		return nil
	})
	if err == nil && removed {
		m := o.meta()
		s.log().WarnContext(ctx, "finalizer removed by force", "kind", s.kind, "namespace", k.Namespace, "name", k.Name,
			"uid", m.UID, "finalizer", name, "deleting", m.Deleting(), "left", len(m.Finalizers))
	}
	return o, err
}

func (s *core) log() *slog.Logger { return cmp.Or(s.logger, slog.Default()) }
