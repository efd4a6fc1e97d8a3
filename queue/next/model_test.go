package queue

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/internal/campaign"
)

// model says what a queue with one shard must do, as plainly as possible: a map
// of keys, a slice of the ready ones, no cleverness.
type model struct {
	keys  map[string]*modelKey
	ready []string // by age
	turn  int
	pause bool
	until time.Time // of the pause; zero: none
}

type modelKey struct {
	state    State
	due      time.Time
	band     int
	attempts int
	holds    []modelHold

	added, urgent, removed, raised bool
	again                          time.Time // due of what was added during the run; zero: at once
}

type modelHold struct {
	id    int
	pause bool
	until time.Time
}

func (m *model) get(key string) *modelKey {
	k := m.keys[key]
	if k == nil {
		k = &modelKey{state: StateIdle}
		m.keys[key] = k
	}
	return k
}

func (m *model) unready(key string) {
	m.ready = slices.DeleteFunc(m.ready, func(k string) bool { return k == key })
}

// run makes key run at due, or at once if due is zero.
func (m *model) run(key string, due time.Time) {
	k := m.keys[key]
	m.unready(key)
	switch {
	case !due.IsZero():
		k.state, k.due = StateDelayed, due
	case len(k.holds) > 0:
		k.state = StateHeld
	default:
		k.state = StateReady
		m.ready = append(m.ready, key)
	}
}

// rest ends what key was to do.
func (m *model) rest(key string) {
	m.unready(key)
	if m.keys[key].state = StateIdle; len(m.keys[key].holds) == 0 {
		delete(m.keys, key)
	}
}

// earlier is the earlier of two times of which zero means at once.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.IsZero() {
		return time.Time{}
	}
	if a.Before(b) {
		return a
	}
	return b
}

func (m *model) add(key string, o AddOptions, due time.Time, replace bool) {
	k := m.get(key)
	if k.state == StateRunning {
		m.addToRun(k, o, due, replace)
		return
	}
	if !o.Priority.IsZero() && (replace || k.state == StateIdle || o.Priority.Int() > k.band) && o.Priority.Int() != k.band {
		k.band = o.Priority.Int()
		if k.state == StateReady {
			m.run(key, time.Time{}) // comes in anew
		}
	}
	if o.Urgent {
		k.attempts = 0
	}
	switch k.state {
	case StateIdle:
		m.run(key, due)
	case StateReady, StateHeld:
		if replace && !due.IsZero() {
			m.run(key, due)
		}
	case StateDelayed:
		if !replace {
			due = earlier(due, k.due)
		}
		m.run(key, due)
	case StateBackingOff:
		switch {
		case o.Urgent && replace:
			m.run(key, due)
		case o.Urgent:
			m.run(key, earlier(due, k.due))
		case replace && due.After(k.due):
			k.due = due
		}
	case StateParked:
		if o.Urgent {
			m.run(key, due)
		}
	}
}

func (m *model) addToRun(k *modelKey, o AddOptions, due time.Time, replace bool) {
	fresh := k.removed && !k.added
	if fresh {
		k.band = 0
	}
	if !o.Priority.IsZero() && (replace || fresh || o.Priority.Int() > k.band) {
		k.band, k.raised = o.Priority.Int(), true
	}
	if k.added && !replace {
		due = earlier(due, k.again)
	}
	k.again = due
	k.urgent = o.Urgent || k.added && k.urgent && !replace
	k.added = true
}

func (m *model) remove(key string) {
	k := m.keys[key]
	switch {
	case k == nil || k.state == StateIdle:
	case k.state == StateRunning:
		k.removed, k.added, k.urgent, k.raised = true, false, false, false
	default:
		k.attempts = 0
		m.rest(key)
	}
}

func (m *model) cancel(key string) {
	k := m.keys[key]
	switch {
	case k == nil:
	case k.state == StateDelayed:
		m.rest(key)
	case k.state == StateRunning && k.added && !k.again.IsZero():
		k.added, k.urgent = false, false
	}
}

func (m *model) hold(key string, h modelHold) {
	k := m.get(key)
	if h.pause {
		k.holds = slices.DeleteFunc(k.holds, func(h modelHold) bool { return h.pause })
	}
	k.holds = append(k.holds, h)
	if k.state == StateReady {
		m.run(key, time.Time{})
	}
}

func (m *model) release(key string, which func(modelHold) bool) {
	k := m.keys[key]
	if k == nil || !slices.ContainsFunc(k.holds, which) {
		return
	}
	k.holds = slices.DeleteFunc(k.holds, which)
	switch {
	case k.state == StateHeld:
		m.run(key, time.Time{})
	case k.state == StateIdle:
		m.rest(key)
	}
}

// take is the key whose turn it is, "" if there is none.
func (m *model) take() string {
	if m.pause || len(m.ready) == 0 {
		return ""
	}
	m.turn++
	best := m.ready[0]
	if m.turn%agingEvery != 0 {
		for _, key := range m.ready {
			if m.keys[key].band > m.keys[best].band {
				best = key
			}
		}
	}
	m.unready(best)
	m.keys[best].state = StateRunning
	return best
}

// settle ends a run; at is when its result alone would run the key again, zero
// meaning at once.
func (m *model) settle(key string, kind outcomeKind, at time.Time, prio Priority) {
	k := m.keys[key]
	if !prio.IsZero() && !k.removed && (!k.raised || prio.Int() > k.band) {
		k.band = prio.Int()
	}
	was := *k
	k.added, k.urgent, k.removed, k.raised = false, false, false, false
	switch {
	case was.removed:
		k.attempts, kind = 0, done
	case kind == done || kind == later:
		k.attempts = 0
	case kind != again:
		k.attempts++
	}
	backoff := func() { k.state, k.due = StateBackingOff, at }
	switch {
	case was.added && was.urgent:
		k.attempts = 0
		if kind == later || kind == retry || kind == again {
			was.again = earlier(was.again, at)
		}
		m.run(key, was.again)
	case was.added && kind == done:
		m.run(key, was.again)
	case was.added && kind == later:
		m.run(key, earlier(was.again, at))
	case was.added:
		backoff()
	case kind == done:
		m.rest(key)
	case kind == later:
		m.run(key, at)
	case kind == retry || kind == again:
		backoff()
	default:
		k.state = StateParked
	}
}

// step lets everything happen that is due until now, in the order of time.
func (m *model) step(now time.Time) {
	for {
		key, at := m.next()
		if at.IsZero() || at.After(now) {
			return
		}
		if key == "" {
			m.pause, m.until = false, time.Time{}
			continue
		}
		k := m.keys[key]
		if k.state == StateDelayed || k.state == StateBackingOff {
			k.holds = slices.DeleteFunc(k.holds, func(h modelHold) bool { return !h.until.IsZero() && !h.until.After(at) })
			m.run(key, time.Time{})
			continue
		}
		m.release(key, func(h modelHold) bool { return !h.until.IsZero() && !h.until.After(at) })
	}
}

// next is what happens next: a key, or "" for the end of the pause. Holds of
// keys that are neither due nor idle expire when they next matter.
func (m *model) next() (key string, at time.Time) {
	at = m.until
	consider := func(k string, t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			key, at = k, t
		}
	}
	for name, k := range m.keys {
		switch k.state {
		case StateDelayed, StateBackingOff:
			consider(name, k.due)
		case StateHeld, StateIdle:
			for _, h := range k.holds {
				consider(name, h.until)
			}
		}
	}
	return key, at
}

// trial drives a queue and its model side by side.
type trial struct {
	t     testing.TB
	q     *Queue[string]
	bad   defect // of the queue; see TestModelCatchesBrokenQueues
	m     *model
	n     int // operations so far; makes all delays different
	loans map[string]Item[string]
	free  []func()
	log   []string
}

func (r *trial) policy(attempt int, _ error) time.Duration {
	return 40*time.Millisecond<<min(attempt, 4) + time.Duration(r.n)*time.Nanosecond
}

func newTrial(t testing.TB) *trial {
	r := &trial{t: t, m: &model{keys: map[string]*modelKey{}}, loans: map[string]Item[string]{}}
	var err error
	r.q, err = New(&Options[string]{Shards: 1, Policy: r.policy})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// delay makes a delay from a byte: none, or one that no other operation gives.
func (r *trial) delay(b byte) time.Duration {
	if b%4 == 0 {
		return 0
	}
	return time.Duration(b)*time.Duration(b)*time.Millisecond/8 + time.Duration(r.n)*time.Nanosecond
}

func due(d time.Duration) time.Time {
	if d <= 0 {
		return time.Time{}
	}
	return time.Now().Add(d)
}

func (r *trial) note(format string, args ...any) {
	r.log = append(r.log, fmt.Sprintf(format, args...))
}

// do performs one operation made of three bytes.
func (r *trial) do(op, who, arg byte) {
	r.n++
	key := string('a' + rune(who%6))
	d := r.delay(arg)
	prio := Priority{}
	if who>>4&3 == 1 {
		prio = At(int8(who>>6)*10 - 10)
	}
	switch op % 16 {
	case 0, 1, 2, 3:
		o := AddOptions{After: d, Priority: prio, Urgent: op>>4&7 == 0, Reason: []string{"", "watch"}[arg&1]}
		r.note("add %s %+v", key, o)
		r.bad.orAdd(r.q, key, o)
		r.m.add(key, o, due(d), false)
	case 4:
		o := AddOptions{After: d, Priority: prio, Urgent: op>>4&3 == 0}
		r.note("replace %s %+v", key, o)
		replace(r.q, key, o)
		r.m.add(key, o, due(d), true)
	case 5:
		r.note("cancel or remove %s", key)
		if op>>4&1 == 0 {
			r.q.Cancel(key)
			r.m.cancel(key)
		} else {
			r.q.Remove(key)
			r.m.remove(key)
		}
	case 6:
		r.hold(key, op>>4, d)
	case 7:
		r.pause(op>>4, d)
	case 8, 9, 10:
		r.take()
	case 11, 12, 13:
		r.settle(int(who), op>>4, d, prio)
	default:
		r.step(d)
	}
}

func (r *trial) hold(key string, kind byte, d time.Duration) {
	switch n := r.n; kind % 4 {
	case 0:
		r.note("pause %s for %v", key, d)
		r.q.Hold(r.q.OfKey(key), Hold{Name: "operator", Reason: "test", Max: d})
		r.m.hold(key, modelHold{id: n, pause: true, until: due(d)})
	case 1:
		r.note("resume %s", key)
		r.q.Release(r.q.OfKey(key), "operator")
		r.m.release(key, func(h modelHold) bool { return h.pause })
	default:
		r.note("hold %d of %s for %v", n, key, d)
		release := r.bad.orHold(r.q, key, d)
		r.m.hold(key, modelHold{id: n, until: due(d)})
		r.free = append(r.free, func() {
			r.note("release %d of %s", n, key)
			release()
			r.m.release(key, func(h modelHold) bool { return h.id == n })
		})
		if len(r.free) > 2 {
			r.free[0]()
			r.free = r.free[1:]
		}
	}
}

func (r *trial) pause(kind byte, d time.Duration) {
	if kind%2 == 0 {
		r.note("pause for %v", d)
		r.q.Hold(r.q.Whole(), Hold{Name: "operator", Reason: "test", Max: d})
		r.m.pause, r.m.until = true, due(d)
		return
	}
	r.note("resume")
	r.q.Release(r.q.Whole(), "operator")
	r.m.pause, r.m.until = false, time.Time{}
}

func (r *trial) take() {
	var got [1]Item[string]
	n := r.bad.orTake(r.q, got[:])
	want := r.m.take()
	r.note("get: %q", got[0].Key)
	if n == 1 {
		r.loans[got[0].Key] = got[0]
	}
	if got[0].Key != want {
		r.t.Fatalf("got key %q (%d), want %q", got[0].Key, n, want)
	}
	if n == 1 {
		if k := r.m.keys[want]; got[0].Attempt != k.attempts || got[0].Priority.Int() != k.band {
			r.t.Fatalf("%s: attempt %d, priority %v; want %d, %d", want, got[0].Attempt, got[0].Priority, k.attempts, k.band)
		}
	}
}

func (r *trial) settle(who int, kind byte, d time.Duration, prio Priority) {
	var keys []string
	for key := range r.loans {
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return
	}
	slices.Sort(keys)
	key := keys[who%len(keys)]
	it := r.loans[key].WithPriority(prio)
	delete(r.loans, key)
	fail := errors.New("test")
	policy := r.policy(it.Attempt, fail)
	switch kind % 5 {
	case 0, 1:
		r.note("done %s", key)
		r.bad.orDone(it)
		r.m.settle(key, done, time.Time{}, prio)
	case 2:
		r.note("after %s %v", key, d)
		it.After(d)
		r.m.settle(key, later, due(d), prio)
	case 3:
		r.note("retry %s at least %v", key, d)
		r.bad.orRetry(it, fail, d)
		r.m.settle(key, retry, due(max(policy, d)), prio)
	case 4:
		r.note("park %s", key)
		it.Park(fail)
		r.m.settle(key, park, due(policy), prio)
	}
}

func (r *trial) step(d time.Duration) {
	r.note("sleep %v", d)
	time.Sleep(d)
	synctest.Wait()
	r.m.step(time.Now())
}

// compare looks whether queue and model agree on every key.
func (r *trial) compare() {
	r.m.step(time.Now())
	got := map[string]Entry[string]{}
	for e := range r.q.Snapshot() {
		got[e.Key] = e
	}
	for name, k := range r.m.keys {
		e, ok := got[name]
		if !ok {
			r.t.Fatalf("%s is lost, want %v", name, k.state)
		}
		if e.State != k.state || e.Attempts != k.attempts || e.Priority.Int() != k.band {
			r.t.Fatalf("%s is %v, attempts %d, priority %v; want %v, %d, %d", name, e.State, e.Attempts, e.Priority, k.state, k.attempts, k.band)
		}
		if waits := k.state == StateDelayed || k.state == StateBackingOff; waits && !e.Next.Equal(k.due) {
			r.t.Fatalf("%s runs next at %v, want %v", name, e.Next, k.due)
		}
	}
	if len(got) != len(r.m.keys) {
		r.t.Fatalf("%d keys, want %d", len(got), len(r.m.keys))
	}
	checkInvariants(r.t, r.q)
}

func (r *trial) finish() {
	for _, it := range r.loans {
		it.Done()
	}
	if err := r.q.Stop(r.t.Context()); err != nil {
		r.t.Error(err)
	}
	if r.t.Failed() {
		for _, line := range r.log {
			r.t.Log(line)
		}
	}
}

// runTrial runs a queue and its model through the operations in data.
func runTrial(t *testing.T, data []byte) {
	synctest.Test(t, func(t *testing.T) {
		r := newTrial(t)
		defer r.finish()
		for ; len(data) >= 3; data = data[3:] {
			r.do(data[0], data[1], data[2])
			r.compare()
		}
	})
}

// FuzzModel compares the queue with the model after every operation.
// promise Q1, Q2, Q3, Q4, Q5, Q8
// Negative controls: TestModelCatchesBrokenQueues.
func FuzzModel(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) { runTrial(t, data[:min(len(data), 1500)]) })
}

// operations is what a seed makes a trial do.
func operations(seed uint64) []byte {
	rnd := rand.New(rand.NewPCG(seed, 0))
	data := make([]byte, 900)
	for i := range data {
		data[i] = byte(rnd.Uint32())
	}
	return data
}

// Random operations, compared after each.
// promise Q1, Q2, Q3, Q4, Q5, Q8
// Negative controls: TestModelCatchesBrokenQueues.
func TestModelRandomly(t *testing.T) {
	n := 0
	for seed := range campaign.Seeds(t, 60, campaign.Length()) {
		data := operations(seed)
		if runTrial(t, data); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		n += len(data) / 3
	}
	t.Logf("campaign: %d operations", n)
}
