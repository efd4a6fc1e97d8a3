package reconcile_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/tendhq/tend/reconcile"
)

// BenchmarkController runs a no-op reconciler over 100,000 keys, end to end.
// The bench module has the same for the peers.
func BenchmarkController(b *testing.B) {
	for _, workers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			keys := make([]reconcile.Request, 100_000)
			for i := range keys {
				keys[i] = reconcile.Request{Namespace: "namespace", Name: fmt.Sprintf("a-resource-with-a-name-%06d", i)}
			}
			var n atomic.Int64
			done := make(chan struct{}, 1)
			c, err := reconcile.New("bench", reconcile.Func[reconcile.Request](func(context.Context, reconcile.Request) (reconcile.Result, error) {
				if n.Add(-1) == 0 {
					done <- struct{}{}
				}
				return reconcile.Result{}, nil
			}), &reconcile.Options[reconcile.Request]{Workers: workers})
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			end := make(chan error)
			go func() { end <- c.Run(ctx) }()
			b.ReportAllocs()
			for b.Loop() {
				n.Store(int64(len(keys)))
				for _, k := range keys {
					_ = c.Add(k)
				}
				<-done
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(keys)), "ns/reconcile")
			cancel()
			<-end
		})
	}
}
