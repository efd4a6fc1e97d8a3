package store

import (
	"context"
	"errors"
	"fmt"
)

// WaitReady blocks until the object is Ready in its present generation and
// returns a copy of it. An object that does not exist yet is waited for; one
// that is deleted meanwhile is [ErrNotFound]. Otherwise it ends with ctx, and with an
// error that says what the object lacked.
//
// Each call that has to wait opens a watch of the whole kind, and for an object that does not
// exist yet reads all objects of the kind first. To wait for many, watch once:
// [Store.Watch], or a cache's changes.
func (s *Store[S, T]) WaitReady(ctx context.Context, k Key) (*Object[S, T], error) {
	return typed[S, T](s.core.waitReady(ctx, k))
}

func (s *core) waitReady(ctx context.Context, k Key) (object, error) {
	o, err := s.get(ctx, k)
	if err != nil && !errors.Is(err, ErrNotFound) || err == nil && ready(o) {
		return o, err
	}
	w := readyWait{key: k, exists: err == nil, last: o}
	var after Revision
	if w.exists {
		after = o.meta().Revision
	}
	for e, err := range s.watch(ctx, after) {
		if err != nil {
			return nil, w.explain(ctx, s.kind, err)
		}
		if o, err := w.see(e); err != nil {
			return nil, err
		} else if o != nil {
			return s.copyOf(found{object: o, record: Record{Key: k, Revision: o.meta().Revision}})
		}
	}
	return nil, w.explain(ctx, s.kind, context.Cause(ctx))
}

func ready(o object) bool {
	p := o.parts()
	return ReadyAt(p.Meta, *p.conditions, p.Generation)
}

// readyWait follows one key through a watch of its kind.
type readyWait struct {
	key    Key
	exists bool // the object was there
	seen   bool // it is in the snapshot that is running
	last   object
}

// explain adds to the end of ctx what was waited for.
func (w *readyWait) explain(ctx context.Context, kind string, err error) error {
	if cause := context.Cause(ctx); cause == nil || !errors.Is(err, cause) {
		return err
	}
	lacks := "it does not exist"
	if w.exists {
		last := w.last.parts()
		switch c, said := conditionOf(*last.conditions, ConditionReady); {
		case !said:
			lacks = "nothing has said so"
		case c.Status == True:
			lacks = fmt.Sprintf("it is of generation %d, and Ready of generation %d", last.Generation, c.ObservedGeneration)
		default:
			lacks = string(*last.phase) + ", " + c.Reason
			if c.Message != "" {
				lacks += ": " + c.Message
			}
		}
	}
	return fmt.Errorf("store: %s %s is not ready: %s: %w", kind, w.key, lacks, err)
}

// see returns the object once it is ready, and an error once it is gone.
func (w *readyWait) see(e event) (object, error) {
	gone := e.deleted
	switch {
	case e.kind == BatchSnapshotEnd:
		gone = w.exists && !w.seen
		w.seen = false
	case e.key != w.key:
		return nil, nil
	case e.err != nil:
		return nil, e.err
	}
	if gone {
		return nil, fmt.Errorf("%w: %s was deleted while it was waited for", ErrNotFound, w.key)
	}
	if e.object == nil {
		return nil, nil
	}
	w.seen = w.seen || e.kind == BatchSnapshot // a change says nothing of what the next snapshot holds
	w.exists, w.last = true, e.object
	if !ready(e.object) {
		return nil, nil
	}
	return e.object, nil
}
