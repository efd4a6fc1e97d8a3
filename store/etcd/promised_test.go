//go:build unix

package etcd_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// A leader of etcd that stood still while another was elected ends leases, when it goes on,
// that the other one has renewed since (docs/PROMISES.md). Then two servers trust a hold on one
// shard, and neither is wrong. The campaign tells that from a server that trusts for too long:
// each says what etcd answered, read off the wire and not from the backend under test.

// tellPromises are options of a client that says on standard output until when etcd has
// promised that leases live, "promise LEASE SENT UNTIL", and which it is asked to end, "revoke
// LEASE SENT". Moments are nanoseconds of the machine's clock. A promise begins when it was asked
// for. A renewal is none before a linearizable read of the same term has followed it: a leader
// that was deposed answers renewals too.
func tellPromises() []grpc.DialOption {
	w := new(wire)
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(w.call), grpc.WithChainStreamInterceptor(w.stream)}
}

type wire struct {
	mu      sync.Mutex // guards what follows
	renewed []renewal  // that no read has confirmed yet
}

type renewal struct {
	lease, ttl     int64
	sent, answered time.Time
	term           uint64
}

func (r *renewal) tell() {
	fmt.Printf("promise %d %d %d\n", r.lease, r.sent.UnixNano(), r.sent.UnixNano()+r.ttl*int64(time.Second))
}

func (w *wire) call(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, o ...grpc.CallOption) error {
	sent := time.Now()
	if revoke, ok := req.(*pb.LeaseRevokeRequest); ok {
		fmt.Printf("revoke %d %d\n", revoke.ID, sent.UnixNano())
	}
	err := invoke(ctx, method, req, reply, cc, o...)
	if err != nil {
		return err
	}
	switch r := reply.(type) {
	case *pb.LeaseGrantResponse:
		(&renewal{lease: r.ID, ttl: r.TTL, sent: sent}).tell()
	case *pb.RangeResponse:
		if read, ok := req.(*pb.RangeRequest); ok && !read.Serializable {
			w.confirm(sent, r.Header.RaftTerm)
		}
	}
	return nil
}

// confirm tells of the renewals that had been answered before a read of the same term was sent.
func (w *wire) confirm(sent time.Time, term uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.renewed = slices.DeleteFunc(w.renewed, func(r renewal) bool {
		if r.answered.After(sent) {
			return false
		}
		if r.term == term {
			r.tell()
		}
		return true
	})
}

func (w *wire) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := open(ctx, desc, cc, method, o...)
	return &tappedStream{ClientStream: s, wire: w}, err
}

// tappedStream notes the answers of a stream that asks for one renewal after the other.
type tappedStream struct {
	grpc.ClientStream
	wire *wire
	sent time.Time
}

func (s *tappedStream) SendMsg(m any) error {
	if _, ok := m.(*pb.LeaseKeepAliveRequest); ok {
		s.sent = time.Now()
	}
	return s.ClientStream.SendMsg(m)
}

func (s *tappedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if r, ok := m.(*pb.LeaseKeepAliveResponse); ok && err == nil && r.TTL > 0 {
		s.wire.mu.Lock()
		defer s.wire.mu.Unlock()
		s.wire.renewed = append(s.wire.renewed, renewal{lease: r.ID, ttl: r.TTL, sent: s.sent, answered: time.Now(), term: r.Header.RaftTerm})
	}
	return err
}

// promises is what etcd has promised all servers. The zero value is ready.
type promises struct {
	mu     sync.Mutex        // guards the rest
	of     map[int64]promise // by lease
	leases map[uint64]int64  // of holds, by token
	broke  int
}

type promise struct {
	sent, until int64 // the last one
	revoked     int64 // when that was first sent; 0: it was not
}

// hear takes one line of a server; false: it speaks of something else.
func (p *promises) hear(line string) bool {
	var lease int64
	var told promise
	var err error
	switch word, rest, _ := strings.Cut(line, " "); word {
	case "promise":
		_, err = fmt.Sscanf(rest, "%d %d %d", &lease, &told.sent, &told.until)
	case "revoke":
		_, err = fmt.Sscanf(rest, "%d %d", &lease, &told.revoked)
	default:
		return false
	}
	if err != nil {
		return false // which Trust calls unreadable
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = make(map[int64]promise)
	}
	was := p.of[lease]
	if was.revoked != 0 && (told.revoked == 0 || was.revoked < told.revoked) {
		told.revoked = was.revoked
	}
	p.of[lease] = promise{sent: max(was.sent, told.sent), until: max(was.until, told.until), revoked: told.revoked}
	return true
}

// follow watches the records of leases until ctx ends: which hold is of which lease.
func (p *promises) follow(ctx context.Context, client *clientv3.Client, prefix string) {
	for from := int64(1); ctx.Err() == nil; {
		for r := range client.Watch(clientv3.WithRequireLeader(ctx), prefix, clientv3.WithPrefix(), clientv3.WithRev(from)) {
			for _, e := range r.Events {
				from = e.Kv.ModRevision + 1 // a member that has to read all of its history again answers no other
				if e.Type == clientv3.EventTypePut {
					p.claimed(uint64(e.Kv.CreateRevision), e.Kv.Lease)
				}
			}
		}
	}
}

func (p *promises) claimed(token uint64, lease int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leases == nil {
		p.leases = make(map[uint64]int64)
	}
	p.leases[token] = lease
}

// broken reports whether etcd had ended the lease of a hold by later, although it had promised
// more: no server had revoked it by then, and it was not renewed since, as it would be if only the
// record of the hold had been deleted.
func (p *promises) broken(token uint64, later time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	lease, known := p.leases[token]
	of := p.of[lease]
	at := later.UnixNano()
	if !known || of.revoked != 0 && of.revoked < at || of.sent >= at || of.until <= at {
		return false
	}
	p.broke++
	return true
}

// brokenSoOften counts what broken found.
func (p *promises) brokenSoOften() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.broke
}

func TestEtcdIsBlamedOnlyForAPromiseThatItBroke(t *testing.T) {
	for name, c := range map[string]struct {
		told []string
		want bool
	}{
		"it had promised more":             {[]string{"promise 7 100 300"}, true},
		"renewed once more":                {[]string{"promise 7 100 210", "promise 7 190 390"}, true},
		"told in another order":            {[]string{"promise 7 190 390", "promise 7 100 210"}, true},
		"the promise was over":             {[]string{"promise 7 100 200"}, false},
		"a server ended it":                {[]string{"promise 7 100 300", "revoke 7 199", "revoke 7 250"}, false},
		"a server ended it, told late":     {[]string{"promise 7 100 300", "revoke 7 250", "revoke 7 199"}, false},
		"a server ended what was lost":     {[]string{"promise 7 100 300", "revoke 7 201"}, true},
		"the lease is alive":               {[]string{"promise 7 100 300", "promise 7 200 400"}, false},
		"the promise is of another lease":  {[]string{"promise 8 100 300"}, false},
		"nothing is known of what it said": {nil, false},
	} {
		p := new(promises)
		p.claimed(5, 7)
		for _, line := range c.told {
			if !p.hear(line) {
				t.Fatalf("%s: not understood: %q", name, line)
			}
		}
		if got := p.broken(5, time.Unix(0, 200)); got != c.want {
			t.Errorf("%s: broken %v, want %v", name, got, c.want)
		}
		if p.broken(6, time.Unix(0, 200)) {
			t.Errorf("%s: broken for a hold of which no lease is known", name)
		}
	}
	if new(promises).hear("trust 0 5 1000 2000") {
		t.Error("took a line that speaks of a hold")
	}
}
