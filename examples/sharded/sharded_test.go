package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tendhq/tend/examples/fleet"
	"github.com/tendhq/tend/examples/pgserver"
	"github.com/tendhq/tend/store"
)

func TestMain(m *testing.M) {
	fleet.AsServer(main) // a process of the tests may be one
	goleak.VerifyTestMain(m)
}

// The show goes through by itself: after every event each site has been worked on
// by the owner of its shard, and none by an owner before.
//
// promise L2. Negative control: with a fixed server name in serve, so that all
// three are one to the hashing, two of them own nothing and the show does not get
// past its first event.
func TestSitesAreHandedOver(t *testing.T) {
	for _, shared := range []string{fleet.Etcd, fleet.Postgres} {
		t.Run(shared, func(t *testing.T) { sitesAreHandedOver(t, fleet.Place{Store: shared}) })
	}
}

func sitesAreHandedOver(t *testing.T, place fleet.Place) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	var out bytes.Buffer
	err := show(ctx, options{Options: fleet.Options{Place: place, TTL: 2 * time.Second}, Objects: 100, Shards: 16, Servers: 3}, &out)
	if errors.Is(err, pgserver.ErrNoBinaries) && os.Getenv("TEND_NEED_POSTGRES") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	// On a busy machine servers log in between: a plan was written late, a watch was lost and is back.
	told := regexp.MustCompile(`(?m)^\s*(time=.* level=|\d{4}/\d\d/\d\d \S+ )(WARN|INFO) .*\n`).ReplaceAllString(out.String(), "")
	settled := `\n.*every site has its owner: .*; \d+ moved, the last after \S+ s` +
		`\n.*live heap: [ab] [\d.]+ MB for \d+, .*`
	if !regexp.MustCompile(`c is started` + settled +
		`\n.*a is killed \(kill -9\)` + settled + `\n.*a is started again` + settled +
		`\n.*b is stopped in good order` + settled + `\n.*b is started again` + settled +
		`\n.*all are stopped\n\n100 sites, \d+ times handed over`).MatchString(told) {
		t.Errorf("the show told\n%s\nwant every event of it", out.String())
	}
}

// The measurement goes through: each number of servers has its line.
func TestMeasurementHasALineForEachNumberOfServers(t *testing.T) {
	var out bytes.Buffer
	o := options{Options: fleet.Options{Place: fleet.Place{Store: fleet.Etcd}, TTL: 2 * time.Second}, Objects: few + 200, Shards: 16, Servers: 3, Measure: "1,2", Changed: 500, Idle: time.Second}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	if err := measure(ctx, o, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !regexp.MustCompile(`\n\| 1 \| 1200 \| (.*\n)*\| 2 \| \d+ \| `).MatchString(out.String()) {
		t.Errorf("measured\n%s\nwant a line for 1 and for 2 servers", out.String())
	}
}

// Negative control: with 1 as the fewest, the first of these went on for ever.
func TestNumbersThatTheShowCannotGoOnWithAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"-shards", "1"},
		{"-shards", "5"},
		{"-shards", "16385"},
		{"-objects", "0"},
		{"-servers", "1"},
		{"-servers", "27"},
		{"-bytes", "-1"},
		{"-changes", "-1"},
		{"-measured-changes", "-1"},
		{"-measured-idle", "0"},
		{"-measure", "1,x"},
		{"-measure", "0"},
		{"-measure", "2,4"},
		{"-objects", "1000", "-measure", "1,2"},
	} {
		var errs bytes.Buffer
		if code := command(args, strings.NewReader(""), io.Discard, &errs); code != 1 || !strings.Contains(errs.String(), args[0]) {
			t.Errorf("%q: exit code %d, %q; want 1 and which flag it is", args, code, errs.String())
		}
	}
	all := fleet.Options{TTL: time.Second}
	if err := (options{Options: all, Objects: 1, Shards: 6, Servers: 3, Idle: time.Second}).check(); err != nil {
		t.Error(err)
	}
}

func TestSiteThatWentBackIsNoticed(t *testing.T) {
	k := store.Key{Name: "site"}
	if err := goesOn(k, Work{"a", 3, 1}, Work{"b", 7, 2}); err != nil {
		t.Error(err)
	}
	if err := goesOn(k, Work{"b", 7, 2}, Work{"a", 3, 1}); err == nil {
		t.Error("work under an old token was not noticed")
	}
}
