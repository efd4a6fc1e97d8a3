package main

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/tendhq/tend/reconcile/depend"
)

// A cloud holds resources by kind and name. It refuses to create one before those that it
// needs, and to delete one that others need. It is safe for concurrent use.
type cloud struct {
	// step is called before and after each call, and may refuse it. Nil: nothing is called.
	step func(what string, ref depend.Ref) error

	mu        sync.Mutex // guards what follows
	resources map[depend.Ref]resource
	users     map[depend.Ref]int // how many resources need one
	calls     map[string]int
	refused   []string // for the order
}

type resource struct {
	spec  string
	needs []depend.Ref
}

func newCloud() *cloud {
	return &cloud{resources: make(map[depend.Ref]resource), users: make(map[depend.Ref]int), calls: make(map[string]int)}
}

// called is one call; ctx that has ended refuses it, as a client of a real cloud would.
func (c *cloud) called(ctx context.Context, what string, ref depend.Ref, f func() error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if c.step != nil {
		if err := c.step("before "+what, ref); err != nil {
			return err
		}
	}
	c.mu.Lock()
	c.calls[what]++
	err := f()
	c.mu.Unlock()
	if c.step != nil {
		if err := c.step("after "+what, ref); err != nil {
			return err
		}
	}
	return err
}

func (c *cloud) get(ctx context.Context, ref depend.Ref) (r resource, exists bool, err error) {
	err = c.called(ctx, "get", ref, func() error {
		r, exists = c.resources[ref]
		return nil
	})
	return r, exists, err
}

// put creates a resource or changes it.
func (c *cloud) put(ctx context.Context, ref depend.Ref, r resource) error {
	return c.called(ctx, "put", ref, func() error {
		for _, n := range r.needs {
			if _, exists := c.resources[n]; !exists {
				return c.refuse("%s needs %s, which does not exist", ref, n)
			}
		}
		for _, n := range c.resources[ref].needs {
			c.users[n]--
		}
		for _, n := range r.needs {
			c.users[n]++
		}
		c.resources[ref] = resource{r.spec, slices.Clone(r.needs)}
		return nil
	})
}

func (c *cloud) delete(ctx context.Context, ref depend.Ref) error {
	return c.called(ctx, "delete", ref, func() error {
		if n := c.users[ref]; n > 0 {
			return c.refuse("%s is used by %d others", ref, n)
		}
		for _, n := range c.resources[ref].needs {
			c.users[n]--
		}
		delete(c.resources, ref)
		return nil
	})
}

func (c *cloud) refuse(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	c.refused = append(c.refused, err.Error())
	return err
}

func (c *cloud) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("%d resources; %d gets, %d puts and %d deletes so far, %d refused for order",
		len(c.resources), c.calls["get"], c.calls["put"], c.calls["delete"], len(c.refused))
}
