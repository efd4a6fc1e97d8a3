package postgres

import (
	"math"
	"testing"
	"time"
	"unsafe"
)

// stepped is t as a process reads it whose wall clock was set, by that much, and whose
// monotonic clock went on.
func stepped(t *testing.T, at time.Time, by time.Duration) time.Time {
	t.Helper()
	set := at
	*(*uint64)(unsafe.Pointer(&set)) += uint64(by/time.Second) << 30 // the seconds of the wall clock
	if set.Sub(at) != 0 || set.Round(0).Sub(at.Round(0)) != by {
		t.Fatalf("%v is not %v with another wall clock: package time has changed", set, at)
	}
	return set
}

// The wall clock of the server that observes leases may be set, by hours and in either
// direction: a lease ends after its TTL of the monotonic clock.
//
// promise L2. Negative control: the mutant "a lease ends by the wall clock".
func TestWallClockThatIsSetEndsNoLease(t *testing.T) {
	const ttl = 10 * time.Second
	for _, by := range []time.Duration{3 * time.Hour, -3 * time.Hour} {
		o := newObserver(nil)
		h, rows := head{era: 1}, []leaseRow{{id: 5, era: 1, ttl: ttl.Milliseconds(), renewed: 7}}
		began := time.Now()
		if ids, _, _ := o.observe(h, rows, began, began); len(ids) > 0 {
			t.Fatalf("a lease that was just seen has ended")
		}
		soon := stepped(t, began.Add(ttl-time.Second), by)
		if ids, _, _ := o.observe(h, rows, soon, soon); len(ids) > 0 {
			t.Errorf("with the clock set by %v a lease ended before its TTL", by)
		}
		late := stepped(t, began.Add(ttl), by)
		if ids, counts, _ := o.observe(h, rows, late, late); len(ids) != 1 || ids[0] != 5 || counts[0] != 7 {
			t.Errorf("with the clock set by %v a lease did not end after its TTL: %v %v", by, ids, counts)
		}
	}
}

// An era is opened for leases when the longest one of before has had its time since the era was
// seen, and once: a holder that the server has forgotten may trust its lease until then.
//
// promises L1, L2. Negative control: the mutant "an era is opened as soon as it is seen".
func TestEraIsOpenedWhenTheLongestLeaseOfBeforeHasEnded(t *testing.T) {
	const longest = 10 * time.Second
	o, h, began := newObserver(nil), head{era: 2, opened: 1, longest: longest.Milliseconds()}, time.Now()
	o.observe(h, nil, began, began)
	for _, c := range []struct {
		after        time.Duration
		opened, want int64
	}{{0, 1, 0}, {longest - time.Millisecond, 1, 0}, {longest, 1, 2}, {longest, 2, 0}} {
		h.opened = c.opened
		if got := o.eraToOpen(h, began.Add(c.after)); got != c.want {
			t.Errorf("%v after era 2 was seen, with era %d open, era %d is to be opened; want %d", c.after, c.opened, got, c.want)
		}
	}
}

// What the samples say is to be dropped is said until it has been dropped: a trim may be
// put off because another one is under way, and nothing more be written.
func TestTrimThatIsPutOffIsNotForgotten(t *testing.T) {
	o := newObserver(&backend{opts: Options{HistoryAge: time.Hour, HistoryBytes: 1000}})
	now := time.Now()
	for i := range int64(30) { // 100 bytes each
		o.excess(head{revision: i, logged: 100 * i}, now)
	}
	for range 3 {
		if upTo, measure := o.excess(head{revision: 30, logged: 3000}, now); upTo != 20 || measure {
			t.Errorf("the log is to be trimmed up to %d, to be measured: %v; want 20, because 1,000 bytes are after it", upTo, measure)
		}
	}
}

// A bound that no log reaches is none: the log is not read once a second to be measured.
func TestBoundThatNoLogReachesIsNone(t *testing.T) {
	o := newObserver(&backend{opts: Options{HistoryAge: time.Hour, HistoryBytes: math.MaxInt64}})
	now := time.Now()
	for i := range int64(3) {
		if upTo, measure := o.excess(head{revision: i, logged: i << 40}, now); upTo != 0 || measure {
			t.Errorf("look %d: the log is to be trimmed up to %d, to be measured: %v; want neither", i, upTo, measure)
		}
	}
}

// A lease has ended when it stood still for its TTL between the answer that showed its count first and the question
// that shows it again: the time of the requests themselves counts for its holder. The next look comes in time.
//
// promise L2.
func TestTimeOfTheRequestsCountsForTheHolder(t *testing.T) {
	const ttl = 800 * time.Millisecond
	o, h, began := newObserver(nil), head{era: 1}, time.Now()
	rows := []leaseRow{{id: 5, era: 1, ttl: ttl.Milliseconds(), renewed: 7}}
	for _, c := range []struct {
		asked, answered time.Duration // since it began
		renewed         int64
		ends            bool
		next            time.Duration
	}{
		{0, 500 * time.Millisecond, 7, false, ttl / 8},
		{900 * time.Millisecond, 1400 * time.Millisecond, 7, false, 10 * time.Millisecond},
		{1250 * time.Millisecond, 1260 * time.Millisecond, 7, false, 40 * time.Millisecond},
		{1299 * time.Millisecond, 1300 * time.Millisecond, 8, false, ttl / 8},
		{2099 * time.Millisecond, 2100 * time.Millisecond, 8, false, 10 * time.Millisecond},
		{2100 * time.Millisecond, 2100 * time.Millisecond, 8, true, ttl / 8},
	} {
		rows[0].renewed = c.renewed
		ids, counts, next := o.observe(h, rows, began.Add(c.asked), began.Add(c.answered))
		if len(ids) == 1 != c.ends || c.ends && counts[0] != c.renewed || next != c.next {
			t.Errorf("asked after %v, answered after %v: ended %v %v, the next look is in %v; want %v and %v", c.asked, c.answered, ids, counts, next, c.ends, c.next)
		}
	}
}

// The log is trimmed of what is older than HistoryAge, as far as the samples tell, and what a new era finds is young.
func TestLogIsTrimmedOfWhatIsTooOld(t *testing.T) {
	o := newObserver(&backend{opts: Options{HistoryAge: time.Hour, HistoryBytes: 1 << 20}})
	began := time.Now()
	for i := range int64(30) { // one change in three minutes
		o.observe(head{era: 1}, nil, began, began)
		upTo, measure := o.excess(head{revision: i, logged: i}, began.Add(time.Duration(i)*3*time.Minute))
		if want := max(0, i-20); upTo != want || measure {
			t.Errorf("after %d minutes the log is to be trimmed up to %d, to be measured: %v; want %d", 3*i, upTo, measure, want)
		}
	}
	o.observe(head{era: 2}, nil, began, began)
	if upTo, measure := o.excess(head{revision: 100, logged: 100}, began.Add(3*time.Hour)); upTo != 0 || measure {
		t.Errorf("in a new era the log is to be trimmed up to %d, to be measured: %v; want neither", upTo, measure)
	}
}
