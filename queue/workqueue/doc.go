// Package workqueue lets code that was written for client-go's work queue run on
// a queue.Queue. Queue has the methods of client-go's TypedRateLimitingInterface
// and satisfies it by structure: neither package imports the other. It can be
// the NewQueue of a controller-runtime controller.
//
//	q, err := workqueue.New[reconcile.Request](&workqueue.Options[reconcile.Request]{Name: name, Limiter: limiter})
//
// # What is as in client-go
//
// One key never runs twice at once; added while it runs, it runs once more. An
// Add during a wait, whatever the wait is for, runs the key at once. Done does
// not end the retries: NumRequeues counts until Forget. After ShutDown adds are
// ignored and what waits for a time is dropped; Get hands out what is ready and
// then reports the shutdown. ShutDownWithDrain waits until every key is done,
// also those that become dirty meanwhile, or until ShutDown is called. Done of a
// key that is not running does nothing. Key types may hold pointers, interfaces
// and floats, as they may there.
//
// # What is not
//
// A key is in the queue once: AddAfter followed by Add runs it once, at once,
// where client-go runs it again when the timer ends. Of two AddAfter the earlier
// wins, as there.
//
// The order is that of queue.Queue: first in, first out, within a shard.
//
// There is no goroutine and nothing to leak: a queue that nobody shuts down is
// garbage like any other value. Metrics are read from Queue.Queue by package
// metrics, rather than written by a provider.
//
// # Promises
//
// New code should use queue.Queue, whose items cannot be settled wrongly, which
// keeps a failing key's backoff whatever events arrive, and needs no Forget.
// What the limiter keeps for keys that are never forgotten is not bounded; that
// is the interface's contract and the one leak this package cannot mend.
//
// # Design notes
//
// Done gets a key and not an item, so it costs a second hash and search
// (queue.Queue.DoneKey); a map from running keys to items was tried on paper and
// dropped, because it costs the same search, twice.
//
// AddRateLimited asks the caller's limiter and adds with its delay, rather than
// failing the item: the interface lets anybody call it at any time, also for a
// key that is not running, and an Add must beat the delay.
package workqueue
