// Command 07-troubleshooting brings keys into each state in which a key does not run,
// and asks the controller why.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
)

func main() {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the program prints what there is to see
	ctx, stop := context.WithCancel(context.Background())
	empty := must(ratelimit.NewBucket("cloud", 1, 1))
	empty.Throttle(time.Now().Add(time.Hour)) // as a Retry-After of the cloud does

	// guide: reconcile
	controller := must(reconcile.New("disks", reconcile.Func[string](func(ctx context.Context, key string) (reconcile.Result, error) {
		switch key {
		case "fails":
			return reconcile.Result{}, errors.New("the disk is busy")
		case "broken":
			return reconcile.Result{}, reconcile.Terminal(errors.New("the size is negative"))
		case "waits":
			return reconcile.Result{RequeueAfter: time.Hour}, nil
		case "runs":
			<-ctx.Done() // until the controller stops
		}
		return reconcile.Result{}, nil
	}), &reconcile.Options[string]{
		Backoff:     queue.Backoff{Base: time.Hour, Max: time.Hour},
		StopTimeout: -1, // runs are cancelled at once when the controller stops
		Queue: queue.Options[string]{Buckets: func(key string, buckets []*ratelimit.Bucket) []*ratelimit.Bucket {
			if key == "throttled" {
				buckets = append(buckets, empty)
			}
			return buckets
		}},
	}))
	// guide: end

	ended := make(chan error)
	go func() { ended <- controller.Run(ctx) }()
	// guide: ask
	inspection, _ := reconcile.Inspect(controller)
	for _, k := range []struct{ key, state string }{
		{"fails", "backing off"},
		{"broken", "parked"},
		{"waits", "delayed"},
		{"runs", "running"},
		{"throttled", "throttled"},
		{"paused", "held"},
		{"fine", ""},
	} {
		if k.state == "held" { // before it is added, or its run may be over first
			check(inspection.Do(ctx, reconcile.ActionPause, k.key, "its server is moved"))
		}
		check(controller.Add(k.key))
		found := await(ctx, inspection, k.key, k.state)
		fmt.Printf("%-10s %-12s %s\n", k.key, cmp.Or(found.State, "not queued"), cmp.Or(found.Error, found.Why, "-"))
	}
	// guide: end
	stop()
	fmt.Println("ended with", <-ended)
}

// await waits until the key is in the state; empty: until the queue does not know it.
func await(ctx context.Context, c reconcile.Inspection, key, state string) reconcile.KeySnapshot {
	for {
		found, known := c.Key(ctx, key)
		if known && found.State == state || !known && state == "" {
			return found
		}
		time.Sleep(time.Millisecond)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}
