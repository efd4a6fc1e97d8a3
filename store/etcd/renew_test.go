//go:build unix

package etcd_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/etcd"
)

// grantThrough grants a lease, by a backend whose calls go through call.
func grantThrough(t *testing.T, call grpc.UnaryClientInterceptor) (*etcd.Backend, store.LeaseID) {
	t.Helper()
	b, err := etcd.New(clientv3.Config{
		Endpoints: []string{server}, DialTimeout: 5 * time.Second,
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(call)},
	}, &etcd.Options{Prefix: newPrefix(), Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	id, err := b.Grant(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return b.(*etcd.Backend), id
}

// A leader that stood still while another was elected answers renewals before it learns of
// that, from its memory. Their term is the old one. A server that counted them trusted its
// lease for half a second after the new leader had given it to another, in the campaign of
// leases on a machine with too much to do.
//
// promise L2; mutant: a renewal by a leader that was deposed counts
func TestRenewalByADeposedLeaderDoesNotCount(t *testing.T) {
	var elected atomic.Uint64 // leaders that the one that renews has not heard of
	later := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, o ...grpc.CallOption) error {
		err := invoke(ctx, method, req, reply, cc, o...)
		if read, ok := reply.(*pb.RangeResponse); ok && err == nil {
			if req.(*pb.RangeRequest).Serializable {
				t.Error("the read after a renewal asks no leader")
			}
			read.Header.RaftTerm += elected.Load()
		}
		return err
	}
	b, id := grantThrough(t, later)
	for _, n := range []uint64{0, 1, 0} {
		elected.Store(n)
		switch err := b.Renew(t.Context(), id); {
		case n == 0 && err != nil:
			t.Errorf("a renewal = %v", err)
		case n > 0 && (err == nil || errors.Is(err, store.ErrLeaseGone)):
			t.Errorf("a renewal by a leader of an earlier term = %v, want an error that says nothing of the lease", err)
		}
	}
}

// A member that hangs neither answers nor refuses: its connection is given up after 13 s. A server
// that waited for it lost its lease although the cluster served, and every second renewal asks it.
//
// promise L2. Negative control: mutant "a renewal waits for a member that hangs".
func TestRenewalsGoOnBesideAMemberThatHangs(t *testing.T) {
	c := startCluster(t)
	b := c.open(etcd.Options{Prefix: newPrefix(), Timeout: patience})
	var id store.LeaseID
	waitFor(t, func() (ok bool) {
		granted, err := b.Grant(t.Context(), time.Minute)
		id = granted
		return err == nil
	})
	renewed := 0
	waitFor(t, func() bool { // so that each member is connected
		if b.Renew(t.Context(), id) == nil {
			renewed++
		}
		return renewed == 10
	})
	leader := c.leader(c.members[0])
	for _, m := range c.members {
		if m != leader {
			m.Pause()
			defer m.Resume()
			break
		}
	}
	for n := range 4 { // two in a row ask each member
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		if err := b.Renew(ctx, id); err != nil {
			t.Errorf("renewal %d beside a member that hangs: %v", n, err)
		}
		cancel()
	}
}

// Of the members that are asked for a renewal one hangs. What another says counts: one that was deposed says
// nothing, and the third is asked; that the lease is gone is the answer, and is not waited with.
//
// promise L2. Negative controls: mutant "the first answer to a renewal counts, whatever it is", and with the end
// of a lease taken for an answer only if no other is awaited.
func TestRenewalCountsIfOneMemberAnswersIt(t *testing.T) {
	for name, c := range map[string]struct {
		gone  bool // the lease, when the second is asked
		want  error
		reads int64
	}{"deposed": {false, nil, 3}, "gone": {true, store.ErrLeaseGone, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var reads, id atomic.Int64
			revoke := open(t, etcd.Options{}).Revoke
			differ := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, o ...grpc.CallOption) error {
				read, ok := reply.(*pb.RangeResponse)
				if !ok {
					return invoke(ctx, method, req, reply, cc, o...)
				}
				n := reads.Add(1)
				if n == 1 {
					if c.gone {
						if err := revoke(ctx, store.LeaseID(id.Load())); err != nil {
							t.Error(err)
						}
					}
					<-ctx.Done()
					return ctx.Err()
				}
				err := invoke(ctx, method, req, reply, cc, o...)
				if n == 2 && err == nil {
					read.Header.RaftTerm++
				}
				return err
			}
			b, lease := grantThrough(t, differ)
			id.Store(int64(lease))
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			if err := b.Renew(ctx, lease); !errors.Is(err, c.want) || reads.Load() != c.reads {
				t.Errorf("the renewal = %v after %d reads, want %v after %d", err, reads.Load(), c.want, c.reads)
			}
		})
	}
}

// etcd counts whole seconds, and a holder trusts its lease for as long as it asked for: the lease
// is not shorter.
// promise L1; with the seconds cut off this lease had 90.
func TestLeaseIsNotShorterThanWasAskedFor(t *testing.T) {
	b := open(t, etcd.Options{})
	id, err := b.Grant(t.Context(), 90*time.Second+time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if !b.Shared() {
		t.Error("the leases are said to be of this process alone")
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	there, err := client.TimeToLive(t.Context(), clientv3.LeaseID(id))
	if err != nil || there.GrantedTTL != 91 {
		t.Errorf("a lease of 90.001 s has %v s, error %v, want 91", there.GrantedTTL, err)
	}
}

// A cluster that takes no writes is found out by an error of a lease, too: no commit of the service is needed.
//
// promise S7. Seen to fail with errors of leases that are not told to the health.
func TestErrorOfALeaseShowsThatNothingIsWritten(t *testing.T) {
	var full atomic.Bool
	refuse := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, o ...grpc.CallOption) error {
		if _, reads := req.(*pb.RangeRequest); full.Load() && !reads {
			return rpctypes.ErrNoSpace
		}
		return invoke(ctx, method, req, reply, cc, o...)
	}
	for name, call := range map[string]func(b *etcd.Backend, id store.LeaseID) error{
		"grant":  func(b *etcd.Backend, _ store.LeaseID) error { _, err := b.Grant(t.Context(), time.Minute); return err },
		"revoke": func(b *etcd.Backend, id store.LeaseID) error { return b.Revoke(t.Context(), id) },
	} {
		full.Store(false)
		b, id := grantThrough(t, refuse)
		full.Store(true)
		if err := call(b, id); err == nil {
			t.Fatalf("%s in a cluster that is full: %v", name, err)
		}
		waitFor(t, func() bool { return b.Health() != nil })
	}
}
