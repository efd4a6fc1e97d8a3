package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/tendhq/tend/examples/fleet"
	"github.com/tendhq/tend/store"
)

// director plays the show.
type director struct {
	*fleet.Fleet
	ledgers *ledgers
	changes []time.Duration // how long each change of leader took
}

// show starts three servers, does to them what happens to servers, and says what
// came of it.
func show(ctx context.Context, o options, out io.Writer) error {
	return fleet.Show(ctx, out, o, kind, func(f *fleet.Fleet, ledgers *ledgers) error {
		d := &director{Fleet: f, ledgers: ledgers}
		if _, err := ledgers.Create(ctx, &Ledger{Meta: store.Meta{Name: ledgerKey.Name}}); err != nil {
			return err
		}
		fmt.Fprintf(out, "Three servers, %s, leases of %v.\n\n", f.Place(), o.TTL)
		if err := f.StartAll("a", "b", "c"); err != nil {
			return err
		}
		if err := d.awaitLeader(ctx, fleet.Owner{}); err != nil {
			return err
		}
		if err := f.Play(ctx, o.For, func(int) error { return d.round(ctx) }); err != nil {
			return err
		}
		return d.sum(context.WithoutCancel(ctx), out)
	})
}

// round kills the leader, brings it back, stops the next in good order, and
// brings that back too.
func (d *director) round(ctx context.Context) error {
	for _, end := range []struct {
		how string
		do  func(name string) error
	}{
		{"is killed (kill -9)", d.Kill},
		{"is stopped in good order", d.Stop},
	} {
		leader, err := d.leader(ctx)
		if err != nil {
			return err
		}
		leader.Since = time.Now()
		d.Say("%s %s, while it leads", leader.Server, end.how)
		if err := end.do(leader.Server); err != nil {
			return err
		}
		if err := d.awaitLeader(ctx, leader); err != nil {
			return err
		}
		if err := d.Start(leader.Server); err != nil {
			return err
		}
		d.Say("%s is started again, and follows", leader.Server)
	}
	return nil
}

// leader waits until a server leads.
func (d *director) leader(ctx context.Context) (leader fleet.Owner, err error) {
	err = d.Await(ctx, "a leader", func() (led bool, _ error) {
		leader, led = d.Owners()[0]
		return led, nil
	})
	return leader, err
}

// awaitLeader waits until a server leads under another token than the one before,
// whose time ended at before.Since, and has written some entries. (On a machine
// that is busy enough a leader may lose its lease before it has; then the next
// one's count.)
func (d *director) awaitLeader(ctx context.Context, before fleet.Owner) error {
	var leader fleet.Owner
	if err := d.Await(ctx, "a leader", func() (bool, error) {
		leader = d.Owners()[0]
		return leader.Token > before.Token, nil
	}); err != nil {
		return err
	}
	if before.Token == 0 {
		d.Say("%s leads, under token %d", leader.Server, leader.Token)
	} else {
		took := leader.Since.Sub(before.Since)
		d.changes = append(d.changes, took)
		d.Say("%s leads, under token %d, after %.2f s", leader.Server, leader.Token, took.Seconds())
	}
	return d.Await(ctx, "entries of "+leader.Server, func() (bool, error) {
		l, err := d.ledgers.Get(ctx, ledgerKey)
		if err != nil {
			return false, err
		}
		return slices.ContainsFunc(l.Status.Terms, func(t Term) bool { return t.Token >= leader.Token && t.Entries >= 10 }), nil
	})
}

// sum prints the ledger, and fails if it is not in order.
func (d *director) sum(ctx context.Context, out io.Writer) error {
	l, err := d.ledgers.Get(ctx, ledgerKey)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\nThe ledger:\n\n  leader  token  entries\n")
	entries := 0
	for _, t := range l.Status.Terms {
		fmt.Fprintf(out, "  %-6s %6d %8d\n", t.Leader, t.Token, t.Entries)
		entries += t.Entries
	}
	if err := inOrder(l.Status.Terms); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%d entries by %d leaders, one after the other; no entry by one whose time was over.\n", entries, len(l.Status.Terms))
	if len(d.changes) > 0 {
		fmt.Fprintf(out, "Longest time from the end of a leader to the beginning of the next: %.2f s.\n", slices.Max(d.changes).Seconds())
	}
	return nil
}

// inOrder checks that no server wrote after the next one had led.
func inOrder(terms []Term) error {
	last := Term{}
	for _, t := range terms {
		if t.Token <= last.Token {
			return fmt.Errorf("the ledger has entries of %s under token %d after those of %s under %d", t.Leader, t.Token, last.Leader, last.Token)
		}
		last = t
	}
	return nil
}
