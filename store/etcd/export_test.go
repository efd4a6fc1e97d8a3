//go:build unix

package etcd

import (
	"context"
	"io"
	"log/slog"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/tendhq/tend/store"
)

// AtLeast and ProgressIsOrdered are the package's own.
var (
	AtLeast           = atLeast
	ProgressIsOrdered = progressIsOrdered
)

// Deliver gives what the watch of a kind gets to see of a stream of responses from a
// server whose answers to progress requests are ordered, or are not.
func Deliver(ordered bool, responses ...*pb.WatchResponse) (delivered []*pb.WatchResponse) {
	h := newHub(&backend{health: &health{ill: make(map[*hub]*store.UnavailableError)}}, "thing")
	h.ordered, h.alarm = ordered, time.NewTimer(time.Hour)
	defer h.alarm.Stop()
	s := &orderedStream{ClientStream: &recorded{responses: responses}, hub: h}
	for {
		resp := new(pb.WatchResponse)
		if s.RecvMsg(resp) != nil {
			return delivered
		}
		delivered = append(delivered, resp)
	}
}

// recorded is a stream of responses, and then its end.
type recorded struct {
	grpc.ClientStream
	responses []*pb.WatchResponse
}

func (r *recorded) RecvMsg(m any) error {
	if len(r.responses) == 0 {
		return io.EOF
	}
	to := m.(*pb.WatchResponse)
	to.Header, to.WatchId, to.Events = r.responses[0].Header, r.responses[0].WatchId, r.responses[0].Events
	r.responses = r.responses[1:]
	return nil
}

// InFlight and Queued look into the batcher.
func (b *backend) InFlight() int {
	b.batch.mu.Lock()
	defer b.batch.mu.Unlock()
	return b.batch.sending
}

func (b *backend) Queued() int {
	b.batch.mu.Lock()
	defer b.batch.mu.Unlock()
	return len(b.batch.queue)
}

// Hubs counts the kinds with a stream.
func (b *backend) Hubs() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.hubs)
}

// Resume reports whether a watch of a kind after a revision shares the kind's stream, which is
// there.
func (b *backend) Resume(ctx context.Context, kind string, after store.Revision) (shares bool, err error) {
	b.mu.Lock()
	w := &watcher{h: b.hubs[kind], slots: store.AllSlots(), at: after}
	b.mu.Unlock()
	stop, err := w.resume(ctx)
	w.h.leave(w)
	if stop != nil {
		stop()
	}
	return stop == nil, err
}

// Prefix is the prefix in use.
func (b *backend) Prefix() string { return b.opts.Prefix }

// Unhealthy counts the streams whose server does not answer.
func (b *backend) Unhealthy() int {
	b.health.mu.Lock()
	defer b.health.mu.Unlock()
	return len(b.health.ill)
}

func (o *Options) SetBatch(v int) *Options {
	o.batch = v
	return o
}

func (o *Options) SetInFlight(v int) *Options {
	o.inFlight = v
	return o
}

func (o *Options) SetSilence(v time.Duration) *Options {
	o.silence = v
	return o
}

func (o *Options) SetFirstLook(v time.Duration) *Options {
	o.firstLook = v
	return o
}

func (o *Options) SetLogger(v *slog.Logger) *Options {
	o.logger = v
	return o
}

type Backend = backend
