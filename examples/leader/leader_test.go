package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tendhq/tend/examples/fleet"
	"github.com/tendhq/tend/examples/pgserver"
)

func TestMain(m *testing.M) {
	fleet.AsServer(main) // a process of the tests may be one
	goleak.VerifyTestMain(m)
}

// The show goes through by itself, and every event of it is told: the leader is
// killed, another one leads; that one is stopped, the next leads.
//
// promise L1. Negative control: with store.WithoutGuards around the server's
// write, and the writer stopped for longer than its lease, inOrder fails
// (TestLedgerOutOfOrderIsNoticed does that part without chance).
func TestLeadershipIsHandedOver(t *testing.T) {
	for _, shared := range []string{fleet.Etcd, fleet.Postgres} {
		t.Run(shared, func(t *testing.T) { leadershipIsHandedOver(t, fleet.Place{Store: shared}) })
	}
}

func leadershipIsHandedOver(t *testing.T, place fleet.Place) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	var out bytes.Buffer
	err := show(ctx, options{Place: place, TTL: 2 * time.Second}, &out)
	if errors.Is(err, pgserver.ErrNoBinaries) && os.Getenv("TEND_NEED_POSTGRES") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, end := range []string{"is killed (kill -9)", "is stopped in good order"} {
		was, now := leaderAfter(out.String(), end)
		if was == "" || now == "" || was == now {
			t.Errorf("%q %s, and then %q leads; want another one\n%s", was, end, now, out.String())
		}
	}
	if !strings.Contains(out.String(), "no entry by one whose time was over") {
		t.Errorf("no sum in\n%s", out.String())
	}
}

// leaderAfter finds the leader whose time ended so, and the next leader.
func leaderAfter(told, end string) (was, now string) {
	for line := range strings.Lines(told) {
		_, line, _ = strings.Cut(line, "s  ") // the time
		switch {
		case strings.Contains(line, end):
			was = line[:1]
		case was != "" && strings.Contains(line, " leads, under token "):
			return was, line[:1]
		}
	}
	return was, ""
}

func TestLedgerOutOfOrderIsNoticed(t *testing.T) {
	if err := inOrder([]Term{{"a", 3, 1}, {"b", 7, 1}}); err != nil {
		t.Error(err)
	}
	if err := inOrder([]Term{{"a", 3, 1}, {"b", 7, 1}, {"a", 3, 1}}); err == nil {
		t.Error("entries under an old token were not noticed")
	}
}
