package quotatest

import (
	"strings"
	"testing"
	"time"
)

// What the judge of the campaigns postgres-creates and etcd-creates lets pass, and what it does
// not: their negative control.
func TestJudgeRejectsWhatServersMustNotDo(t *testing.T) {
	begun := time.Now()
	at := func(perSecond float64, n int) (all []time.Time) {
		for i := range n {
			all = append(all, begun.Add(time.Duration(float64(i)/perSecond*float64(time.Second))))
		}
		return all
	}
	right := seen{
		declared: 10_000, made: 10_000, writes: at(100, 10_000), perSecond: 100, servers: 4, workers: 8,
		ttl: 10 * time.Second, window: 10 * time.Second, exact: true,
	}
	for name, c := range map[string]struct {
		edit func(s *seen)
		want string // "": it passes
	}{
		"as the quota allows": {func(*seen) {}, ""},
		"four calls under way at the kill": {func(s *seen) {
			s.again = 4
			s.writes = at(100, 10_004)
		}, ""},
		"each server takes the whole quota": {func(s *seen) { s.writes = at(300, 10_000) }, "within 10s"},
		"a tenth too many":                  {func(s *seen) { s.writes = at(110, 10_000) }, "within 10s"},
		"a part stays unused":               {func(s *seen) { s.writes = at(66, 10_000) }, "the bound is"},
		"a shard's resources are asked for again": {func(s *seen) {
			s.again = 100
			s.writes = at(100, 10_100)
		}, "a second time"},
		"one is missing": {func(s *seen) { s.made-- }, "for 10000 declared"},
	} {
		s := right
		c.edit(&s)
		if got := strings.Join(s.problems(), "; "); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		s.exact = false
		if got := len(s.problems()) > 0; got != (strings.HasPrefix(c.want, "within") || strings.HasPrefix(c.want, "for")) {
			t.Errorf("%s, in a short run: %v", name, s.problems())
		}
	}
}

// The size that CI runs is large enough for a quota that is not kept to be seen.
func TestJudgeOfAShortRunRejectsTooManyCalls(t *testing.T) {
	begun := time.Now()
	for perSecond, want := range map[float64]bool{10: true, 20: false, 30: false} { // the quota is 10
		s := seen{declared: 90, made: 90, perSecond: 10, servers: 4, workers: 2, ttl: 2 * time.Second, window: 2 * time.Second}
		for i := range s.declared {
			s.writes = append(s.writes, begun.Add(time.Duration(float64(i)/perSecond*float64(time.Second))))
		}
		if got := s.problems(); (len(got) == 0) != want {
			t.Errorf("%v calls a second: %q", perSecond, got)
		}
	}
}
