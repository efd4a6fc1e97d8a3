package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A key is held as long as one of the holds over its scope lasts, and the first of those that
// last says why. Each ends once: by its name, by its own release function, which does nothing
// once it was replaced, or at its maximum.
//
// Negative controls: the mutants "a release ends the hold that replaced its own" and "the queue
// is held for the reason of a hold that has ended".
func TestHoldsOverOneScopeEndOneByOne(t *testing.T) {
	type hold struct {
		name, reason string
		until        time.Time // zero: until it is released
		release      func()
	}
	for what, scope := range map[string]func(q *Queue[string]) Scope[string]{
		"queue held: ":  func(q *Queue[string]) Scope[string] { return q.Whole() },
		"tenant held: ": func(q *Queue[string]) Scope[string] { return q.OfTenant("acme") },
		"held: ":        func(q *Queue[string]) Scope[string] { return q.OfKey("acme/k") },
	} {
		var mu sync.Mutex // guards expired
		var expired []string
		o := oneOrder()
		o.Tenant = byPrefix
		o.Hooks = &Hooks[string]{HoldExpired: func(_ Scope[string], reason string) {
			mu.Lock()
			defer mu.Unlock()
			expired = append(expired, reason)
		}}
		bubble(t, o, func(t *testing.T, q *Queue[string]) {
			rnd := rand.New(rand.NewPCG(1, 1))
			add(t, q, "acme/k")
			var last, all []*hold // those that last, in the order in which they were made, and all
			for n := range 400 {
				names := []string{"", "a", "b"}
				switch name := names[rnd.IntN(3)]; rnd.IntN(4) {
				case 0:
					h := &hold{name: name, reason: fmt.Sprint("reason ", n)}
					var most time.Duration
					if rnd.IntN(2) == 0 {
						most = time.Duration(1+rnd.IntN(5)) * time.Second
						h.until = time.Now().Add(most)
					}
					last = slices.DeleteFunc(last, func(was *hold) bool { return name != "" && was.name == name })
					h.release = q.Hold(scope(q), Hold{Name: name, Reason: h.reason, Max: most})
					last, all = append(last, h), append(all, h)
				case 1:
					if len(all) > 0 { // often one that has ended
						h := all[max(0, len(all)-1-rnd.IntN(5))]
						h.release()
						last = slices.DeleteFunc(last, func(was *hold) bool { return was == h })
					}
				case 2:
					there := slices.IndexFunc(last, func(h *hold) bool { return name != "" && h.name == name })
					if got := q.Release(scope(q), name); got != (there >= 0) {
						t.Fatalf("%sRelease of %q: %v, want %v", what, name, got, there >= 0)
					}
					if there >= 0 {
						last = slices.Delete(last, there, there+1)
					}
				case 3:
					time.Sleep(time.Second + time.Millisecond)
					synctest.Wait()
					var want []string
					last = slices.DeleteFunc(last, func(h *hold) bool {
						over := !h.until.IsZero() && !h.until.After(time.Now())
						if over {
							want = append(want, h.reason)
						}
						return over
					})
					mu.Lock()
					got := expired
					expired = nil
					mu.Unlock()
					slices.Sort(got)
					if slices.Sort(want); !slices.Equal(got, want) {
						t.Fatalf("%sholds expired: %q, want %q", what, got, want)
					}
				}
				want, by := "", ""
				if len(last) > 0 {
					by = last[0].reason
					want = what + by
				}
				if e, _ := q.Lookup("acme/k"); e.Why != want {
					t.Fatalf("%safter %d steps the key does not run because of %q, want %q", what, n, e.Why, want)
				}
				if got := q.Stats().HeldBy; what == "queue held: " && got != by {
					t.Fatalf("after %d steps the queue is held by %q, want %q", n, got, by)
				}
			}
			for _, h := range all {
				h.release()
			}
			wantNext(t, q, "acme/k")
		})
	}
}

// Drain and Stop return after the last hook that is under way has.
//
// promise Q8. Negative control: the mutant "Drain does not wait for hooks".
func TestDrainAndStopWaitForAHookThatIsUnderWay(t *testing.T) {
	for name, end := range map[string]func(*Queue[string], context.Context) error{
		"Drain": (*Queue[string]).Drain,
		"Stop":  (*Queue[string]).Stop,
	} {
		synctest.Test(t, func(t *testing.T) {
			begun, leave := make(chan struct{}), make(chan struct{})
			o := oneOrder()
			o.Hooks = &Hooks[string]{HoldExpired: func(Scope[string], string) {
				close(begun)
				<-leave
			}}
			q := newQueue(t, o)
			q.Hold(q.Whole(), Hold{Reason: "test", Max: time.Second})
			<-begun
			over := make(chan error, 1)
			go func() { over <- end(q, t.Context()) }()
			synctest.Wait()
			if len(over) > 0 {
				t.Errorf("%s has returned while a hook is under way", name)
			}
			close(leave)
			if err := <-over; err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if err := q.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// The weight of a tenant is the one that was given with the last add of a key of it, higher or
// lower than before.
//
// promise Q5. Negative control: the mutant "the weight of a tenant never becomes less".
func TestWeightOfATenantIsThatOfTheLastAdd(t *testing.T) {
	weight := 1
	o := oneOrder()
	o.Tenant = byPrefix
	o.TenantWeight = func(tenant string) int {
		if tenant == "acme" {
			return weight
		}
		return 1
	}
	bubble(t, o, func(t *testing.T, q *Queue[string]) {
		if err := q.AddAfter("acme/later", time.Hour); err != nil { // a tenant without keys is forgotten
			t.Fatal(err)
		}
		for _, n := range []int{3, 1, 2, 1} {
			weight = n
			for k := range 2 * n {
				add(t, q, fmt.Sprint("acme/", k))
			}
			add(t, q, "zeta/0", "zeta/1")
			order := ""
			for range 2 * (n + 1) {
				it := get(t, q)
				order += it.Key[:1]
				it.Done()
			}
			want := ""
			for range 2 {
				for range n {
					want += "a"
				}
				want += "z"
			}
			if order != want {
				t.Errorf("with a weight of %d the tenants ran as %s, want %s", n, order, want)
			}
		}
	})
}

// A key that is raised to another band is ready since it became ready.
//
// Negative control: the mutant "a key that is raised is ready since then".
func TestRaisedKeyIsReadySinceItBecameSo(t *testing.T) {
	bubble(t, oneOrder(), func(t *testing.T, q *Queue[string]) {
		start := time.Now()
		add(t, q, "k")
		time.Sleep(time.Minute)
		if err := q.AddWith("k", AddOptions{Priority: At(1)}); err != nil {
			t.Fatal(err)
		}
		if e, _ := q.Lookup("k"); e.Since.Sub(start).Abs() > time.Second || e.Priority != At(1) {
			t.Errorf("ready since %v with priority %v, want since %v with 1", e.Since, e.Priority, start)
		}
		wantNext(t, q, "k")
	})
}

// The hooks hear of keys that are parked, and of none that is tried again because it was added
// during the run.
//
// Negative control: the mutant "hooks hear of keys that are tried again".
func TestHooksHearOnlyOfKeysThatAreParked(t *testing.T) {
	var heard []string
	o := oneOrder()
	o.MaxAttempts = 1
	o.Hooks = &Hooks[string]{
		Parked:    func(key string, _ int, _ error) { heard = append(heard, "parked "+key) },
		Exhausted: func(key string, _ int, _ error) { heard = append(heard, "exhausted "+key) },
	}
	bubble(t, o, func(t *testing.T, q *Queue[string]) {
		for _, key := range []string{"a", "b"} {
			for _, again := range []bool{true, false} {
				if err := kick(q, key); err != nil {
					t.Fatal(err)
				}
				it := get(t, q)
				if again {
					add(t, q, key)
				}
				if key == "a" {
					it.Park(errTest)
				} else {
					it.Retry(errTest, 0)
				}
			}
		}
		if want := []string{"parked a", "exhausted b"}; !slices.Equal(heard, want) {
			t.Errorf("the hooks heard of %q, want %q", heard, want)
		}
	})
}

// The keys of a tenant whose hold has ended are as old as they are.
// promise Q5
func TestTenantWhoseHoldHasEndedAges(t *testing.T) {
	for _, low := range []int{1, 3} {
		o := oneOrder()
		o.Tenant = func(key string) string { return key[:1] }
		bubble(t, o, func(t *testing.T, q *Queue[string]) {
			for n := range low {
				q.AddWith(fmt.Sprint("a", n), AddOptions{Priority: At(-5)})
			}
			release := q.Hold(q.OfTenant("a"), Hold{Reason: "test"})
			for n := range 3 {
				q.AddWith(fmt.Sprint("b", n), AddOptions{Priority: At(5)})
			}
			release()
			var aged []string
			for range low * agingEvery {
				it := get(t, q)
				if it.Key[0] == 'a' {
					aged = append(aged, it.Key)
					it.Done()
				} else {
					it.After(0)
				}
			}
			if want := []string{"a0", "a1", "a2"}[:low]; !slices.Equal(aged, want) {
				t.Errorf("of the low keys %s ran in %d dispatches, want %s", aged, low*agingEvery, want)
			}
			checkInvariants(t, q)
		})
	}
}
