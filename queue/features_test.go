package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/tendhq/tend/queue/ratelimit"
	"golang.org/x/time/rate"
)

func byPrefix(key string) string { return strings.Split(key, "/")[0] }

// Two tenants with 100 and 3 keys take turns; a higher band still goes first.
// promise Q5; control: with the ring not moved on, umbra's keys came last.
func TestTenantsTakeTurns(t *testing.T) {
	o := oneOrder()
	o.Tenant = byPrefix
	bubble(t, o, func(t *testing.T, q *Queue[string]) {
		for n := range 100 {
			add(t, q, fmt.Sprintf("acme/%02d", n))
		}
		add(t, q, "umbra/0", "umbra/1", "umbra/2")
		q.AddWith("acme/high", AddOptions{Priority: At(1)})
		wantNext(t, q, "acme/high", "acme/00", "umbra/0", "acme/01", "umbra/1", "acme/02", "umbra/2", "acme/03", "acme/04")
		if e := entryOf(t, q, "acme/50"); e.Tenant != "acme" {
			t.Errorf("tenant %q, want acme", e.Tenant)
		}
	})
}

func TestTenantHasACapAndAPause(t *testing.T) {
	o := oneOrder()
	o.Tenant, o.TenantRunning = byPrefix, 2
	bubble(t, o, func(t *testing.T, q *Queue[string]) {
		add(t, q, "acme/0", "acme/1", "acme/2", "umbra/0")
		a, b := get(t, q), get(t, q)
		c := get(t, q)
		if c.Key != "acme/1" {
			t.Errorf("third is %s, want acme/1", c.Key)
		}
		wantNone(t, q)
		if why := entryOf(t, q, "acme/2").Why; why != "tenant runs as many as it may" {
			t.Errorf("why: %q", why)
		}
		checkInvariants(t, q)
		a.Done()
		wantNext(t, q, "acme/2")
		b.Done()
		c.Retry(errTest, 0)

		q.Hold(q.OfTenant("acme"), Hold{Name: "operator", Reason: "invoice open", Max: time.Minute})
		add(t, q, "acme/9", "umbra/9")
		wantNext(t, q, "umbra/9")
		wantNone(t, q)
		if why := entryOf(t, q, "acme/9").Why; why != "tenant held: invoice open" {
			t.Errorf("why: %q", why)
		}
		time.Sleep(time.Minute)
		wantNext(t, q, "acme/9", "acme/1")
		q.Hold(q.OfTenant("umbra"), Hold{Name: "operator", Reason: "test", Max: 0})
		if !q.Release(q.OfTenant("umbra"), "operator") || q.Release(q.OfTenant("umbra"), "operator") {
			t.Error("ResumeTenant does not tell whether the tenant was paused")
		}
	})
}

func bucketOf(t testing.TB, name string, perSecond rate.Limit, burst int) *ratelimit.Bucket {
	t.Helper()
	b, err := ratelimit.NewBucket(name, perSecond, burst)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A throttled bucket holds its own keys only, in the order of Q5.
// promise Q6; control: with refused keys put back into the ready bands, Get never came
// to free and did not return.
func TestThrottledBucketHoldsItsOwnKeysOnly(t *testing.T) {
	slow := bucketOf(t, "slow", 1, 1)
	o := oneOrder()
	o.Buckets = func(key string, dst []*ratelimit.Bucket) []*ratelimit.Bucket {
		if strings.HasPrefix(key, "slow") {
			dst = append(dst, slow)
		}
		return dst
	}
	bubble(t, o, func(t *testing.T, q *Queue[string]) {
		for n := range 1000 {
			q.AddWith(fmt.Sprintf("slow/%03d", n), AddOptions{Priority: At(-100)})
		}
		wantNext(t, q, "slow/000")
		add(t, q, "free")
		wantNext(t, q, "free")
		wantNone(t, q)
		wantState(t, q, "slow/500", StateThrottled)
		if why := entryOf(t, q, "slow/500").Why; why != "throttled by slow" {
			t.Errorf("why: %q", why)
		}
		checkInvariants(t, q)

		add(t, q, "slow/live") // a live change gets the next token
		wantNone(t, q)
		time.Sleep(1001 * time.Millisecond)
		wantNext(t, q, "slow/live")
		wantNone(t, q)
		q.AddWith("slow/700", AddOptions{Priority: At(1)}) // raised while it waits
		time.Sleep(1001 * time.Millisecond)
		wantNext(t, q, "slow/700")
		q.Remove("slow/001")
		time.Sleep(1001 * time.Millisecond)
		wantNext(t, q, "slow/002")
		checkInvariants(t, q)
		if err := slow.SetLimit(1e6, 10_000); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		ran := runs(t, q, time.Second, func(it Item[string]) { it.Done() })
		if len(ran) != 996 || len(q.keepers[0].lines) != 0 {
			t.Errorf("%d keys ran, %d lists are left; want 996, 0", len(ran), len(q.keepers[0].lines))
		}
	})
}

// A key that becomes ready at the moment of a token does not take it from one of a higher band
// that waits for it, nor from one of its own band.
//
// promise Q5. Negative controls: mutants "a key passes those of a higher band that wait for its
// bucket" and "a key passes those of its band that wait for its bucket".
func TestKeyPassesNoneOfAHigherBandThatWaitForItsBucket(t *testing.T) {
	for _, band := range []int8{-128, -100, -1, 0, 1, 127} {
		t.Run(fmt.Sprint(band), func(t *testing.T) { keyPassesOnlyLowerBands(t, band) })
	}
}

func keyPassesOnlyLowerBands(t *testing.T, band int8) {
	slow := bucketOf(t, "slow", 1, 1)
	o := oneOrder()
	o.Buckets = func(_ string, dst []*ratelimit.Bucket) []*ratelimit.Bucket { return append(dst, slow) }
	bubble(t, o, func(t *testing.T, q *Queue[string]) {
		add(t, q, "first")
		wantNext(t, q, "first")
		add(t, q, "waits")
		wantNone(t, q)
		wantState(t, q, "waits", StateThrottled)
		time.Sleep(time.Second) // the token is there, and the bucket is not looked at before the next nanosecond
		if tokens := slow.Stats().Tokens; tokens < 1 {
			t.Fatalf("%v tokens, want 1", tokens)
		}
		q.AddWith("comes", AddOptions{Priority: At(band)})
		order := []string{"waits", "comes"}
		if band > 0 {
			order = []string{"comes", "waits"}
			wantNext(t, q, order[0])
		} else {
			wantNone(t, q)
			time.Sleep(time.Millisecond)
			wantNext(t, q, order[0])
		}
		time.Sleep(1001 * time.Millisecond)
		wantNext(t, q, order[1])
	})
}

// A key that waits for a bucket goes before keys of a lower band of its tenant, which runs as
// many keys as it may, however soon each of these is added again: its bucket's token lets it go
// in the moment in which the tenant may run a key again, and not later, when the tenant may run
// none any more.
//
// promise Q5. Seen to fail: the key never ran. Negative control: mutant "lines look again only
// when the timer fires".
func TestKeyThatWaitsForABucketIsNotStarvedByItsTenant(t *testing.T) {
	slow := bucketOf(t, "slow", 1, 1)
	o := oneOrder()
	o.Tenant, o.TenantRunning = func(string) string { return "acme" }, 1
	o.Buckets = func(key string, dst []*ratelimit.Bucket) []*ratelimit.Bucket {
		if key == "waits" {
			return append(dst, slow)
		}
		return dst
	}
	bubble(t, o, func(t *testing.T, q *Queue[string]) {
		slow.Charge(1)
		q.AddWith("waits", AddOptions{Priority: At(100)})
		add(t, q, "again")
		it := get(t, q)
		wantState(t, q, "waits", StateThrottled)
		time.Sleep(2 * time.Second) // the token is there, and the tenant may run no other key
		add(t, q, "again")
		it.Done()
		it = get(t, q) // at once: no timer fires before
		if it.Key != "waits" {
			t.Fatalf("next is %q, want waits", it.Key)
		}
		it.Done()
		wantNext(t, q, "again")
	})
}

// A run that fails after its key was removed is no retry: nothing follows it.
//
// Negative control: mutant "a failed run of a removed key counts as a retry".
func TestFailureOfARemovedKeyIsNoRetry(t *testing.T) {
	bubble(t, oneOrder(), func(t *testing.T, q *Queue[string]) {
		add(t, q, "kept")
		get(t, q).Retry(errTest, 0)
		add(t, q, "removed")
		it := get(t, q)
		q.Remove("removed")
		it.Retry(errTest, 0)
		if n := q.Stats().Retries; n != 1 {
			t.Errorf("%d retries, want 1", n)
		}
	})
}

// A Retry-After pauses the bucket for every queue that shares it, and counts no
// failure.
// promise Q6
func TestThrottledErrorPausesTheBucketForAll(t *testing.T) {
	cloud := bucketOf(t, "cloud", 1000, 1000)
	shared := func() *Options[string] {
		o := oneOrder()
		o.Buckets = func(_ string, dst []*ratelimit.Bucket) []*ratelimit.Bucket { return append(dst, cloud) }
		return o
	}
	bubble(t, shared(), func(t *testing.T, q *Queue[string]) {
		other := newQueue(t, shared())
		add(t, q, "k")
		add(t, other, "k")
		start := time.Now()
		get(t, q).Retry(fmt.Errorf("list: %w", ratelimit.Throttled(cloud, start.Add(time.Minute), errTest)), 0)
		add(t, q, "k") // absorbed
		wantNone(t, other)
		it := get(t, other)
		if d := time.Since(start); d < time.Minute || d > time.Minute+time.Millisecond {
			t.Errorf("the other queue's key ran after %v, want 1m", d)
		}
		it.Done()
		it = get(t, q)
		if it.Attempt != 0 {
			t.Errorf("attempt %d, want 0: being throttled is no failure", it.Attempt)
		}
		it.Done()
		if s := cloud.Stats(); s.Throttled != time.Minute || !s.Until.IsZero() {
			t.Errorf("throttled %v until %v", s.Throttled, s.Until)
		}
		if err := other.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestHoldKeepsAKeyUntilReleased(t *testing.T) {
	var expired []string
	o := oneOrder()
	o.Hooks = &Hooks[string]{HoldExpired: func(over Scope[string], why string) { expired = append(expired, over.String()+" "+why) }}
	bubble(t, o, func(t *testing.T, q *Queue[string]) {
		add(t, q, "k")
		it := get(t, q)
		one, two := q.Hold(q.OfKey("k"), Hold{Reason: "cache", Max: 0}), q.Hold(q.OfKey("k"), Hold{Reason: "human", Max: 0})
		add(t, q, "k")
		it.Done()
		wantNone(t, q)
		if e := entryOf(t, q, "k"); e.State != StateHeld || e.Why != "held: cache" {
			t.Errorf("k is %v, %q", e.State, e.Why)
		}
		one()
		one()
		wantNone(t, q)
		two()
		wantNext(t, q, "k")

		q.Hold(q.OfKey("k"), Hold{Reason: "cache", Max: time.Second})
		add(t, q, "k")
		start := time.Now()
		get(t, q).Done()
		synctest.Wait() // for the hook, which is called without a lock
		if time.Since(start) != time.Second || len(expired) != 1 || expired[0] != "key k cache" {
			t.Errorf("expired %v after %v, want k cache after 1s", expired, time.Since(start))
		}
		q.Hold(q.OfKey("idle"), Hold{Reason: "cache", Max: time.Second})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if keys := keysIn(q); keys != nil {
			t.Errorf("%v are kept after their hold", keys)
		}
	})
}

func TestPauseStopsDispatchesAndExpires(t *testing.T) {
	bubble(t, nil, func(t *testing.T, q *Queue[string]) {
		q.Hold(q.Whole(), Hold{Name: "operator", Reason: "maintenance", Max: time.Minute})
		add(t, q, "k")
		wantNone(t, q)
		if e := entryOf(t, q, "k"); e.Why != "queue held: maintenance" || q.Stats().HeldBy != "maintenance" {
			t.Errorf("why %q, stats %q", e.Why, q.Stats().HeldBy)
		}
		start := time.Now()
		get(t, q).Done()
		if time.Since(start) != time.Minute {
			t.Errorf("resumed after %v, want 1m", time.Since(start))
		}
		q.Hold(q.Whole(), Hold{Name: "operator", Reason: "again", Max: 0})
		if !q.Release(q.Whole(), "operator") || q.Release(q.Whole(), "operator") {
			t.Error("Resume does not tell whether the queue was paused")
		}
		q.Hold(q.OfKey("k"), Hold{Name: "operator", Reason: "test", Max: 0})
		add(t, q, "k")
		wantNone(t, q)
		if !q.Release(q.OfKey("k"), "operator") || q.Release(q.OfKey("k"), "operator") {
			t.Error("ResumeKey does not tell whether the key was paused")
		}
		wantNext(t, q, "k")
	})
}

func TestMaxKeysRefusesNewKeysOnly(t *testing.T) {
	o := oneOrder()
	o.MaxKeys = 2
	bubble(t, o, func(t *testing.T, q *Queue[string]) {
		add(t, q, "a", "b", "a")
		if err := q.Add("c"); !errors.Is(err, ErrFull) {
			t.Errorf("third key: %v, want ErrFull", err)
		}
		wantNext(t, q, "a")
		add(t, q, "c")
		if err := q.AddAfter("d", time.Second); !errors.Is(err, ErrFull) {
			t.Errorf("third key: %v, want ErrFull", err)
		}
		wantNext(t, q, "b", "c")
	})
}

// Reasons are coalesced, and gone once the key runs.
func TestSnapshotShowsReasonsErrorsAndTimes(t *testing.T) {
	bubble(t, oneOrder(), func(t *testing.T, q *Queue[string]) {
		for n := range 40 {
			q.AddWith("k", AddOptions{Reason: fmt.Sprintf("reason %02d", n)})
		}
		q.AddWith("k", AddOptions{Reason: "reason 00"})
		if r := entryOf(t, q, "k").Reasons; len(r) != 32 || r[0] != "reason 00" || r[31] != "other" {
			t.Errorf("reasons %v", r)
		}
		start := time.Now()
		get(t, q).Retry(errTest, 0)
		e := entryOf(t, q, "k")
		if e.State != StateBackingOff || e.Attempts != 1 || !errors.Is(e.LastError, errTest) || e.Reasons != nil ||
			!e.Next.Equal(start.Add(time.Second)) || e.Since.Sub(start).Abs() > 10*time.Millisecond {
			t.Errorf("%+v", e)
		}
		rows := q.Stats().States
		if len(rows) != 1 || rows[0] != (StateStats{State: StateBackingOff, Keys: 1}) {
			t.Errorf("states %+v", rows)
		}
		time.Sleep(time.Minute)
		get(t, q).Park(errTest)
		if e := entryOf(t, q, "k"); e.State != StateParked || e.Why != "parked" || !errors.Is(e.LastError, errTest) {
			t.Errorf("%+v", e)
		}
		add(t, q, "long")
		get(t, q).Park(fmt.Errorf("%w: %s", errTest, strings.Repeat("é", 2000)))
		e = entryOf(t, q, "long")
		if text := e.LastError.Error(); len(text) > 1024 || len(text) < 1020 || !strings.HasSuffix(text, "é…") || !errors.Is(e.LastError, errTest) {
			t.Errorf("an error of 4,000 bytes is shown with %d: %q", len(text), text)
		}
	})
}

// A key that was added for later while it runs says when it runs next; one that was added to
// run at once, or not at all, has no such time.
//
// Negative control: mutant "a running key does not say when it runs next".
func TestRunningKeySaysWhenItRunsNext(t *testing.T) {
	bubble(t, oneOrder(), func(t *testing.T, q *Queue[string]) {
		add(t, q, "later", "again", "once")
		running := map[string]Item[string]{}
		for range 3 {
			it := get(t, q)
			running[it.Key] = it
		}
		later := time.Now().Add(time.Hour)
		if err := q.AddAfter("later", time.Hour); err != nil {
			t.Fatal(err)
		}
		add(t, q, "again")
		for key, want := range map[string]time.Time{"later": later, "again": {}, "once": {}} {
			if e := entryOf(t, q, key); e.State != StateRunning || !e.Next.Equal(want) {
				t.Errorf("%s is %v and runs next at %v, want running and %v", key, e.State, e.Next, want)
			}
			running[key].Done()
		}
		if e := entryOf(t, q, "later"); e.State != StateDelayed || !e.Next.Equal(later) {
			t.Errorf("after its run: %+v, want delayed until %v", e, later)
		}
	})
}

// The ages in Stats are of the key that is oldest in all shards, whatever shard has it.
//
// Negative control: mutant "of two shards the newer gives the oldest key".
func TestOldestKeyIsThatOfAllShards(t *testing.T) {
	bubble(t, &Options[string]{Shards: 2}, func(t *testing.T, q *Queue[string]) {
		oldest := func(state State, want time.Time) {
			t.Helper()
			rows := q.Stats().States
			i := slices.IndexFunc(rows, func(r StateStats) bool { return r.State == state })
			if i < 0 || rows[i].Oldest.Sub(want).Abs() > 20*time.Millisecond {
				t.Errorf("%+v, want the oldest key %v since %v", rows, state, want)
			}
		}
		begun := time.Now()
		for n := 0; q.shards.all[0].count[StateReady] == 0 || q.shards.all[1].count[StateReady] == 0; n++ {
			add(t, q, fmt.Sprint(n))
			time.Sleep(time.Minute)
		}
		oldest(StateReady, begun)
		if at := q.Stats().Of(StateReady).Oldest; at.Sub(begun).Abs() > 20*time.Millisecond {
			t.Errorf("a key is ready since %v, want %v", at, begun)
		}
		begun = time.Now()
		var all []Item[string]
		for range q.Len() {
			all = append(all, get(t, q))
			time.Sleep(time.Minute)
		}
		total := time.Minute * time.Duration(len(all)*(len(all)+1)/2)
		if got := q.Stats().Of(StateRunning).Total; (got - total).Abs() > time.Second {
			t.Errorf("%d runs go on for %v together, want %v", len(all), got, total)
		}
		oldest(StateRunning, begun)
		for _, it := range all {
			it.Done()
		}
	})
}

// As Stats.Oldest says: a key that is raised comes again, and the keys of a held tenant do not count.
func TestOldestReadyKeyIsTheOneThatCameFirstAndMayRun(t *testing.T) {
	tenant := func(key string) string { return key[:1] }
	bubble(t, &Options[string]{Shards: 1, Tenant: tenant}, func(t *testing.T, q *Queue[string]) {
		begun := time.Now()
		for _, key := range []string{"a1", "b1", "b2"} {
			add(t, q, key)
			time.Sleep(time.Minute)
		}
		want := func(minutes time.Duration) {
			t.Helper()
			if got := q.Stats().Of(StateReady).Oldest.Sub(begun); (got - minutes*time.Minute).Abs() > time.Millisecond {
				t.Errorf("the oldest came after %v, want %d min", got, minutes)
			}
		}
		want(0)
		pauseTenant(q, "a", 0)
		want(1)
		if err := q.AddWith("b1", AddOptions{Priority: At(1)}); err != nil {
			t.Fatal(err)
		}
		want(2)
		resumeTenant(q, "a")
		want(0)
	})
}

func TestStatsCountAndMeasure(t *testing.T) {
	bubble(t, oneOrder(), func(t *testing.T, q *Queue[string]) {
		for n := range 100 {
			q.AddWith(fmt.Sprint(n), AddOptions{Priority: At(int8(n % 2))})
		}
		if s := q.Stats(); len(s.Bands) != 2 || s.Bands[1] != 50 || s.Of(StateReady).Keys != 100 || s.Of(StateReady).Oldest.IsZero() {
			t.Errorf("%+v", s)
		}
		time.Sleep(time.Second)
		for range 100 {
			it := get(t, q)
			time.Sleep(20 * time.Millisecond)
			it.Done()
		}
		s := q.Stats()
		if s.Adds != 100 || s.Dispatched != 100 || s.Of(StateReady).Keys != 0 {
			t.Errorf("%+v", s)
		}
		waits, runs := s.QueueTime.UpTo(math.MaxInt64), s.WorkTime.UpTo(math.MaxInt64)
		if waits != 100 || runs != 100 {
			t.Errorf("%d waits and %d runs were measured, want 100", waits, runs)
		}
		// Each waited a second and 20 ms for each run before its own.
		if want := 100 + 0.02*99*100/2; s.QueueTime.Sum < want*0.95 || s.QueueTime.Sum > want*1.05 {
			t.Errorf("%v s of waiting, want about %v", s.QueueTime.Sum, want)
		}
		if s.WorkTime.Sum < 1.6 || s.WorkTime.Sum > 2.4 {
			t.Errorf("%v s of work, want about 2", s.WorkTime.Sum)
		}
	})
}

// RetryAfter(nil, 0) is After(0): behind the ready keys of its band.
// case 141
func TestAfterNothingDoesNotSpin(t *testing.T) {
	bubble(t, oneOrder(), func(t *testing.T, q *Queue[string]) {
		add(t, q, "again", "a", "b")
		var order string
		for range 6 {
			it := get(t, q)
			order += it.Key + " "
			if it.Key == "again" {
				if it.Attempt != 0 {
					t.Errorf("attempt %d, want 0", it.Attempt)
				}
				it.After(0)
				continue
			}
			it.Done()
		}
		if want := "again a b again again again "; order != want {
			t.Errorf("order %q, want %q", order, want)
		}
	})
}

// case 154
func TestAfterRunsOnce(t *testing.T) {
	bubble(t, oneOrder(), func(t *testing.T, q *Queue[string]) {
		add(t, q, "k")
		get(t, q).After(time.Minute)
		wantNone(t, q)
		time.Sleep(time.Minute)
		wantNext(t, q, "k")
		time.Sleep(time.Hour)
		wantNone(t, q)
	})
}

// Negative control: without briefError in describe they have 3,007 bytes.
func TestErrorTextsThatAreShownAreCut(t *testing.T) {
	cause := errors.New("cause")
	long := fmt.Errorf("%s: %w", strings.Repeat("€", 1000), cause)
	q, err := New(&Options[string]{Policy: func(int, error) time.Duration { return time.Hour }})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Add("k"); err != nil {
		t.Fatal(err)
	}
	get(t, q).Retry(long, 0)
	found, _ := q.Lookup("k")
	page, err := q.Page(t.Context(), nil, &PageOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := append(slices.Collect(q.Snapshot()), found)
	all = append(all, page.Entries...)
	if len(all) != 3 {
		t.Fatalf("%d entries, want 3", len(all))
	}
	for _, e := range all {
		if text := e.LastError.Error(); len(text) > maxErrorText || len(text) < maxErrorText-3 || !utf8.ValidString(text) || !errors.Is(e.LastError, cause) {
			t.Errorf("an error of %d bytes, the cause of which is known: %v", len(text), errors.Is(e.LastError, cause))
		}
	}
	q.Close()
}

// An Item that was settled is known as such also when the memory of its entry was
// given back and is used again since, and after 2^24 and 2^32 other runs.
//
// Negative control: with numbers of runs that begin at 0 in each new chunk, and with
// numbers of 24 or 32 bits, the second Done ended the run of another key.
func TestSettlingTwicePanicsAfterMemoryWasGivenBack(t *testing.T) {
	bubble(t, oneOrder(), func(t *testing.T, q *Queue[string]) {
		s := &q.shards.all[0]
		burst := func() (its []Item[string]) {
			const n = 3 << chunkBits
			for n := range n {
				add(t, q, fmt.Sprint(n))
			}
			for range n {
				its = append(its, get(t, q))
			}
			return its
		}
		old := burst()
		for _, it := range old {
			it.Done()
		}
		if s.memory() != 1 {
			t.Fatal("the memory is still there")
		}
		for _, later := range []uint64{0, 1<<24 - 3<<chunkBits, 1<<32 - 1<<24 - 3<<chunkBits} {
			s.number += numbers(later)
			others := burst()
			for _, it := range old {
				wantPanic(t, "queue: Item settled twice", it.Done)
			}
			for _, it := range others {
				it.Done()
			}
		}
	})
}

// The zero Item, and what a Get that failed returns, say so.
func TestSettlingTheZeroItemSaysSo(t *testing.T) {
	var it Item[string]
	for _, settle := range []func(){
		it.Done, func() { it.After(time.Second) }, func() { it.Retry(nil, 0) }, func() { it.Park(errTest) },
		func() { it.Retry(ratelimit.Throttled(nil, time.Now(), nil), 0) },
	} {
		wantPanic(t, "queue: the zero Item was settled: it comes from no Get", settle)
	}
}

func wantPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		if got := recover(); got != want {
			t.Fatalf("panic %v, want %q", got, want)
		}
	}()
	f()
}

// A burst leaves nothing behind but one chunk and a small table, in whatever order
// its keys go.
// promise Q7
//
// Negative control: without the release in put all of its chunks were kept, without
// that in remove its segments.
func TestBurstLeavesNothingBehind(t *testing.T) {
	for name, order := range map[string]func(n, k int) int{
		"first first": func(_, k int) int { return k },
		"last first":  func(n, k int) int { return n - 1 - k },
		"scattered":   func(n, k int) int { return k * 7919 % n },
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(t, oneOrder())
			s := &q.shards.all[0]
			const n = 20 << chunkBits
			its := make([]Item[string], n)
			for k := range its {
				add(t, q, fmt.Sprint(k))
			}
			for k := range its {
				its[k] = get(t, q)
			}
			for k := range its {
				its[order(n, k)].Done()
			}
			words := 0
			for _, g := range s.table.dir {
				words += len(g.words)
			}
			if s.memory() > 1 || words > max(256, minSegment*len(s.table.dir)) {
				t.Errorf("%d chunks and %d words are kept for no key", s.memory(), words)
			}
			checkInvariants(t, q)
		})
	}
}

// A page that ends because its time is over goes on where it was to begin.
//
// Negative control: with Next at the chunk's beginning the next page showed keys for
// the second time.
func TestPageThatHadNoTimeShowsNothingTwice(t *testing.T) {
	bubble(t, oneOrder(), func(t *testing.T, q *Queue[string]) {
		add(t, q, "a", "b", "c")
		first, err := q.Page(t.Context(), nil, &PageOptions{Limit: 2})
		if err != nil || len(first.Entries) != 2 {
			t.Fatalf("%+v, %v", first, err)
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		none, err := q.Page(over, nil, &PageOptions{Limit: 2, From: first.Next})
		if err != nil || len(none.Entries) != 0 || !none.More {
			t.Fatalf("%+v, %v", none, err)
		}
		last, err := q.Page(t.Context(), nil, &PageOptions{Limit: 2, From: none.Next})
		if err != nil || len(last.Entries) != 1 {
			t.Errorf("%+v, %v; want the third key", last, err)
		}
		wantNext(t, q, "a", "b", "c")
	})
}

// A key that was removed during its run and is added then is a new one: its priority is that of the
// add, and not the higher one of what was removed.
func TestKeyThatIsAddedAfterItsRemovalHasItsOwnPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, nil)
		q.AddWith("a", AddOptions{Priority: At(10)})
		it := get(t, q)
		q.Remove("a")
		q.AddWith("a", AddOptions{Priority: At(-10)})
		it.Done()
		if e, ok := q.Lookup("a"); !ok || e.Priority != At(-10) {
			t.Errorf("after the run it is %+v, want one with the priority of the add", e)
		}
	})
}

// Remove of a key that is kept only because it is held forgets the error of its
// last run too; seen to fail: the attempts were forgotten and the error was not.
func TestRemoveOfAHeldKeyForgetsItsError(t *testing.T) {
	bubble(t, oneOrder(), func(t *testing.T, q *Queue[string]) {
		add(t, q, "a")
		get(t, q).Retry(errTest, 0)
		release := q.Hold(q.OfKey("a"), Hold{})
		defer release()
		if err := q.AddWith("a", AddOptions{Urgent: true, KeepAttempts: true, Replace: true, After: time.Hour}); err != nil {
			t.Fatal(err)
		}
		q.Remove("a")
		e, _ := q.Lookup("a")
		if e.LastError != nil || e.Attempts != 0 {
			t.Errorf("after Remove: %d attempts, %v", e.Attempts, e.LastError)
		}
	})
}

// A pause that has ended when it is told of delays nothing. (The trial
// pauses for a millisecond at least.)
func TestPauseThatIsOverDelaysNothing(t *testing.T) {
	b := bucketOf(t, "b", 1000, 10)
	o := oneOrder()
	o.Buckets = func(_ string, dst []*ratelimit.Bucket) []*ratelimit.Bucket { return append(dst, b) }
	bubble(t, o, func(t *testing.T, q *Queue[string]) {
		for _, ago := range []time.Duration{0, time.Millisecond, 1 << 62} {
			begin := time.Now()
			add(t, q, "a")
			get(t, q).Retry(ratelimit.Throttled(b, begin.Add(-ago), errTest), 0)
			wantNext(t, q, "a")
			if d := time.Since(begin); d != 0 || b.Stats().Throttled != 0 {
				t.Errorf("%v ago: %v later, %v", ago, d, b.Stats().Throttled)
			}
		}
	})
}
