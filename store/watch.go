package store

import (
	"context"
	"errors"
	"iter"
	"maps"
	"time"

	"github.com/tendhq/tend/internal/sleep"
)

// Event is one element of [Store.Watch].
type Event[S, T any] struct {
	// Kind says what the event is part of. Those of BatchSnapshotEnd and
	// BatchProgress have nothing but a revision.
	Kind     BatchKind
	Revision Revision
	Key      Key
	// Object is shared and read-only. With Deleted it is the object as it last
	// was, at the revision of its deletion, or nil if that is no longer known.
	Object  *Object[S, T]
	Deleted bool
	// Err is the [*DecodeError] of an object that cannot be decoded, and
	// Object nil. The others flow.
	Err error
}

// Watch yields the events of the kind in order, none twice, none left out: after
// 0 a snapshot, its end, and then changes; after a revision the changes since.
// A lost connection is taken up where it broke. After a compaction, an overrun
// or the restore of a backup the sequence begins again with a snapshot: an
// object that is not in it by its BatchSnapshotEnd is gone. A snapshot that breaks off
// is begun again silently; what only the part before the break showed follows
// its end as deleted. Pauses between attempts grow from 50 ms to 5 s, and
// begin with 50 ms again after a watch that delivered, or was open for more than 5 s.
//
// The sequence ends, with an error as its last element, when ctx does, when the
// backend was closed, or when the kind is impossible.
func (s *Store[S, T]) Watch(ctx context.Context, after Revision) iter.Seq2[Event[S, T], error] {
	return func(yield func(Event[S, T], error) bool) {
		for e, err := range s.core.watch(ctx, after) {
			o, _ := typed[S, T](e.object, nil)
			if !yield(Event[S, T]{e.kind, e.revision, e.key, o, e.deleted, e.err}, err) {
				return
			}
		}
	}
}

// event is an [Event] without its types.
type event struct {
	kind     BatchKind
	revision Revision
	key      Key
	object   object
	deleted  bool
	err      error
}

func (s *core) watch(ctx context.Context, after Revision) iter.Seq2[event, error] {
	return func(yield func(event, error) bool) {
		pause := minPause
		var w watch
		for {
			began := time.Now()
			at, err := s.watchOnce(ctx, after, &w, yield)
			if err == nil {
				return // the reader left
			}
			if final(ctx, err) {
				yield(event{}, err)
				return
			}
			if at != after || time.Since(began) > maxPause { // else it may have worked, with nothing to tell
				pause = minPause
			}
			if after = at; errors.Is(err, ErrCompacted) {
				after = 0
			}
			w.broke()
			sleep.For(ctx, pause)
			pause = min(2*pause, maxPause)
		}
	}
}

// watch is what one Watch keeps while snapshots come in: what it has shown of them.
type watch struct {
	shown map[Key]struct{} // by the snapshot that is on its way
	torn  map[Key]struct{} // by those before it, which broke off
}

// broke takes note that a snapshot, if one was on its way, will not be ended.
func (w *watch) broke() {
	if w.torn == nil {
		w.torn = w.shown
	}
	maps.Copy(w.torn, w.shown)
	w.shown = nil
}

// vanished is what only a snapshot that broke off has shown, once one is complete.
func (w *watch) vanished() (keys []Key) {
	for k := range w.torn {
		if _, is := w.shown[k]; !is {
			keys = append(keys, k)
		}
	}
	w.shown, w.torn = nil, nil
	return keys
}

const (
	minPause = 50 * time.Millisecond
	maxPause = 5 * time.Second
)

// final reports whether watching again cannot help.
func final(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, ErrClosed) || errors.Is(err, ErrInvalid)
}

// watchOnce reads one stream of the backend. It returns how far it came, from
// where watching again makes the sequence whole, and the error that ended the
// stream, nil if the reader did.
func (s *core) watchOnce(ctx context.Context, at Revision, w *watch, yield func(event, error) bool) (Revision, error) {
	for b, err := range s.backend.Watch(ctx, s.kind, at) {
		if err != nil {
			return at, err
		}
		if !s.yieldBatch(b, w, yield) {
			return at, nil
		}
		if b.Kind != BatchSnapshot { // half a snapshot is no place to resume from
			at = b.Revision
		}
	}
	return at, errStreamEnded
}

var errStreamEnded = errors.New("store: watch ended without an error")

func (s *core) yieldBatch(b Batch, w *watch, yield func(event, error) bool) bool {
	if b.Kind == BatchProgress {
		return yield(event{kind: b.Kind, revision: b.Revision}, nil)
	}
	for i := range b.Changes {
		if b.Kind == BatchSnapshot {
			if w.shown == nil {
				w.shown = make(map[Key]struct{})
			}
			w.shown[b.Changes[i].Key] = struct{}{}
		}
		if !yield(s.event(b.Kind, &b.Changes[i]), nil) {
			return false
		}
	}
	if b.Kind != BatchSnapshotEnd {
		return true
	}
	if !yield(event{kind: b.Kind, revision: b.Revision}, nil) {
		return false
	}
	for _, k := range w.vanished() {
		if !yield(event{kind: BatchChanges, revision: b.Revision, key: k, deleted: true}, nil) {
			return false
		}
	}
	return true
}

func (s *core) event(k BatchKind, c *Change) event {
	e := event{kind: k, revision: c.Revision, key: c.Key, deleted: c.Deleted}
	if !c.Deleted || c.Value != nil || c.Bytes != nil {
		f, err := s.decode(c.Record)
		e.object, e.err = f.object, err
	}
	return e
}
