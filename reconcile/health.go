package reconcile

import (
	"net/http"

	"github.com/tendhq/tend/internal/ascii"
	"github.com/tendhq/tend/store"
)

// Check is one line of a health report.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitempty"` // why it is not
}

// Health answers 200 if nothing is wrong and 503 otherwise, with every check and
// its reason as JSON: {"ok":false,"checks":[{"name":"buckets","ok":false,"reason":…}]}.
// Restarting the process is not always the cure for what is wrong: supervisors should
// look at Live, load balancers and rolling updates at Ready.
func (m *Manager) Health() http.Handler {
	return m.checks((*member).health)
}

// Live answers 200 as long as a restart would not help, and 503 once a runner has ended
// with an error, in the form of Health: Run is stopping the others then and returns,
// unless something hangs. A store that is away, a source that fails and a run that is
// stuck are no reason: they are for Health. It is what a supervisor should look at.
func (m *Manager) Live() http.Handler {
	return m.checks((*member).live)
}

// Ready answers 200 once everything that runs has synced, and 503 until then,
// in the form of Health.
func (m *Manager) Ready() http.Handler {
	return m.checks((*member).ready)
}

// Checks gives the lines of Health.
func (m *Manager) Checks() []Check { return m.check((*member).health) }

func (m *Manager) check(of func(*member) error) []Check {
	m.mu.Lock()
	members := m.members
	m.mu.Unlock()
	list := make([]Check, 0, len(members))
	for _, mb := range members {
		list = append(list, checked(mb, of))
		if c, ok := mb.Runner.(controller); ok {
			for _, cached := range c.ownedCaches() {
				own := &member{Runner: cached, name: nameOf(cached, 0), mu: &m.mu}
				own.state, _ = mb.status()
				list = append(list, checked(own, of))
			}
		}
	}
	return list
}

func checked(mb *member, of func(*member) error) Check {
	if err := of(mb); err != nil {
		return Check{Name: mb.name, Reason: store.Clip(err.Error())}
	}
	return Check{Name: mb.name, OK: true}
}

// placement is what the placement of a controller says of the store that its leases
// are kept in.
func (mb *member) placement() error {
	c, ok := mb.Runner.(controller)
	if !ok {
		return nil
	}
	return healthOf(ungrouped(c.placementOf()))
}

func (mb *member) live() error {
	_, err := mb.status()
	return err
}

func (mb *member) health() error {
	if _, err := mb.status(); err != nil {
		return err
	}
	if err := mb.placement(); err != nil {
		return err
	}
	return healthOf(mb.Runner)
}

func (mb *member) ready() error {
	state, err := mb.status()
	switch {
	case err != nil:
		return err
	case state == "waiting":
		return errNotRunning
	}
	if err := mb.placement(); err != nil {
		return err
	}
	if cached, ok := mb.Runner.(Cached); ok {
		select {
		case <-cached.Synced():
		default:
			return errNotSynced
		}
	}
	if r, ok := mb.Runner.(interface{ Ready() error }); ok {
		return r.Ready()
	}
	return nil
}

func (m *Manager) checks(of func(*member) error) http.Handler {
	return AllowHosts(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		report := struct {
			OK     bool    `json:"ok"`
			Checks []Check `json:"checks"`
		}{OK: true, Checks: m.check(of)}
		for _, c := range report.Checks {
			report.OK = report.OK && c.OK
		}
		w.Header().Set("Content-Type", "application/json")
		if !report.OK {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = ascii.EncodeJSON(w, report, "") // a client that went away is no news
	}), m.Hosts...)
}
