//go:build peers

package bench

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/tendhq/tend/reconcile"
)

// BenchmarkManager: the same objects over ever more kinds, each with a store, a
// cache and a controller of its own, in one Manager, from cold start to
// converged. One operation is all of it.
func BenchmarkManager(b *testing.B) {
	const objects = 20_000
	for _, controllers := range []int{1, 10, 50, 200} {
		b.Run(fmt.Sprint("controllers=", controllers, "/impl=tend"), func(b *testing.B) {
			names := make([]string, objects/controllers)
			for i := range names {
				names[i] = fmt.Sprintf("disk-%07d", i)
			}
			measure(b, func() {
				for range b.N {
					manageKinds(b, controllers, names)
				}
			})
			perObject(b, objects)
		})
	}
}

func manageKinds(b *testing.B, controllers int, names []string) {
	backend := newMemory(b, nil)
	var left atomic.Int64
	left.Store(int64(controllers * len(names)))
	done := make(chan struct{})
	m := new(reconcile.Manager)
	stores := make([]*diskStore, controllers)
	for i := range stores {
		stores[i] = newDisks(b, fmt.Sprint("Disk", i), backend)
		register(b, m, stores[i], 2, func() {
			if left.Add(-1) == 0 {
				close(done)
			}
		})
	}
	stop := running(b, m.Run)
	for _, s := range stores {
		create(b, s, names)
	}
	<-done
	stop()
}
