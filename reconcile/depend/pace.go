package depend

import (
	"math"
	"time"
)

// pacer spreads wakes: burst of them at once, and then one after each gap.
type pacer struct {
	gap   time.Duration
	burst int
	next  time.Duration // when the next one would run if there were no burst
}

func newPacer(perSecond, burst int) pacer {
	gap := time.Second / time.Duration(perSecond)
	burst = int(min(int64(burst), math.MaxInt64/2/max(1, int64(gap)))) // more would overflow
	return pacer{gap: gap, burst: burst, next: -gap * time.Duration(burst)}
}

// delay is how long the next wake waits.
func (p *pacer) delay(now time.Duration) time.Duration {
	p.next = max(p.next, now-time.Duration(p.burst-1)*p.gap)
	d := max(0, p.next-now)
	p.next += p.gap
	return d
}
