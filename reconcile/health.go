package reconcile

import "cmp"

// Check is one line of a health report: how one of the things that a Manager runs is.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitempty"` // why it is not
}

// Health looks at everything that runs: at its caches and sources, at runs that are stuck, and at the store.
// Restarting the process is not always the cure for what is wrong: supervisors should
// look at Live, load balancers and rolling updates at Ready. A source whose first list has
// not ended, and has not failed, is for Ready alone: the list may be long. Package
// reconcile/web serves all three.
func (m *Manager) Health() []Check { return m.check((*member).health) }

// Live is well as long as a restart would not help, and not once a runner has ended
// with an error: Run is stopping the others then and returns,
// unless something hangs. A store that is away, a source that fails and a run that is
// stuck are no reason: they are for Health. It is what a supervisor should look at.
func (m *Manager) Live() []Check { return m.check((*member).live) }

// Ready is well from when everything that runs has synced until the context of Run ends.
func (m *Manager) Ready() []Check {
	return m.check(func(mb *member) error {
		m.mu.Lock()
		stopping := m.ctx != nil && m.ctx.Err() != nil
		m.mu.Unlock()
		if stopping {
			return cmp.Or(mb.live(), errStopping)
		}
		return mb.ready()
	})
}

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
