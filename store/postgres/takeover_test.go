//go:build unix

package postgres_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/tendhq/tend/store/postgres"
	"github.com/tendhq/tend/store/storetest/campaign"
	"github.com/tendhq/tend/store/storetest/leasetest"
)

// Five servers run controllers over their shards' keys on a PostgreSQL server that crashes too.
//
// promise L2, promise R4, promise S2. Negative control: -forgetful thing, base or part.
func TestShardedServersTakeOver(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	schema := newSchema()
	leasetest.Run(t, leasetest.Fleet{
		Backend: openAt(t, s.dsn(), postgres.Options{Schema: schema, Timeout: 10 * time.Second}), TTL: campaignTTL,
		Start: func(of leasetest.Config, hear func(w *campaign.Worker, line string)) *campaign.Worker {
			return newWorker(t, s, serverConfig{Name: of.Name, Schema: schema, Sharded: &of}, hear)
		},
		Restart: func() {
			s.stop(syscall.SIGKILL)
			s.mustStart(t)
		},
	})
}
