package reconcile

import (
	"context"
	"fmt"

	"github.com/tendhq/tend/queue"
)

// Chan adds every key that is sent on ch. It is synced at once. It never waits
// for a reconcile, so a sender waits for the source's goroutine at most, however
// busy the workers are; keys coalesce in the queue. Only a queue with MaxKeys that
// is full makes it wait. Closing ch ends the source, which is reported. ch must have no
// other reader. Watch refuses a nil one.
func Chan[K comparable](name string, ch <-chan K) Source[K] {
	if ch == nil {
		return Source[K]{Name: name, bad: fmt.Errorf("Chan(%q): no channel", name)}
	}
	return Source[K]{Name: name, Run: func(ctx context.Context, to Sink[K]) error {
		to.Synced()
		out := outletOf(to)
		again := out.Again()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-again: // there is nothing to list
				out.Gained()
			case key, ok := <-ch:
				if !ok {
					return nil // the feed reports it
				}
				if err := AddWaiting(ctx, to, key, queue.AddOptions{Priority: bandLive}); err != nil {
					return err
				}
			}
		}
	}}
}
