package etcd

import (
	"context"
	"strconv"
	"strings"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
)

// streams is the connection that watches use, apart from the one for requests:
// when it has gone silent it is thrown away whole. Opening another stream on a
// dead connection would be as silent, and gRPC notices by itself only after its
// keepalive, 13 s at the best. Requests that wait on the other connection are
// not torn down with it, for that would make their outcomes unknown.
type streams struct {
	cfg clientv3.Config

	mu     sync.Mutex // guards the rest
	client *clientv3.Client
	closed bool
}

// get gives the connection of the moment.
func (s *streams) get() (*clientv3.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, clientv3.ErrNoAvailableEndpoints
	}
	if s.client == nil {
		c, err := connect(s.cfg, grpc.WithChainStreamInterceptor(openWatch))
		if err != nil {
			return nil, err
		}
		s.client = c
	}
	return s.client, nil
}

// drop throws the connection away, unless another watch has done so already.
func (s *streams) drop(c *clientv3.Client) {
	s.mu.Lock()
	mine := s.client == c
	if mine {
		s.client = nil
	}
	s.mu.Unlock()
	if mine {
		_ = c.Close() // its watches end, and their hubs open them again
	}
}

func (s *streams) close() {
	s.mu.Lock()
	c := s.client
	s.client, s.closed = nil, true
	s.mu.Unlock()
	if c != nil {
		_ = c.Close()
	}
}

// hubKey is the key of the hub in the context of its stream.
type hubKey struct{}

// openWatch makes a stream that ends when it breaks. etcd's client would open it
// again by itself, and go on after the revision it had reached: on a store that was
// restored meanwhile that is silence, or the middle of another history.
func openWatch(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	h, ok := ctx.Value(hubKey{}).(*hub)
	if !ok {
		return open(ctx, desc, cc, method, opts...)
	}
	s, err := open(ctx, desc, cc, method, append(opts, grpc.WaitForReady(false), grpc.ForceCodecV2(&slotCodec{CodecV2: encoding.GetCodecV2("proto"), hub: h}))...)
	if err != nil {
		return nil, final(err)
	}
	return &orderedStream{ClientStream: s, hub: h}, nil
}

// final gives an error a code after which etcd's client does not open a stream again.
func final(err error) error {
	switch status.Code(err) {
	case codes.Unavailable, codes.Internal:
		return status.Error(codes.Aborted, status.Convert(err).Message())
	}
	return err
}

// orderedStream leaves out what a server sends out of order. Before 3.5.8 the answer
// to a progress request may overtake changes that it says were delivered
// (etcd-io/etcd#15220): such an answer is a sign of life and nothing else. The
// progress that these servers send by themselves, every ten minutes, is in order.
type orderedStream struct {
	grpc.ClientStream
	hub *hub
}

func (s *orderedStream) RecvMsg(m any) error {
	for {
		if err := s.ClientStream.RecvMsg(m); err != nil {
			return final(err)
		}
		resp, ok := m.(*pb.WatchResponse)
		if !ok || !isAnswer(resp) || s.hub.takesAnswers() {
			return nil
		}
		s.hub.answered()
	}
}

// isAnswer reports whether resp answers a progress request: it speaks for the whole
// stream.
func isAnswer(resp *pb.WatchResponse) bool {
	return resp.WatchId == clientv3.InvalidWatchID && len(resp.Events) == 0 && !resp.Created && !resp.Canceled
}

// progressIsOrdered reports whether the server sends answers to progress requests in
// their order among the changes. Where it cannot be found out they are not trusted.
func progressIsOrdered(ctx context.Context, client *clientv3.Client) bool {
	resp, err := pb.NewMaintenanceClient(client.ActiveConnection()).Status(ctx, &pb.StatusRequest{}, grpc.WaitForReady(true))
	return err == nil && atLeast(resp.Version, 3, 5, 8)
}

// atLeast compares a version such as 3.5.21 or 3.6.0-rc.1.
func atLeast(version string, want ...int) bool {
	number, _, _ := strings.Cut(version, "-")
	parts := strings.Split(number, ".")
	for i, w := range want {
		if i == len(parts) {
			return false
		}
		n, err := strconv.Atoi(parts[i])
		if err != nil || n != w {
			return err == nil && n > w
		}
	}
	return true
}
