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
// of each object, which the servers see and run, beside that of one server.
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
		fmt.Fprintln(out, "| servers | most objects | its live heap | its share and the base | quotient | CPU of all, for a change | that of one server | of others' objects read, for a change |\n|---|---|---|---|---|---|---|---|")
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
			fmt.Fprintf(out, "| %d | %d | %.1f MB | %.1f MB | %.2f | %.1f µs | %.2f | %.2f |\n",
				n, got.most, mb(got.heap), mb(share), got.heap/share, got.cpu, got.cpu/one.cpu, got.others)
		}
		return nil
	}, "-shards", fmt.Sprint(o.Shards), "-measure", o.Measure)
}

func mb(bytes float64) float64 { return bytes / 1e6 }

// figures are those of some servers.
type figures struct {
	most        int     // objects of the server that has the most
	heap        float64 // its live heap, in bytes
	cpu, others float64 // µs of all servers, and changes of others' objects that one reads, for each change
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
	before, err := ask(ctx, m.Fleet, func(all map[string]usage) bool {
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
	var cpu time.Duration
	var others uint64
	runs := objects
	for _, u := range before {
		got.most, got.heap = max(got.most, u.Objects), max(got.heap, float64(u.Heap))
		cpu, others, runs = cpu-u.CPU, others-u.Others, runs+u.Runs
	}
	m.round++
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
	last := 0
	after, err := ask(ctx, m.Fleet, func(all map[string]usage) bool {
		now := 0
		for _, u := range all {
			now += u.Runs
		}
		settled := now == last
		last = now
		return now >= runs && settled
	})
	if err != nil {
		return got, err
	}
	for _, u := range after {
		cpu, others = cpu+u.CPU, others+u.Others
	}
	got.cpu, got.others = float64(cpu.Microseconds())/float64(objects), float64(others)/float64(objects*servers)
	m.Say("%d servers, %d objects: %s", servers, objects, strings.TrimSpace(fmt.Sprintf("%+v", got)))
	return got, m.StopAll()
}
