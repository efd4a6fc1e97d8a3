package quota

import "time"

// circuit is a circuit breaker:
//
//	closed ── trips failures in a row ──▶ open ── pause is over ──▶ a probe, pause doubles
//	  ▲                                    ▲                          │   │
//	  │                                    └──── down, or it hangs ───┘   │
//	  └───────────────────────────── answered ───────────────────────────┘
//
// The pause doubles when a probe leaves, so that an endpoint that hangs is asked as seldom as
// one that refuses. It is guarded by its budget's lock.
type circuit struct {
	open    bool
	again   time.Time     // while open: when the next probe may leave
	pause   time.Duration // while open: how long it waits between probes
	bad     int           // failures in a row while closed
	changed time.Time     // when it last opened or closed
	down    time.Time     // when a call last failed
	err     error         // why it did
}

const (
	trips      = 5
	firstPause = time.Second
	lastPause  = time.Minute
)

// probe notes that a probe leaves, and says until when to make no other call.
func (c *circuit) probe(now time.Time) (until time.Time) {
	c.pause = min(2*c.pause, lastPause)
	c.again = now.Add(c.pause)
	return c.again
}

// failed notes a failure, and says whether it opened the circuit.
func (c *circuit) failed(of call, now time.Time) (opened bool) {
	c.down, c.err = now, of.says
	if c.open || of.left.Before(c.changed) {
		return false // also a probe that hung, and was overtaken by an answered one
	}
	if c.bad++; c.bad < trips {
		return false
	}
	c.open, c.pause, c.changed = true, firstPause, now
	c.again = now.Add(c.pause)
	return true
}

// answered notes an answer, and says whether it closed the circuit, and how long that was
// open.
func (c *circuit) answered(of call) (closed bool, after time.Duration) {
	if c.open && !of.probe {
		return false, 0 // it left before the circuit opened
	}
	was := c.open
	c.open, c.bad, c.err = false, 0, nil
	if was {
		now := time.Now()
		after, c.changed = now.Sub(c.changed), now
	}
	return was, after
}
