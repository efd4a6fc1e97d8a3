// Package campaign is the half of the suite for backends that one process cannot show: what
// tests with several processes, broken connections and killed servers need, for an author of a
// backend beside [github.com/tendhq/tend/store/storetest].
//
//	History   clients compare and swap, and note what they were told
//	Watched   what a watcher saw, compared with the log
//	Leases    writes of holders: no token goes back
//	Trust     what servers believe of their holds: no two at a time
//	Proxy     a connection that is cut, or silent
//	Process   a process whose unexpected end fails its test (Unix)
//	Worker    a process of the test's binary that is killed, frozen and cut off (Unix)
//	Torment   what breaks Workers and the store, one thing after the other (Unix)
//
// A History gives operations for a checker of linearizability, with [Step] as its model; the
// checker itself (porcupine, in the modules of etcd and PostgreSQL) is no dependency of tend.
package campaign

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Context returns the context of t, which ends also when t has failed. What waits with it for a
// process does not wait for one that has ended, whose test [Process] has failed.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { // ends with the test
		look := time.NewTicker(20 * time.Millisecond)
		defer look.Stop()
		for !t.Failed() {
			select {
			case <-look.C:
			case <-ctx.Done():
			}
			if ctx.Err() != nil {
				return
			}
		}
		cancel(errors.New("the test has failed"))
	}()
	return ctx
}

// Until calls stop once it has lasted that long and enough has happened.
func Until(ctx context.Context, stop func(), least time.Duration, enough func() bool) {
	go func() {
		defer stop()
		for after := time.NewTimer(least); ; after.Reset(100 * time.Millisecond) {
			select {
			case <-after.C:
				if enough() {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
}
