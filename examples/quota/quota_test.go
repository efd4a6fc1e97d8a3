package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tendhq/tend/examples/fleet"
	"github.com/tendhq/tend/examples/pgserver"
)

func TestMain(m *testing.M) { fleet.TestMain(m, main) } // a process of the tests may be a server

// Negative control: with quota.Options.Members left out of the servers, each takes the
// whole, and the show fails.
func TestServersTogetherStayWithinTheGrant(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	var out bytes.Buffer
	err := show(ctx, options{Place: fleet.Place{Store: fleet.Postgres}, TTL: time.Second}, &out)
	if errors.Is(err, pgserver.ErrNoBinaries) && os.Getenv("TEND_NEED_POSTGRES") == "" {
		t.Skip(err)
	}
	if err != nil || !strings.Contains(out.String(), "in any two seconds") {
		t.Fatalf("%v\n%s", err, out.String())
	}
}

func TestCallsAboveTheGrantAreNoticed(t *testing.T) {
	var times []int64
	for i := range 2*perSecond + burst + 3 {
		times = append(times, int64(i)*int64(time.Second)/(2*perSecond))
	}
	if _, err := fullest(times, 3); err != nil {
		t.Error(err)
	}
	if _, err := fullest(append(times, times[len(times)-1]), 3); err == nil {
		t.Error("one call above the grant was not noticed")
	}
}
