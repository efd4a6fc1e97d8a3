package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// pages walks all pages and returns their keys in order.
func pages(t *testing.T, q *Queue[string], match func(string) bool, o PageOptions) []string {
	t.Helper()
	var keys []string
	for {
		p, err := q.Page(t.Context(), match, &o)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Entries) > o.Limit {
			t.Fatalf("a page has %d keys, want %d at most", len(p.Entries), o.Limit)
		}
		for _, e := range p.Entries {
			keys = append(keys, e.Key)
		}
		if !p.More {
			return keys
		}
		o.From = p.Next
	}
}

func TestPagesTogetherHoldEveryKeyOnce(t *testing.T) {
	for _, shards := range []int{1, 4} {
		for _, n := range []int{0, 1, 7, 1024, 3000} {
			q := newQueue(t, &Options[string]{Shards: shards})
			var want []string
			for i := range n {
				want = append(want, fmt.Sprintf("key-%05d", i))
			}
			add(t, q, want...)
			for order := range orders {
				for _, limit := range []int{1 + n/20, 7 + n/4, 1000} {
					got := pages(t, q, nil, PageOptions{Order: order, Limit: limit})
					if slices.Sort(got); !slices.Equal(got, want) {
						t.Errorf("%d shards, %d keys, order %d, limit %d: %d keys, want each once", shards, n, order, limit, len(got))
					}
				}
			}
		}
	}
}

// Against the obvious: everything, sorted.
func TestPageOrderIsThatOfEverythingSorted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, &Options[string]{Shards: 4, Policy: func(int, error) time.Duration { return time.Hour }})
		defer q.Stop(context.WithoutCancel(t.Context()))
		r := rand.New(rand.NewPCG(1, 2))
		for i := range 2500 {
			_ = q.AddAfter(fmt.Sprintf("delayed-%04d", i), time.Duration(1+r.IntN(1e6))*time.Second)
			if i%100 == 0 {
				time.Sleep(time.Second)
			}
		}
		for i := range 200 {
			add(t, q, fmt.Sprintf("failing-%03d", i))
			for range 1 + i%5 {
				_ = kick(q, fmt.Sprintf("failing-%03d", i))
				get(t, q).Retry(errTest, 0)
			}
		}
		for order, worth := range map[Order]func(Entry[string]) int64{
			ByNext: func(e Entry[string]) int64 {
				if e.Next.IsZero() {
					return never
				}
				return e.Next.UnixNano()
			},
			ByAge:      func(e Entry[string]) int64 { return e.Since.UnixNano() },
			ByFailures: func(e Entry[string]) int64 { return -int64(e.Attempts) },
		} {
			all := map[string]int64{}
			for e := range q.Snapshot() {
				all[e.Key] = worth(e)
			}
			got := pages(t, q, nil, PageOptions{Order: order, Limit: 60})
			if len(got) != len(all) {
				t.Errorf("order %d: %d keys, want %d", order, len(got), len(all))
			}
			if !slices.IsSortedFunc(got, func(a, b string) int { return int(all[a]/1e6 - all[b]/1e6) }) {
				t.Errorf("order %d is not sorted: %v …", order, got[:10])
			}
		}
	})
}

func TestPageHoldsOnlyWhatIsWanted(t *testing.T) {
	bubble(t, oneOrder(), func(t *testing.T, q *Queue[string]) {
		add(t, q, "parked", "failing", "ready-1", "ready-2")
		get(t, q).Park(errTest)
		get(t, q).Retry(errTest, 0)
		_ = q.AddAfter("later", time.Hour)
		_ = q.AddWith("again", AddOptions{Priority: At(1)})
		get(t, q).Retry(nil, 0) // not for a failure
		for _, c := range []struct {
			o     PageOptions
			match func(string) bool
			want  []string
		}{
			{PageOptions{States: []State{StateReady}}, nil, []string{"ready-1", "ready-2"}},
			{PageOptions{States: []State{StateParked, StateDelayed}}, nil, []string{"later", "parked"}},
			{PageOptions{Failed: true}, nil, []string{"failing", "parked"}},
			{PageOptions{}, func(k string) bool { return k[len(k)-1] == '2' }, []string{"ready-2"}},
			{PageOptions{States: []State{StateReady}, Order: ByAge}, func(k string) bool { return k != "ready-1" }, []string{"ready-2"}},
		} {
			c.o.Limit = 10
			got := pages(t, q, c.match, c.o)
			if slices.Sort(got); !slices.Equal(got, c.want) {
				t.Errorf("%+v: %v, want %v", c.o, got, c.want)
			}
		}
		for i := range 150 {
			add(t, q, fmt.Sprint("many-", i))
		}
		if p, err := q.Page(t.Context(), nil, nil); err != nil || len(p.Entries) != 100 || !p.More {
			t.Errorf("a page has %d keys of more than 150, %v; want the first hundred", len(p.Entries), err)
		}
		if e, ok := q.Lookup("parked"); !ok || e.State != StateParked || !errors.Is(e.LastError, errTest) {
			t.Errorf("Lookup = %+v, %t", e, ok)
		}
		if _, ok := q.Lookup("nobody"); ok {
			t.Error("Lookup found what is not there")
		}
	})
}

// A page must not stop adders and getters: match may add to the queue itself, to
// any shard, which would wait for ever if a lock were held. And in one step under
// the lock no more than a chunk is looked at.
//
// Negative control: with Match called in consider the test hung.
func TestPageHoldsNoLockWhileItMatches(t *testing.T) {
	q := newQueue(t, &Options[string]{Shards: 2})
	for i := range 5000 {
		add(t, q, fmt.Sprint("key-", i))
	}
	calls := 0
	p, err := q.Page(t.Context(), func(key string) bool {
		calls++
		add(t, q, key)
		_, _ = q.Lookup(key)
		return true
	}, &PageOptions{Order: ByAge, Limit: 5})
	if err != nil || len(p.Entries) != 5 || calls == 0 || p.Looked < 5000 {
		t.Errorf("%d keys of %d after %d calls, %v", len(p.Entries), p.Looked, calls, err)
	}
}

func TestPageEndsWithItsContext(t *testing.T) {
	q := newQueue(t, &Options[string]{Shards: 1})
	for i := range 5000 {
		add(t, q, fmt.Sprint("key-", i))
	}
	cause := errors.New("the reader went away")
	ctx, cancel := context.WithCancelCause(t.Context())
	seen := 0
	var o PageOptions
	none := func(string) bool {
		if seen++; seen == 1500 {
			cancel(cause)
		}
		return false
	}
	p, err := q.Page(ctx, none, &o)
	if err != nil || !p.More || p.Looked != 2048 {
		t.Fatalf("page %+v, %v: want it to end after two chunks", p, err)
	}
	o.From = p.Next
	if p, err = q.Page(t.Context(), none, &o); err != nil || p.More || p.Looked != 5000-2048 {
		t.Errorf("it goes on with %+v, %v", p, err)
	}
	if _, err := q.Page(ctx, nil, &PageOptions{Order: ByNext}); !errors.Is(err, cause) {
		t.Errorf("half a sorted page: %v, want the cause", err)
	}
}

func TestPageRefusesWhatMakesNoSense(t *testing.T) {
	q := newQueue(t, nil)
	add(t, q, "a")
	for _, o := range []PageOptions{
		{Limit: -1}, {Limit: maxPage + 1}, {Order: orders}, {States: []State{states}}, {States: []State{absent}},
	} {
		if _, err := q.Page(t.Context(), nil, &o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
	// A cursor comes out of a link that any reader can edit.
	for _, c := range []Cursor{{Place: 1 << 63}, {Place: 1<<64 - 1, Rank: -1}, {Rank: never, Place: 1 << 40}, {Place: 1<<32 - 1}} {
		for order := range orders {
			if _, err := q.Page(t.Context(), nil, &PageOptions{From: c, Order: order}); err != nil {
				t.Errorf("cursor %+v: %v", c, err)
			}
		}
	}
}

// What a page costs does not grow with the queue, but for the looking.
func TestPageKeepsNoMoreThanAPage(t *testing.T) {
	allocations := func(n int, o PageOptions) float64 {
		q := newQueue(t, &Options[string]{Shards: 2})
		for i := range n {
			_ = q.AddAfter(fmt.Sprint("key-", i), time.Hour+time.Duration(i*7919%n)*time.Second)
		}
		defer q.Stop(t.Context())
		least := math.Inf(1) // what another goroutine allocates meanwhile is counted too
		for range 3 {
			least = min(least, testing.AllocsPerRun(3, func() {
				if p, err := q.Page(context.Background(), func(string) bool { return true }, &o); err != nil || len(p.Entries) != 50 {
					t.Fatalf("%d keys, %v", len(p.Entries), err)
				}
			}))
		}
		return least
	}
	for order := range orders {
		o := PageOptions{Order: order, Limit: 50}
		few, many := allocations(5_000, o), allocations(40_000, o)
		if many > few+10 {
			t.Errorf("order %d: %.0f allocations for a page of 40,000 keys, %.0f of 5,000", order, many, few)
		}
	}
}
