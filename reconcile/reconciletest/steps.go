package reconciletest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

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

// Do makes call a step of the process, or two: before it and after it. It is for a client of
// your own, whose calls go neither through a store nor by HTTP (see [Steps.Backend] and
// [HTTPClient]). A killed process gets [ErrKilled]; call is not made if it died before it.
func (s *Steps) Do(name string, call func() error) error {
	if err := s.step("before " + name); err != nil {
		return err
	}
	err := call()
	return errors.Join(s.step("after "+name), err)
}

// Backend makes b's Get, List and Commit take steps. Leases of b are not
// reachable through it.
func (s *Steps) Backend(b store.Backend) store.Backend { return &aroundBackend{b, s.Do} }

// aroundBackend makes the calls of a backend through a func, with their names.
type aroundBackend struct {
	store.Backend
	around func(name string, call func() error) error
}

func (b *aroundBackend) Get(ctx context.Context, kind string, key store.Key) (r store.Record, err error) {
	err = b.around("store Get", func() (err error) { r, err = b.Backend.Get(ctx, kind, key); return err })
	return r, err
}

func (b *aroundBackend) List(ctx context.Context, kind string, o store.ListOptions) (p store.Page, err error) {
	err = b.around("store List", func() (err error) { p, err = b.Backend.List(ctx, kind, o); return err })
	return p, err
}

func (b *aroundBackend) Commit(ctx context.Context, t store.Txn) (rev store.Revision, err error) {
	err = b.around("store Commit", func() (err error) { rev, err = b.Backend.Commit(ctx, t); return err })
	return rev, err
}

// KillAtEachStep runs life once for each step that it takes, each time in a bubble of
// testing/synctest of its own, until it ends before it is killed:
//
//	reconciletest.KillAtEachStep(t, func(t *testing.T, steps *reconciletest.Steps) {
//		// the process that dies: its store is on steps.Backend(b), its client is
//		// reconciletest.HTTPClient(cloud, steps) or makes its calls in steps.Do
//		reconciletest.RunUntilIdle(t.Context(), doomed, key, time.Minute)
//		// its successor: the same without steps
//		reconciletest.RunUntilIdle(t.Context(), next, key, time.Minute)
//		// what must be true now
//	})
//
// It stops at the first life that fails, and says at which step it was killed. A life that takes no
// step fails the test: it proves nothing.
func KillAtEachStep(t *testing.T, life func(t *testing.T, steps *Steps)) {
	t.Helper()
	for kill := 1; !t.Failed(); kill++ {
		steps := &Steps{Kill: kill}
		synctest.Test(t, func(t *testing.T) {
			defer func() { // also after a Fatal
				if t.Failed() {
					t.Logf("it was killed at step %d of %q", kill, steps.Trail())
				}
			}()
			life(t, steps)
		})
		if steps.Count() == 0 {
			t.Error("reconciletest: no step was taken: neither the store nor a client went through steps")
		}
		if !steps.Dead() {
			return // all were tried
		}
	}
}
