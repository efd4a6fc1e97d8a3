package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tendhq/tend/examples/fleet"
)

// few is how many objects there are when the base is measured: what a server holds besides.
const few = 1000

// measure tells, for each number of servers on one store, the live heap of the server with
// the most, beside its share of that of one server with all; and the CPU time of one change
// of each object, which the servers see and run, beside that of one server. What servers take
// while nothing changes, for leases and for looks at the store, is told besides and is not in
// it: it grows with the time and not with the changes.
func measure(ctx context.Context, o options, out io.Writer) error {
	sizes, err := o.sizes()
	if err != nil {
		return err
	}
	if o.Objects <= few {
		return fmt.Errorf("-objects %d: want more than %d to measure", o.Objects, few)
	}
	return fleet.Show(ctx, out, o.Options, kind, func(f *fleet.Fleet, all *sites) error {
		m := &meter{Fleet: f, o: o, all: all}
		if err := create(ctx, all, 0, few, o.Bytes); err != nil {
			return err
		}
		base, err := m.with(ctx, 1, few)
		if err != nil {
			return err
		}
		if err := create(ctx, all, few, o.Objects, o.Bytes); err != nil {
			return err
		}
		fmt.Fprintf(out, "\n%s, %d objects with a text of %d bytes, %d shards; a server with %d objects: %.1f MB of live heap.\n\n",
			o.Store, o.Objects, o.Bytes, o.Shards, few, mb(base.heap))
		fmt.Fprintln(out, "| servers | most objects | its live heap | its share and the base | quotient | CPU of all, for a change | that of one server | CPU of one while idle | read by one, for a change | of others' objects |\n|---|---|---|---|---|---|---|---|---|---|")
		var one figures
		for _, n := range sizes {
			got, err := m.with(ctx, n, o.Objects)
			if err != nil {
				return err
			}
			if one.heap == 0 {
				one = got // the first, which is to be of one server
			}
			share := base.heap + float64(got.most)/float64(one.most)*max(0, one.heap-base.heap)
			fmt.Fprintf(out, "| %d | %d | %.1f MB | %.1f MB | %.2f | %.1f µs | %.2f | %.1f ms/s | %.0f B | %.2f |\n",
				n, got.most, mb(got.heap), mb(share), got.heap/share, got.cpu, got.cpu/one.cpu, got.idle, got.read, got.others)
		}
		return nil
	}, "-shards", fmt.Sprint(o.Shards), "-measure", o.Measure)
}

func mb(bytes float64) float64 { return bytes / 1e6 }

// figures are those of some servers.
type figures struct {
	most         int     // objects of the server that has the most
	heap         float64 // its live heap, in bytes
	cpu          float64 // µs of all servers, for each change
	idle         float64 // ms a second of one server, while nothing changes
	read, others float64 // bytes, and changes of others' objects, that one reads for each change
}

// idleFor is for how long it is measured what the servers take while nothing changes.
const idleFor = 3 * time.Second

type meter struct {
	*fleet.Fleet
	o     options
	all   *sites
	round int
}

// with measures with so many servers, and that many objects.
func (m *meter) with(ctx context.Context, servers, objects int) (got figures, err error) {
	if err := m.StartAll(names(servers)...); err != nil {
		return got, err
	}
	ready, err := ask(ctx, m.Fleet, askHeap, func(all map[string]usage) bool {
		held, runs := 0, 0
		for _, u := range all {
			held, runs = held+u.Objects, runs+u.Runs
			if u.Objects == 0 {
				return false
			}
		}
		return held == objects && runs >= objects && len(all) == servers
	})
	if err != nil {
		return got, err
	}
	for _, u := range ready {
		got.most, got.heap = max(got.most, u.Objects), max(got.heap, float64(u.Heap))
	}
	quiet, err := m.count(ctx)
	if err != nil {
		return got, err
	}
	select {
	case <-time.After(idleFor):
	case <-ctx.Done():
		return got, context.Cause(ctx)
	}
	before, err := m.count(ctx)
	if err != nil {
		return got, err
	}
	got.idle = (before.CPU - quiet.CPU).Seconds() * 1e3 / idleFor.Seconds() / float64(servers)
	m.round++
	began := time.Now()
	err = each(0, objects, func(i int) error {
		_, err := m.all.Mutate(ctx, siteKey(i), func(s *Site) error {
			s.Spec.Round = m.round
			return nil
		})
		return err
	})
	if err != nil {
		return got, err
	}
	after := before
	if _, err := ask(ctx, m.Fleet, askCounts, func(all map[string]usage) bool {
		last := after.Runs
		after = sum(all)
		return after.Runs >= before.Runs+objects && after.Runs == last
	}); err != nil {
		return got, err
	}
	idle := time.Duration(got.idle * float64(servers) * time.Since(began).Seconds() * float64(time.Millisecond))
	got.cpu = float64((after.CPU - before.CPU - idle).Microseconds()) / float64(objects)
	got.read = float64(after.Read-before.Read) / float64(objects*servers)
	got.others = float64(after.Others-before.Others) / float64(objects*servers)
	m.Say("%d servers, %d objects: %s", servers, objects, strings.TrimSpace(fmt.Sprintf("%+v", got)))
	return got, m.StopAll()
}

// count is what the servers have taken so far, together.
func (m *meter) count(ctx context.Context) (usage, error) {
	all, err := ask(ctx, m.Fleet, askCounts, func(map[string]usage) bool { return true })
	return sum(all), err
}

func sum(all map[string]usage) (t usage) {
	for _, u := range all {
		t.CPU, t.Read, t.Runs, t.Others = t.CPU+u.CPU, t.Read+u.Read, t.Runs+u.Runs, t.Others+u.Others
	}
	return t
}
