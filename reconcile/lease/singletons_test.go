package lease_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// crew is a server that runs several singletons.
type crew struct {
	*link
	name string
	runs []*server
}

// startCrew runs the singletons of these names; the ledger knows each by its place in all.
func startCrew(t *testing.T, b store.FullBackend, l *ledger, name string, all, names []string) *crew {
	t.Helper()
	return startCrewLogging(t, b, l, name, all, names, quiet)
}

func startCrewLogging(t *testing.T, b store.FullBackend, l *ledger, name string, all, names []string, log *slog.Logger) *crew {
	t.Helper()
	c := &crew{link: &link{FullBackend: b}, name: name}
	group, err := lease.NewSingletons(c.link, "job", names, &lease.Options{TTL: ttl, Server: name, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	for _, single := range names {
		id := slices.Index(all, single)
		work := func(ctx context.Context, _ int) error { return l.work(name, ttl/20)(ctx, id) }
		c.runs = append(c.runs, startPlacement(t, c.link, name, group.Placement(single), nil, work))
	}
	return c
}

func (c *crew) end() {
	for _, s := range c.runs {
		s.stop(context.Canceled)
	}
	for _, s := range c.runs {
		<-s.done
	}
}

func nine() (names []string) {
	for i := range 9 {
		names = append(names, fmt.Sprint("controller-", i))
	}
	return names
}

// The singletons of a group are spread over the servers, those of a server that dies are
// taken over by the others, and a restart of all servers moves each away and back. The
// ledger fails the test where one runs in two places.
//
// promise L1. Negative control: the mutant "shards are claimed without a compare".
func TestSingletonsAreSpreadOverTheServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		servers := map[string]*crew{}
		want := func(when string, least, most int) {
			t.Helper()
			time.Sleep(4 * ttl)
			all := 0
			for name, c := range servers {
				n := l.owners()[name]
				if all += n; c.cut.Load() == nil && (n < least || n > most) {
					t.Errorf("%s: %s has %d singletons, want %d to %d", when, name, n, least, most)
				}
			}
			if all != 9 {
				t.Errorf("%s: %d of 9 singletons run", when, all)
			}
		}
		for _, name := range []string{"a", "b", "c"} {
			servers[name] = startCrew(t, b, l, name, nine(), nine())
		}
		want("three servers", 3, 3)
		was := l.begun()
		for _, name := range []string{"a", "b", "c"} {
			servers[name].end()
			time.Sleep(ttl)
			servers[name] = startCrew(t, b, l, name, nine(), nine())
			time.Sleep(2 * ttl)
		}
		want("all were restarted", 3, 3)
		if n := l.begun() - was; n != 18 {
			t.Errorf("a restart of all servers moved singletons %d times, want 18: each away and back", n)
		}
		servers["b"].sever()
		want("one has died", 4, 5)
		servers["b"].heal()
		want("it is back", 3, 3)
		for _, c := range servers {
			c.end()
		}
	})
}

// A server on which one of the singletons does not run takes none: the others have them.
//
// promise L1. Negative control: the mutant "a server goes on with a part of its singletons".
func TestServerThatDoesNotRunAllSingletonsTakesNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		whole, part := startCrew(t, b, l, "whole", nine(), nine()), startCrew(t, b, l, "part", nine(), nine())
		time.Sleep(2 * ttl)
		if n := l.owners()["part"]; n < 4 {
			t.Errorf("the second server has %d singletons, want 4 or 5", n)
		}
		part.runs[0].end()
		time.Sleep(2 * ttl)
		if n := l.owners()["whole"]; n != 9 {
			t.Errorf("%d of 9 singletons run, after one of the second server's has stopped", n)
		}
		part.end()
		whole.end()
	})
}

// A deployment with another list of singletons, as long as the list of before, never runs one twice.
//
// promise L1. Negative control: the mutant "lists of singletons are told apart by their length".
func TestDeploymentThatRenamesASingletonRunsNoneTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := newBackend(t), newLedger(t)
		defer b.Close()
		before, after := nine(), nine()
		after[0] = "renamed" // so that each of the others has another number
		all := append(nine(), "renamed")
		old := startCrew(t, b, l, "old", all, before)
		time.Sleep(ttl)
		var log strings.Builder // read after the end of all that writes it
		next := startCrewLogging(t, b, l, "new", all, after, slog.New(slog.NewTextHandler(&log, nil)))
		time.Sleep(3 * ttl)
		if n := l.owners()["new"]; n != 0 {
			t.Errorf("the server of after has %d singletons beside one of before", n)
		}
		old.end()
		time.Sleep(3 * ttl)
		if n := l.owners()["new"]; n != 9 {
			t.Errorf("the server of after has %d singletons, want 9", n)
		}
		next.end()
		// The number that tells lists of names apart says nothing to a reader.
		if got := log.String(); strings.Count(got, "waiting for the servers with other singletons") != 1 || strings.Contains(got, "shards=") {
			t.Errorf("the server of after logged\n%s\nwant one warning that it waits, without numbers of shards", got)
		}
	})
}

func TestSingletonsRefuseListsThatAreNone(t *testing.T) {
	b := newBackend(t)
	defer b.Close()
	for _, names := range [][]string{nil, {""}, {"a", "a"}, make([]string, lease.MaxShards+1)} {
		if s, err := lease.NewSingletons(b, "job", names, nil); err == nil {
			t.Errorf("%d names are accepted: %v", len(names), s)
		}
	}
}
