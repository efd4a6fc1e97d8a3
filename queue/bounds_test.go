package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/internal/campaign"
	"github.com/tendhq/tend/queue/ratelimit"
)

// Keys that leave early take their cells along. However they leave, a band has no more
// places than two for each key and 1,024, no critical section touches more than
// 4,096 entries and cells, and the keys that are left come out in their order.
// checkInvariants looks at all of it.
//
// Negative control: the mutant "blocks are never joined".
func TestKeysThatLeaveEarlyLeaveNothing(t *testing.T) {
	n := campaign.Sized(6_000, 2_500)
	for name, next := range map[string]func(r *rand.Rand, left []int) int{
		"first first": func(_ *rand.Rand, _ []int) int { return 0 },
		"last first":  func(_ *rand.Rand, left []int) int { return len(left) - 1 },
		"at random":   func(r *rand.Rand, left []int) int { return r.IntN(len(left)) },
		"from the middle": func(_ *rand.Rand, left []int) int {
			return len(left) / 2
		},
	} {
		for what, leave := range map[string]func(q *Queue[string], key string){
			"Remove":  func(q *Queue[string], key string) { q.Remove(key) },
			"raise":   func(q *Queue[string], key string) { _ = q.AddWith(key, AddOptions{Priority: At(1)}) },
			"put off": func(q *Queue[string], key string) { _ = replace(q, key, AddOptions{After: time.Hour}) },
		} {
			for _, tenants := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, tenants %v", what, name, tenants), func(t *testing.T) {
					o := oneOrder()
					if tenants {
						o.Tenant = func(string) string { return "all" }
					}
					q := newQueue(t, o)
					r := rand.New(rand.NewPCG(1, 2))
					left := make([]int, n)
					for k := range left {
						left[k] = k
						add(t, q, fmt.Sprint(k))
					}
					for k := range n * 9 / 10 {
						at := next(r, left)
						leave(q, fmt.Sprint(left[at]))
						left = append(left[:at], left[at+1:]...)
						if k%1000 == 0 {
							checkInvariants(t, q)
						}
					}
					checkInvariants(t, q)
					gone, last := n-len(left), -1
					for range q.Len() {
						it := get(t, q)
						var k int
						fmt.Sscan(it.Key, &k)
						if it.Priority == At(0) && (k != left[0] || k <= last) {
							t.Fatalf("%d ran, want %d: %d had left before", k, left[0], gone)
						}
						if it.Priority == At(0) {
							left, last = left[1:], k
						}
						it.Done()
					}
					checkInvariants(t, q)
				})
			}
		}
	}
}

// A queue that hands nothing out, with keys that come and go for ever, keeps no more
// than what it has.
func TestHeldQueueKeepsNothingOfWhatGoes(t *testing.T) {
	q := newQueue(t, oneOrder())
	q.Hold(q.Whole(), Hold{Reason: "test"})
	add(t, q, "stays") // so that the band is never empty
	for n := range campaign.Sized(200_000, 20_000) {
		key := fmt.Sprint(n % 10)
		add(t, q, key)
		if !q.Remove(key) {
			t.Fatalf("%s was not there", key)
		}
	}
	checkInvariants(t, q)
	if places, _ := emptiest(q); places > 2*lastBlock {
		t.Errorf("%d places are kept for one key", places)
	}
	q.Close()
}

// A Get behind a great many keys that have left looks at none of them.
func TestGetDoesNotMeetKeysThatLeft(t *testing.T) {
	q := newQueue(t, oneOrder())
	n := campaign.Sized(100_000, 20_000)
	for k := range 2 * n {
		add(t, q, fmt.Sprint(k))
	}
	for k := range n - 1 { // the first half, but for its first key
		q.Remove(fmt.Sprint(k + 1))
	}
	for _, want := range []int{0, n, n + 1} {
		if it := get(t, q); it.Key != fmt.Sprint(want) {
			t.Errorf("got %s, want %d", it.Key, want)
		} else {
			it.Done()
		}
	}
	if n := touched(q); n > maxTouched {
		t.Errorf("%d cells were touched in one critical section, want %d at most", n, maxTouched)
	}
	for _, want := range []int{n + 2, n + 3} {
		if it := get(t, q); it.Key != fmt.Sprint(want) {
			t.Errorf("got %s, want %d", it.Key, want)
		} else {
			it.Done()
		}
	}
	if n := touched(q); n > 0 {
		t.Errorf("to take two keys touches %d cells", n)
	}
	checkInvariants(t, q)
}

// With token buckets the histograms of waiting and of work count runs, and not
// dispatches that a bucket refused.
// promise Q6
//
// Negative control: the mutant "a refused dispatch counts as a run"; on the queue
// before this one 300 keys gave 215 runs, 674 of them measured.
func TestHistogramsCountRunsOnly(t *testing.T) {
	b := bucketOf(t, "b", 100, 1)
	o := oneOrder()
	o.Buckets = func(_ string, dst []*ratelimit.Bucket) []*ratelimit.Bucket { return append(dst, b) }
	bubble(t, o, func(t *testing.T, q *Queue[string]) {
		for n := range 300 {
			add(t, q, fmt.Sprint(n))
		}
		const runs = 100
		var work time.Duration
		for n := range runs {
			it := get(t, q)
			d := time.Duration(n%3) * time.Millisecond
			time.Sleep(d)
			work += d
			it.Done()
		}
		s := q.Stats()
		waits, works := s.QueueTime.UpTo(math.MaxInt64), s.WorkTime.UpTo(math.MaxInt64)
		if s.Dispatched != runs || waits != runs || works != runs {
			t.Errorf("%d runs, %d waits and %d works were measured, want %d of each", s.Dispatched, waits, works, runs)
		}
		if s.WorkTime.Sum > 3*work.Seconds() {
			t.Errorf("%v s of work, there were %v", s.WorkTime.Sum, work)
		}
	})
}

// A hold whose maximum has passed counts no more, whatever its key does: it is not
// shown, cannot be released, and the hook is called when it ends.
// promise Q1
//
// Negative control: on the queue before this one only the hold of a ready or idle key
// ended in time; and the mutant "an expired hold of a delayed key lasts".
func TestExpiredHoldCountsNoMoreInAnyState(t *testing.T) {
	for state, do := range map[State]func(q *Queue[string]){
		StateDelayed:    func(q *Queue[string]) { q.AddAfter("k", time.Hour) },
		StateBackingOff: func(q *Queue[string]) { add(t, q, "k"); get(t, q).Retry(errTest, time.Hour) },
		StateParked:     func(q *Queue[string]) { add(t, q, "k"); get(t, q).Park(errTest) },
		StateRunning:    func(q *Queue[string]) { add(t, q, "k"); get(t, q) },
		StateReady:      func(q *Queue[string]) { add(t, q, "k") },
	} {
		t.Run(state.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended := ""
				o := oneOrder()
				o.Hooks = &Hooks[string]{HoldExpired: func(over Scope[string], reason string) { ended += over.String() + " " + reason }}
				q := newQueue(t, o)
				do(q)
				q.Hold(q.OfKey("k"), Hold{Name: "operator", Reason: "maintenance", Max: time.Second})
				if why := entryOf(t, q, "k").Why; why != "held: maintenance" {
					t.Errorf("why %q", why)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				e := entryOf(t, q, "k")
				if strings.Contains(e.Why, "held") || e.State != state {
					t.Errorf("k is %v, %q, want %v and no hold", e.State, e.Why, state)
				}
				if q.Release(q.OfKey("k"), "operator") {
					t.Error("the hold could be released after its end")
				}
				if ended != "key k maintenance" {
					t.Errorf("the hook was told %q", ended)
				}
				checkInvariants(t, q)
			})
		})
	}
}

// Drain of a queue, and of a tenant, that is held with a maximum ends when the hold
// does: its getters wait until then and run what is ready.
// promise Q8
//
// Negative control: the mutant "a hold does not end while the queue drains".
func TestDrainOfAHeldQueueEndsWithTheHold(t *testing.T) {
	for what, scope := range map[string]func(q *Queue[string]) Scope[string]{
		"queue":  func(q *Queue[string]) Scope[string] { return q.Whole() },
		"tenant": func(q *Queue[string]) Scope[string] { return q.OfTenant("k") },
	} {
		o := oneOrder()
		o.Tenant = byPrefix
		bubble(t, o, func(t *testing.T, q *Queue[string]) {
			add(t, q, "k")
			q.Hold(scope(q), Hold{Reason: "test", Max: 100 * time.Millisecond})
			start := time.Now()
			ran := make(chan error)
			for range 2 {
				go func() {
					for {
						it, err := q.Get(t.Context())
						if err != nil {
							ran <- err
							return
						}
						it.Done()
					}
				}()
			}
			synctest.Wait()
			if err := q.Drain(t.Context()); err != nil || time.Since(start) != 100*time.Millisecond {
				t.Errorf("%s: Drain returned after %v, %v; want 100ms", what, time.Since(start), err)
			}
			for range 2 {
				if err := <-ran; !errors.Is(err, ErrStopped) {
					t.Errorf("Get: %v, want ErrStopped", err)
				}
			}
		})
	}
	// Without a maximum Drain ends with its context, and says what is left.
	bubble(t, oneOrder(), func(t *testing.T, q *Queue[string]) {
		add(t, q, "k")
		q.Hold(q.Whole(), Hold{Reason: "test"})
		ctx, cancel := contextFor(t, time.Second)
		defer cancel()
		var left *StopError
		if err := q.Drain(ctx); !errors.As(err, &left) || left.Waiting != 1 {
			t.Errorf("Drain: %v, want one waiting", err)
		}
	})
}

// While buckets refuse key after key, Get looks at its context.
//
// Negative control: the mutant "Get looks at its context only at first".
func TestGetLooksAtItsContextWhileBucketsRefuse(t *testing.T) {
	b := bucketOf(t, "b", 1, 1)
	asked, limit := 0, 0
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	o := oneOrder()
	o.Buckets = func(_ string, dst []*ratelimit.Bucket) []*ratelimit.Bucket {
		if asked++; asked == 100 {
			cancel(cause)
			limit = asked + 4*16
		}
		return append(dst, b)
	}
	bubble(t, o, func(t *testing.T, q *Queue[string]) {
		b.Throttle(time.Now().Add(time.Hour))
		for n := range 10_000 {
			add(t, q, fmt.Sprint(n))
		}
		if _, err := q.Get(ctx); !errors.Is(err, cause) {
			t.Errorf("Get: %v, want the cause of its context", err)
		}
		if asked > limit {
			t.Errorf("%d keys were asked about, want at most %d: a few after the context had ended", asked, limit)
		}
	})
}

// Tenants take turns by their weights, in a band and in the line of a bucket.
// promise Q6
//
// Negative control: the mutant "a queue of weights takes turns one by one"; with
// bands for the lines of buckets acme's keys all went first.
func TestTenantsTakeTurnsByWeight(t *testing.T) {
	for _, throttled := range []bool{false, true} {
		b := bucketOf(t, "b", 1, 1)
		o := oneOrder()
		o.Tenant = byPrefix
		o.TenantWeight = func(tenant string) int { return map[string]int{"acme": 3, "umbra": 1}[tenant] }
		if throttled {
			o.Buckets = func(_ string, dst []*ratelimit.Bucket) []*ratelimit.Bucket { return append(dst, b) }
		}
		bubble(t, o, func(t *testing.T, q *Queue[string]) {
			if throttled {
				b.Charge(1)
			}
			for n := range 12 {
				add(t, q, fmt.Sprintf("acme/%02d", n))
			}
			for n := range 4 {
				add(t, q, fmt.Sprintf("umbra/%d", n))
			}
			add(t, q, "zeta/0") // of weight 0, which counts as 1
			if throttled {
				wantNone(t, q)
				if n := q.Stats().Of(StateThrottled).Keys; n != 17 {
					t.Errorf("%d keys are throttled, want 17", n)
				}
			}
			order := ""
			for range 13 {
				it := get(t, q)
				order += it.Key[:1]
				it.Done()
			}
			if want := "aaauzaaauaaau"; order != want {
				t.Errorf("throttled %v: tenants ran as %s, want %s", throttled, order, want)
			}
		})
	}
}

// With many tenants, and with many buckets, what one Get, Done, Len or Stats touches
// grows with the logarithm of their number at most.
//
// Negative control: with the oldest head searched among all flows, and a line's free
// number searched from the start, it grew with the number.
func TestStepsGrowWithTheLogarithmOfTenants(t *testing.T) {
	steps := func(n, each, running int) int {
		o := &Options[int]{Shards: 1, TenantRunning: running}
		o.Tenant = func(key int) string { return fmt.Sprint(key % n) }
		q, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		for k := range n * each {
			q.Add(k)
		}
		s := &q.shards.all[0]
		s.most = 0
		swaps, most := &s.ready.(*bands).byAge.swaps, 0
		for range 64 {
			before := *swaps
			it, err := q.Get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			q.Len()
			q.Stats()
			it.Done()
			most = max(most, *swaps-before)
		}
		checkInvariants(t, q)
		q.Close()
		return most + s.most
	}
	for _, c := range []struct{ each, running int }{{each: 1}, {each: 3}, {each: 1, running: 1}, {each: 3, running: 1}} {
		few, many := steps(100, c.each, c.running), steps(20_000, c.each, c.running)
		t.Logf("%d keys of each tenant, cap %d: %d steps with 100 tenants, %d with 20,000", c.each, c.running, few, many)
		if many > 3*few+50 {
			t.Errorf("%d keys of each tenant, cap %d: %d steps with 20,000 tenants, %d with 100", c.each, c.running, many, few)
		}
	}
}

// Many holds over one key cost no more each than few.
func TestHoldsOfOneKeyCostNoMoreEach(t *testing.T) {
	bubble(t, oneOrder(), func(t *testing.T, q *Queue[string]) {
		const n = 40_000
		add(t, q, "k")
		var releases []func()
		for i := range n {
			releases = append(releases, q.Hold(q.OfKey("k"), Hold{Reason: fmt.Sprint(i), Max: time.Duration(1+i%100) * time.Hour}))
		}
		wantState(t, q, "k", StateHeld)
		for i := range n {
			releases[i*7919%n]()
		}
		if swaps, most := q.keepers[0].expiry.swaps, n*2*20; swaps > most {
			t.Errorf("%d swaps for %d holds, want at most %d", swaps, n, most)
		}
		wantNext(t, q, "k")
	})
}

// A large key type does not cost a thousand keys' memory for the first key.
func TestChunksOfLargeKeysAreSmall(t *testing.T) {
	type large [64 << 10]byte
	q, err := New(&Options[large]{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	before, after := heapOf(func() {
		for n := range 4 {
			if err := q.Add(large{byte(n)}); err != nil {
				t.Fatal(err)
			}
		}
	})
	if got := int64(after - before); got > 2<<20 {
		t.Errorf("four keys of 64 KB cost %d bytes", got)
	}
	q.Close()
}

// Q5's bounds hold with eight getters: each may have one key under way, so that the
// oldest waits for eight dispatches more.
// promise Q5
//
// Negative controls: the mutants "nothing ages" and "no shard becomes current for a dispatch".
func TestBoundsHoldWithEightGetters(t *testing.T) {
	const getters = 8
	for _, shards := range []int{1, 2, 8} {
		bubble(t, &Options[string]{Shards: shards}, func(t *testing.T, q *Queue[string]) {
			type dispatch struct {
				it Item[string]
				ok chan struct{}
			}
			got := make(chan dispatch)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for n := range 50 * shards {
				_ = q.AddWith(fmt.Sprint("high", n), AddOptions{Priority: At(100)})
			}
			for range getters {
				go func() {
					for {
						it, err := q.Get(ctx)
						if err != nil {
							return
						}
						ok := make(chan struct{})
						got <- dispatch{it, ok}
						<-ok
					}
				}()
			}
			for n := range 20 {
				low := fmt.Sprint("low", n)
				_ = q.AddWith(low, AddOptions{Priority: At(-100)})
				older := q.Len() // at most that many in its shard
				if shards > 1 {
					s := q.shards.of(q.hash(low))
					s.mu.Lock()
					older = s.count[StateReady]
					s.mu.Unlock()
				}
				// A shard is served once in 32·Shards dispatches, and gives the oldest at
				// each sixteenth; its own other keys are all older at first.
				most := 16*(older+1) + getters
				if shards > 1 {
					most = 32*shards*16*(older+1) + getters
				}
				for at := 1; ; at++ {
					d := <-got
					if d.it.Key == low {
						d.it.Done()
						close(d.ok)
						break
					}
					if at > most {
						t.Fatalf("%d shards: %s has not run within %d dispatches", shards, low, most)
					}
					d.it.After(0)
					close(d.ok)
				}
			}
			cancel()
			for len(got) > 0 {
				<-got
			}
			go func() { // getters that have a key already
				for d := range got {
					d.it.Done()
					close(d.ok)
				}
			}()
			synctest.Wait()
			close(got)
		})
	}
}

// Sequence numbers have 64 bits, of which a queue uses a quarter: 146 years at a billion
// a second. Their halves overflow into each other, in cells, items and the order of
// keys that are due at the same time.
//
// Negative controls: the mutants "a cell keeps the lower half of its number" and "keys
// that are due together are out of order once in two billion".
func TestSequenceNumbersDoNotWrap(t *testing.T) {
	if years := (math.MaxUint64 - uint64(firstNumber)) / (365 * 24 * 3600 * 1e9); years < 100 {
		t.Errorf("numbers last for %d years at a billion a second", years)
	}
	for _, bits := range []int{31, 32, 33} {
		bubble(t, oneOrder(), func(t *testing.T, q *Queue[string]) {
			number := &q.shards.all[0].number
			keys := strings.Split("abcdefghij", "")
			*number = firstNumber + 1<<bits - 5
			add(t, q, keys...)
			if *number < firstNumber+1<<bits {
				t.Fatal("the numbers did not overflow: the test is blind")
			}
			q.Remove("c")
			q.AddWith("h", AddOptions{Priority: At(1)})
			checkInvariants(t, q)
			wantNext(t, q, "h", "a", "b", "d", "e", "f", "g", "i", "j")

			*number = firstNumber + 1<<bits - 5
			due := time.Now().Add(time.Hour)
			for _, key := range keys {
				q.AddAfter(key, time.Until(due))
			}
			checkInvariants(t, q)
			time.Sleep(time.Hour)
			wantNext(t, q, keys...)

			*number = firstNumber + 1<<bits - 2
			add(t, q, "a", "b")
			first, second := get(t, q), get(t, q)
			second.Done()
			first.Done()
		})
	}
}
