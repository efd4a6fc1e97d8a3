//go:build unix

package etcd_test

import (
	"flag"
	"testing"

	"github.com/tendhq/tend/store/etcd"
	"github.com/tendhq/tend/store/storetest/campaign"
	"github.com/tendhq/tend/store/storetest/quotatest"
)

var creates = flag.Int("creates", 90, "how many resources servers create under one quota")

// Three servers on etcd create resources of one cloud under one quota; one is killed in the
// middle and one is added.
//
// promise E1, L2, Q6
func TestServersCreateUnderOneQuota(t *testing.T) {
	t.Parallel()
	prefix := newPrefix()
	b := open(t, etcd.Options{Prefix: prefix})
	quotatest.Run(t, *creates, b, func(c quotatest.Config) *campaign.Worker {
		cfg := serverConfig{Name: c.Name, Prefix: prefix, Endpoints: []string{server}, Creates: &c}
		return campaign.NewWorker(t, c.Name, serverEnv, cfg, nil, func(_ *campaign.Worker, line string) { t.Log(line) })
	})
}
