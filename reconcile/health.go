package reconcile

import (
	"cmp"
	"io"
	"net/http"
	"slices"

	"github.com/tendhq/tend/internal/ascii"
	"github.com/tendhq/tend/internal/body"
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
// look at Live, load balancers and rolling updates at Ready. A source whose first list has
// not ended, and has not failed, is for Ready alone: the list may be long.
func (m *Manager) Health() http.Handler {
	return AllowHosts(m.checks((*member).health), m.Hosts...)
}

// Live answers 200 as long as a restart would not help, and 503 once a runner has ended
// with an error, in the form of Health: Run is stopping the others then and returns,
// unless something hangs. A store that is away, a source that fails and a run that is
// stuck are no reason: they are for Health. It is what a supervisor should look at. It answers requests for
// any host, those that [CheckHost] refuses with the status alone.
func (m *Manager) Live() http.Handler {
	return m.probe((*member).live)
}

// Ready answers 200 from when everything that runs has synced until the context of Run ends,
// and else 503, in the form of Health. It answers requests for any host, as Live does.
func (m *Manager) Ready() http.Handler {
	return m.probe(func(mb *member) error {
		m.mu.Lock()
		stopping := m.ctx != nil && m.ctx.Err() != nil
		m.mu.Unlock()
		if stopping {
			return cmp.Or(mb.live(), errStopping)
		}
		return mb.ready()
	})
}

// Checks gives the lines of Health.
func (m *Manager) Checks() []Check { return m.check((*member).health) }

func (m *Manager) check(of func(*member) error) []Check {
	members := m.present()
	list := make([]Check, 0, len(members))
	for _, mb := range members {
		m.mu.Lock()
		now := *mb
		m.mu.Unlock()
		err := of(&now)
		list = append(list, Check{Name: mb.name, OK: err == nil, Reason: textOf(err)})
	}
	return list
}

// live is why it failed, if it has: the error of one that was stopped is for the caller of
// stop.
func (mb *member) live() error {
	if mb.stopped {
		return nil
	}
	return mb.err
}

func (mb *member) health() error {
	return cmp.Or(mb.live(), healthOf(mb.Runner))
}

func (mb *member) ready() error {
	if err := mb.live(); err != nil {
		return err
	}
	if mb.done == nil {
		return errNotRunning
	}
	if cached, ok := mb.Runner.(Cached); ok && !closed(cached.Synced()) {
		return errNotSynced
	}
	if r, ok := mb.Runner.(interface{ Ready() error }); ok {
		return r.Ready()
	}
	return nil
}

// probe is checks for those that ask by any name of this server: a supervisor has to get an answer, and
// a status shows nothing.
func (m *Manager) probe(of func(*member) error) http.Handler {
	whole := AllowHosts(m.checks(of), m.Hosts...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if CheckHost(r, m.Hosts...) == nil {
			whole.ServeHTTP(w, r)
			return
		}
		body.Within(w, r, bodyTimeout) // it is not read
		status := http.StatusOK
		if slices.ContainsFunc(m.check(of), func(c Check) bool { return !c.OK }) {
			status = http.StatusServiceUnavailable
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, http.StatusText(status)+"\n") // a client that went away is no news
	})
}

func (m *Manager) checks(of func(*member) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body.Within(w, r, bodyTimeout) // it is not read
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
	})
}
