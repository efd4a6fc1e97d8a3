package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// defaultQuota is etcd's, in bytes, for servers before 3.6, which do not tell theirs.
	defaultQuota = 2 << 30
	// nearlyFull is how many percent of the quota may be in use before a warning.
	nearlyFull = 80
	// longestRetention is for how long a revision may stay readable before the cluster
	// counts as one that is not compacted.
	longestRetention = 24 * time.Hour
)

// space warns of a cluster that is never compacted before its quota is used up. It asks
// a member for its sizes, and for a revision that a compaction would have taken away:
//
//	revision 1 is readable              never compacted
//	the revision of an earlier look is  not compacted since then; it counts after a day
//
//	1 minute after the start  first look
//	no warning                every 10 minutes
//	a warning                 every minute, until it ends
type space struct {
	b           *backend
	maintenance pb.MaintenanceClient
	first       time.Duration // until the first look, and between two while there is a warning
	every       time.Duration // between two others

	warning atomic.Pointer[fullError]

	// Of the goroutine of run.
	mark   int64     // a revision that was readable at the last look; 0: not known yet
	marked time.Time // when mark was the newest revision; zero: at the beginning of the cluster
}

// fullError is the warning.
type fullError struct {
	place       string
	used, quota int64 // bytes
	assumed     bool  // the server does not tell its quota
	since       time.Time
}

func (e *fullError) Error() string {
	whose := "its quota"
	if e.assumed {
		whose = "etcd's default quota"
	}
	when := "was never compacted"
	if !e.since.IsZero() {
		when = "was not compacted since " + e.since.Format(time.RFC3339)
	}
	return fmt.Sprintf("etcd: the cluster at %s %s and uses %d of the %d MiB of %s; at the end of it every write is refused: turn auto-compaction on (--auto-compaction-retention)",
		e.place, when, e.used>>20, e.quota>>20, whose)
}

// begin sets the member to ask, and how often.
func (s *space) begin(b *backend, maintenance pb.MaintenanceClient) {
	s.b, s.maintenance, s.first, s.every = b, maintenance, b.opts.firstLook, 10*b.opts.firstLook
}

// run looks until the backend is closed.
func (s *space) run(ctx context.Context) {
	wait := s.first
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = s.every
		if w, err := s.look(ctx); s.note(w, err, s.b.opts.logger) {
			wait = s.first
		}
	}
}

// note keeps a warning, logs its begin and its end, and reports whether there is one. What could not
// be found out changes nothing.
func (s *space) note(w *fullError, err error, log *slog.Logger) bool {
	was := s.warning.Load()
	switch {
	case err != nil:
		return was != nil
	case w != nil && was == nil:
		log.Warn(w.Error())
	case w == nil && was != nil:
		log.Info("etcd: the cluster was compacted, or has room again", "endpoints", s.b.health.place)
	}
	s.warning.Store(w)
	return w != nil
}

// look asks a member.
func (s *space) look(ctx context.Context) (*fullError, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.b.opts.Timeout, errTimeout)
	defer cancel()
	status, err := s.maintenance.Status(ctx, &pb.StatusRequest{})
	if err != nil {
		return nil, err
	}
	mark := max(s.mark, 1)
	_, err = s.b.client.Get(ctx, s.b.opts.Prefix+"/", clientv3.WithRev(mark), clientv3.WithCountOnly())
	compacted := errors.Is(err, rpctypes.ErrCompacted)
	if err != nil && !compacted {
		return nil, err
	}
	return s.judge(status, compacted, time.Now()), nil
}

// judge takes what a look has found.
func (s *space) judge(status *pb.StatusResponse, compacted bool, now time.Time) *fullError {
	if s.mark = max(s.mark, 1); compacted {
		s.mark, s.marked = status.Header.Revision, now
	}
	if now.Sub(s.marked) < longestRetention {
		return nil
	}
	w := &fullError{place: s.b.health.place, used: status.DbSizeInUse, quota: status.DbSizeQuota, since: s.marked}
	if w.assumed = w.quota <= 0; w.assumed {
		w.quota = defaultQuota
	}
	if w.used < w.quota/100*nearlyFull {
		return nil
	}
	return w
}
