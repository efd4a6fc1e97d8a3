package quota

import "time"

// circuit is a circuit breaker:
//
//	closed ── trips failures in a row ──▶ open ── pause is over ──▶ one probe
//	  ▲                                    ▲                          │   │
//	  │                                    └──── down, pause doubles ─┘   │
//	  └───────────────────────────── answered ───────────────────────────┘
//
// It is guarded by its budget's lock.
type circuit struct {
	open    bool
	again   time.Time     // while open: when the next probe may leave
	pause   time.Duration // while open: how long it waits between probes
	bad     int           // failures in a row while closed
	changed time.Time     // when it last opened or closed
}

const (
	trips      = 5
	firstPause = time.Second
	lastPause  = time.Minute
)

// failed notes a failure, and says until when to make no call, if that is news, and whether
// it opened the circuit.
func (c *circuit) failed(of call, now time.Time) (until time.Time, tripped, opened bool) {
	switch {
	case of.left.Before(c.changed), c.open && !of.probe:
		return until, false, false // also a probe that hung, and was overtaken by an answered one
	case c.open:
		c.pause = min(2*c.pause, lastPause)
	default:
		if c.bad++; c.bad < trips {
			return until, false, false
		}
		c.open, c.pause, c.changed = true, firstPause, now
		opened = true
	}
	c.again = now.Add(c.pause)
	return c.again, true, opened
}

// answered notes an answer, and says whether it closed the circuit, and how long that was
// open.
func (c *circuit) answered(of call) (closed bool, after time.Duration) {
	if c.open && !of.probe {
		return false, 0 // it left before the circuit opened
	}
	was := c.open
	c.open, c.bad = false, 0
	if was {
		now := time.Now()
		after, c.changed = now.Sub(c.changed), now
	}
	return was, after
}
