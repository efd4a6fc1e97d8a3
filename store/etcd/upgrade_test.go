//go:build unix

package etcd_test

import (
	"testing"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/etcd"
	"github.com/tendhq/tend/store/storetest/upgradetest"
)

// Servers of two versions of a program share shards, forwards and back. Seen to fail as the test of
// package upgradetest in memory was.
//
// promise S5
func TestRollingUpgradeMakesNoWriteFromAHalfReadSpec(t *testing.T) {
	t.Parallel()
	at := newPrefix()
	upgradetest.Run(t, func() store.Backend { return open(t, etcd.Options{Prefix: at}) })
}
