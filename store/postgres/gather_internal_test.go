package postgres

import (
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
