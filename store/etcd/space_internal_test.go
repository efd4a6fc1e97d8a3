package etcd

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// A cluster that was compacted once is warned of when a revision stays readable for a day.
func TestClusterThatIsNoLongerCompactedWarnsAfterADay(t *testing.T) {
	const mib = 1 << 20
	s := &space{b: &backend{health: &health{place: "here"}}}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, step := range []struct {
		what        string
		after       time.Duration
		compacted   bool
		used, quota int64
		want        string // in the warning; "": none
	}{
		{"new, and small", 0, false, 1 * mib, 100 * mib, ""},
		{"never compacted", time.Hour, false, 80 * mib, 100 * mib, "was never compacted and uses 80 of the 100 MiB of its quota"},
		{"a quota that is not told", time.Hour, false, 80 * mib, 0, ""},
		{"a quota that is not told, nearly used up", time.Hour, false, 1700 * mib, 0, "1700 of the 2048 MiB of etcd's default quota"},
		{"compacted", time.Hour, true, 90 * mib, 100 * mib, ""}, // at 07:04:05, as far as this process knows
		{"not again", 23 * time.Hour, false, 95 * mib, 100 * mib, ""},
		{"nor after a day", time.Hour, false, 95 * mib, 100 * mib, "was not compacted since 2026-01-02T07:04:05Z"},
		{"compacted again", time.Minute, true, 95 * mib, 100 * mib, ""},
		{"and small", 48 * time.Hour, false, 79 * mib, 100 * mib, ""},
	} {
		now = now.Add(step.after)
		status := &pb.StatusResponse{Header: &pb.ResponseHeader{Revision: now.Unix()}, DbSize: 99 * mib, DbSizeInUse: step.used, DbSizeQuota: step.quota}
		got := s.judge(status, step.compacted, now)
		if step.want == "" {
			if got != nil {
				t.Errorf("%s: %v, want no warning", step.what, got)
			}
			continue
		}
		if got == nil || !strings.Contains(got.Error(), step.want) {
			t.Errorf("%s: %v, want a warning with %q", step.what, got, step.want)
		}
	}
}

// A warning stands, and is looked at every minute, until a look shows that it has ended: what could not be found
// out changes neither. It is logged once.
func TestWarningStandsUntilALookShowsItsEnd(t *testing.T) {
	var said strings.Builder
	s := &space{b: &backend{health: &health{place: "here"}}}
	log := slog.New(slog.NewTextHandler(&said, nil))
	w, silent := &fullError{place: "here"}, errors.New("no answer")
	for i, step := range []struct {
		w    *fullError
		err  error
		want bool
	}{{nil, silent, false}, {nil, nil, false}, {w, nil, true}, {nil, silent, true}, {w, nil, true}, {nil, nil, false}, {nil, silent, false}, {w, nil, true}} {
		if got := s.note(step.w, step.err, log); got != step.want || (s.warning.Load() != nil) != step.want {
			t.Errorf("after look %d there is a warning: %v, want %v", i, got, step.want)
		}
	}
	if began, ended := strings.Count(said.String(), "level=WARN"), strings.Count(said.String(), "level=INFO"); began != 2 || ended != 1 {
		t.Errorf("%d lines of its begin and %d of its end, want 2 and 1:\n%s", began, ended, said.String())
	}
}
