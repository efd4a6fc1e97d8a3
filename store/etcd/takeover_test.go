//go:build unix

package etcd_test

import (
	"testing"

	"github.com/tendhq/tend/store/etcd"
	"github.com/tendhq/tend/store/storetest/campaign"
	"github.com/tendhq/tend/store/storetest/leasetest"
)

// Five servers run controllers over their shards' keys on a cluster of three, of which the leader
// crashes too.
//
// promise L2, promise R4. Negative control: -forgetful thing, base or part, and with Options.Server the same for all,
// the first one owns everything and the test does not get past its start.
//
// docs/TAKEOVER.md has what it measured, and the commands.
func TestShardedServersTakeOver(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	prefix := newPrefix()
	leasetest.Run(t, leasetest.Fleet{
		Backend: c.openDirect(etcd.Options{Prefix: prefix, Timeout: patience}), TTL: campaignTTL,
		Start: func(of leasetest.Config, hear func(w *campaign.Worker, line string)) *campaign.Worker {
			return newWorker(t, c, serverConfig{Name: of.Name, Prefix: prefix, Sharded: &of}, hear)
		},
		Restart: func() {
			leader := c.leader(c.members[0])
			leader.Kill()
			leader.start()
		},
	})
}
