package reconcile_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// ailing is a backend that can be unavailable.
type ailing struct {
	store.FullBackend
	why atomic.Pointer[store.UnavailableError]
}

func (b *ailing) Health() error {
	if err := b.why.Load(); err != nil {
		return err
	}
	return nil
}

// While the store of its leases does not answer a server does not work, whether it has
// caches or not: Health and Ready say which store, and since when.
func TestHealthSaysThatTheStoreOfTheLeasesIsUnavailable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := &ailing{FullBackend: newBackend(t)}
		p := must[lease.Placement](t)(lease.NewSingleton(b, "jobs", nil))
		m := reconcile.Manager{Placement: p}
		first := newControllerNamed(t, "one")
		if err := m.Register(first, newControllerNamed(t, "two")); err != nil { // with two it is wrapped
			t.Fatal(err)
		}
		run := start(t, &m)
		pass(time.Second)
		both := map[string]func() []reconcile.Check{"Health": m.Health, "Ready": m.Ready}
		for what, look := range both {
			if bad := notOK(look()); len(bad) > 0 {
				t.Errorf("%s: %v", what, bad)
			}
		}
		since := time.Now().Add(-time.Minute)
		b.why.Store(&store.UnavailableError{Since: since, Err: errors.New("etcd at 10.0.0.1:2379: no sign of life")})
		for what, look := range both {
			says := strings.Join(notOK(look()), "; ")
			if strings.Count(says, "10.0.0.1:2379") != 2 || !strings.Contains(says, since.Format(time.RFC3339)) {
				t.Errorf("%s: %s, want the endpoint and %v for both", what, says, since)
			}
		}
		for what, ask := range map[string]func() error{"Health": first.Health, "Ready": first.Ready} {
			if err := ask(); err == nil || !strings.Contains(err.Error(), "10.0.0.1:2379") {
				t.Errorf("%s of a controller = %v, want the endpoint", what, err)
			}
		}
		b.why.Store(nil)
		for what, look := range both {
			if bad := notOK(look()); len(bad) > 0 {
				t.Errorf("%s once it answers again: %v", what, bad)
			}
		}
		if err := run.end(); err != nil {
			t.Fatal(err)
		}
	})
}

// A store that warns, as an etcd cluster that nears its quota, serves its leases: servers that were taken
// out of service for it would help nothing.
//
// promise S7. Before, Ready of each controller with a placement failed by a warning.
func TestWarningOfTheStoreOfTheLeasesIsNoOutage(t *testing.T) {
	for name, placement := range map[string]func(store.FullBackend) (lease.Placement, error){
		"singleton": func(b store.FullBackend) (lease.Placement, error) { return lease.NewSingleton(b, "jobs", nil) },
		"manual":    func(b store.FullBackend) (lease.Placement, error) { return manual(t, b), nil },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := &warning{FullBackend: newBackend(t)}
				m := reconcile.Manager{Placement: must[lease.Placement](t)(placement(b))}
				if err := m.Register(newControllerNamed(t, "one")); err != nil {
					t.Fatal(err)
				}
				run := start(t, &m)
				pass(time.Second)
				if bad := notOK(m.Ready()); len(bad) > 0 {
					t.Errorf("Ready: %v", bad)
				}
				if says := strings.Join(notOK(m.Health()), "; "); !strings.Contains(says, "nearly full") {
					t.Errorf("Health: %s, want the warning", says)
				}
				if err := run.end(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// warning is a backend that serves, and warns.
type warning struct{ store.FullBackend }

func (*warning) Health() error { return errors.New("nearly full") }

// A host that elects by itself says that this server holds the lease, and the store does not
// take that: Health says why nothing runs.
func TestHealthSaysThatTheTermOfAHostIsNotAccepted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := &ailing{FullBackend: newBackend(t)}
		old, next := manual(t, b), manual(t, b)
		c := newController(t, record[string](nil), &reconcile.Options[string]{Placement: old})
		run := start(t, c)
		start(t, newController(t, record[string](nil), &reconcile.Options[string]{Placement: next}))
		next.Set(true, 7)
		pass(time.Second)
		if err := c.Health(); err != nil {
			t.Errorf("Health of one that does not hold the lease: %v", err)
		}
		old.Set(true, 3)
		pass(time.Second)
		for what, ask := range map[string]func() error{"Health": c.Health, "Ready": c.Ready} {
			if err := ask(); !errors.Is(err, lease.ErrStaleTerm) {
				t.Errorf("%s of one with an old term: %v, want ErrStaleTerm", what, err)
			}
		}
		old.Set(false, 3)
		pass(time.Second)
		if err := c.Health(); err != nil {
			t.Errorf("Health of one that gave up its claim: %v", err)
		}
		old.Set(true, 8)
		pass(time.Second)
		if err := c.Health(); err != nil {
			t.Errorf("Health of one with a new term: %v", err)
		}
		b.why.Store(&store.UnavailableError{Since: time.Now(), Err: errBoom})
		if err := c.Health(); !errors.Is(err, errBoom) {
			t.Errorf("Health while the store is away: %v", err)
		}
		b.why.Store(nil)
		old.Set(true, 2)
		pass(time.Second)
		if err := run.end(); err != nil {
			t.Fatal(err)
		}
		if err := old.Health(); err != nil {
			t.Errorf("Health after Run: %v", err)
		}
	})
}

func newControllerNamed(t *testing.T, name string) *reconcile.Controller[string] {
	t.Helper()
	return must[*reconcile.Controller[string]](t)(reconcile.New(name, record[string](nil), nil))
}
