package reconciletest_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/reconciletest"
)

// A certificate is valid for 90 minutes, and renewed 30 minutes before its end. The
// cloud that issues it is slow, and fails now and then. Three days of that take a
// moment: in the bubble the clock jumps to the next timer whenever everybody waits.
func TestCertificateIsRenewedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud, err := reconciletest.NewCloud(&reconciletest.CloudOptions{Seed: 1, Errors: 0.2, Latency: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		var expires atomic.Int64 // Unix time: the worker writes it, and the test reads it
		renewer := reconcile.Func[string](func(ctx context.Context, name string) (reconcile.Result, error) {
			if left := time.Until(time.Unix(expires.Load(), 0)); left > 30*time.Minute {
				return reconcile.Result{RequeueAfter: left - 30*time.Minute}, nil
			}
			if _, err := cloud.Create(ctx, reconciletest.Resource{Name: name}); err != nil {
				return reconcile.Result{}, err // again, with backoff
			}
			expires.Store(time.Now().Add(90 * time.Minute).Unix())
			return reconcile.Result{RequeueAfter: 60 * time.Minute}, nil
		})
		controller, err := reconcile.New("certificates", renewer, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- controller.Run(ctx) }()
		if err := controller.Add("shop.example"); err != nil {
			t.Fatal(err)
		}
		valid := func() error {
			if end := time.Unix(expires.Load(), 0); !time.Now().Before(end) {
				return fmt.Errorf("the certificate ended at %v", end)
			}
			return nil
		}
		if err := reconciletest.Converge(t.Context(), time.Hour, 0, valid); err != nil {
			t.Fatal(err)
		}
		for range 3 * 24 * 60 {
			time.Sleep(time.Minute) // of the bubble's time
			if err := valid(); err != nil {
				t.Error(err)
			}
		}
		if n := len(cloud.Truth()); n < 60 || n > 75 {
			t.Errorf("%d certificates were issued in three days, want one an hour or so", n)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
