package upgradetest

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Two versions side by side, and a rollback. In fake time each step lasts for minutes, so that polls
// and second looks come too. Seen to fail: without CheckNewer in object.Begin, and without it in For,
// version 1 writes an empty text over what version 2 wrote.
//
// promise S5
func TestRollingUpgradeMakesNoWriteFromAHalfReadSpec(t *testing.T) {
	for name, encode := range map[string]bool{"bytes": true, "values": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := must(memory.New(&memory.Options{Encode: encode}))(t)
				t.Cleanup(func() { _ = b.Close() })
				upgrade(t, func() store.Backend { return b }, func() {
					time.Sleep(3 * time.Minute)
					synctest.Wait()
				})
			})
		})
	}
}
