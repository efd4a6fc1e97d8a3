package queue

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// model says what a queue must do, as plainly as possible: a map of keys, a slice
// of the ready ones by age, no cleverness.
type model struct {
	maxKeys int
	cap     int // TenantRunning

	keys    map[string]*modelKey
	ready   []string // by age
	pause   bool
	until   time.Time // of the pause; zero: none
	tenants map[string]*modelTenant
	buckets []*modelBucket
	lines   []*modelLine // of the shards

	tenantOf  func(key string) string
	bucketsOf func(key string) []int // indices of buckets, each once
	shardOf   func(key string) int
}

type modelKey struct {
	state    State
	due      time.Time
	band     int
	attempts int
	failed   bool // its last run ended with an error, and nothing made it forget that
	holds    []modelHold

	added, urgent, removed, raised bool
	keeping                        bool      // every urgent add during the run keeps the attempts
	again                          time.Time // due of what was added during the run; zero: at once

	saved []int // buckets of which it has a token already

	since         time.Time // when it became ready by itself; keys with the same time come in any order
	ahead, waited int       // of a ready key: older keys when it became ready, dispatches that passed it by
}

type modelHold struct {
	id    int
	pause bool
	until time.Time
}

type modelTenant struct {
	running   int
	pause     bool
	until     time.Time
	overtaken map[int]map[string]int // by band: how often each other tenant had a turn since this one's
}

// modelLine is what a model remembers of one shard.
type modelLine struct {
	turn         int
	passed, pass int // dispatches of other shards while this one had a key, and while bands differed
}

// modelBucket is a token bucket.
type modelBucket struct {
	rate   float64
	burst  int
	tokens float64
	taken  int
	at     time.Time // when there were so many
	until  time.Time // paused until then
}

func (b *modelBucket) fill(now time.Time) {
	if now.After(b.at) {
		b.tokens = min(float64(b.burst), b.tokens+now.Sub(b.at).Seconds()*b.rate)
		b.at = now
	}
}

// has tells whether there was a token at now.
func (b *modelBucket) has(now time.Time) bool {
	tokens := min(float64(b.burst), b.tokens+now.Sub(b.at).Seconds()*b.rate)
	return !b.until.After(now) && tokens >= 1-1e-6
}

// next is when there will be a token, some microseconds later.
func (b *modelBucket) next(now time.Time) time.Time {
	if b.until.After(now) {
		return b.until
	}
	b.fill(now)
	if b.tokens >= 1 {
		return now
	}
	return now.Add(time.Duration((1-b.tokens)/b.rate*float64(time.Second)) + 2*refillTolerance)
}

// refillTolerance is how long after a token is there a key may still wait for it: the
// queue rounds up.
const refillTolerance = 3 * time.Microsecond

func (m *model) get(key string) *modelKey {
	k := m.keys[key]
	if k == nil {
		k = &modelKey{state: StateIdle}
		m.keys[key] = k
	}
	return k
}

func (m *model) tenant(name string) *modelTenant {
	t := m.tenants[name]
	if t == nil {
		t = &modelTenant{overtaken: map[int]map[string]int{}}
		m.tenants[name] = t
	}
	return t
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
		k.state, k.since, k.waited, k.ahead = StateReady, time.Time{}, 0, 0
		for _, other := range m.ready {
			if m.shardOf(other) == m.shardOf(key) {
				k.ahead++
			}
		}
		m.ready = append(m.ready, key)
	}
}

// idle ends what key was to do.
func (m *model) idle(key string, now time.Time) {
	m.unready(key)
	k := m.keys[key]
	k.state = StateIdle
	if len(k.holds) > 0 {
		return
	}
	for _, b := range slices.Clone(k.saved) {
		m.giveBack(key, b, now)
	}
	delete(m.keys, key)
}

// giveBack notes that a key gave back the token of a bucket that it had saved.
func (m *model) giveBack(key string, b int, at time.Time) {
	k := m.keys[key]
	k.saved = slices.DeleteFunc(k.saved, func(of int) bool { return of == b })
	m.buckets[b].fill(at)
	m.buckets[b].tokens = min(m.buckets[b].tokens+1, float64(m.buckets[b].burst))
	m.buckets[b].taken--
}

// save notes that a key took the token of a bucket before its run.
func (m *model) save(key string, b int, at time.Time) {
	m.buckets[b].fill(at)
	m.buckets[b].tokens--
	m.buckets[b].taken++
	m.keys[key].saved = append(m.keys[key].saved, b)
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

func (m *model) add(key string, o AddOptions, now time.Time, replace bool) error {
	var due time.Time
	if o.After > 0 {
		due = now.Add(o.After)
	}
	if m.keys[key] == nil && m.maxKeys > 0 && len(m.keys) >= m.maxKeys {
		return ErrFull
	}
	k := m.get(key)
	if k.state == StateRunning {
		m.addToRun(k, o, due, replace)
		return nil
	}
	if !o.Priority.isZero() && (replace || k.state == StateIdle || o.Priority.Int() > k.band) && o.Priority.Int() != k.band {
		k.band = o.Priority.Int()
		if k.state == StateReady {
			m.run(key, time.Time{}) // comes in as a new key of that band
		}
	}
	if o.Urgent && !o.KeepAttempts {
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
	return nil
}

func (m *model) addToRun(k *modelKey, o AddOptions, due time.Time, replace bool) {
	fresh := k.removed && !k.added
	if fresh {
		k.band = 0
	}
	if !o.Priority.isZero() && (replace || fresh || o.Priority.Int() > k.band) {
		k.band, k.raised = o.Priority.Int(), true
	}
	if k.added && !replace {
		due = earlier(due, k.again)
	}
	k.again = due
	before := k.added && k.urgent && !replace
	k.keeping = (!o.Urgent || o.KeepAttempts) && (!before || k.keeping)
	k.urgent = o.Urgent || before
	k.added = true
}

func (m *model) remove(key string, now time.Time) bool {
	k := m.keys[key]
	switch {
	case k == nil:
		return false
	case k.state == StateIdle:
		k.attempts, k.failed = 0, false // of a key that is only held nothing is kept but its holds
		return false
	case k.state == StateRunning:
		was := !k.removed || k.added
		k.removed, k.added, k.urgent, k.raised, k.failed = true, false, false, false, false
		return was
	}
	k.attempts, k.failed = 0, false // nothing is kept of a key that was removed
	m.idle(key, now)
	return true
}

func (m *model) cancel(key string, now time.Time) bool {
	k := m.keys[key]
	switch {
	case k == nil:
	case k.state == StateDelayed && k.attempts == 0:
		k.failed = false
		m.idle(key, now)
		return true
	case k.state == StateRunning && k.added && !k.again.IsZero():
		k.added, k.urgent = false, false
		return true
	}
	return false
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

func (m *model) release(key string, now time.Time, which func(modelHold) bool) bool {
	k := m.keys[key]
	if k == nil || !slices.ContainsFunc(k.holds, which) {
		return false
	}
	k.holds = slices.DeleteFunc(k.holds, which)
	switch {
	case k.state == StateHeld:
		m.run(key, time.Time{})
	case k.state == StateIdle:
		m.idle(key, now)
	}
	return true
}

// may tells whether a ready key might have been dispatched at now, or since then.
func (m *model) may(key string, now time.Time) bool {
	if m.pause {
		return false
	}
	if m.tenantOf != nil {
		t := m.tenant(m.tenantOf(key))
		if t.pause || m.cap > 0 && t.running >= m.cap {
			return false
		}
	}
	for _, b := range m.bucketsOf(key) {
		if k := m.keys[key]; k != nil && slices.Contains(k.saved, b) {
			if m.buckets[b].until.After(now) {
				return false
			}
		} else if !m.buckets[b].has(now) {
			return false
		}
	}
	return true
}

// candidates are the ready keys of a shard that may be dispatched, oldest first; of
// all shards for -1.
func (m *model) candidates(shard int, now time.Time) (keys []string) {
	for _, key := range m.ready {
		if (shard < 0 || m.shardOf(key) == shard) && m.may(key, now) {
			keys = append(keys, key)
		}
	}
	return keys
}

// top is the highest band of keys.
func (m *model) top(keys []string) int {
	band := math.MinInt
	for _, key := range keys {
		band = max(band, m.keys[key].band)
	}
	return band
}

// tops is the highest band of each shard that has candidates.
func (m *model) tops(now time.Time) map[int]int {
	tops := map[int]int{}
	for _, key := range m.candidates(-1, now) {
		s := m.shardOf(key)
		if band, ok := tops[s]; !ok || m.keys[key].band > band {
			tops[s] = m.keys[key].band
		}
	}
	return tops
}

// turnsOf are the keys of a shard of which one has its turn, in a queue without tenants
// and buckets: one key, or those that became ready at the same moment.
func (m *model) turnsOf(shard int, now time.Time) []string {
	keys := m.candidates(shard, now)
	if (m.lines[shard].turn+1)%agingEvery != 0 {
		top := m.top(keys)
		keys = slices.DeleteFunc(keys, func(key string) bool { return m.keys[key].band != top })
	}
	return m.oldest(keys)
}

// oldest is the first of keys, and those that became ready together with it.
func (m *model) oldest(keys []string) []string {
	n := min(1, len(keys))
	for n < len(keys) && !m.keys[keys[0]].since.IsZero() && m.keys[keys[n]].since.Equal(m.keys[keys[0]].since) {
		n++
	}
	return keys[:n]
}

// inOrder says what is wrong with key being the next of its shard: a queue whose
// tenants take turns. Keys of one tenant and band come by age.
func (m *model) inOrder(key string, now time.Time) error {
	keys := m.candidates(m.shardOf(key), now)
	if (m.lines[m.shardOf(key)].turn+1)%agingEvery == 0 {
		if oldest := m.oldest(keys); !slices.Contains(oldest, key) {
			return fmt.Errorf("this is a turn of the oldest key, %s", oldest)
		}
		return nil
	}
	band, name := m.keys[key].band, m.tenantOf(key)
	if top := m.top(keys); band != top {
		return fmt.Errorf("it has priority %d, there are keys with %d", band, top)
	}
	tenants := map[string]bool{}
	for _, other := range keys {
		if m.keys[other].band != band {
			continue
		}
		tenants[m.tenantOf(other)] = true
	}
	same := slices.DeleteFunc(keys, func(other string) bool { return m.keys[other].band != band || m.tenantOf(other) != name })
	if oldest := m.oldest(same); !slices.Contains(oldest, key) {
		return fmt.Errorf("%s of the same tenant is older", oldest)
	}
	for other := range tenants {
		passed := m.tenant(other).overtaken
		if passed[band] == nil || other == name {
			passed[band] = map[string]int{}
		}
		if other == name {
			continue
		}
		if passed[band][name]++; passed[band][name] > 1 {
			return fmt.Errorf("tenant %s has a second turn while %s waits for its first", name, other)
		}
	}
	return nil
}

// forgetTurns starts the count of turns again of tenants that have no key that may run
// in a band.
func (m *model) forgetTurns(now time.Time) {
	has := map[string]map[int]bool{}
	for _, key := range m.candidates(-1, now) {
		name := m.tenantOf(key)
		if has[name] == nil {
			has[name] = map[int]bool{}
		}
		has[name][m.keys[key].band] = true
	}
	for name, t := range m.tenants {
		for band := range t.overtaken {
			if !has[name][band] {
				delete(t.overtaken, band)
			}
		}
	}
}

// dispatch notes that key was dispatched, and says what is wrong with that whatever
// the order is: nothing waits for too long, and nothing runs that must not.
func (m *model) dispatch(key string, now time.Time) error {
	k := m.keys[key]
	if k == nil || k.state != StateReady {
		return errors.New("it is not ready")
	}
	for _, b := range m.bucketsOf(key) {
		m.buckets[b].fill(now)
	}
	if !m.may(key, now) {
		return errors.New("it must not run now")
	}
	shard := m.shardOf(key)
	m.lines[shard].turn++
	tops := m.tops(now)
	mixed := false
	for _, band := range tops {
		mixed = mixed || band != tops[shard]
	}
	for s, l := range m.lines {
		if _, has := tops[s]; !has || s == shard {
			l.passed, l.pass = 0, 0
			continue
		}
		if l.passed++; mixed {
			l.pass++
		} else {
			l.pass = 0
		}
		if n := len(m.lines); l.passed > 128*n+maxBatch || l.pass > 32*n+maxBatch {
			return fmt.Errorf("shard %d has had ready keys for %d dispatches, %d with different bands", s, l.passed, l.pass)
		}
	}
	for _, other := range m.ready {
		o := m.keys[other]
		switch {
		case other == key || m.shardOf(other) != shard:
		case !m.may(other, now):
			o.waited = 0
		default:
			ahead := o.ahead
			if len(m.bucketsOf(other)) > 0 { // with a token of its bucket the key comes in again, behind all ready keys (seed 2126980625)
				ahead = max(ahead, len(m.ready)-1)
			}
			if o.waited++; o.waited > agingEvery*(ahead+1) {
				return fmt.Errorf("%s waits for %d dispatches, there were %d older keys", other, o.waited, ahead)
			}
		}
	}
	for _, b := range m.bucketsOf(key) {
		if slices.Contains(k.saved, b) { // it counts from now on
			m.buckets[b].tokens = min(m.buckets[b].tokens, float64(m.buckets[b].burst)-1)
			continue
		}
		m.buckets[b].tokens--
		m.buckets[b].taken++
	}
	k.saved = nil
	if m.tenantOf != nil {
		m.tenant(m.tenantOf(key)).running++
	}
	m.unready(key)
	k.state = StateRunning
	return nil
}

// settle ends a run; at is when its result alone would run the key again, zero
// meaning at once.
func (m *model) settle(key string, kind modelResult, at time.Time, prio Priority, now time.Time) {
	k := m.keys[key]
	if m.tenantOf != nil {
		m.tenant(m.tenantOf(key)).running--
	}
	if !prio.isZero() && !k.removed && (!k.raised || prio.Int() > k.band) {
		k.band = prio.Int()
	}
	was := *k
	if !k.removed {
		k.failed = kind != modelDone && kind != modelAfter
	}
	k.added, k.urgent, k.removed, k.raised = false, false, false, false
	switch {
	case was.removed:
		k.attempts, kind = 0, modelDone
	case kind == modelDone || kind == modelAfter:
		k.attempts = 0
	case kind != modelThrottled:
		k.attempts++
	}
	backoff := func() { k.state, k.due = StateBackingOff, at }
	runAt := func(due time.Time) {
		if !due.After(now) {
			due = time.Time{}
		}
		m.run(key, due)
	}
	switch {
	case was.added && was.urgent:
		if !was.keeping {
			k.attempts = 0
		}
		if kind == modelAfter || kind == modelRetry || kind == modelThrottled {
			was.again = earlier(was.again, at)
		}
		runAt(was.again)
	case was.added && kind == modelDone:
		runAt(was.again)
	case was.added && kind == modelAfter:
		runAt(earlier(was.again, at))
	case was.added:
		backoff()
	case kind == modelDone:
		m.idle(key, now)
	case kind == modelAfter:
		m.run(key, at)
	case kind == modelRetry || kind == modelThrottled:
		backoff()
	default:
		k.state = StateParked
	}
}

// modelResult is how a run ends.
type modelResult int

const (
	modelDone modelResult = iota
	modelAfter
	modelRetry
	modelThrottled
	modelPark
)

// step lets everything happen that is due until now, in the order of time.
func (m *model) step(now time.Time) {
	for {
		at, event := m.next()
		if event == nil || at.After(now) {
			break
		}
		event()
	}
	if m.tenantOf != nil {
		m.forgetTurns(now)
	}
}

// next is what happens next by itself, and when; nil: nothing.
func (m *model) next() (at time.Time, event func()) {
	consider := func(t time.Time, f func()) {
		if !t.IsZero() && (event == nil || t.Before(at)) {
			at, event = t, f
		}
	}
	consider(m.until, func() { m.pause, m.until = false, time.Time{} })
	for _, t := range m.tenants {
		consider(t.until, func() { t.pause, t.until = false, time.Time{} })
	}
	for name, k := range m.keys {
		expire := func(at time.Time) func(modelHold) bool {
			return func(h modelHold) bool { return !h.until.IsZero() && !h.until.After(at) }
		}
		switch k.state {
		case StateDelayed, StateBackingOff:
			consider(k.due, func() {
				k.holds = slices.DeleteFunc(k.holds, expire(k.due))
				m.run(name, time.Time{})
				k.since = k.due
			})
		}
		if holdsExpireInEveryState || k.state == StateHeld || k.state == StateIdle {
			for _, h := range k.holds {
				consider(h.until, func() {
					m.release(name, h.until, expire(h.until))
					k.since = h.until
				})
			}
		}
	}
	return at, event
}
