package campaign

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/tendhq/tend/store"
)

// History records what clients asked and were told.
type History struct {
	Began time.Time  // Call and Return count from here
	mu    sync.Mutex // guards ops
	ops   []Operation
}

// Operation is one call and its answer. Call and Return are nanoseconds since History.Began.
type Operation struct {
	Client       int
	Input        Input
	Output       Output
	Call, Return int64
}

// Count is the number of calls so far.
func (h *History) Count() int { h.mu.Lock(); defer h.mu.Unlock(); return len(h.ops) }

// Input is a read or a compare-and-swap of one record.
type Input struct {
	Key    string
	Write  bool
	Expect store.Revision // of the record, for a write; 0: must not exist
	Value  string         // unique
}

// Output is the answer to an Input.
type Output struct {
	Conflict bool
	Unknown  bool           // whether the write was made
	Revision store.Revision // found by a read or a conflict, made by a write
	Value    string         // found
}

// Client reads and compares and swaps. It moves on to fresh keys every second,
// so that no key's history outgrows the checker.
func (h *History) Client(ctx context.Context, b store.Backend, id int, r *rand.Rand) {
	// A client whose write has an unknown outcome goes on under another name:
	// that write may still happen while the next is under way.
	h.ClientFor(ctx, b, id, r, math.MaxInt)
}

// ClientFor does so many rounds, on keys that change every second or 200 rounds.
func (h *History) ClientFor(ctx context.Context, b store.Backend, id int, r *rand.Rand, rounds int) {
	name := id
	for n := 0; n < rounds && ctx.Err() == nil; n++ {
		k := fmt.Sprintf("%d-%d-%d", int(time.Since(h.Began).Seconds()), n/200, r.IntN(4))
		at := h.record(ctx, b, name, Input{Key: k}, 0)
		if !at.known || ctx.Err() != nil {
			continue
		}
		in := Input{Key: k, Write: true, Expect: at.revision, Value: fmt.Sprintf("%d/%d", id, n)}
		if !h.record(ctx, b, name, in, 2*time.Second).known {
			name += 100
		}
	}
}

type seen struct {
	known    bool
	revision store.Revision
}

// record makes one call and notes it, unless it is known to have done and seen
// nothing.
func (h *History) record(ctx context.Context, b store.Backend, client int, in Input, most time.Duration) seen {
	if most > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, most)
		defer cancel()
	}
	called := time.Since(h.Began)
	out, err := call(ctx, b, in)
	returned := time.Since(h.Began)
	if err != nil && !out.Unknown {
		return seen{}
	}
	h.mu.Lock()
	h.ops = append(h.ops, Operation{client, in, out, int64(called), int64(returned)})
	h.mu.Unlock()
	return seen{known: !out.Unknown, revision: out.Revision}
}

func call(ctx context.Context, b store.Backend, in Input) (Output, error) {
	if !in.Write {
		rec, err := b.Get(ctx, "thing", store.Key{Name: in.Key})
		if errors.Is(err, store.ErrNotFound) {
			return Output{}, nil
		}
		return Output{Revision: rec.Revision, Value: Contents(rec)}, err
	}
	rev, err := b.Commit(ctx, store.Txn{
		If:  []store.Compare{{Kind: "thing", Key: store.Key{Name: in.Key}, Revision: in.Expect}},
		Ops: []store.Op{{Kind: "thing", Key: store.Key{Name: in.Key}, Put: store.Bytes([]byte(in.Value))}},
	})
	var conflict *store.ConflictError
	switch {
	case errors.As(err, &conflict):
		return Output{Conflict: true, Revision: conflict.Current.Revision, Value: Contents(conflict.Current)}, nil
	case errors.Is(err, store.ErrUnknownOutcome):
		return Output{Unknown: true}, err
	}
	return Output{Revision: rev}, err
}

// Operations settles the unknown outcomes by the log, where every write has a
// value of its own: one that is there happened, at any time after its call; one
// that is not never did. It also finds acknowledged writes that the log lacks.
func (h *History) Operations(log *Watched) (ops []Operation, unknown int, err error) {
	wrote := make(map[string]store.Revision)
	for _, c := range log.Changes {
		wrote[Contents(c.Record)] = c.Revision
	}
	for _, op := range h.ops {
		in, out := op.Input, op.Output
		switch rev, happened := wrote[in.Value]; {
		case out.Unknown && !happened:
			unknown++
			continue
		case out.Unknown:
			unknown++
			op.Output = Output{Revision: rev}
			op.Return = 1 << 62
		case in.Write && !out.Conflict && rev != out.Revision:
			err = errors.Join(err, fmt.Errorf("write of %s was acknowledged at %d, the log has it at %d", in.Value, out.Revision, rev))
		}
		ops = append(ops, op)
	}
	return ops, unknown, err
}

// Step is the model of one record, for a checker of linearizability: whether a call may be
// answered so in a state, and the state afterwards. The state and out are an Output, in is an
// Input; the first state is Output{}.
func Step(state, in, out any) (ok bool, next any) {
	s, i, o := state.(Output), in.(Input), out.(Output)
	switch {
	case !i.Write:
		return o == s, s
	case o.Conflict:
		return s.Revision != i.Expect && o.Revision == s.Revision && o.Value == s.Value, s
	default:
		return s.Revision == i.Expect && o.Revision > s.Revision, Output{Revision: o.Revision, Value: i.Value}
	}
}

// Watched is what a watcher saw.
type Watched struct {
	mu      sync.Mutex     // guards the rest
	From    store.Revision // of the last snapshot
	At      store.Revision // everything up to here was seen
	Changes []store.Change
	Resyncs int
}

// Reached is At, while Follow runs.
func (v *Watched) Reached() store.Revision {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.At
}

// Follow watches until ctx ends, resuming where it was, and beginning again
// with a snapshot only when it has to.
func (v *Watched) Follow(ctx context.Context, b store.Backend) {
	for after := store.Revision(0); ctx.Err() == nil; after = v.Reached() {
		err := v.stream(ctx, b, "thing", after, 0)
		if errors.Is(err, store.ErrCompacted) {
			v.mu.Lock()
			v.From, v.At, v.Changes = 0, 0, nil
			v.Resyncs++
			v.mu.Unlock()
		}
	}
}

// Read collects the changes of the kind "thing" after a revision up to another.
func (v *Watched) Read(ctx context.Context, b store.Backend, after, to store.Revision) {
	v.ReadKind(ctx, b, "thing", after, to)
}

// ReadKind is Read for another kind.
func (v *Watched) ReadKind(ctx context.Context, b store.Backend, kind string, after, to store.Revision) {
	for v.At = after; v.At < to && ctx.Err() == nil; {
		if err := v.stream(ctx, b, kind, v.At, to); errors.Is(err, store.ErrCompacted) {
			return // what is missing shows when the log is compared
		}
	}
}

func (v *Watched) stream(ctx context.Context, b store.Backend, kind string, after, to store.Revision) error {
	for batch, err := range b.Watch(ctx, kind, after) {
		if err != nil {
			return err
		}
		v.mu.Lock()
		switch batch.Kind {
		case store.BatchSnapshotEnd:
			v.From = batch.Revision
		case store.BatchChanges:
			v.Changes = append(v.Changes, batch.Changes...)
		}
		if batch.Kind != store.BatchSnapshot {
			v.At = batch.Revision
		}
		enough := to != 0 && v.At >= to
		v.mu.Unlock()
		if enough {
			return nil
		}
	}
	return nil
}

// Check compares what was seen with the log, from the snapshot on and as far as
// both go: a write whose outcome was unknown may come in after the log was read.
func (v *Watched) Check(log *Watched) error {
	end := min(v.At, log.At)
	outside := func(c store.Change) bool { return c.Revision <= v.From || c.Revision > end }
	want := slices.DeleteFunc(slices.Clone(log.Changes), outside)
	got := slices.DeleteFunc(slices.Clone(v.Changes), outside)
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || Show(want[i]) != Show(got[i]) {
			return fmt.Errorf("after a snapshot at %d, change %d of %d differs from the log's %d: %s",
				v.From, i, len(got), len(want), showAround(got, want, i))
		}
	}
	return nil
}

// Show is a change in a line: KEY@REVISION=VALUE.
func Show(c store.Change) string {
	return fmt.Sprintf("%s@%d=%s", c.Key, c.Revision, Contents(c.Record))
}

// Contents is what was put, whatever form the backend keeps it in.
func Contents(r store.Record) string {
	if r.Revision == 0 {
		return ""
	}
	data, err := r.Encode()
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func showAround(got, want []store.Change, i int) (s string) {
	for j := max(0, i-2); j < i+3; j++ {
		if j < len(got) {
			s += " got " + Show(got[j])
		}
		if j < len(want) {
			s += " want " + Show(want[j])
		}
	}
	return s
}
