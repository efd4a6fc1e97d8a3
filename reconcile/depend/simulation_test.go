package depend_test

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/internal/campaign"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/reconcile/reconciletest"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// simulation is a graph of things that users declare, edit and delete at random, kept by
// servers that share its keys and die; every other one by servers that hold the users of
// their own shards only. What is declared may need what is not there; three
// names, the ring, need each other in a circle.
type simulation struct {
	t       *testing.T
	r       *rand.Rand
	names   int
	shards  int // of the servers' caches of users; zero: they hold all
	backend store.Backend
	commits *counting // what the servers do
	user    *system
	servers []*server
	born    int
	busy    atomic.Bool // the cloud fails
	calm    bool        // the world stands still: servers do not die any more
	history []string
}

const (
	ring   = 3
	shards = 8
)

// server is one process.
type server struct {
	*system
	life *reconciletest.Steps
	stop func()
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	m := &simulation{t: t, r: rand.New(rand.NewPCG(seed, 0xde9)), backend: must(memory.New(nil))(t)}
	m.names = 4 + m.r.IntN(12)
	if seed%2 == 1 {
		m.shards = shards
	}
	if seed%8 == 7 {
		m.names = 300
	}
	m.commits = &counting{Backend: m.backend}
	m.user = newSystem(t, setting{backend: m.backend})
	for range 2 {
		m.begin()
	}
	return m
}

// begin begins the life of a server.
func (m *simulation) begin() {
	m.born++
	name := fmt.Sprint("server", m.born)
	v := &server{life: &reconciletest.Steps{}}
	if !m.calm && m.r.IntN(2) == 0 {
		v.life.Kill = 1 + m.r.IntN(20*m.names) // or when the user asks for it
	}
	placement := must(lease.NewSharded(m.backend, "things", shards, &lease.Options{Server: name, Logger: slog.New(slog.DiscardHandler)}))(m.t)
	v.system = newSystem(m.t, setting{
		backend: v.life.Backend(m.commits), cloud: m.user.cloud, placement: placement, shards: m.shards,
		backoff: 4 * time.Second, // so that no wait hides that an object was not woken
		fail: func(*Thing) error {
			switch {
			case v.life.Dead():
				return reconciletest.ErrKilled
			case m.busy.Load():
				return errors.New("the cloud is busy")
			}
			return nil
		},
	})
	v.stop = v.start()
	m.servers = append(m.servers, v)
}

// bury ends servers that died, or the one of the number, and puts others in their places.
func (m *simulation) bury(number int) {
	for i, v := range slices.Clone(m.servers) {
		if v.life.Dead() || i == number || m.calm && v.life.Kill > 0 {
			v.stop()
			m.servers = slices.DeleteFunc(m.servers, func(other *server) bool { return other == v })
			m.begin()
			m.note("server%d takes over", m.born)
		}
	}
}

func (m *simulation) note(format string, args ...any) {
	m.history = append(m.history, fmt.Sprintf(format, args...))
}

func (m *simulation) name(i int) string {
	if i < ring {
		return fmt.Sprint("ring", i)
	}
	return fmt.Sprint("n", i)
}

// needs are those of an object: of the ring the next one, of others some before it.
func (m *simulation) needs(i int) (names []string) {
	if i < ring {
		return []string{m.name((i + 1) % ring)}
	}
	for range m.r.IntN(4) {
		if n := m.name(m.r.IntN(i)); !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names
}

// act does one thing at random.
func (m *simulation) act() {
	i := m.r.IntN(m.names)
	name := m.name(i)
	o := m.user.get(name)
	switch n := m.r.IntN(20); {
	case n < 8 && o == nil:
		needs := m.needs(i)
		m.note("declare %s, which needs %v", name, needs)
		m.user.declare(name, needs...)
	case n < 4 && i >= ring && !o.Deleting():
		needs := m.needs(i)
		m.note("%s needs %v from now on", name, needs)
		m.user.edit(name, func(o *Thing) { o.Spec.Needs = needs })
	case n < 8:
		m.note("delete %s", name)
		m.user.remove(name)
	case n < 14 && o != nil && !o.Deleting():
		m.note("%s is not ready", name)
		_, err := m.user.store.UpdateStatus(m.t.Context(), func() *Thing { o.SetProgressing("Repair", ""); return o }())
		if !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrNotFound) {
			check(m.t, err)
		}
	case n == 14:
		m.busy.Store(!m.busy.Load())
		m.note("the cloud fails: %v", m.busy.Load())
	case n == 15:
		m.note("a server is stopped")
		m.bury(m.r.IntN(len(m.servers)))
	}
}

// run does acts, and then gives the servers the time that they need.
func (m *simulation) run(acts int) error {
	for range acts {
		m.act()
		before := m.runs()
		pause := time.Duration(m.r.IntN(3000)) * time.Millisecond
		time.Sleep(pause)
		synctest.Wait()
		m.bury(-1)
		if err := m.refused(); err != nil {
			return err
		}
		// Everything may run for the one act, be handed over, and be retried each second.
		if n := m.runs() - before; n > 40*m.names {
			return fmt.Errorf("%d runs of %d objects in %v: it spins", n, m.names, pause)
		}
	}
	m.busy.Store(false)
	m.note("the world stands still")
	m.calm = true
	m.bury(-1)
	synctest.Wait()
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	if err := errors.Join(m.refused(), m.asDeclared()); err != nil {
		return err
	}
	return m.silent()
}

func (m *simulation) runs() (n int) {
	for _, v := range m.servers {
		v.mu.Lock()
		for _, k := range v.runs {
			n += k
		}
		v.mu.Unlock()
	}
	return n
}

func (m *simulation) refused() error {
	c := m.user.cloud
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.refused) > 0 {
		return fmt.Errorf("the cloud refused: %v", c.refused)
	}
	return nil
}

// silent says that nothing runs and nothing is written when nothing changes.
func (m *simulation) silent() error {
	runs, commits := m.runs(), m.commits.commits.Load()
	time.Sleep(10 * time.Minute)
	synctest.Wait()
	if runs, commits := m.runs()-runs, m.commits.commits.Load()-commits; runs > 0 || commits > 0 {
		return fmt.Errorf("%d runs and %d commits in ten minutes in which nothing changed", runs, commits)
	}
	return nil
}

// asDeclared is the rule, by brute force: what has all that it needs is ready and there;
// what has not, and is not ready, says so; what is in deletion is there for a user that
// holds it.
func (m *simulation) asDeclared() error {
	all, err := m.user.store.List(m.t.Context(), store.Selector{})
	if err != nil {
		return err
	}
	byName, held := make(map[string]*Thing), ""
	for _, o := range all {
		byName[o.Name] = o
		held += o.Annotations[depend.HoldsAnnotation]
	}
	c := m.user.cloud
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range all {
		met := !slices.ContainsFunc(o.Spec.Needs, func(n string) bool {
			need := byName[n]
			return need == nil || need.Deleting() || !need.Ready()
		})
		waits, _ := o.Condition(depend.ConditionDependencies)
		needs, there := c.there[o.Name]
		switch {
		case o.Deleting() && !strings.Contains(held, `"=thing/`+o.Name+`"`):
			return fmt.Errorf("%s is kept in deletion, and nothing holds it: %v", o.Name, o.Finalizers)
		case o.Deleting():
		case met && (!o.Ready() || !there || !slices.Equal(needs, o.Spec.Needs)):
			return fmt.Errorf("%s has all that it needs and is not as declared: %+v; there %v with %v", o.Name, o.Conditions, there, needs)
		case !met && !o.Ready() && waits.Status != store.False:
			return fmt.Errorf("%s waits and does not say so: %+v", o.Name, o.Conditions)
		}
	}
	for name := range c.there {
		if byName[name] == nil {
			return fmt.Errorf("the resource of %s is left behind", name)
		}
	}
	return nil
}

// tearDown deletes everything, in a random order, and wants nothing to be left.
func (m *simulation) tearDown() error {
	m.note("everything is deleted")
	for _, i := range m.r.Perm(m.names) {
		m.user.remove(m.name(i))
	}
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	all, err := m.user.store.List(m.t.Context(), store.Selector{})
	if err != nil {
		return err
	}
	for _, o := range all {
		return fmt.Errorf("%d objects are left, such as %s: %v %+v", len(all), o.Name, o.Finalizers, o.Conditions)
	}
	if n := m.user.cloud.len(); n > 0 {
		return fmt.Errorf("%d resources are left", n)
	}
	return m.refused()
}

// Random graphs, small and large, kept by two servers that die and share the keys by
// sharded leases, while objects are declared, edited, deleted and declared again, become
// unready, and the cloud fails: the cloud never refuses a call for its order, nothing
// spins; when the world stands still all is as declared or says what it waits for, and
// nothing runs any more; and all is torn down.
//
// Controls: the mutants "created before its need, seen by the simulation", "deleted under
// its user, seen by the simulation", "never woken, seen by the simulation" and "woken and
// spinning, seen by the simulation".
//
// promise R4, promise E2
func TestSimulatedGraphsEndAsDeclared(t *testing.T) {
	for seed := range campaign.Seeds(t, campaign.Sized(20, 4), campaign.Length()) {
		synctest.Test(t, func(t *testing.T) {
			m := newSimulation(t, seed)
			acts := 50 + m.names
			err := m.run(acts)
			if err == nil {
				err = m.tearDown()
			}
			if err != nil {
				t.Errorf("seed %d: %v\n%d objects; the last acts:\n%s", seed, err, m.names, strings.Join(m.history[max(0, len(m.history)-40):], "\n"))
			}
			for _, v := range m.servers {
				v.stop()
			}
			t.Logf("campaign: %d operations", acts)
		})
	}
}
