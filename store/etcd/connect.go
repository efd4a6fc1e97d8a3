package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// connect makes a client as cfg says, with what this package needs besides.
func connect(cfg clientv3.Config, more ...grpc.DialOption) (*clientv3.Client, error) {
	a := &attempts{place: placeOf(cfg.Endpoints)}
	params := grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: 20 * time.Second} // gRPC's own
	// gRPC waits up to two minutes before it dials again: a cluster that was away for
	// some minutes would be missed for two more.
	params.Backoff.MaxDelay = 3 * time.Second
	options := slices.Concat([]grpc.DialOption{grpc.WithConnectParams(params)}, cfg.DialOptions, more)
	cfg.DialOptions = append(options, grpc.WithChainUnaryInterceptor(a.call))
	c, err := clientv3.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	return c, nil
}

// attempts makes the calls of one client. etcd's client waits for a connection for as
// long as a call may take, which bridges a server that restarts; but while there has
// been no connection at all, the reason is most often a wrong address or certificate,
// and the call fails with it at once.
type attempts struct {
	place     string
	connected atomic.Bool // a call has reached a server
}

func (a *attempts) call(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	var to peer.Peer
	err := invoke(ctx, method, req, reply, cc, append(slices.Clip(opts), grpc.Peer(&to), grpc.WaitForReady(a.connected.Load()))...)
	switch {
	case to.Addr != nil:
		a.connected.Store(true)
		return err
	case err == nil:
		return nil
	}
	return &unsentError{place: a.place, err: err}
}

// unsentError is a call that no connection carried.
type unsentError struct {
	place string
	err   error
}

func (e *unsentError) Error() string {
	return fmt.Sprintf("no connection to %s: %s", e.place, status.Convert(e.err).Message())
}

func (e *unsentError) Unwrap() error { return e.err }

// Unreachable is for the exit code of the command tend.
func (e *unsentError) Unreachable() bool { return status.Code(e.err) != codes.Canceled }

// GRPCStatus keeps etcd's client from making the call again, as it does for
// Unavailable: gRPC has waited already, if there is something to wait for.
func (e *unsentError) GRPCStatus() *status.Status {
	if status.Code(e.err) == codes.Canceled {
		return status.New(codes.Canceled, e.Error()) // the caller gave up, or the client was closed
	}
	return status.New(codes.FailedPrecondition, e.Error())
}

// unsent reports whether err is of a call that was never sent.
func unsent(err error) bool {
	_, ok := errors.AsType[*unsentError](err)
	return ok
}
