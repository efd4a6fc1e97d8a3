package quotatest

import (
	"fmt"
	"slices"
	"time"
)

// seen is what the cloud saw of a campaign.
type seen struct {
	declared, made int
	again          int // creates of what existed
	writes         []time.Time
	perSecond      float64 // granted
	servers        int     // that lived at any time
	workers        int     // of each server
	ttl            time.Duration
	window         time.Duration // how long a stretch of time is of which the calls are counted
	exact          bool          // it was long enough for its time to mean something
}

// grant is the most writes that the cloud may see in a window: what was granted, what lies in
// the buckets, and the calls that were under way when it began.
func (s seen) grant() int {
	return int(s.window.Seconds()*s.perSecond) + burst + s.servers*(1+s.workers)
}

// least is how long the creates take by the quota, and bound what they may take: 1.1 of it,
// and the part of a server that was killed is not used for two TTLs.
func (s seen) least() time.Duration {
	return time.Duration(float64(s.declared) / s.perSecond * float64(time.Second))
}

func (s seen) bound() time.Duration { return s.least()*11/10 + 2*s.ttl/3 }

// took is from the first write to the last.
func (s seen) took() time.Duration {
	if len(s.writes) == 0 {
		return 0
	}
	return slices.MaxFunc(s.writes, time.Time.Compare).Sub(slices.MinFunc(s.writes, time.Time.Compare))
}

// busiest is how many writes lie in the window that has the most.
func (s seen) busiest() (most int) {
	writes := slices.SortedFunc(slices.Values(s.writes), time.Time.Compare)
	for first, last := 0, 0; last < len(writes); last++ {
		for writes[last].Sub(writes[first]) >= s.window {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}

// problems names what must not be. Of a run that is not exact only what no slow machine can
// bring about: a server that is starved loses its leases, which costs time, and leaves calls
// under way that the next one makes again.
func (s seen) problems() (all []string) {
	if s.made != s.declared || len(s.writes) != s.made+s.again {
		all = append(all, fmt.Sprintf("%d resources by %d creates for %d declared ones", s.made, len(s.writes), s.declared))
	}
	if got := s.busiest(); got > s.grant() {
		all = append(all, fmt.Sprintf("%d writes within %v, at most %d are granted", got, s.window, s.grant()))
	}
	if !s.exact {
		return all
	}
	// What the server that was killed had under way is asked for again.
	if s.again > s.workers {
		all = append(all, fmt.Sprintf("%d resources were created a second time, at most %d calls were under way at the kill", s.again, s.workers))
	}
	if s.took() > s.bound() {
		all = append(all, fmt.Sprintf("it took %v, the quota allows %v and the bound is %v", s.took(), s.least(), s.bound()))
	}
	return all
}

func (s seen) String() string {
	return fmt.Sprintf("%d creates at %v a second in %v, by the quota %v (%.3f of it, at most %v); %d writes in the busiest %v, at most %d; %d asked for again",
		s.made, s.perSecond, s.took().Round(time.Millisecond), s.least(), float64(s.took())/float64(s.least()), s.bound(), s.busiest(), s.window, s.grant(), s.again)
}
