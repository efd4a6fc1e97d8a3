package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/tendhq/tend/metrics"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/store"
	_ "github.com/tendhq/tend/store/file" // for -store
	_ "github.com/tendhq/tend/store/memory"
)

// An app is one run of the program.
//
//	inventory.yaml ─ declare ─▶ store ─▶ external ─▶ cloud ─▶ S3
//	                              │                          ▲
//	                              ▼                          │
//	        program ◀─────────  cache             chaos ─────┘
type app struct {
	o       options
	out     *program.Printer
	done    *changes
	meter   *meter
	quota   *paced
	buckets *buckets
	lobby   lobby

	// What assemble puts together.
	program    *program.Program
	collector  *metrics.Collector
	declared   *program.Objects[BucketSpec, BucketStatus]
	reconciler *external.Reconciler[BucketSpec, BucketStatus]
	inventory  *cloudInventory
	files      *files
	parts      []program.Part // the inventory's file, and what it declares

	sweeping sync.Mutex // one sweep at a time
}

func newApp(o options, out io.Writer) *app {
	a := &app{o: o, out: program.NewPrinter(out)}
	a.done = &changes{say: a.out.Line, quiet: a.o.Quiet, count: map[string]int{}}
	return a
}

// run does everything, and returns what kept it from converging, or nil. It ends
// when ctx does, or with -once when there is nothing left to do.
func run(ctx context.Context, o options, out io.Writer) error {
	a := newApp(o, out)
	entries, err := a.openFile()
	if err != nil {
		return err
	}
	return a.withServer(func(url string) error {
		return a.withLobby(ctx, func(ctx context.Context) error {
			p := program.Open(ctx, a.o.Store)
			if err := a.prepare(ctx, p.Backend(), p, url, entries); err != nil {
				return errors.Join(err, p.Backend().Close())
			}
			return a.keep(ctx)
		})
	})
}

// withServer calls f with the endpoint's URL; without -endpoint that of a server
// of our own, which lives as long as f.
func (a *app) withServer(f func(url string) error) error {
	if !a.o.inProcess() {
		return f(a.o.Endpoint)
	}
	server, err := startS3()
	if err != nil {
		return err
	}
	return errors.Join(f(server.URL), server.Close())
}

// prepare puts everything together in a program on the state, or on a copy of it.
func (a *app) prepare(ctx context.Context, state store.Backend, p *program.Program, url string, entries []Entry) error {
	if err := p.Err(); err != nil {
		return fmt.Errorf("-store: %w", err)
	}
	if err := a.identify(ctx, state); err != nil {
		return err
	}
	if err := a.connect(ctx, url, entries); err != nil {
		return err
	}
	a.assemble(p)
	return p.Err()
}

// identify finds out whose buckets these are. An installation is a store's: with
// a store that forgets, one name stands for all runs, so that each adopts what
// the one before it made.
func (a *app) identify(ctx context.Context, state store.Backend) error {
	if a.o.Installation != "" {
		return nil
	}
	a.o.Installation = "demo"
	if !a.o.durable() {
		return nil
	}
	id, err := store.Installation(ctx, state)
	if err == nil {
		a.o.Installation = strings.ToLower(id[:min(8, len(id))]) // bucket names are short
	}
	return err
}

// openFile reads the inventory; nothing is reconciled from a broken one.
func (a *app) openFile() ([]Entry, error) {
	data, err := os.ReadFile(a.o.File)
	if err != nil {
		return nil, fmt.Errorf("the inventory cannot be read: %w", err)
	}
	entries, err := parseInventory(data)
	if err != nil {
		return nil, fmt.Errorf("%s is broken:\n%w", a.o.File, err)
	}
	return entries, nil
}

// connect finds the endpoint and how to mark buckets there. It waits for an
// endpoint that is not there yet.
func (a *app) connect(ctx context.Context, url string, entries []Entry) error {
	var err error
	if a.quota, err = newPaced(a.o); err != nil {
		return err
	}
	e, err := newEndpoint(ctx, url, a.o.Workers, func(c aws.HTTPClient) aws.HTTPClient {
		a.meter = newMeter(c, func(line string) { a.out.Line("%s", line) })
		a.quota.transport.Next = roundTrip(a.meter.Do)
		return a.quota
	})
	if err != nil {
		return err
	}
	a.buckets = &buckets{endpoint: e, region: a.o.Region}
	region := home
	if len(entries) > 0 {
		region = entries[0].Region
	}
	if a.o.Once {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, a.o.Timeout, errTimeout)
		defer cancel()
	}
	a.buckets.ownership, err = a.probe(ctx, region)
	if err != nil {
		return err
	}
	a.out.Line("endpoint %v; buckets are marked by %v", e, a.buckets.ownership)
	return checkLengths(entries, a.buckets.ownership)
}

var errTimeout = errors.New("-timeout is over")

// probe asks until it is answered. When time is up it says why the endpoint did
// not answer before, not that the last call was cut off.
func (a *app) probe(ctx context.Context, region string) (Ownership, error) {
	said, name := "", probeName()
	var reason error
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		own, err := probeOwnership(ctx, a.buckets.client(region), name, a.o.Installation)
		if err == nil {
			return own, nil
		}
		if down := a.meter.Down(); ctx.Err() == nil || reason == nil && down == "" {
			reason = err
		} else if reason == nil { // it was refused in the moment when time was up
			reason = errors.New(down)
		}
		why := brief(reason).Error()
		a.lobby.why.Store(&why)
		if text := brief(err).Error(); text != said && ctx.Err() == nil && a.meter.Down() == "" {
			a.out.Line("%s; retrying with backoff%s", text, regionHint(err))
			said = text
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w before the endpoint answered: %w", context.Cause(ctx), brief(reason))
		case <-time.After(wait):
		}
	}
}

// regionHint is for servers that have one region and refuse to hear of another.
func regionHint(err error) string {
	if isCode(err, "AuthorizationHeaderMalformed") {
		return " (an endpoint with a single region wants -region)"
	}
	return ""
}

// checkLengths: a prefix takes its share of the 63 characters.
func checkLengths(entries []Entry, own Ownership) error {
	var problems FileErrors
	for _, e := range entries {
		if name := own.BucketName(e.Name); len(name) > maxBucketName {
			problems = append(problems, Problem{e.Line, fmt.Sprintf(
				"%s: with the %v the bucket's name has %d characters; expected up to %d", e.Name, own, len(name), maxBucketName)})
		}
	}
	if len(problems) > 0 {
		return problems
	}
	return nil
}

// inForce is what the store holds as declared.
func (a *app) inForce() (entries []Entry) {
	for o := range a.declared.Cache().All() {
		if !o.Deleting() {
			entries = append(entries, o.Spec.entry(o.Name))
		}
	}
	return entries
}
