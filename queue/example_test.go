package queue_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/queue/ratelimit"
)

func Example() {
	q, err := queue.New(&queue.Options[string]{
		Name:   "buckets",
		Shards: 1, // one order, so that the output is always the same
		Policy: queue.Backoff{Base: 10 * time.Millisecond, NoJitter: true}.Policy(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()

	q.Add("logs")
	q.Add("logs") // once is enough
	q.AddWith("backups", queue.AddOptions{Priority: queue.At(10), Reason: "spec changed"})

	for range 3 {
		item, err := q.Get(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(item.Key, "attempt", item.Attempt)
		if item.Key == "logs" && item.Attempt == 0 {
			item.Retry(errors.New("the cloud is down"), 0)
			q.Add("logs") // an ordinary event does not shorten the backoff
			fmt.Println(q)
			continue
		}
		item.Done()
	}
	fmt.Println(q.Stop(ctx))
	// Output:
	// backups attempt 0
	// logs attempt 0
	// buckets: 0 ready, 0 delayed, 1 backing off, 0 throttled, 0 held, 0 running, 0 parked
	// logs attempt 1
	// <nil>
}

// A bucket is a quota that runs share. A cloud that asks to be left alone pauses
// it for all of them.
func ExampleOptions_buckets() {
	quota, err := ratelimit.NewBucket("eu-west-1", 1000, 10)
	if err != nil {
		fmt.Println(err)
		return
	}
	q, err := queue.New(&queue.Options[string]{
		Shards: 1, // one order for all keys, for what is printed below
		Buckets: func(key string, dst []*ratelimit.Bucket) []*ratelimit.Bucket {
			if key == "report" {
				return dst // it calls no cloud
			}
			return append(dst, quota)
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	q.Add("logs")
	item, _ := q.Get(context.Background())
	item.Retry(ratelimit.Throttled(quota, time.Now().Add(time.Hour), nil), 0)

	q.Add("backups") // shares the quota
	q.Add("report")
	item, _ = q.Get(context.Background())
	fmt.Println("next is", item.Key)
	for e := range q.Snapshot() {
		if e.Key == "backups" {
			fmt.Println(e.Key, e.State, "-", e.Why)
		}
	}
	// Output:
	// next is report
	// backups throttled - throttled by eu-west-1
}

// Tenants take turns: one with a thousand keys delays another's by one key, and never has more
// than TenantRunning of them at once.
func ExampleOptions_tenant() {
	q, err := queue.New(&queue.Options[string]{
		Tenant:        func(key string) string { return key[:1] }, // for a store.Key, its Namespace
		TenantRunning: 2,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, key := range []string{"a1", "a2", "a3", "a4", "b1", "b2"} {
		q.Add(key)
	}
	for range 4 {
		item, _ := q.Get(context.Background())
		fmt.Println(item.Key)
	}
	fmt.Println(q.Stats().Of(queue.StateReady).Keys, "keys wait, and a worker too until a run of a ends")
	// Output:
	// a1
	// b1
	// a2
	// b2
	// 2 keys wait, and a worker too until a run of a ends
}
