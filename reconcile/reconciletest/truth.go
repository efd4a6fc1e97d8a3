package reconciletest

import (
	"fmt"
	"time"
)

// What follows stands behind the cloud's API: for the test, not for the code
// that is tested. It costs no calls, meets no faults and knows no lag.

// Truth is every resource that there is, by id, whatever reads show. One whose
// slow delete is going on is among them.
func (c *Cloud) Truth() []Resource {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []Resource
	for _, id := range c.orderedLocked() {
		if r, ok := c.trueLocked(id, time.Now()); ok {
			all = append(all, r)
		}
	}
	return all
}

// Peek is one resource as it truly is; the zero Resource if there is none.
func (c *Cloud) Peek(id string) Resource {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.trueLocked(id, time.Now())
	if !ok {
		return Resource{}
	}
	return r
}

// Calls is how often an operation (Create, Get, Update, Delete, List) was
// called, with effect or without. "refused" counts those beyond the quota.
// Another op panics: a test that asks for it would see 0 calls whatever was called.
func (c *Cloud) Calls(op string) int {
	switch op {
	case "Create", "Get", "Update", "Delete", "List", "refused":
	default:
		panic(fmt.Sprintf("reconciletest: no operation %q; there are Create, Get, Update, Delete, List and refused", op))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[op]
}

// TotalCalls is the number of calls of every kind.
func (c *Cloud) TotalCalls() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := -c.calls["refused"] // they were counted under their own names too
	for _, k := range c.calls {
		n += k
	}
	return n
}

// Heal ends the random faults: Errors, Lost and BrokenPages. Lag, latency,
// quota and slow deletes stay, for they are no faults.
func (c *Cloud) Heal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.healed = true
}

// Relapse lets the random faults begin again after Heal.
func (c *Cloud) Relapse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.healed = false
}

// Grant changes how much of its quotas the cloud grants, from 0, nothing, to 1, as it
// was made. It tells its users nothing of it but by refusing calls.
func (c *Cloud) Grant(part float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for _, a := range []*allowance{&c.all, &c.reads, &c.writes} {
		a.fill(now, c.part)
	}
	c.part = max(part, 1e-9)
}

// Put places a resource behind the API's back, or replaces the one with its
// id. An empty id is filled in as Create would. It is visible at once.
func (c *Cloud) Put(r Resource) Resource {
	c.mu.Lock()
	defer c.mu.Unlock()
	r = r.clone()
	r.Deleting = false
	if r.ID == "" && c.o.UniqueNames {
		r.ID = r.Name
	}
	if r.ID == "" {
		c.serial++
		r.ID = fmt.Sprintf("r-%06d", c.serial)
	}
	c.putLocked(r.ID, &thing{versions: []version{{Resource: r}}})
	return r.clone()
}

// Remove takes a resource away behind the API's back and says whether it was
// there. Reads see it gone at once.
func (c *Cloud) Remove(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.trueLocked(id, time.Now())
	delete(c.things, id)
	return ok
}

// Drift does n random alterations behind the API's back: half of them remove a
// resource, the others write nonsense into its Props. What is being deleted is
// left alone. It returns one line for each.
func (c *Cloud) Drift(n int) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var done []string
	for range n {
		ids := c.orderedLocked()
		if len(ids) == 0 {
			break
		}
		id := ids[c.random.IntN(len(ids))]
		r, ok := c.trueLocked(id, time.Now())
		switch {
		case !ok || r.Deleting:
			continue
		case c.random.IntN(2) == 0:
			delete(c.things, id)
			done = append(done, "removed "+id)
		default:
			r.Props = map[string]string{"drift": fmt.Sprint(c.random.Uint32())}
			c.things[id] = &thing{versions: []version{{Resource: r}}}
			done = append(done, "altered "+id)
		}
	}
	return done
}

// Writes is how many calls asked for a change, with effect or without.
func (c *Cloud) Writes() int { return c.Calls("Create") + c.Calls("Update") + c.Calls("Delete") }
