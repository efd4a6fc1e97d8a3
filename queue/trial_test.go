package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/internal/campaign"
	"github.com/tendhq/tend/queue/ratelimit"
	"golang.org/x/time/rate"
)

// A kind is a kind of queue that the model and the stamps are run with.
type kind struct {
	shards  int
	tenants bool
	buckets bool
	maxKeys int
	crowd   bool // some thousand keys more, which come and go
}

func (k kind) String() string {
	s := []string{fmt.Sprintf("shards=%d", k.shards)}
	for name, on := range map[string]bool{
		"tenants": k.tenants, "buckets": k.buckets, "maxkeys": k.maxKeys > 0, "crowd": k.crowd,
	} {
		if on {
			s = append(s, name)
		}
	}
	slices.Sort(s[1:])
	return strings.Join(s, ",")
}

// kinds is the whole matrix.
func kinds() (all []kind) {
	for _, maxKeys := range []int{0, 4} {
		for _, shards := range []int{1, 2, 8} {
			all = append(all, kind{shards: shards, maxKeys: maxKeys, crowd: maxKeys == 0 && shards < 8})
		}
		for _, tenants := range []bool{false, true} {
			for _, buckets := range []bool{false, true} {
				if tenants || buckets {
					all = append(all, kind{shards: 1, tenants: tenants, buckets: buckets, maxKeys: maxKeys, crowd: maxKeys == 0})
				}
			}
		}
	}
	return slices.DeleteFunc(all, func(k kind) bool { return !k.works() })
}

// trial drives a queue and its model side by side.
type trial struct {
	t       testing.TB
	kind    kind
	q       *Queue[string]
	giveUp  bool   // the policy does
	bad     defect // of the queue; see TestModelCatchesBrokenQueues
	m       *model
	n       int // operations so far; makes all delays different
	names   []string
	buckets []*ratelimit.Bucket
	items   map[string]Item[string]
	free    []func()
	log     []string

	adds, dispatched  uint64
	firsts, elsewhere int // dispatches that could choose a shard, and those from one with a lower top band
	inversions        int // dispatches out of order, of a queue with buckets
	getters           []*getter
	mu                sync.Mutex // guards answers and turns
	answers           []answer
	turns             []string // keys whose buckets were asked for
	saves             []saving
	asked             map[string]time.Time // when they were last
	fillers           int
}

// getter is a goroutine that is in Get or GetBatch.
type getter struct {
	n      int
	cancel context.CancelCauseFunc
}

// answer is what a getter came back with.
type answer struct {
	getter *getter
	at     time.Time
	items  []Item[string]
	err    error
}

const (
	letters  = 6 // keys that operations are about
	maxBatch = 4
	tenancy  = 1 // TenantRunning
)

func (r *trial) policy(attempt int, _ error) time.Duration {
	if r.giveUp {
		return -1
	}
	return 40*time.Millisecond<<min(attempt, 4) + time.Duration(r.n)*time.Nanosecond
}

// tenantOf and bucketsOf go by the first letter: two keys of each tenant, one with no
// bucket, two with the first, one with the second, two with both.
func tenantOf(key string) string { return string('x' + (key[0]-'a')%letters/2) }

func bucketsOf(key string) []int {
	return [letters][]int{{}, {0}, {0}, {1}, {0, 1}, {1, 0}}[(key[0]-'a')%letters]
}

func newTrial(t testing.TB, k kind) *trial {
	r := &trial{t: t, kind: k, items: map[string]Item[string]{}, asked: map[string]time.Time{}}
	r.m = &model{
		maxKeys: k.maxKeys,
		keys:    map[string]*modelKey{}, tenants: map[string]*modelTenant{},
		bucketsOf: func(string) []int { return nil },
		shardOf:   func(key string) int { return shardOf(r.q, key) },
	}
	o := &Options[string]{Shards: k.shards, Policy: r.policy, MaxKeys: k.maxKeys}
	if k.tenants {
		o.Tenant, o.TenantRunning = tenantOf, tenancy
		r.m.tenantOf, r.m.cap = tenantOf, tenancy
	}
	if k.buckets {
		for n, perSecond := range []float64{2, 7} {
			b, err := ratelimit.NewBucket(fmt.Sprint("bucket ", n), rate.Limit(perSecond), n+1)
			if err != nil {
				t.Fatal(err)
			}
			r.buckets = append(r.buckets, b)
			r.m.buckets = append(r.m.buckets, &modelBucket{rate: perSecond, burst: n + 1, tokens: float64(n + 1), at: time.Now()})
		}
		o.Buckets = func(key string, dst []*ratelimit.Bucket) []*ratelimit.Bucket {
			r.noteSavings(key)
			r.mu.Lock()
			r.turns = append(r.turns, key)
			r.asked[key] = time.Now()
			r.mu.Unlock()
			dst = append(dst, nil)
			for _, b := range bucketsOf(key) {
				dst = append(dst, r.buckets[b])
			}
			return dst
		}
		r.m.bucketsOf = bucketsOf
	}
	var err error
	if r.q, err = New(o); err != nil {
		t.Fatal(err)
	}
	for range shardCount(r.q) {
		r.m.lines = append(r.m.lines, &modelLine{})
	}
	for n := range letters { // the hash differs from queue to queue, the shards must not: two or three keys each
		for i := 0; len(r.names) == n; i++ {
			if name := fmt.Sprintf("%c%d", 'a'+n, i); shardOf(r.q, name) == n%min(len(r.m.lines), letters/2) {
				r.names = append(r.names, name)
			}
		}
	}
	return r
}

// ordered tells whether the order within a shard is wholly determined.
func (r *trial) ordered() bool { return !r.kind.tenants && !r.kind.buckets }

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
	r.log = append(r.log, fmt.Sprintf("%v ", time.Since(epoch))+fmt.Sprintf(format, args...))
}

// epoch is when the time of a bubble begins.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// letter names the letter of a key, for the log.
func letter(key string) string { return key[:1] }

// do performs one operation made of three bytes.
func (r *trial) do(op, which, arg byte) {
	r.n++
	time.Sleep(time.Nanosecond) // so that nothing else happens at the time of this
	r.noteTurns()
	key := r.names[which%letters]
	d := r.delay(arg)
	prio := Priority{}
	if which>>4&3 == 1 {
		prio = At(int8(which>>6)*10 - 10)
	}
	switch op % 32 {
	case 0, 1, 2, 3, 4, 5, 6:
		r.add(key, AddOptions{After: d, Priority: prio, Urgent: op>>5&7 == 0, KeepAttempts: arg>>1&1 == 0, Reason: []string{"", "watch"}[arg&1]}, false)
	case 7, 8:
		r.add(key, AddOptions{After: d, Priority: prio, Urgent: op>>5&3 == 0, KeepAttempts: arg>>1&1 == 0}, true)
	case 9:
		r.note("cancel %s", letter(key))
		if got, want := r.q.Cancel(key), r.m.cancel(key, time.Now()); got != want {
			r.t.Fatalf("Cancel: %v, want %v", got, want)
		}
	case 10:
		r.note("remove %s", letter(key))
		if got, want := r.q.Remove(key), r.m.remove(key, time.Now()); got != want {
			r.t.Fatalf("Remove: %v, want %v", got, want)
		}
	case 11, 12:
		r.hold(key, op>>5, d)
	case 13:
		r.pause(tenantOf(key), op>>5, d)
	case 14, 30, 31:
		if r.kind.buckets {
			r.bucket(int(which)%2, op>>5, arg, d)
		} else {
			r.sleep(d)
		}
	case 15, 16, 17, 18:
		r.get(int(which)%maxBatch + 1)
	case 19, 20, 21, 22, 23:
		r.settle(int(which), op>>5, d, prio)
	case 24:
		if len(r.getters) > 0 {
			g := r.getters[int(which)%len(r.getters)]
			r.note("getter %d is cancelled", g.n)
			g.cancel(errEnough)
		}
	case 25:
		r.work(int(which), int(arg), op>>5&1 == 0)
	case 26:
		r.crowd()
	default:
		r.sleep(d)
	}
	r.observe()
}

var errEnough = errors.New("enough")

func (r *trial) add(key string, o AddOptions, replace bool) {
	r.note("add %s %+v, replace %v", letter(key), o, replace)
	want := r.m.add(key, o, time.Now(), replace)
	var got error
	if replace {
		got = addReplacing(r.q, key, o)
	} else {
		got = r.bad.orAdd(r.q, key, o)
	}
	if !errors.Is(got, want) {
		r.t.Fatalf("add: %v, want %v", got, want)
	}
	if want == nil {
		r.adds++
	}
}

func (r *trial) hold(key string, kind byte, d time.Duration) {
	now := time.Now()
	switch n := r.n; kind % 4 {
	case 0:
		r.note("pause %s for %v", letter(key), d)
		pauseKey(r.q, key, d)
		r.m.hold(key, modelHold{id: n, pause: true, until: due(d)})
	case 1:
		r.note("resume %s", letter(key))
		got, want := resumeKey(r.q, key), r.m.release(key, now, func(h modelHold) bool { return h.pause })
		if got != want {
			r.t.Fatalf("%s was paused: %v, want %v", key, got, want)
		}
	default:
		r.note("hold %d of %s for %v", n, letter(key), d)
		release := r.bad.orHold(r.q, key, d)
		r.m.hold(key, modelHold{id: n, until: due(d)})
		r.free = append(r.free, func() {
			r.note("release %d of %s", n, letter(key))
			release()
			r.m.release(key, time.Now(), func(h modelHold) bool { return h.id == n })
		})
		if len(r.free) > 2 {
			r.free[0]()
			r.free = r.free[1:]
		}
	}
}

func (r *trial) pause(tenant string, kind byte, d time.Duration) {
	m := r.m
	switch kind % 4 {
	case 0:
		r.note("pause for %v", d)
		pauseQueue(r.q, d)
		m.pause, m.until = true, due(d)
	case 1:
		r.note("resume")
		if got := resumeQueue(r.q); got != m.pause {
			r.t.Fatalf("the queue was paused: %v, want %v", got, m.pause)
		}
		m.pause, m.until = false, time.Time{}
	case 2:
		if r.kind.tenants {
			r.note("pause tenant %s for %v", tenant, d)
			pauseTenant(r.q, tenant, d)
			m.tenant(tenant).pause, m.tenant(tenant).until = true, due(d)
		}
	case 3:
		if r.kind.tenants {
			r.note("resume tenant %s", tenant)
			if got, want := resumeTenant(r.q, tenant), m.tenant(tenant).pause; got != want {
				r.t.Fatalf("tenant %s was paused: %v, want %v", tenant, got, want)
			}
			m.tenant(tenant).pause, m.tenant(tenant).until = false, time.Time{}
		}
	}
}

func (r *trial) bucket(n int, kind, arg byte, d time.Duration) {
	b, m := r.buckets[n], r.m.buckets[n]
	now := time.Now()
	m.fill(now)
	switch kind % 8 {
	case 2:
		n := int(arg % 4)
		r.note("refund %s %d", b.Name(), n)
		r.bad.orRefund(b, n)
		n = min(n, m.taken)
		m.taken -= n
		m.tokens = min(m.tokens+float64(n), float64(m.burst))
	case 0, 1:
		r.note("throttle %s for %v", b.Name(), d)
		b.Throttle(now.Add(d))
		if until := now.Add(d); until.After(m.until) {
			m.until = until
		}
	case 3:
		r.note("resume %s", b.Name())
		b.ThrottleUntil(time.Time{})
		m.until = time.Time{}
	case 4, 5:
		r.note("charge %s %d", b.Name(), arg%8)
		b.Charge(int(arg % 8))
		m.tokens -= float64(arg % 8)
		m.taken += int(arg % 8)
	default:
		perSecond, burst := float64(arg%16+1), int(arg>>4)%4+1
		r.note("%s: %v a second, burst %d", b.Name(), perSecond, burst)
		if err := b.SetLimit(rate.Limit(perSecond), burst); err != nil {
			r.t.Fatal(err)
		}
		m.rate, m.burst = perSecond, burst
		m.tokens = min(m.tokens, float64(burst))
	}
}

// get starts a getter: Get for one key, GetBatch for more.
func (r *trial) get(most int) {
	if len(r.getters) < 3 {
		r.note("get up to %d: getter %d", most, r.n)
		r.start(func(ctx context.Context) ([]Item[string], error) {
			if most == 1 {
				it, err := r.bad.orGet(ctx, r.q)
				return []Item[string]{it}, err
			}
			dst := make([]Item[string], most)
			n, err := r.q.GetBatch(ctx, dst)
			return dst[:n], err
		})
	}
}

// start lets a getter wait for f in a goroutine, which finish waits for.
func (r *trial) start(f func(ctx context.Context) ([]Item[string], error)) {
	ctx, cancel := context.WithCancelCause(context.Background())
	g := &getter{r.n, cancel}
	r.getters = append(r.getters, g)
	go func() {
		items, err := f(ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.answers = append(r.answers, answer{g, time.Now(), items, err})
	}()
}

// observe waits until the queue has nothing to do, and holds what getters came back with
// against the model. A getter that sleeps then must have nothing to get.
func (r *trial) observe() {
	time.Sleep(time.Nanosecond) // a timer that is due at once rings
	r.noteTurns()
	r.mu.Lock()
	answers := r.answers
	r.answers = nil
	r.mu.Unlock()
	slices.SortStableFunc(answers, func(a, b answer) int { return a.at.Compare(b.at) })
	var group []answer
	for i, a := range answers {
		r.getters = slices.DeleteFunc(r.getters, func(g *getter) bool { return g == a.getter })
		if a.err != nil {
			r.note("getter %d: %v", a.getter.n, a.err)
			if !errors.Is(a.err, errEnough) {
				r.t.Fatalf("Get: %v", a.err)
			}
			continue
		}
		r.note("getter %d: %s", a.getter.n, keysOf(a.items))
		if len(a.items) == 0 {
			r.t.Fatal("a getter came back without a key")
		}
		group = append(group, a)
		if i == len(answers)-1 || !answers[i+1].at.Equal(a.at) {
			r.dispatch(group)
			group = nil
		}
	}
	if len(group) > 0 {
		r.dispatch(group)
	}
	r.checkSleepers()
}

// saving is a token that a key took before its run: when its turn came last.
type saving struct {
	key    string
	bucket int
	at     time.Time
}

// noteSavings notes what key took at its last turn. It is called at its next turn, which may
// be that of its run, and when the queue has nothing to do.
func (r *trial) noteSavings(key string) {
	for _, b := range savedBy(r.q, key) {
		r.mu.Lock()
		r.saves = append(r.saves, saving{key, slices.Index(r.buckets, b), r.asked[key]})
		r.mu.Unlock()
	}
}

// noteTurns tells the model of each key whose turn came, once the queue has nothing to do.
// A key that its buckets refused then may be ready again by now, so that its state does
// not show it.
func (r *trial) noteTurns() {
	synctest.Wait()
	r.m.step(time.Now())
	r.mu.Lock()
	turns := r.turns
	r.turns = nil
	r.mu.Unlock()
	for _, key := range turns {
		r.noteSavings(key)
	}
	r.mu.Lock()
	saves := r.saves
	r.saves = nil
	r.mu.Unlock()
	for _, s := range saves {
		if k := r.m.keys[s.key]; !slices.Contains(k.saved, s.bucket) {
			r.note("%s saves the token of bucket %d", letter(s.key), s.bucket)
			r.m.save(s.key, s.bucket, s.at)
		}
	}
	for _, key := range turns {
		if _, running := r.q.Running(key); running || r.m.keys[key] == nil {
			continue
		}
		had := savedBy(r.q, key)
		for _, b := range slices.Clone(r.m.keys[key].saved) {
			if !slices.Contains(had, r.buckets[b]) {
				r.note("%s gives the token of bucket %d back", letter(key), b)
				r.m.giveBack(key, b, r.asked[key])
			}
		}
	}
}

// checkSleepers looks whether a getter sleeps although it need not.
func (r *trial) checkSleepers() {
	now := time.Now()
	if len(r.getters) == 0 || len(r.m.candidates(-1, now)) == 0 {
		return
	}
	keys := r.m.candidates(-1, now.Add(-refillTolerance))
	if len(keys) == 0 {
		return
	}
	for _, b := range r.m.buckets {
		r.note("bucket: %+v", *b)
	}
	r.t.Fatalf("a getter sleeps, although %s may run", keys)
}

func keysOf(items []Item[string]) (keys []string) {
	for _, it := range items {
		keys = append(keys, it.Key)
	}
	return keys
}

// dispatch holds what getters got at one moment against the model.
func (r *trial) dispatch(group []answer) {
	var keys []string
	for _, a := range group {
		for _, it := range a.items {
			keys = append(keys, it.Key)
			if _, twice := r.items[it.Key]; twice {
				r.t.Fatalf("%s runs twice at once", it.Key)
			}
			r.items[it.Key] = it
			r.dispatched++
		}
	}
	now := group[0].at
	switch {
	case len(group) > 1 && r.ordered():
		r.compete(group, keys, now)
	case len(group) > 1 || r.kind.buckets:
		for _, key := range keys {
			if len(group) == 1 {
				r.inverts(key, now)
			}
			if err := r.m.dispatch(key, now); err != nil {
				r.t.Fatalf("got %s: %v", key, err)
			}
		}
	default:
		r.chooses(keys[0], now)
		for _, key := range keys {
			if err := r.next(key, now); err != nil {
				r.t.Fatalf("got %s: %v", key, err)
			}
		}
	}
	for _, key := range keys {
		if it, k := r.items[key], r.m.keys[key]; it.Attempt != k.attempts || it.Priority.Int() != k.band {
			r.t.Fatalf("%s: attempt %d, priority %v; want %d, %d", key, it.Attempt, it.Priority, k.attempts, k.band)
		}
	}
}

// next notes that key was dispatched, and says what is wrong with that.
func (r *trial) next(key string, now time.Time) error {
	if k := r.m.keys[key]; k == nil || k.state != StateReady {
		return errors.New("it is not ready")
	}
	if r.kind.tenants {
		if !r.m.may(key, now) {
			return errors.New("its tenant must not run now")
		}
		if err := r.m.inOrder(key, now); err != nil {
			return err
		}
	} else if want := r.m.turnsOf(r.m.shardOf(key), now); !slices.Contains(want, key) {
		return fmt.Errorf("want %s", want)
	}
	return r.m.dispatch(key, now)
}

// chooses counts how often a getter takes from a shard although another has a higher
// band on top: when that one is owed a turn, which is after each sixteenth dispatch of
// a shard at most.
func (r *trial) chooses(key string, now time.Time) {
	tops := r.m.tops(now)
	r.firsts++
	for _, band := range tops {
		if band > tops[r.m.shardOf(key)] {
			r.elsewhere++
			break
		}
	}
	if most := int(r.dispatched)/agingEvery + 1; r.elsewhere > most {
		r.t.Fatalf("got %s: of %d dispatches %d passed over a higher band of another shard, want %d at most", key, r.dispatched, r.elsewhere, most)
	}
}

// inverts counts how often a key of a queue with buckets passes by one that may run, has
// a higher priority, or the same one and is older.
func (r *trial) inverts(key string, now time.Time) {
	m := r.m
	k := m.keys[key]
	if k == nil || k.state != StateReady {
		return // dispatch says so
	}
	for _, b := range m.bucketsOf(key) {
		m.buckets[b].fill(now)
	}
	class := fmt.Sprint(m.bucketsOf(key))
	if r.kind.tenants {
		class += tenantOf(key)
	}
	older := true
	for _, other := range m.candidates(-1, now) {
		o := m.keys[other]
		if other == key {
			older = false
			continue
		}
		otherClass := fmt.Sprint(m.bucketsOf(other))
		if r.kind.tenants {
			otherClass += tenantOf(other)
		}
		if o.band > k.band || older && o.band == k.band && otherClass == class {
			r.inversions++
			break
		}
	}
	if most := int(r.dispatched)/inversionsEvery + 4; r.inversions > most {
		r.t.Fatalf("got %s: of %d dispatches %d were out of order, want %d at most", key, r.dispatched, r.inversions, most)
	}
}

// inversionsEvery: aging in the line of ready keys, and in that of each bucket.
const inversionsEvery = agingEvery / 4

// compete holds what several getters got at once against the model: it is not known
// which was first, but from each shard they got those whose turn it was.
func (r *trial) compete(group []answer, keys []string, now time.Time) {
	got := map[int][]string{}
	for _, key := range keys {
		got[r.m.shardOf(key)] = append(got[r.m.shardOf(key)], key)
	}
	order := map[string]int{}
	for shard, keys := range got {
		for n := range keys {
			turns := r.m.turnsOf(shard, now)
			k := slices.IndexFunc(turns, func(key string) bool { return slices.Contains(keys, key) })
			if k < 0 {
				r.t.Fatalf("got %s of shard %d, want one of %s to be among them", keys, shard, turns)
			}
			if err := r.m.dispatch(turns[k], now); err != nil {
				r.t.Fatalf("got %s: %v", turns[k], err)
			}
			order[turns[k]] = n
		}
	}
	for _, a := range group {
		if !slices.IsSortedFunc(a.items, func(a, b Item[string]) int {
			if shardOf(r.q, a.Key) != shardOf(r.q, b.Key) {
				return 0
			}
			return order[a.Key] - order[b.Key]
		}) {
			r.t.Fatalf("a batch is %s, which is not in order", keysOf(a.items))
		}
	}
}

// running is the keys of the items, sorted.
func (r *trial) running() (keys []string) {
	for key := range r.items {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func (r *trial) settle(which int, kind byte, d time.Duration, prio Priority) {
	keys := r.running()
	if len(keys) == 0 {
		return
	}
	key := keys[which%len(keys)]
	it := r.items[key].WithPriority(prio)
	delete(r.items, key)
	fail := errors.New("test")
	policy := r.policy(it.Attempt, fail)
	now := time.Now()
	switch kind % 8 {
	case 0:
		r.note("done %s", letter(key))
		r.bad.orDone(it)
		r.m.settle(key, modelDone, time.Time{}, prio, now)
	case 1:
		r.note("done by key %s", letter(key))
		if !r.q.DoneKey(key) {
			r.t.Fatalf("%s was not running", key)
		}
		r.m.settle(key, modelDone, time.Time{}, Priority{}, now)
	case 2, 3:
		r.doneNext(it, key, prio)
	case 4:
		r.note("after %s %v", letter(key), d)
		it.After(d)
		r.m.settle(key, modelAfter, due(d), prio, now)
	case 5:
		r.giveUp = which>>5&3 == 0
		r.note("retry %s at least %v, given up: %v", letter(key), d, r.giveUp)
		r.bad.orRetry(it, fail, d)
		if r.giveUp { // if it was added meanwhile it is retried as by default
			r.m.settle(key, modelPark, due(max(DefaultBase<<min(it.Attempt, 10), d)), prio, now)
		} else {
			r.m.settle(key, modelRetry, due(max(policy, d)), prio, now)
		}
		r.giveUp = false
	case 6:
		r.note("park %s", letter(key))
		it.Park(fail)
		r.m.settle(key, modelPark, due(policy), prio, now)
	case 7:
		// Not until now: the timer runs after the getter that this settling wakes.
		until := now.Add(max(3*d, time.Millisecond))
		r.note("throttled %s until %v, at least %v", letter(key), until.Sub(now), d)
		var b *ratelimit.Bucket
		if r.kind.buckets {
			b = r.buckets[which%2]
			if m := r.m.buckets[which%2]; until.After(m.until) {
				m.until = until
			}
		}
		it.Retry(fmt.Errorf("wrapped: %w", ratelimit.Throttled(b, until, nil)), d)
		r.m.settle(key, modelThrottled, until, prio, now)
	}
}

func (r *trial) doneNext(it Item[string], key string, prio Priority) {
	r.note("done %s, next: getter %d", letter(key), r.n)
	r.m.settle(key, modelDone, time.Time{}, prio, time.Now())
	r.start(func(ctx context.Context) ([]Item[string], error) {
		it.Done()
		next, err := r.q.Get(ctx)
		return []Item[string]{next}, err
	})
}

// work is a worker's loop: each key that it is done with is added again, as long as
// there is another. So shards, bands and tenants have keys ready all the time.
func (r *trial) work(which, rounds int, bands bool) {
	keys := r.running()
	if len(keys) == 0 {
		return
	}
	for _, g := range r.getters {
		r.note("getter %d is cancelled", g.n)
		g.cancel(errEnough)
	}
	r.observe()
	r.pause("", 1, 0)
	for _, other := range r.names {
		time.Sleep(time.Nanosecond)
		r.add(other, AddOptions{Urgent: true}, false)
		r.observe()
	}
	key := keys[which%len(keys)]
	for range rounds * len(r.m.lines) {
		it := r.items[key]
		delete(r.items, key)
		r.n++
		time.Sleep(time.Nanosecond)
		was := r.dispatched
		r.doneNext(it, key, Priority{})
		r.observe()
		if r.dispatched == was {
			return
		}
		o := AddOptions{}
		if bands {
			o.Priority = At(int8(letter(key)[0]-'a')%3*10 - 10)
		}
		r.add(key, o, false)
		r.observe()
		for next := range r.items {
			if !slices.Contains(keys, next) {
				key = next
			}
		}
		keys = r.running()
		if !slices.Contains(keys, key) {
			return
		}
	}
}

// crowd adds some thousand keys, and takes part of them away the next time.
func (r *trial) crowd() {
	const n, from, to = 3400, 900, 3200 // two chunks become empty, of which one goes
	if !r.kind.crowd || r.fillers > n {
		return
	}
	for ; r.fillers < n; r.fillers++ {
		key := fmt.Sprintf("a filler %d", r.fillers)
		o := AddOptions{After: 100 * 24 * time.Hour}
		if err := r.q.AddWith(key, o); err != nil {
			r.t.Fatal(err)
		}
		r.m.add(key, o, time.Now(), false)
		r.adds++
	}
	r.note("a crowd comes, and most of it goes")
	r.compare()
	for k := from; k < to; k++ {
		key := fmt.Sprintf("a filler %d", k)
		if !r.q.Remove(key) || !r.m.remove(key, time.Now()) {
			r.t.Fatalf("%s was not there", key)
		}
	}
	r.fillers++
	r.sleep(3 * time.Second) // memory is given back meanwhile
}

// sleep lets time pass, from event to event: so each is held against the model by
// itself.
func (r *trial) sleep(d time.Duration) {
	r.note("sleep %v", d)
	for end := time.Now().Add(d); time.Now().Before(end); {
		to := end
		if at, event := r.m.next(); event != nil && at.Before(to) {
			to = at
		}
		for _, b := range r.m.buckets {
			if at := b.next(time.Now()); at.After(time.Now()) && at.Before(to) {
				to = at
			}
		}
		time.Sleep(time.Until(to))
		r.observe()
	}
}

// compare looks whether queue and model agree on every key.
func (r *trial) compare() {
	r.m.step(time.Now())
	got := map[string]Entry[string]{}
	for e := range r.q.Snapshot() {
		if _, twice := got[e.Key]; twice {
			r.t.Fatalf("Snapshot shows %s twice", e.Key)
		}
		got[e.Key] = e
	}
	for name, k := range r.m.keys {
		e, ok := got[name]
		if !ok {
			r.t.Fatalf("%s is lost, want %v", name, k.state)
		}
		r.compareKey(k, e)
	}
	if len(got) != len(r.m.keys) {
		r.t.Fatalf("%d keys, want %d", len(got), len(r.m.keys))
	}
	st := r.q.Stats()
	if st.Dispatched != r.dispatched || st.Adds != r.adds || st.Of(StateRunning).Keys != len(r.items) || r.q.Len() != st.Of(StateReady).Keys {
		r.t.Fatalf("%d dispatched, %d adds, %d running, %d ready; want %d, %d, %d, %d",
			st.Dispatched, st.Adds, st.Of(StateRunning).Keys, st.Of(StateReady).Keys, r.dispatched, r.adds, len(r.items), r.q.Len())
	}
	if st.Of(StateReady).Keys+st.Of(StateThrottled).Keys != len(r.m.ready) {
		r.t.Fatalf("%d keys ready and %d throttled, want %d", st.Of(StateReady).Keys, st.Of(StateThrottled).Keys, len(r.m.ready))
	}
	for n, b := range r.buckets {
		if taken := b.Stats().Taken; taken != uint64(r.m.buckets[n].taken) {
			r.t.Fatalf("%s: %d tokens are taken, want %d", b.Name(), taken, r.m.buckets[n].taken)
		}
	}
	verify(r.t, r.q)
}

func (r *trial) compareKey(k *modelKey, e Entry[string]) {
	state := e.State
	if state == StateThrottled && len(bucketsOf(e.Key)) > 0 && r.kind.buckets {
		state = StateReady
	}
	if state != k.state || e.Attempts != k.attempts || e.Priority.Int() != k.band {
		r.t.Fatalf("%s is %v, attempts %d, priority %v; want %v, %d, %d", e.Key, e.State, e.Attempts, e.Priority, k.state, k.attempts, k.band)
	}
	if failed := e.LastError != nil; failed != k.failed {
		r.t.Fatalf("%s is %v, its last error is %v; want one: %v", e.Key, e.State, e.LastError, k.failed)
	}
	next := time.Time{}
	switch {
	case k.state == StateDelayed || k.state == StateBackingOff:
		next = k.due
	case k.state == StateRunning && k.added:
		next = k.again
	}
	if !e.Next.Equal(next) {
		r.t.Fatalf("%s is %v and runs next at %v, want %v", e.Key, e.State, e.Next, next)
	}
	explained := e.Why != ""
	switch e.State {
	case StateRunning, StateDelayed, StateIdle:
	case StateReady:
		m := r.m
		held := m.pause || m.tenantOf != nil && (m.tenant(tenantOf(e.Key)).pause || m.tenant(tenantOf(e.Key)).running >= m.cap)
		if explained != held {
			r.t.Fatalf("%s is ready, which is explained by %q", e.Key, e.Why)
		}
	default:
		if !explained {
			r.t.Fatalf("%s is %v, and nothing says why", e.Key, e.State)
		}
	}
	if r.kind.tenants && e.State != StateIdle && e.Tenant != tenantOf(e.Key) {
		r.t.Fatalf("%s is of tenant %q, want %q", e.Key, e.Tenant, tenantOf(e.Key))
	}
}

// finish ends getters and queue.
func (r *trial) finish() {
	for _, g := range r.getters {
		g.cancel(errEnough)
	}
	synctest.Wait()
	for _, a := range r.answers {
		for _, it := range a.items {
			if a.err == nil {
				r.items[it.Key] = it
			}
		}
	}
	if !r.t.Failed() && r.n%2 == 0 {
		r.drain()
	}
	for _, it := range r.items {
		it.Done()
	}
	if err := r.q.Stop(context.Background()); err != nil {
		r.t.Error(err)
	}
	if r.t.Failed() {
		r.t.Log(r.kind)
		for _, line := range r.log[max(0, len(r.log)-400):] {
			r.t.Log(line)
		}
	}
}

// drain looks whether Drain lets run what is ready, also when a hold over the queue or
// a tenant ends first, and nothing else.
func (r *trial) drain() {
	for key, it := range r.items {
		it.Done()
		r.m.settle(key, modelDone, time.Time{}, Priority{}, time.Now())
	}
	r.items = nil
	synctest.Wait()
	r.m.step(time.Now())
	if r.n%4 == 0 { // what waits for a time does not become due while the queue drains, however long that takes
		pauseQueue(r.q, time.Hour)
		r.m.pause, r.m.until = true, due(time.Hour)
	}
	want := slices.Sorted(slices.Values(r.m.ready))
	forEver := r.m.pause && r.m.until.IsZero()
	for _, key := range want {
		if r.kind.tenants {
			t := r.m.tenant(tenantOf(key))
			forEver = forEver || t.pause && t.until.IsZero()
		}
	}
	var got []string
	var mu sync.Mutex // guards got
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() { // until nothing is ready any more
			for {
				it, err := r.q.Get(context.Background())
				if err != nil {
					return
				}
				mu.Lock()
				got = append(got, it.Key)
				mu.Unlock()
				it.Done()
			}
		})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10_000*time.Hour)
	defer cancel()
	err := r.q.Drain(ctx)
	if stopErr := new(StopError); len(want) > 0 && forEver {
		if r.kind.buckets { // what is throttled is not waited for
			return
		}
		if !errors.As(err, &stopErr) {
			r.t.Errorf("Drain of a queue with %s held: %v", want, err)
		}
		return
	}
	if err != nil {
		r.t.Errorf("Drain: %v", err)
		return
	}
	workers.Wait()
	slices.Sort(got)
	if !r.kind.buckets && !slices.Equal(got, want) {
		r.t.Errorf("Drain let %s run, want %s", got, want)
	}
	if st := r.q.Stats(); st.Of(StateReady).Keys+st.Of(StateRunning).Keys > 0 {
		r.t.Errorf("%d keys are ready and %d run after Drain", st.Of(StateReady).Keys, st.Of(StateRunning).Keys)
	}
}

// try makes a queue and its model do what data says.
func try(t testing.TB, k kind, bad defect, data []byte) {
	r := newTrial(t, k)
	r.bad = bad
	defer r.finish()
	for ; len(data) >= 3; data = data[3:] {
		r.do(data[0], data[1], data[2])
		if r.fillers == 0 || r.n%16 == 0 {
			r.compare()
		}
	}
}

// FuzzModel compares a queue of any kind with the model after every operation. The
// first byte chooses the kind.
// promise Q1, Q2, Q3, Q4, Q5, Q6, Q8
// Negative controls: TestModelCatchesBrokenQueues.
func FuzzModel(f *testing.F) {
	all := kinds()
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 {
			return
		}
		synctest.Test(t, func(t *testing.T) { try(t, all[int(data[0])%len(all)], defect{}, data[1:min(len(data), 1501)]) })
	})
}

const operationBytes = 900

// operations is what a seed makes a trial do.
func operations(seed uint64) []byte {
	rnd := rand.New(rand.NewPCG(seed, 0))
	data := make([]byte, operationBytes)
	for i := range data {
		data[i] = byte(rnd.Uint32())
	}
	return data
}

// Random operations on every kind of queue in turn, compared after each.
// promise Q1, Q2, Q3, Q4, Q5, Q6, Q8
// Negative controls: TestModelCatchesBrokenQueues.
func TestModelRandomly(t *testing.T) {
	all := kinds()
	n := 0
	for seed := range campaign.Seeds(t, len(all), campaign.Length()) {
		data := operations(seed)[:campaign.Sized(operationBytes, operationBytes/3)]
		k := all[seed%uint64(len(all))]
		synctest.Test(t, func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("seed %d, %v", seed, k)
				}
			}()
			try(t, k, defect{}, data)
		})
		n += len(data) / 3
	}
	t.Logf("campaign: %d operations", n)
}
