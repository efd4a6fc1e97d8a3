package campaign

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tendhq/tend/store"
)

// The judge of watches must reject what is wrong.
func TestWatchCheckerRejectsBrokenStreams(t *testing.T) {
	change := func(n int) store.Change {
		return store.Change{Record: store.Record{Key: store.Key{Name: "a"}, Revision: store.Revision(n), Bytes: []byte(fmt.Sprint(n))}}
	}
	log := &Watched{Changes: []store.Change{change(2), change(3), change(4), change(5)}, At: 5}
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
		v := &Watched{From: 2, At: 5, Changes: c.seen}
		if err := v.Check(log); (err == nil) != c.ok {
			t.Errorf("%s: %v, want ok %v", name, err, c.ok)
		}
	}
	lost := &History{ops: []Operation{{1, Input{Key: "a", Write: true, Value: "9"}, Output{Revision: 9}, 0, 1}}}
	if _, _, err := lost.Operations(log); err == nil {
		t.Error("an acknowledged write that the log lacks was accepted")
	}
}

func TestLeaseCheckerRejectsAnOldToken(t *testing.T) {
	log := new(Leases)
	for _, text := range []string{"5 a", "5 a", "9 b", "5 a"} {
		log.accept(store.Change{Record: store.Record{Key: store.Key{Name: "shard0"}, Revision: 1, Bytes: []byte(text)}})
	}
	if len(log.problems) != 1 || !strings.Contains(log.problems[0], "token 5 after") {
		t.Errorf("problems %q, want the one old token", log.problems)
	}
}

func TestTrustCheckerRejectsTwoAtATime(t *testing.T) {
	var log Trust
	log.Hear("trust 0 5 1000 2000")
	log.Hear("trust 0 5 1000 3000")
	log.Hear("trust 0 9 4000 5000")
	if p := log.Problems(); len(p) != 0 {
		t.Errorf("problems %q with one after the other", p)
	}
	log.Hear("trust 0 5 1000 4001")
	if p := log.Problems(); len(p) != 1 || !strings.Contains(p[0], "token 5 was trusted 1ns after") {
		t.Errorf("problems %q, want the one overlap", p)
	}
	var excused bool
	log.Excused = func(token uint64, later time.Time) bool {
		if token != 5 || later.UnixNano() != 4000 {
			t.Errorf("asked about token %d at %d", token, later.UnixNano())
		}
		return excused
	}
	for _, excused = range []bool{false, true} {
		if p := log.Problems(); (len(p) == 0) != excused {
			t.Errorf("excused %v: problems %q", excused, p)
		}
	}
}

// compacted is a backend whose first watch breaks off, and cannot be resumed.
type compacted struct {
	store.Backend
	asked []store.Revision
	end   context.CancelFunc
}

func (b *compacted) Watch(_ context.Context, _ string, after store.Revision) iter.Seq2[store.Batch, error] {
	b.asked = append(b.asked, after)
	return func(yield func(store.Batch, error) bool) {
		switch {
		case len(b.asked) == 1:
			yield(store.Batch{Kind: store.BatchSnapshotEnd, Revision: 3}, nil)
		case len(b.asked) == 3:
			b.end()
		case after != 0:
			yield(store.Batch{}, store.ErrCompacted)
		}
	}
}

// Negative control: with the same revision asked for again and again, no later write was
// checked, and the goroutine spun.
func TestFollowingWritesOfHoldersBeginsAgainWhenItIsTooFarBehind(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	b := &compacted{end: end}
	new(Leases).Follow(ctx, b)
	if want := []store.Revision{0, 3, 0}; !slices.Equal(b.asked, want) {
		t.Errorf("watched after %d, want %d", b.asked, want)
	}
}
