package reconciletest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tendhq/tend/store"
)

// ErrKilled is what everything answers once [Steps] has killed the process.
var ErrKilled = errors.New("reconciletest: the process is dead")

// Steps numbers the moments at which a process can die: before and after each
// call to the store and to the cloud. A test runs once to count them, then once
// for each, killing there:
//
//	1 before store Get · 2 after store Get · 3 before cloud Get · …
//
// What is killed goes on running for a little while, as goroutines do, but
// nothing it does has any effect: every later call is [ErrKilled]. To the store
// and the cloud that is what kill -9 looks like.
//
// The zero value kills nothing; so does a nil *Steps. Safe for concurrent use,
// but the numbering is the same in every run only with one worker.
type Steps struct {
	// Kill is the number of the step at which the process dies; zero: never.
	Kill int
	// At, if set, is called at every step with its number, and may cancel a
	// context or fail the test.
	At func(n int, name string)

	mu    sync.Mutex // guards what follows; not held while At runs
	n     int
	dead  bool
	trail []string
}

// Count is the number of steps taken.
func (s *Steps) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// Dead reports whether the process was killed.
func (s *Steps) Dead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead
}

// Trail is the names of the steps taken, in order: what to print when a test
// fails.
func (s *Steps) Trail() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.trail...)
}

func (s *Steps) step(name string) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	if s.dead {
		s.mu.Unlock()
		return ErrKilled
	}
	s.n++
	n := s.n
	s.trail = append(s.trail, fmt.Sprintf("%d %s", n, name))
	s.dead = n == s.Kill
	dead := s.dead
	s.mu.Unlock()
	if s.At != nil {
		s.At(n, name)
	}
	if dead {
		return ErrKilled
	}
	return nil
}

// Through makes every later call to the cloud take steps; nil: none.
func (c *Cloud) Through(s *Steps) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steps = s
}

// Backend makes b's Get, List and Commit take steps. Leases of b are not
// reachable through it.
func (s *Steps) Backend(b store.Backend) store.Backend { return &steppedBackend{b, s} }

type steppedBackend struct {
	store.Backend
	steps *Steps
}

func (b *steppedBackend) Get(ctx context.Context, kind string, key store.Key) (store.Record, error) {
	if err := b.steps.step("before store Get"); err != nil {
		return store.Record{}, err
	}
	r, err := b.Backend.Get(ctx, kind, key)
	return r, errors.Join(b.steps.step("after store Get"), err)
}

func (b *steppedBackend) List(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
	if err := b.steps.step("before store List"); err != nil {
		return store.Page{}, err
	}
	p, err := b.Backend.List(ctx, kind, o)
	return p, errors.Join(b.steps.step("after store List"), err)
}

func (b *steppedBackend) Commit(ctx context.Context, t store.Txn) (store.Revision, error) {
	if err := b.steps.step("before store Commit"); err != nil {
		return 0, err
	}
	rev, err := b.Backend.Commit(ctx, t)
	return rev, errors.Join(b.steps.step("after store Commit"), err)
}
