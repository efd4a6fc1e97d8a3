package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tendhq/tend/examples/fleet"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// director plays the show.
type director struct {
	*fleet.Fleet
	o     options
	sites *sites
	names []string
	last  map[store.Key]Work // as they were after the event before
	moved int                // keys, in all
	gap   time.Duration      // the longest that keys had no owner
}

// show starts three servers, does to them what happens to servers, and says what
// came of it.
func show(ctx context.Context, o options, out io.Writer) error {
	args := []string{"-shards", fmt.Sprint(o.Shards)}
	if o.Servers != defaultServers {
		args = append(args, "-servers", fmt.Sprint(o.Servers)) // a server of another version may not know it
	}
	return fleet.Show(ctx, out, o.Options, kind, func(f *fleet.Fleet, all *sites) error {
		d := &director{Fleet: f, o: o, sites: all, last: make(map[store.Key]Work)}
		fmt.Fprintf(out, "%d sites in %d shards, %d servers, %s, leases of %v.\n\n", o.Objects, o.Shards, o.Servers, f.Place(), o.TTL)
		if err := create(ctx, all, 0, o.Objects, o.Bytes); err != nil {
			return err
		}
		d.names = names(o.Servers)
		if err := f.StartAll(d.names...); err != nil {
			return err
		}
		if err := d.settle(ctx, time.Now(), d.names...); err != nil {
			return err
		}
		d.moved = 0 // they had to go somewhere
		changes, stop := d.change(ctx)
		if err := f.Play(ctx, o.For, func(n int) error { return d.round(ctx, n) }); err != nil {
			return errors.Join(err, stop())
		}
		if err := stop(); err != nil {
			return err
		}
		fmt.Fprintf(out, "\n%d sites, %d times handed over; none was written to under a hold that was over.\n", o.Objects, d.moved)
		if o.Changes > 0 {
			fmt.Fprintf(out, "Meanwhile %d changes of sites. After each event each site was in the cache of one server and of no other.\n", changes.Load())
		}
		fmt.Fprintf(out, "Longest time from an event to the beginning of the new owner's work: %.2f s.\n", d.gap.Seconds())
		return nil
	}, args...)
}

// change changes one site after another, as many in a second as -changes says, until stop.
func (d *director) change(ctx context.Context) (changes *atomic.Int64, stop func() error) {
	changes = new(atomic.Int64)
	if d.o.Changes == 0 {
		return changes, func() error { return nil }
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { // ended and waited for by stop
		tick := time.NewTicker(time.Second / time.Duration(d.o.Changes))
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				ended <- nil
				return
			case <-tick.C:
			}
			_, err := d.sites.Mutate(ctx, siteKey(i%d.o.Objects), func(s *Site) error { s.Spec.Round++; return nil })
			if err != nil && ctx.Err() == nil {
				ended <- err
				return
			}
			changes.Add(1)
		}
	}()
	return changes, func() error { cancel(); return <-ended }
}

// round kills a server, stops another in good order, and starts both again.
func (d *director) round(ctx context.Context, n int) error {
	killed, stopped := d.names[n%len(d.names)], d.names[(n+1)%len(d.names)]
	for _, event := range []struct {
		name, what string
		do         func(string) error
		joins      []string
	}{
		{killed, "is killed (kill -9)", d.Kill, nil},
		{killed, "is started again", d.Start, []string{killed}},
		{stopped, "is stopped in good order", d.Stop, nil},
		{stopped, "is started again", d.Start, []string{stopped}},
	} {
		d.Say("%s %s", event.name, event.what)
		began := time.Now()
		if err := event.do(event.name); err != nil {
			return err
		}
		if err := d.settle(ctx, began, event.joins...); err != nil {
			return err
		}
	}
	return nil
}

// settle waits until every shard has an owner that lives, the servers that joined
// have some, and every site was worked on by the owner of its shard. Then it says
// what the event moved.
func (d *director) settle(ctx context.Context, event time.Time, joined ...string) error {
	var now map[store.Key]Work
	var owners map[int]fleet.Owner
	err := d.Await(ctx, "every site to have an owner", func() (bool, error) {
		owners = d.Owners()
		shares := d.shares(owners)
		if len(owners) < d.o.Shards || slices.ContainsFunc(joined, func(name string) bool { return shares[name].shards == 0 }) {
			return false, nil
		}
		var err error
		now, err = d.look(ctx)
		if err != nil {
			return false, err
		}
		for k, w := range now {
			if w.Token != owners[d.shardOf(k)].Token {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	moved, gap := 0, time.Duration(0)
	for k, w := range now {
		if w.Token != d.last[k].Token {
			moved++
			gap = max(gap, owners[d.shardOf(k)].Since.Sub(event))
		}
	}
	d.last, d.moved, d.gap = now, d.moved+moved, max(d.gap, gap)
	d.Say("every site has its owner: %s; %d moved, the last after %.2f s", d.describe(owners), moved, gap.Seconds())
	return d.memory(ctx)
}

// memory tells what each server holds, once each holds the objects of its own shards.
func (d *director) memory(ctx context.Context) error {
	if d.o.With != "" {
		return nil // a server of another version may not answer
	}
	used, err := ask(ctx, d.Fleet, askHeap, func(all map[string]usage) bool {
		objects := 0
		for _, u := range all {
			objects += u.Objects
		}
		return objects == d.o.Objects
	})
	if err != nil {
		return err
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(used)) {
		list = append(list, fmt.Sprintf("%s %.1f MB for %d", name, float64(used[name].Heap)/1e6, used[name].Objects))
	}
	d.Say("live heap: %s", strings.Join(list, ", "))
	return nil
}

// ask asks the servers again and again, until what they answer is enough.
func ask(ctx context.Context, f *fleet.Fleet, question string, enough func(map[string]usage) bool) (map[string]usage, error) {
	for {
		answers, err := f.Ask(ctx, question)
		if err != nil {
			return nil, err
		}
		used := make(map[string]usage)
		for name, answer := range answers {
			if used[name], err = readUsage(answer); err != nil {
				return nil, fmt.Errorf("server %s: %w", name, err)
			}
		}
		if enough(used) {
			return used, nil
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// names are those of so many servers.
func names(n int) (list []string) {
	for i := range n {
		list = append(list, string(rune('a'+i)))
	}
	return list
}

func siteKey(i int) store.Key { return store.Key{Name: fmt.Sprintf("site-%07d", i)} }

// create makes the sites with these numbers.
func create(ctx context.Context, all *sites, from, to, size int) error {
	return each(from, to, func(i int) error {
		text := strings.Repeat(fmt.Sprintf("%08d", i), size/8+1)[:size]
		_, err := all.Create(ctx, &Site{Meta: store.Meta{Name: siteKey(i).Name}, Spec: Plan{Text: text}})
		return err
	})
}

// each calls do for each number, many at a time, and gives the errors.
func each(from, to int, do func(i int) error) error {
	const atATime = 64
	var wg sync.WaitGroup
	errs := make([]error, atATime)
	for w := range atATime {
		wg.Go(func() {
			for i := from + w; i < to && errs[w] == nil; i += atATime {
				errs[w] = do(i)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (d *director) shardOf(k store.Key) int { return lease.Shard(lease.HashKey(k), d.o.Shards) }

// look reads all sites. One that went back to an owner before is Wrong.
func (d *director) look(ctx context.Context) (map[store.Key]Work, error) {
	now := make(map[store.Key]Work)
	for s, err := range d.sites.All(ctx, store.Selector{}) {
		if err != nil {
			return nil, err
		}
		if err := goesOn(s.Key(), d.last[s.Key()], s.Status); err != nil {
			d.Wrong(err)
			return nil, err
		}
		now[s.Key()] = s.Status
	}
	return now, nil
}

// goesOn checks that a site was not worked on under an older hold than before.
func goesOn(k store.Key, was, is Work) error {
	if is.Token < was.Token {
		return fmt.Errorf("%v: %s worked on it under token %d, after %s had under %d", k, is.By, is.Token, was.By, was.Token)
	}
	return nil
}

// part is what one server has.
type part struct{ shards, sites int }

func (d *director) shares(owners map[int]fleet.Owner) map[string]part {
	shares := make(map[string]part)
	for _, o := range owners {
		p := shares[o.Server]
		p.shards++
		shares[o.Server] = p
	}
	for k := range d.last {
		name := owners[d.shardOf(k)].Server
		p := shares[name]
		p.sites++
		shares[name] = p
	}
	return shares
}

func (d *director) describe(owners map[int]fleet.Owner) string {
	shares := d.shares(owners)
	var list []string
	for _, name := range d.Live() {
		list = append(list, fmt.Sprintf("%s %d shards with %d", name, shares[name].shards, shares[name].sites))
	}
	return strings.Join(list, ", ")
}
