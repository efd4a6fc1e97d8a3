package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/program"
)

// changes counts what was done at the endpoint, and prints a line for each.
type changes struct {
	say   func(format string, args ...any)
	quiet bool // changes are counted alone

	mu      sync.Mutex // guards count and touched
	count   map[string]int
	touched func(name string) // is told of changes, or nil
}

// watch makes f hear of every bucket that is changed; nil: nothing does.
func (c *changes) watch(f func(name string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.touched = f
}

// Told is the kernel's external.Options.Changes.
func (c *changes) Told(_ context.Context, ch external.Change) {
	if ch.Err != nil {
		return // it will be tried again; a failure that stays is told as one
	}
	c.mu.Lock()
	c.count[ch.Action]++
	touched := c.touched
	c.mu.Unlock()
	switch {
	case c.quiet:
	case ch.Action == "create":
		c.say("+ %s  created", ch.Key)
	case ch.Action == "update":
		c.say("~ %s  updated: %s", ch.Key, ch.Before.Diff)
	case ch.Action == "delete":
		c.say("- %s  deleted", ch.Key)
	}
	if touched != nil && ch.Kind == kind {
		touched(ch.Key.Name)
	}
}

// String is "3 created, 0 updated, 0 deleted".
func (c *changes) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("%d created, %d updated, %d deleted", c.count["create"], c.count["update"], c.count["delete"])
}

// summary is the last thing that is printed.
func summary(p program.Progress, done *changes, calls map[string]int, took time.Duration) string {
	total := 0
	var ops []string
	for _, op := range slices.Sorted(maps.Keys(calls)) {
		total += calls[op]
		ops = append(ops, fmt.Sprintf("%s %d", op, calls[op]))
	}
	return fmt.Sprintf("%v: %v, in %v and %d calls (%s)",
		p, done, took.Round(10*time.Millisecond), total, strings.Join(ops, ", "))
}

// leftText lists what is not as declared, the first of it.
func leftText(left []string) string {
	const shown = 20
	lines := left[:min(len(left), shown)]
	if len(left) > shown {
		lines = append(slices.Clone(lines), fmt.Sprintf("and %d more", len(left)-shown))
	}
	return "  " + strings.Join(lines, "\n  ")
}
