//go:build unix

package postgres_test

import (
	"testing"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/postgres"
	"github.com/tendhq/tend/store/storetest/upgradetest"
)

// Servers of two versions of a program share shards, forwards and back. The same body in memory, in
// package upgradetest, was seen to fail.
//
// promise S5
func TestRollingUpgradeMakesNoWriteFromAHalfReadSpec(t *testing.T) {
	t.Parallel()
	at := newSchema()
	upgradetest.Run(t, func() store.Backend { return open(t, postgres.Options{Schema: at}) })
}
