//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/tendhq/tend/store"
)

// checkLinearizable fails on a history that is not, and on one that could not be
// judged in time; it leaves a picture.
func checkLinearizable(t *testing.T, ops []porcupine.Operation) {
	t.Helper()
	result, info := porcupine.CheckOperationsVerbose(register, ops, patience)
	if result != porcupine.Ok {
		name := "linearizability.html"
		if f, err := os.Create(name); err == nil {
			_ = porcupine.Visualize(register, info, f)
			f.Close()
		}
		t.Errorf("history is %s, want Ok; see %s", result, name)
	}
}

// campaign calls stop once it has lasted that long and enough has happened.
func campaign(ctx context.Context, stop func(), least time.Duration, enough func() bool) {
	go func() {
		defer stop()
		for after := time.NewTimer(least); ; after.Reset(100 * time.Millisecond) {
			select {
			case <-after.C:
				if enough() {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
}

// history records what clients asked and were told.
type history struct {
	began time.Time
	mu    sync.Mutex // guards ops
	ops   []porcupine.Operation
}

func (h *history) count() int { h.mu.Lock(); defer h.mu.Unlock(); return len(h.ops) }

type input struct {
	key    string
	write  bool
	expect store.Revision // of the record, for a write; 0: must not exist
	value  string         // unique
}

type output struct {
	conflict bool
	unknown  bool
	revision store.Revision // found by a read or a conflict, made by a write
	value    string         // found
}

// client reads and compares and swaps. It moves on to fresh keys every second,
// so that no key's history outgrows the checker.
func (h *history) client(ctx context.Context, b store.Backend, id int, r *rand.Rand) {
	// A client whose write has an unknown outcome goes on under another name:
	// that write may still happen while the next is under way.
	h.clientFor(ctx, b, id, r, math.MaxInt)
}

// clientFor does so many rounds, on keys that change every second or 200 rounds.
func (h *history) clientFor(ctx context.Context, b store.Backend, id int, r *rand.Rand, rounds int) {
	name := id
	for n := 0; n < rounds && ctx.Err() == nil; n++ {
		k := fmt.Sprintf("%d-%d-%d", int(time.Since(h.began).Seconds()), n/200, r.IntN(4))
		at := h.record(ctx, b, name, input{key: k}, 0)
		if !at.known || ctx.Err() != nil {
			continue
		}
		in := input{key: k, write: true, expect: at.revision, value: fmt.Sprintf("%d/%d", id, n)}
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
func (h *history) record(ctx context.Context, b store.Backend, client int, in input, most time.Duration) seen {
	if most > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, most)
		defer cancel()
	}
	called := time.Since(h.began)
	out, err := call(ctx, b, in)
	returned := time.Since(h.began)
	if err != nil && !out.unknown {
		return seen{}
	}
	h.mu.Lock()
	h.ops = append(h.ops, porcupine.Operation{
		ClientId: client, Input: in, Output: out, Call: int64(called), Return: int64(returned),
	})
	h.mu.Unlock()
	return seen{known: !out.unknown, revision: out.revision}
}

func call(ctx context.Context, b store.Backend, in input) (output, error) {
	if !in.write {
		rec, err := b.Get(ctx, "thing", key(in.key))
		if errors.Is(err, store.ErrNotFound) {
			return output{}, nil
		}
		return output{revision: rec.Revision, value: contents(rec)}, err
	}
	rev, err := b.Commit(ctx, store.Txn{
		If:  []store.Compare{{Kind: "thing", Key: key(in.key), Revision: in.expect}},
		Ops: []store.Op{put(key(in.key), in.value)},
	})
	var conflict *store.ConflictError
	switch {
	case errors.As(err, &conflict):
		return output{conflict: true, revision: conflict.Current.Revision, value: contents(conflict.Current)}, nil
	case errors.Is(err, store.ErrUnknownOutcome):
		return output{unknown: true}, err
	}
	return output{revision: rev}, err
}

// operations settles the unknown outcomes by the log, where every write has a
// value of its own: one that is there happened, at any time after its call; one
// that is not never did. It also finds acknowledged writes that the log lacks.
func (h *history) operations(log *view) (ops []porcupine.Operation, unknown int, err error) {
	wrote := make(map[string]store.Revision)
	for _, c := range log.changes {
		wrote[contents(c.Record)] = c.Revision
	}
	for _, op := range h.ops {
		in, out := op.Input.(input), op.Output.(output)
		switch rev, happened := wrote[in.value]; {
		case out.unknown && !happened:
			unknown++
			continue
		case out.unknown:
			unknown++
			op.Output = output{revision: rev}
			op.Return = 1 << 62
		case in.write && !out.conflict && rev != out.revision:
			err = errors.Join(err, fmt.Errorf("write of %s was acknowledged at %d, the log has it at %d", in.value, out.revision, rev))
		}
		ops = append(ops, op)
	}
	return ops, unknown, err
}

// register is one record: its value and its revision.
var register = porcupine.Model{
	Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
		by := make(map[string][]porcupine.Operation)
		for _, op := range all {
			k := op.Input.(input).key
			by[k] = append(by[k], op)
		}
		var parts [][]porcupine.Operation
		for _, ops := range by {
			parts = append(parts, ops)
		}
		return parts
	},
	Init: func() any { return output{} },
	Step: func(state, in, out any) (bool, any) {
		s, i, o := state.(output), in.(input), out.(output)
		switch {
		case !i.write:
			return o == s, s
		case o.conflict:
			return s.revision != i.expect && o.revision == s.revision && o.value == s.value, s
		default:
			return s.revision == i.expect && o.revision > s.revision, output{revision: o.revision, value: i.value}
		}
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v → %+v", in, out) },
}

// view is what a watcher saw.
type view struct {
	mu      sync.Mutex // guards the rest
	from    store.Revision
	at      store.Revision
	changes []store.Change
	resyncs int
}

func (v *view) reached() store.Revision {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.at
}

// follow watches until ctx ends, resuming where it was, and beginning again
// with a snapshot only when it has to.
func (v *view) follow(ctx context.Context, b store.Backend) {
	for after := store.Revision(0); ctx.Err() == nil; after = v.reached() {
		err := v.stream(ctx, b, "thing", after, 0)
		if errors.Is(err, store.ErrCompacted) {
			v.mu.Lock()
			v.from, v.at, v.changes = 0, 0, nil
			v.resyncs++
			v.mu.Unlock()
		}
	}
}

// read collects the changes after a revision up to another.
func (v *view) read(ctx context.Context, b store.Backend, after, to store.Revision) {
	v.readKind(ctx, b, "thing", after, to)
}

func (v *view) readKind(ctx context.Context, b store.Backend, kind string, after, to store.Revision) {
	for v.at = after; v.at < to && ctx.Err() == nil; {
		if err := v.stream(ctx, b, kind, v.at, to); errors.Is(err, store.ErrCompacted) {
			return // what is missing shows when the log is compared
		}
	}
}

func (v *view) stream(ctx context.Context, b store.Backend, kind string, after, to store.Revision) error {
	for batch, err := range b.Watch(ctx, kind, after) {
		if err != nil {
			return err
		}
		v.mu.Lock()
		switch batch.Kind {
		case store.BatchSnapshotEnd:
			v.from = batch.Revision
		case store.BatchChanges:
			v.changes = append(v.changes, batch.Changes...)
		}
		if batch.Kind != store.BatchSnapshot {
			v.at = batch.Revision
		}
		enough := to != 0 && v.at >= to
		v.mu.Unlock()
		if enough {
			return nil
		}
	}
	return nil
}

// check compares what was seen with the log, from the snapshot on and as far as
// both go: a write whose outcome was unknown may come in after the log was read.
func (v *view) check(log *view) error {
	end := min(v.at, log.at)
	outside := func(c store.Change) bool { return c.Revision <= v.from || c.Revision > end }
	want := slices.DeleteFunc(slices.Clone(log.changes), outside)
	got := slices.DeleteFunc(slices.Clone(v.changes), outside)
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || show(want[i]) != show(got[i]) {
			return fmt.Errorf("after a snapshot at %d, change %d of %d differs from the log's %d: %s",
				v.from, i, len(got), len(want), showAround(got, want, i))
		}
	}
	return nil
}

func show(c store.Change) string {
	return fmt.Sprintf("%s@%d=%s", c.Key, c.Revision, contents(c.Record))
}

// contents is what was put, whatever form the backend keeps it in.
func contents(r store.Record) string {
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
			s += " got " + show(got[j])
		}
		if j < len(want) {
			s += " want " + show(want[j])
		}
	}
	return s
}

// The checkers of the test above must reject what is wrong.
func TestCheckersRejectBrokenHistories(t *testing.T) {
	op := func(client int, in input, out output, call, ret int64) porcupine.Operation {
		return porcupine.Operation{ClientId: client, Input: in, Output: out, Call: call, Return: ret}
	}
	w1 := op(1, input{key: "a", write: true, value: "1"}, output{revision: 5}, 0, 10)
	w2 := op(1, input{key: "a", write: true, expect: 5, value: "2"}, output{revision: 6}, 20, 30)
	for name, c := range map[string]struct {
		ops []porcupine.Operation
		ok  bool
	}{
		"sound":      {[]porcupine.Operation{w1, w2, op(2, input{key: "a"}, output{revision: 6, value: "2"}, 40, 50)}, true},
		"stale read": {[]porcupine.Operation{w1, w2, op(2, input{key: "a"}, output{revision: 5, value: "1"}, 40, 50)}, false},
		"lost write": {[]porcupine.Operation{w1, w2, op(2, input{key: "a", write: true, expect: 5, value: "3"}, output{revision: 7}, 40, 50)}, false},
		"false conflict": {[]porcupine.Operation{w1, op(2, input{key: "a", write: true, expect: 5, value: "3"},
			output{conflict: true, revision: 5, value: "1"}, 40, 50)}, false},
	} {
		if got := porcupine.CheckOperations(register, c.ops); got != c.ok {
			t.Errorf("%s: linearizable %v, want %v", name, got, c.ok)
		}
	}

	change := func(n int) store.Change {
		return store.Change{Record: store.Record{Key: key("a"), Revision: store.Revision(n), Bytes: []byte(fmt.Sprint(n))}}
	}
	log := &view{changes: []store.Change{change(2), change(3), change(4), change(5)}, at: 5}
	for name, c := range map[string]struct {
		seen []store.Change
		ok   bool
	}{
		"sound":    {[]store.Change{change(3), change(4), change(5)}, true},
		"gap":      {[]store.Change{change(3), change(5)}, false},
		"repeated": {[]store.Change{change(3), change(4), change(4), change(5)}, false},
		"swapped":  {[]store.Change{change(4), change(3), change(5)}, false},
		"cut off":  {[]store.Change{change(3), change(4)}, false},
	} {
		v := &view{from: 2, at: 5, changes: c.seen}
		if err := v.check(log); (err == nil) != c.ok {
			t.Errorf("%s: %v, want ok %v", name, err, c.ok)
		}
	}
	lost := &history{ops: []porcupine.Operation{op(1, input{key: "a", write: true, value: "9"}, output{revision: 9}, 0, 1)}}
	if _, _, err := lost.operations(log); err == nil {
		t.Error("an acknowledged write that the log lacks was accepted")
	}
}
