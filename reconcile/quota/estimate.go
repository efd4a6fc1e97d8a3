package quota

import (
	"fmt"
	"time"
)

// Load is what is to be kept in order under one quota.
type Load struct {
	Resources int
	// Interval is the time between two looks at one resource: the poll interval.
	Interval time.Duration
	// PageSize is the length of a page of the list that serves the looks; zero:
	// there is none, and each look reads its resource.
	PageSize int
	// ReadsPerLook is the reads that each look costs, besides the list if there
	// is one. Zero: 1 without a list, none with one; negative: none.
	ReadsPerLook int
	// Changes is how many writes an interval has: those that bring the resources in line
	// that edits and drift change.
	Changes int
}

// Cost is the calls that a [Load] comes to in one interval.
type Cost struct {
	load   Load
	Reads  int
	Writes int
}

// Estimate counts the calls of an interval before any is made. It is a pure
// function. Not counted: what a failure repeats, and the looks that follow a
// change (one or two reads each).
func Estimate(l Load) (Cost, error) {
	switch {
	case l.Resources < 0 || l.PageSize < 0 || l.Changes < 0:
		return Cost{}, fmt.Errorf("quota: estimate: no number of %+v but ReadsPerLook may be negative", l)
	case l.Interval <= 0:
		return Cost{}, fmt.Errorf("quota: estimate: Interval is %v, want more than zero", l.Interval)
	}
	c := Cost{load: l}
	reads := l.ReadsPerLook
	if l.PageSize > 0 {
		c.Reads = max(1, (l.Resources+l.PageSize-1)/l.PageSize) // an empty cloud has a page too
	} else if reads == 0 {
		reads = 1
	}
	c.Reads += max(reads, 0) * l.Resources
	c.Writes = l.Changes
	return c, nil
}

// per is the calls per second that n calls in each interval come to.
func (c Cost) per(n int) float64 { return float64(n) / c.load.Interval.Seconds() }

// ReadsPerSecond is the reads per second, if they are spread over the interval.
func (c Cost) ReadsPerSecond() float64 { return c.per(c.Reads) }

// WritesPerSecond is the writes per second, if they are spread over the
// interval.
func (c Cost) WritesPerSecond() float64 { return c.per(c.Writes) }

// Use is the part of a rate that so many calls per second take: above 1 they do
// not fit, and an interval takes that many times its length.
func (r Rate) Use(perSecond float64) float64 { return perSecond / float64(r.PerSecond) }

// String is for reading.
func (c Cost) String() string {
	by := "one look each"
	if c.load.PageSize > 0 {
		by = fmt.Sprintf("a list with pages of %d", c.load.PageSize)
	}
	return fmt.Sprintf("%d resources by %s: %d reads and %d writes every %v (%.3g and %.3g a second)",
		c.load.Resources, by, c.Reads, c.Writes, c.load.Interval, c.ReadsPerSecond(), c.WritesPerSecond())
}
