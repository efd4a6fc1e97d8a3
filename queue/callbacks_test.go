package queue

import (
	"errors"
	"reflect"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue/ratelimit"
)

// A panic in Options.Buckets goes to the caller of Get, and loses no key: not the
// one that was asked about, nor those that were taken with it.
// promise Q1
//
// Negative control: without giveBack all three kept running for ever, and Stop did
// not end.
func TestPanicInBucketsLosesNoKey(t *testing.T) {
	sick := true
	o := oneOrder()
	o.Buckets = func(key string, dst []*ratelimit.Bucket) []*ratelimit.Bucket {
		if sick && key == "b" {
			panic("buckets")
		}
		return dst
	}
	bubble(t, o, func(t *testing.T, q *Queue[string]) {
		add(t, q, "a", "b", "c", "d", "e", "f")
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			q.GetBatch(t.Context(), make([]Item[string], 3))
		}()
		checkInvariants(t, q)
		if s := q.Stats(); s.Of(StateRunning).Keys != 0 || s.Dispatched != 0 {
			t.Errorf("%d keys are running, %d were dispatched, want none", s.Of(StateRunning).Keys, s.Dispatched)
		}
		if e := entryOf(t, q, "b"); e.State != StateBackingOff || e.LastError == nil || e.Attempts != 0 {
			t.Errorf("%+v, want it backing off with the reason, not counted as a failure", e)
		}
		sick = false
		wantNext(t, q, "d", "e", "f")
		time.Sleep(time.Minute)
		wantNext(t, q, "a", "b", "c")
	})
}

// A function of the options that ends its goroutine (t.FailNow does) ends that of the
// caller and no more: no lock stays taken, and no key stays running.
// promise Q1
//
// Negative control: with giveBack called only after a recovered panic the key that was
// asked about kept running.
func TestCallbackThatEndsItsGoroutineLosesNoKey(t *testing.T) {
	sick := ""
	exit := func(what string) {
		if sick == what {
			runtime.Goexit()
		}
	}
	o := oneOrder()
	o.Tenant = func(key string) string { exit("Tenant"); return key }
	o.TenantWeight = func(string) int { exit("TenantWeight"); return 1 }
	o.Buckets = func(_ string, dst []*ratelimit.Bucket) []*ratelimit.Bucket { exit("Buckets"); return dst }
	bubble(t, o, func(t *testing.T, q *Queue[string]) {
		for _, sick = range []string{"Tenant", "TenantWeight", "Buckets"} {
			var caller sync.WaitGroup
			caller.Go(func() {
				if q.Add(sick) == nil {
					_, _ = q.Get(t.Context())
				}
				t.Errorf("%s did not end its caller", sick)
			})
			caller.Wait()
			checkInvariants(t, q)
			if n := q.Stats().Of(StateRunning).Keys; n != 0 {
				t.Errorf("%s: %d keys are running, want none", sick, n)
			}
		}
		sick = ""
		add(t, q, "after")
		wantNext(t, q, "after")
		time.Sleep(time.Minute)
		wantNext(t, q, "Buckets")
	})
}

// What Buckets returns is the caller's: it may be the same slice each time, in any
// order, with one twice, and with gaps.
//
// Negative control: with TakeAll given what Buckets returned, which it sorts, the second bucket of the
// slice was nil after the first run; a nil bucket was a panic under the lock.
func TestSliceThatBucketsReturnsIsNotTouched(t *testing.T) {
	one, two := bucketOf(t, "one", 1, 10), bucketOf(t, "two", 1, 10)
	mine := []*ratelimit.Bucket{two, nil, one, two}
	o := oneOrder()
	o.Buckets = func(string, []*ratelimit.Bucket) []*ratelimit.Bucket { return mine }
	bubble(t, o, func(t *testing.T, q *Queue[string]) {
		add(t, q, "a", "b")
		wantNext(t, q, "a", "b")
		if mine[0] != two || mine[1] != nil || mine[2] != one || mine[3] != two {
			t.Error("the caller's slice was changed")
		}
		for _, b := range []*ratelimit.Bucket{one, two} {
			if n := b.Stats().Tokens; n < 8 || n > 8.1 {
				t.Errorf("%s has %v tokens, want 8 of 10 after two runs", b.Name(), n)
			}
		}
	})
}

// watchers is how many watch a bucket.
func watchers(b *ratelimit.Bucket) int {
	return reflect.ValueOf(b).Elem().FieldByName("watchers").Len()
}

// A bucket outlives the queues that share it, and keeps none that was closed.
// promise Q7
//
// Negative control: without unwatch in advance the bucket kept the queue.
func TestBucketKeepsNoClosedQueue(t *testing.T) {
	cloud := bucketOf(t, "cloud", 0.001, 1)
	cloud.Charge(1)
	o := oneOrder()
	o.Buckets = func(_ string, dst []*ratelimit.Bucket) []*ratelimit.Bucket { return append(dst, cloud) }
	bubble(t, o, func(t *testing.T, q *Queue[string]) {
		add(t, q, "a")
		wantNone(t, q)
		if watchers(cloud) != 1 {
			t.Fatalf("%d watch, want 1", watchers(cloud))
		}
		add(t, q, "b")
		q.Close()
		if n := watchers(cloud); n != 0 {
			t.Errorf("%d still watch after Close", n)
		}
		q.Remove("a")
		wantNone(t, q) // b is refused while the queue drains
		wantState(t, q, "b", StateThrottled)
		if n := watchers(cloud); n != 0 {
			t.Errorf("%d watch again", n)
		}
	})
}

// The count of keys is never above MaxKeys, not even while an add is refused: it
// would make another add fail although a key had just gone.
//
// Negative control: with the count raised first and taken back if it was too high,
// it was above.
func TestRefusedAddsTakeNoRoom(t *testing.T) {
	q := newQueue(t, &Options[string]{MaxKeys: 1})
	add(t, q, "a")
	var others sync.WaitGroup
	for range 2 {
		others.Go(func() {
			for n := range 20_000 {
				if err := q.Add(strconv.Itoa(n)); !errors.Is(err, ErrFull) {
					t.Errorf("Add: %v, want ErrFull", err)
					return
				}
				if n := q.env.keys.Load(); n > 1 {
					t.Errorf("%d keys are counted, want 1", n)
					return
				}
			}
		})
	}
	others.Wait()
	q.Close()
}

// A key whose run is ended by DoneKey while its buckets are asked is gone, and no
// getter gets it.
//
// Negative control: without the look at the number of the run the freed entry was paid for, and
// Get gave a key that is in no table.
func TestKeyThatIsSettledWhileItsBucketsAreAskedIsNotGiven(t *testing.T) {
	o := oneOrder()
	var q *Queue[string]
	o.Buckets = func(key string, dst []*ratelimit.Bucket) []*ratelimit.Bucket {
		if key == "a" && !q.DoneKey(key) {
			t.Error("a does not run")
		}
		return dst
	}
	bubble(t, o, func(t *testing.T, made *Queue[string]) {
		q = made
		add(t, q, "a", "b")
		wantNext(t, q, "b")
		wantNone(t, q)
		checkInvariants(t, q)
	})
}

// A hook that panics does so in its caller, and Stop does not wait longer for the run.
//
// Negative control: with settled after the hook, Stop waited for ever.
func TestStopHearsOfARunWhoseHookPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := oneOrder()
		o.Hooks = &Hooks[string]{Parked: func(string, int, error) { panic("hook") }}
		q := newQueue(t, o)
		add(t, q, "k")
		it := get(t, q)
		stopped := make(chan error)
		go func() { stopped <- q.Stop(t.Context()) }()
		synctest.Wait()
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			it.Park(errTest)
		}()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}

// A panic of Buckets while a getter looks once more before it sleeps lets others be
// woken as before.
// promise Q1
//
// Negative control: with the count of getters that look taken back only where await
// returns, the getter slept over "x".
func TestPanicInBucketsKeepsNobodyAsleep(t *testing.T) {
	o := oneOrder()
	o.Buckets = func(key string, dst []*ratelimit.Bucket) []*ratelimit.Bucket {
		if key == "bad" {
			panic("buckets")
		}
		return dst
	}
	bubble(t, o, func(t *testing.T, q *Queue[string]) {
		add(t, q, "bad")
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			_, _ = q.await(t.Context(), make([]Item[string], 1))
		}()
		got := make(chan string)
		go func() {
			it, _ := q.Get(t.Context())
			it.Done()
			got <- it.Key
		}()
		synctest.Wait() // it sleeps
		add(t, q, "x")
		if key := <-got; key != "x" {
			t.Errorf("got %q, want x", key)
		}
	})
}

// A key that leaves while it is asked for its buckets, by Remove, by DoneKey or because
// Buckets panics, leaves its token to the next key of the line, which does not wait
// until there is one more: the getter that asked has that one, unless it panicked.
// promise Q6; seen to fail: the second key ran after another hour.
func TestTokenOfAKeyThatLeavesWhileItIsAskedForGoesToTheNext(t *testing.T) {
	for name, leave := range map[string]func(q *Queue[string]){
		"Remove":  func(q *Queue[string]) { q.Remove("first") },
		"DoneKey": func(q *Queue[string]) { q.DoneKey("first") },
		"a panic": func(*Queue[string]) { panic(errTest) },
	} {
		t.Run(name, func(t *testing.T) {
			b := bucketOf(t, "slow", 1.0/3600, 1)
			o := oneOrder()
			leaves, q := false, (*Queue[string])(nil)
			o.Buckets = func(key string, dst []*ratelimit.Bucket) []*ratelimit.Bucket {
				if leaves && key == "first" {
					leaves = false
					leave(q)
				}
				return append(dst, b)
			}
			bubble(t, o, func(t *testing.T, made *Queue[string]) {
				q = made
				if ratelimit.TakeAll(time.Now(), []*ratelimit.Bucket{b}) != nil {
					t.Fatal("the bucket is not full")
				}
				add(t, q, "first", "second")
				wantNone(t, q)
				leaves = true
				time.Sleep(time.Hour + time.Millisecond)
				func() {
					defer func() {
						if r := recover(); name == "a panic" && r == nil {
							t.Error("the panic of Buckets does not reach its getter")
						} else if name != "a panic" && r != nil {
							panic(r)
						}
					}()
					wantNext(t, q, "second")
				}()
				if leaves {
					t.Fatal("the first key was not asked for: the test is blind")
				}
				if name == "a panic" {
					wantNext(t, q, "second")
				}
			})
		})
	}
}

// Buckets may name a bucket twice, as when two limits of a key are one: the key takes one
// token of it.
// promise Q6; seen to fail: the refusal of such a key was a nil pointer, with the queue locked.
func TestBucketThatIsNamedTwiceGivesOneToken(t *testing.T) {
	b, other := bucketOf(t, "b", 1, 2), bucketOf(t, "other", 1, 9)
	o := oneOrder()
	o.Buckets = func(_ string, dst []*ratelimit.Bucket) []*ratelimit.Bucket { return append(dst, b, other, b) }
	bubble(t, o, func(t *testing.T, q *Queue[string]) {
		add(t, q, "first", "second", "third")
		wantNext(t, q, "first", "second")
		wantNone(t, q)
		time.Sleep(time.Second + time.Millisecond)
		wantNext(t, q, "third")
	})
}

// A token that comes back between the refusal of a key and the making of its line, which
// nothing wakes yet, lets the key go at once.
// promise Q6; seen to fail: the key waited an hour for one more token.
func TestTokenThatComesWhileALineIsMadeIsSeen(t *testing.T) {
	b := bucketOf(t, "slow", 1.0/3600, 1)
	o := oneOrder()
	o.Buckets = func(_ string, dst []*ratelimit.Bucket) []*ratelimit.Bucket { return append(dst, b) }
	bubble(t, o, func(t *testing.T, q *Queue[string]) {
		k := q.keepers[0]
		k.locked(func() {
			k.line(b) // as pay does, with the token back by now
			if l := k.lines[b.ID()]; l.wakes > q.env.now() {
				t.Errorf("the line waits %v for one more token", time.Duration(l.wakes-q.env.now()))
			}
			k.trimLine(k.lines[b.ID()])
		})
	})
}

// A panic of Buckets for a key that no line let go wakes no line, however many there are.
// seen to fail: it woke them all.
func TestPanicInBucketsForANewKeyWakesNoLine(t *testing.T) {
	b := bucketOf(t, "slow", 1.0/3600, 1)
	o := oneOrder()
	o.Buckets = func(key string, dst []*ratelimit.Bucket) []*ratelimit.Bucket {
		if key == "bad" {
			panic(errTest)
		}
		return append(dst, b)
	}
	bubble(t, o, func(t *testing.T, q *Queue[string]) {
		add(t, q, "first", "second")
		wantNext(t, q, "first")
		wantNone(t, q)
		wakes := q.keepers[0].lines[b.ID()].wakes
		add(t, q, "bad")
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic of Buckets does not reach its getter")
				}
			}()
			wantNone(t, q)
		}()
		if now := q.keepers[0].lines[b.ID()].wakes; now != wakes {
			t.Errorf("the line wakes at %d, want %d", now, wakes)
		}
		if e := entryOf(t, q, "bad"); e.State != StateBackingOff || time.Until(e.Next) != time.Second || e.Attempts != 0 {
			t.Errorf("the key is %+v, want it to back off for a second, without a failure", e)
		}
	})
}
