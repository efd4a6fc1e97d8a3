//go:build unix

package postgres_test

import (
	"flag"
	"testing"

	"github.com/tendhq/tend/store/postgres"
	"github.com/tendhq/tend/store/storetest/campaign"
	"github.com/tendhq/tend/store/storetest/quotatest"
)

var creates = flag.Int("creates", 90, "how many resources servers create under one quota")

// Three servers on PostgreSQL create resources of one cloud under one quota; one is killed in
// the middle and one is added.
//
// promise E1, L2, Q6
func TestServersCreateUnderOneQuota(t *testing.T) {
	t.Parallel()
	schema := newSchema()
	b := open(t, postgres.Options{Schema: schema})
	quotatest.Run(t, *creates, b, func(c quotatest.Config) *campaign.Worker {
		cfg := serverConfig{Name: c.Name, Schema: schema, DSN: shared.socket(), Creates: &c}
		return campaign.NewWorker(t, c.Name, processEnv, cfg, nil, func(_ *campaign.Worker, line string) { t.Log(line) })
	})
}
