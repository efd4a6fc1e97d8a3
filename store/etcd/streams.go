package etcd

import (
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
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
		c, err := clientv3.New(s.cfg)
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
		_ = c.Close() // its watches end, and their hubs open them anew
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
