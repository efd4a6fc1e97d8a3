package ratelimit_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/tendhq/tend/queue/ratelimit"
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
