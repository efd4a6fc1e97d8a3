package main

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/tendhq/tend/examples/pgserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The program goes through by itself. Each zone is created once, whichever server is the first
// to see its row.
//
// Negative control: with a remove that declared nothing the zone stayed.
func TestRowsAreKeptByThreeServers(t *testing.T) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	var out bytes.Buffer
	err := run(t.Context(), "", &out)
	if errors.Is(err, pgserver.ErrNoBinaries) && os.Getenv("TEND_NEED_POSTGRES") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	const want = `30 rows are ready, after 30 creates
c stopped: a and b make them ready again, zone-1.org has the ttl 5m
the row of zone-2.org is removed, and so is the zone
`
	if out.String() != want {
		t.Errorf("it printed\n%s\nwant\n%s", out.String(), want)
	}
}
