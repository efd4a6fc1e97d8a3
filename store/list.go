package store

import (
	"context"
	"iter"
)

// All yields a copy of every object that the selector picks, as of one instant,
// in no order. An object that cannot be decoded is yielded as a nil object and
// a [*DecodeError], and the sequence goes on; any other error ends it. A list
// that took so long that its instant is no longer held ends in [ErrCompacted]:
// start over.
func (s *Store[S, T]) All(ctx context.Context, sel Selector) iter.Seq2[*Object[S, T], error] {
	return func(yield func(*Object[S, T], error) bool) {
		s.core.all(ctx, sel, func(o object, err error) bool { return yield(typed[S, T](o, err)) })
	}
}

func (s *core) all(ctx context.Context, sel Selector, yield func(object, error) bool) {
	o := ListOptions{Namespace: sel.Namespace}
	for {
		page, err := s.backend.List(ctx, s.kind, o)
		if err != nil {
			yield(nil, err)
			return
		}
		if !s.yieldPage(page, sel, yield) || page.Cursor == "" {
			return
		}
		o.Cursor = page.Cursor
	}
}

func (s *core) yieldPage(page Page, sel Selector, yield func(object, error) bool) bool {
	for _, r := range page.Records {
		f, err := s.decode(r)
		more := true
		switch {
		case err != nil:
			more = yield(nil, err)
		case sel.Matches(f.Meta):
			more = yield(s.own(f))
		}
		if !more {
			return false
		}
	}
	return true
}

// List returns what [Store.All] yields, or the first error.
func (s *Store[S, T]) List(ctx context.Context, sel Selector) ([]*Object[S, T], error) {
	var all []*Object[S, T]
	for o, err := range s.All(ctx, sel) {
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}
