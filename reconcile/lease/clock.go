package lease

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"time"
)

// clock tells how long ago a lease was renewed. The monotonic clock, by which Go's
// time measures and its timers fire, stands still while the machine is suspended. What
// was missed shows as a difference between it and the wall clock, but so does a wall
// clock that was set. The time since the machine was started, suspensions included,
// tells one from the other where it can be read.
type clock struct {
	wall func() time.Duration         // since any fixed moment
	boot func() (time.Duration, bool) // not ok: unknown
}

func systemClock() clock {
	return clock{
		wall: func() time.Duration { return time.Duration(time.Now().UnixNano()) },
		boot: uptime,
	}
}

// uptime reads Linux's CLOCK_BOOTTIME, in hundredths of a second.
func uptime() (time.Duration, bool) {
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0, false
	}
	first, _, _ := bytes.Cut(text, []byte(" "))
	seconds, err := strconv.ParseFloat(string(first), 64)
	return time.Duration(seconds * float64(time.Second)), err == nil
}

// errClocks is why a lease is lost that was renewed and never trusted.
var errClocks = errors.New("lease: the clocks of this machine disagree, so that no run may begin although the lease was renewed")

// moment is a reading of all clocks.
type moment struct {
	at       time.Time
	wall     time.Duration
	boot     time.Duration
	bootable bool
}

func (c clock) now() moment {
	m := moment{at: time.Now(), wall: c.wall()}
	m.boot, m.bootable = c.boot()
	return m
}

// maxDrift is how far the clocks may go apart without a suspension: they are read one
// after the other, the wall clock is slewed, and a busy machine stops a process between
// two readings.
const maxDrift = 100 * time.Millisecond

// since is the time since m, suspensions included. It is not sure after a suspension,
// or after what may have been one.
func (c clock) since(m moment) (elapsed time.Duration, sure bool) {
	for range 3 { // a process that was stopped between two readings reads again
		elapsed = time.Since(m.at)
		if near(c.wall()-m.wall, elapsed) { // the cheap question: each run asks
			return elapsed, true
		}
		boot, ok := c.boot()
		if !ok || !m.bootable {
			continue
		}
		if elapsed = max(elapsed, boot-m.boot); near(time.Since(m.at), boot-m.boot) {
			return elapsed, true
		}
	}
	return elapsed, false
}

func near(a, b time.Duration) bool { return (a - b).Abs() < maxDrift }
