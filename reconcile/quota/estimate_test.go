package quota_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tendhq/tend/reconcile/quota"
)

func TestEstimateCountsTheCallsOfAnInterval(t *testing.T) {
	for name, c := range map[string]struct {
		load          quota.Load
		reads, writes int
	}{
		"one look each":      {quota.Load{Resources: 100_000}, 100_000, 0},
		"a list":             {quota.Load{Resources: 100_000, PageSize: 1000}, 100, 0},
		"a page begun":       {quota.Load{Resources: 1001, PageSize: 1000}, 2, 0},
		"an empty cloud":     {quota.Load{PageSize: 1000}, 1, 0},
		"a list and tags":    {quota.Load{Resources: 300, PageSize: 1000, ReadsPerLook: 2}, 601, 0},
		"three reads a look": {quota.Load{Resources: 300, ReadsPerLook: 3}, 900, 0},
		"no reads":           {quota.Load{Resources: 300, ReadsPerLook: -1}, 0, 0},
		"changes":            {quota.Load{Resources: 300, PageSize: 1000, Changes: 20}, 1, 20},
		"a write a change":   {quota.Load{Resources: 300, PageSize: 1000, Changes: 10}, 1, 10},
	} {
		c.load.Interval = time.Minute
		got, err := quota.Estimate(c.load)
		if err != nil || got.Reads != c.reads || got.Writes != c.writes {
			t.Errorf("%s: %+v, %v; want %d reads and %d writes", name, got, err, c.reads, c.writes)
		}
	}
	c := must(quota.Estimate(quota.Load{Resources: 100_000, Interval: 5 * time.Minute, PageSize: 1000, Changes: 600}))
	if c.ReadsPerSecond() != 1.0/3 || c.WritesPerSecond() != 2 {
		t.Errorf("%v and %v a second", c.ReadsPerSecond(), c.WritesPerSecond())
	}
	if use := (quota.Rate{PerSecond: 8}).Use(c.WritesPerSecond()); use != 0.25 {
		t.Errorf("it takes %v of the budget, want a quarter", use)
	}
	if !strings.Contains(c.String(), "pages of 1000: 100 reads and 600 writes every 5m0s") {
		t.Errorf("%s", c)
	}
	for _, l := range []quota.Load{{Resources: 1}, {Resources: -1, Interval: 1}, {PageSize: -1, Interval: 1}, {Changes: -1, Interval: 1}} {
		if _, err := quota.Estimate(l); err == nil {
			t.Errorf("%+v was estimated", l)
		}
	}
}
