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
// the most, beside its share of that of one server with all; the CPU time of the start, until
// each object was listed and run, for an object; and that of changes, which the servers see and
// run, beside that of one server. What servers take while nothing changes, for leases and for
// looks at the store, is told besides and is not in it: it grows with the time and not with the
// changes.
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
		fmt.Fprintln(out, "| servers | most objects | its live heap | its share and the base | quotient | CPU of all to start, for an object | times one server's | CPU of all, for a change | times one server's | of one, times its share, at most | changes a second | CPU of one while idle | read by one, for a change | of others' objects |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
		var one figures
		for _, n := range sizes {
			got, err := m.with(ctx, n, o.Objects)
			if err != nil {
				return err
			}
			if one.heap == 0 {
				one = got // the first, which is of one server
			}
			share := base.heap + float64(got.most)/float64(one.most)*max(0, one.heap-base.heap)
			fmt.Fprintf(out, "| %d | %d | %.1f MB | %.1f MB | %.2f | %.1f µs | %.2f | %.1f µs | %.2f | %.2f | %.0f | %.1f ms/s | %.0f B | %.2f |\n",
				n, got.most, mb(got.heap), mb(share), got.heap/share, got.start, got.start/one.start,
				got.cpu, got.cpu/one.cpu, got.part/one.cpu, got.rate, got.idle, got.read, got.others)
		}
		return nil
	}, "-shards", fmt.Sprint(o.Shards), "-measure", o.Measure)
}

func mb(bytes float64) float64 { return bytes / 1e6 }

// figures are those of some servers.
type figures struct {
	most         int     // objects of the server that has the most
	heap         float64 // its live heap, in bytes
	start        float64 // µs of all servers, for each object, until all are run
	cpu          float64 // µs of all servers, for each change
	part         float64 // µs of the server that takes most for its part, for each change of its objects
	rate         float64 // changes a second
	idle         float64 // ms a second of one server, while nothing changes
	read, others float64 // bytes, and changes of others' objects, that one reads for each change
}

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
	ready, err := ask(ctx, m.Fleet, askCounts, func(all map[string]usage) bool {
		t := sum(all)
		return t.Objects == objects && t.Runs >= objects && len(all) == servers && !idles(all)
	})
	if err != nil {
		return got, err
	}
	got.start = micros(sum(ready).CPU) / float64(objects)
	anything := func(map[string]usage) bool { return true }
	held, err := ask(ctx, m.Fleet, askHeap, anything)
	if err != nil {
		return got, err
	}
	for _, u := range held {
		got.most, got.heap = max(got.most, u.Objects), max(got.heap, float64(u.Heap))
	}
	quiet, err := ask(ctx, m.Fleet, askCounts, anything)
	if err != nil {
		return got, err
	}
	select {
	case <-time.After(m.o.Idle):
	case <-ctx.Done():
		return got, context.Cause(ctx)
	}
	before, err := ask(ctx, m.Fleet, askCounts, anything)
	if err != nil {
		return got, err
	}
	got.idle = (sum(before).CPU - sum(quiet).CPU).Seconds() * 1e3 / m.o.Idle.Seconds() / float64(servers)
	m.round++
	changes := objects
	if m.o.Changed > 0 {
		changes = min(objects, m.o.Changed)
	}
	began := time.Now()
	err = each(0, changes, func(i int) error {
		_, err := m.all.Mutate(ctx, siteKey(i), func(s *Site) error {
			s.Spec.Round = m.round
			return nil
		})
		return err
	})
	if err != nil {
		return got, err
	}
	last := 0
	after, err := ask(ctx, m.Fleet, askCounts, func(all map[string]usage) bool {
		was := last
		last = sum(all).Runs
		return last >= sum(before).Runs+changes && last == was
	})
	if err != nil {
		return got, err
	}
	took := time.Since(began).Seconds()
	got.rate = float64(changes) / took
	idle := time.Duration(got.idle * took * float64(time.Millisecond)) // of one
	for name, u := range after {
		cpu := micros(u.CPU-before[name].CPU-idle) / float64(changes)
		got.cpu += cpu
		got.part = max(got.part, cpu*float64(objects)/float64(u.Objects))
	}
	got.read = float64(sum(after).Read-sum(before).Read) / float64(changes*servers)
	got.others = float64(sum(after).Others-sum(before).Others) / float64(changes*servers)
	m.Say("%d servers, %d objects: %s", servers, objects, strings.TrimSpace(fmt.Sprintf("%+v", got)))
	return got, m.StopAll()
}

func micros(d time.Duration) float64 { return d.Seconds() * 1e6 }

// idles reports whether a server has no objects.
func idles(all map[string]usage) bool {
	for _, u := range all {
		if u.Objects == 0 {
			return true
		}
	}
	return false
}

func sum(all map[string]usage) (t usage) {
	for _, u := range all {
		t.CPU, t.Read, t.Objects, t.Runs, t.Others = t.CPU+u.CPU, t.Read+u.Read, t.Objects+u.Objects, t.Runs+u.Runs, t.Others+u.Others
	}
	return t
}
