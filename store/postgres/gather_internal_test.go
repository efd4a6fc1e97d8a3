package postgres

import (
	"slices"
	"testing"
	"time"

	"github.com/tendhq/tend/store"
)

// Some looks for the commits of others in a row are at once, and more of them have the pause
// between them, whether notifications come without end or with the pauses in between.
func TestGatheringPausesAfterABurst(t *testing.T) {
	g := gathering{half: gather}
	now := time.Now()
	for i := range gatherBurst {
		if p := g.pause(now, store.Slots/2); p != 0 {
			t.Fatalf("look %d of a burst has a pause of %v after it", i, p)
		}
	}
	for range 100 {
		p := g.pause(now, store.Slots/2)
		if p != gather {
			t.Fatalf("a look without a quiet time before it has a pause of %v after it, want %v", p, gather)
		}
		now = now.Add(p)
	}
	now = now.Add(3 * gather)
	for i, want := range []time.Duration{0, 0, 0, gather} {
		if p := g.pause(now, store.Slots/2); p != want {
			t.Errorf("look %d after a quiet time of three pauses has one of %v, want %v", i, p, want)
		}
	}
	now = now.Add(time.Hour)
	for range 2 * gatherBurst {
		if p := g.pause(now, store.Slots/2); p > gather {
			t.Fatalf("a pause of %v", p)
		} else {
			now = now.Add(p)
		}
	}
}

// Servers that share the slots look at the log together as often as two do, up to eight of them;
// more servers than that look as often as eight do each, so that no change is later.
//
// Negative control: the mutant "a server of few shards looks as often as one of many".
func TestEightServersLookTogetherAsOftenAsTwo(t *testing.T) {
	looks := func(servers int) (n int) { // of one of them, in a minute of commits of others
		g := gathering{half: gather}
		for start, now := time.Now(), time.Now(); now.Sub(start) < time.Minute; n++ {
			now = now.Add(max(g.pause(now, store.Slots/servers), time.Millisecond))
		}
		return n
	}
	two, eight := 2*looks(2), looks(8)
	for servers := 3; servers <= 8; servers++ {
		if n := servers * looks(servers); n < two*95/100 || n > two*105/100 {
			t.Errorf("%d servers look %d times a minute, and two %d times; want as many within 5 %%", servers, n, two)
		}
	}
	for _, servers := range []int{16, store.Slots, 2 * store.Slots} { // one with no slot yet, too
		if n := looks(servers); n != eight {
			t.Errorf("one of %d servers looks %d times a minute, want %d, as one of eight", servers, n, eight)
		}
	}
	if one, half := looks(1), looks(2); one != half {
		t.Errorf("one with nearly all slots looks %d times a minute, want %d, as one with half of them", one, half)
	}
}

// The kinds of which all slots are read, such as the leases, do not count, and of the others the
// one of which the most are read.
func TestGatheringKnowsHowManySlotsAreRead(t *testing.T) {
	tail := newTail(nil)
	read := func(kind string, slots store.SlotSet) { tail.rings[kind] = &ring{slots: slots} }
	want := func(slots int, some bool) {
		t.Helper()
		if n, s := tail.gathers(); n != slots || s != some {
			t.Errorf("gathers = %d, %v; want %d, %v", n, s, slots, some)
		}
	}
	want(0, false)
	read("lease", store.AllSlots())
	want(0, false)
	read("none yet", store.SlotSet{})
	want(0, true)
	read("an eighth", store.SlotsOf(0, 8))
	read("a quarter", store.SlotsOf(0, 4))
	want(store.Slots/4, true)
}

// A ring holds the latest batches, as many as its bounds allow and at least one, and knows after which revision it
// is whole.
func TestRingHoldsTheLatestBatchesWithinItsBounds(t *testing.T) {
	for name, c := range map[string]struct{ pushed, bytes, least, most int }{
		"few":       {ringBatches, 101, ringBatches, ringBatches},
		"many":      {5 * ringBatches, 101, ringBatches, 2*ringBatches - 1},
		"large":     {100, ringBytes / 10, 9, 10},
		"too large": {10, 2 * ringBytes, 1, 1},
	} {
		r := new(ring)
		for i := range c.pushed {
			r.push(store.Batch{Revision: store.Revision(i + 1), Changes: []store.Change{{Record: store.Record{Bytes: make([]byte, c.bytes-100)}}}})
			if n := len(r.batches); n > c.most || n < min(c.least, i+1) || r.start != int64(i+1-n) || r.batches[n-1].Revision != store.Revision(i+1) || r.bytes != n*c.bytes {
				t.Fatalf("%s: after %d batches of %d bytes the ring has %d and %d bytes, is whole after %d and ends with %d", name, i+1, c.bytes, n, r.bytes, r.start, r.batches[n-1].Revision)
			}
		}
	}
}

// A watch that is opened again finds in the ring what it has missed, also with fewer slots, and also where no watch
// was left. With slots that were not read it begins where the log was read to.
func TestWatchThatIsOpenedAgainFindsWhatItMissed(t *testing.T) {
	for _, c := range []struct {
		name         string
		before, then store.SlotSet
		stays        bool // a watch of what the first has
		start        int64
	}{
		{"all slots", store.AllSlots(), store.AllSlots(), false, 5},
		{"fewer", store.AllSlots(), store.SlotsOf(0, 8), false, 5},
		{"others", store.SlotsOf(0, 8), store.SlotsOf(1, 8), false, 9},
		{"more, beside another", store.SlotsOf(0, 8), store.AllSlots(), true, 9},
		{"fewer, beside another", store.AllSlots(), store.SlotsOf(0, 8), true, 5},
	} {
		tail := newTail(nil)
		watch := func(slots store.SlotSet) *watcher {
			w := &watcher{kind: "thing", slots: slots}
			w.r = tail.follow(w)
			return w
		}
		first := watch(c.before)
		if c.stays {
			watch(c.before)
		}
		tail.restartLocked(5, 1)
		tail.takeLocked([]string{"thing"}, 5, excerpt{upTo: 9, batches: map[string][]store.Batch{"thing": {{Revision: 7}}}}, false)
		tail.leave(first)
		if c.stays && !first.r.slots.Contains(c.before) {
			t.Errorf("%s: the slots of a watch that stays are not read any more", c.name)
		}
		if r := watch(c.then).r; r.start != c.start || len(r.batches) > 0 != (c.start < 7) || !r.slots.Contains(c.then) {
			t.Errorf("%s: the ring is whole after %d, with %d batches; want after %d", c.name, r.start, len(r.batches), c.start)
		}
	}
}

// What a watch gets next depends on how far it is: changes, or progress, or nothing yet, or that it has to read the
// log itself.
func TestWatchTakesFromTheRingWhatFollows(t *testing.T) {
	tail := newTail(nil)
	r := &ring{start: 5, mark: 12, wake: make(chan struct{}), batches: []store.Batch{{Revision: 7}, {Revision: 9}}}
	for at, want := range map[store.Revision][]store.Revision{4: nil, 5: {7, 9}, 6: {7, 9}, 7: {9}, 9: {12}, 11: {12}, 12: nil, 13: nil} {
		w := &watcher{b: &backend{tail: tail}, r: r, at: at}
		batches, wake := w.next()
		var got []store.Revision
		for _, b := range batches {
			got = append(got, b.Revision)
		}
		if !slices.Equal(got, want) || (wake != nil) != (at >= 12) {
			t.Errorf("after %d come %v, and it waits: %v; want %v", at, got, wake != nil, want)
		}
	}
}
