package ratelimit_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/tendhq/tend/queue/ratelimit"
	"golang.org/x/time/rate"
)

// A run tells the queue that a cloud asks for a pause: its key waits until then, and with it
// all keys of the bucket.
func ExampleThrottled() {
	cloud, err := ratelimit.NewBucket("eu-west-1", 10, 20)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = fmt.Errorf("list: %w", ratelimit.Throttled(cloud, time.Date(2126, 1, 1, 0, 0, 0, 0, time.UTC), errors.New("status 429")))
	fmt.Println(err)
	fmt.Println(ratelimit.IsThrottled(err))
	// Output:
	// list: eu-west-1 throttled until 2126-01-01T00:00:00Z: status 429
	// true
}

// An SDK and a queue draw on one quota. The calls of runs have their token when the run begins, and all
// others ask the limiter as before.
func ExampleFrom() {
	limiter := rate.NewLimiter(10, 2) // of the SDK
	cloud, err := ratelimit.From("eu-west-1", limiter)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("a call of the SDK:", limiter.Allow())
	for range 2 {
		refused := ratelimit.TakeAll(time.Now(), []*ratelimit.Bucket{cloud}) // as a queue does
		fmt.Println("a run:", refused == nil)
	}
	// Output:
	// a call of the SDK: true
	// a run: true
	// a run: false
}

// Calls outside of runs take tokens too, of several buckets or of none.
func ExampleTakeAll() {
	account, err := ratelimit.NewBucket("account", 100, 100)
	if err != nil {
		fmt.Println(err)
		return
	}
	region, err := ratelimit.NewBucket("region", 0.001, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		if refused := ratelimit.TakeAll(time.Now(), []*ratelimit.Bucket{account, region}); refused != nil {
			fmt.Println("no call now:", refused.Name())
			continue
		}
		fmt.Println("call")
	}
	fmt.Println(account.Stats().Taken)
	// Output:
	// call
	// no call now: region
	// 1
}
