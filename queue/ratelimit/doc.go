// Package ratelimit is what a cloud allows: named token buckets, which the queues of a
// process share, and the error with which a run says that a cloud takes no calls for a
// while.
//
//	cloud, err := ratelimit.NewBucket("eu-west-1", 10, 20) // 10 calls a second, at most 20 at once
//	…
//	options.Queue.Buckets = func(_ string, dst []*ratelimit.Bucket) []*ratelimit.Bucket {
//		return append(dst, cloud)
//	}
//	…
//	return reconcile.Result{}, ratelimit.Throttled(cloud, retryAfter, err) // from a run
//
// A queue takes a token when a run begins and never before, so that nothing queues up a
// debt: rate limiters that reserve ahead of time, as golang.org/x/time/rate and so client-go's
// queue, keep the reservations of keys that were deduplicated or failed early. Keys without a
// token wait in the queue and hold up no worker and no key of another bucket.
//
// An HTTP client or SDK that has a [rate.Limiter] shares it with a queue: From makes a bucket of it. Tokens
// of every bucket lie in a rate.Limiter; what it cannot do is beside it: tokens given back, pauses, and a
// debt beyond its burst.
//
// Package reconcile/quota builds on it: quotas by account and region, calls that are counted
// where they are made, limits that adapt.
package ratelimit
