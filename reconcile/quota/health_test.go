package quota_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// readOnly answers, and grants no lease while it refuses.
type readOnly struct {
	store.FullBackend
	refuses atomic.Bool
}

var errReadOnly = errors.New("the server is read-only")

func (b *readOnly) Grant(ctx context.Context, ttl time.Duration) (store.LeaseID, error) {
	if b.refuses.Load() {
		return 0, errReadOnly
	}
	return b.FullBackend.Grant(ctx, ttl)
}

// An endpoint may be down by an answer that is no error to its client.
func TestHealthNamesAnEndpointThatIsDownWithoutAnError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		set := must(quota.NewSet(&quota.Options{Limits: func(quota.Name) (quota.Limits, error) {
			return quota.Limits{Read: quota.Rate{PerSecond: 100}, Judge: func(error) quota.Verdict { return quota.Verdict{Down: true} }}, nil
		}}))
		q := must(set.Get(quota.Name{API: "dns"}))
		for range 5 {
			if err := q.Do(t.Context(), quota.Read, func(context.Context) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if err := set.Health(); err == nil || !strings.HasSuffix(err.Error(), "quota: dns/read: the endpoint is down since "+time.Now().Format(time.RFC3339)) {
			t.Errorf("Health says %v", err)
		}
	})
}

// A server that cannot become a member makes no calls, and says why.
//
// Negative control: mutant "quotas without members are well".
func TestSetThatCannotJoinIsNotHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, err := memory.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		b := &readOnly{FullBackend: inner}
		defer b.Close()
		b.refuses.Store(true)
		const ttl = 5 * time.Second
		members, err := lease.NewMembers(b, "cloud", &lease.Options{TTL: ttl, Server: "one", Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		set, err := quota.NewSet(&quota.Options{Members: members, Limits: func(quota.Name) (quota.Limits, error) { return quota.Limits{}, nil }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- set.Run(ctx) }()
		time.Sleep(ttl)
		if err := set.Health(); !errors.Is(err, errReadOnly) {
			t.Errorf("with no lease granted: %v, want %v", err, errReadOnly)
		}
		b.refuses.Store(false)
		time.Sleep(3 * ttl)
		if err := set.Health(); err != nil {
			t.Errorf("with a lease: %v", err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
