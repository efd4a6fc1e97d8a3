package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tendhq/tend/examples/fleet"
)

// enough calls of every server show that all have their parts.
const enough = 40

// calls is a writer of a fleet's events. It keeps the servers' calls, and passes the rest on.
type calls struct {
	out io.Writer

	mu sync.Mutex // guards at
	at map[string][]int64
}

func (c *calls) Write(line []byte) (int, error) {
	server, rest, _ := strings.Cut(string(bytes.TrimSpace(line)), ": ")
	when, ok := strings.CutPrefix(rest, callLine)
	if !ok {
		return c.out.Write(line)
	}
	at, err := strconv.ParseInt(when, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("server %s: %w", server, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at[server] = append(c.at[server], at)
	return len(line), nil
}

// counts is how many calls each server has made.
func (c *calls) counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := make(map[string]int)
	for server, at := range c.at {
		counts[server] = len(at)
	}
	return counts
}

// times is when the calls of all servers were made, in order.
func (c *calls) times() []int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(func(yield func(int64) bool) {
		for _, at := range c.at {
			for _, t := range at {
				if !yield(t) {
					return
				}
			}
		}
	})
}

// fullest is the most calls in any window of two seconds, and whether that is more than
// was granted to servers of which so many were started: what the rate gives in that time,
// a burst, and one call for each server (its bucket holds no less).
func fullest(times []int64, servers int) (most int, err error) {
	const window = 2
	granted := window*perSecond + burst + servers
	first := 0
	for i, t := range times {
		for t-times[first] > int64(window*time.Second) {
			first++
		}
		most = max(most, i-first+1)
	}
	if most > granted {
		err = fmt.Errorf("%d calls in %d s, where %d are granted", most, window, granted)
	}
	return most, err
}

// show starts three servers, kills one, stops one, starts others, and adds up the calls.
func show(ctx context.Context, o options, out io.Writer) (err error) {
	made := &calls{out: out, at: make(map[string][]int64)}
	f, err := fleet.New(made, o, "-ttl", o.TTL.String())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	fmt.Fprintf(out, "Three servers, %s. %d calls a second are granted to all together.\n\n", f.Place(), perSecond)
	names := []string{"a", "b", "c"}
	if err := f.StartAll(names...); err != nil {
		return err
	}
	// Every live server makes its calls, beside the others.
	working := func(live ...string) error {
		before := made.counts()
		err := f.Await(ctx, fmt.Sprintf("calls of %s", strings.Join(live, ", ")), func() (bool, error) {
			now := made.counts()
			return !slices.ContainsFunc(live, func(name string) bool { return now[name] < before[name]+enough }), nil
		})
		if err == nil {
			now := made.counts()
			for name := range now {
				now[name] -= before[name]
			}
			f.Say("calls of each server since then: %s", listed(now))
		}
		return err
	}
	if err := working("a", "b", "c"); err != nil {
		return err
	}
	f.Say("b is killed (kill -9)")
	if err := f.Kill("b"); err != nil {
		return err
	}
	if err := working("a", "c"); err != nil {
		return err
	}
	if err := f.StartAll("d"); err != nil {
		return err
	}
	if err := working("a", "c", "d"); err != nil {
		return err
	}
	f.Say("c is stopped in good order")
	if err := f.Stop("c"); err != nil {
		return err
	}
	if err := f.StartAll("e"); err != nil {
		return err
	}
	if err := working("a", "d", "e"); err != nil {
		return err
	}
	if err := f.StopAll(); err != nil {
		return err
	}
	most, err := fullest(made.times(), 5)
	if err == nil {
		fmt.Fprintf(out, "\nAt most %d calls in any two seconds; %d a second are granted, and a burst of %d.\n", most, perSecond, burst)
	}
	return err
}

func listed(counts map[string]int) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(list, ", ")
}
