package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"regexp"
	"time"
)

// options are the flags.
type options struct {
	File         string
	Endpoint     string
	Region       string
	Installation string
	Store        string
	Listen       string
	Once         bool
	Plan         bool
	JSON         bool
	Verbose      bool
	Quiet        bool
	Chaos        int
	Removals     int
	Prune        bool
	PruneMost    int
	PrunePercent int
	TrustState   bool
	Workers      int
	Rate         float64
	Writes       float64
	Poll         time.Duration
	Settings     time.Duration
	Timeout      time.Duration

	watchEvery time.Duration // how often the file is looked at; tests look more often
}

// inMemory is the store that forgets.
const inMemory = "memory"

// durable: the store outlives the process, and so do its uids.
func (o *options) durable() bool { return o.Store != inMemory }

// inProcess: no -endpoint was given, so the S3 server is ours.
func (o *options) inProcess() bool { return o.Endpoint == "" }

var installationPattern = regexp.MustCompile(`^[a-z0-9]{1,12}$`)

// parseOptions reads the command line. flag.ErrHelp means that help was asked
// for and printed.
func parseOptions(args []string, out io.Writer) (options, error) {
	o := options{watchEvery: time.Second}
	f := flag.NewFlagSet("inventory", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&o.File, "file", "examples/inventory/inventory.yaml", "the declared inventory")
	f.StringVar(&o.Endpoint, "endpoint", "", `S3 at this URL, or "aws" (default: a server inside this process)`)
	f.StringVar(&o.Region, "region", "", "the one region of an endpoint that has only one (default: each bucket's own)")
	f.StringVar(&o.Installation, "installation", "", `whose buckets these are, for the ownership mark (default: what -store remembers, else "demo")`)
	f.StringVar(&o.Store, "store", inMemory, "the store of what is declared: memory or file:PATH")
	f.StringVar(&o.Listen, "listen", "", "serve /metrics and /debug here, e.g. :8080; without a host, on localhost only")
	f.BoolVar(&o.Once, "once", false, "converge, print a summary, and exit")
	f.BoolVar(&o.Plan, "plan", false, "show what would be done, and do nothing; exit code 0: nothing, 2: changes, 1: error")
	f.BoolVar(&o.JSON, "json", false, "with -plan: as JSON")
	f.BoolVar(&o.Verbose, "v", false, "log what the kernel does")
	f.BoolVar(&o.Quiet, "q", false, "print the progress, what fails and the summary, and no line for each change")
	f.IntVar(&o.Chaos, "chaos", 0, "alter this many buckets behind the kernel's back, and see them put back")
	f.IntVar(&o.Removals, "confirm-removals", 0, "let one edit remove up to this many entries")
	f.BoolVar(&o.Prune, "prune", false, "delete empty buckets that carry our mark and are not declared; with -plan: show which")
	f.IntVar(&o.PruneMost, "prune-most", 10, "refuse to prune more than this many buckets at once")
	f.IntVar(&o.PrunePercent, "prune-percent", 10, "refuse to prune more than this part of our buckets at once, in percent")
	f.BoolVar(&o.TrustState, "trust-state", false, "with -prune: the state is as it should be, although it seems to come from a backup")
	f.IntVar(&o.Workers, "workers", 16, "buckets worked on at once")
	f.Float64Var(&o.Rate, "rate", 0, "calls per second that read, at most (default 900 in this process, else 150)")
	f.Float64Var(&o.Writes, "writes", 0, "calls per second that change something, at most (default 300 in this process, else 50)")
	f.DurationVar(&o.Poll, "poll", 0, "how often each bucket is looked at (default 5s in this process, else 1m)")
	f.DurationVar(&o.Settings, "settings", 0, "how old what is known of a bucket's tags and versioning may be, which no list shows (default: -poll)")
	f.DurationVar(&o.Timeout, "timeout", 2*time.Minute, "how long -once or -plan may take")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	return o, o.complete()
}

// complete fills in what depends on other flags, and refuses what cannot work.
func (o *options) complete() error {
	poll, rate, writes := time.Minute, 150.0, 50.0
	if o.inProcess() {
		poll, rate, writes = 5*time.Second, 900, 300
	}
	o.Poll, o.Rate, o.Writes = cmp.Or(o.Poll, poll), cmp.Or(o.Rate, rate), cmp.Or(o.Writes, writes)
	o.Settings = cmp.Or(o.Settings, o.Poll)
	if o.Listen != "" {
		listen, err := localByDefault(o.Listen)
		if err != nil {
			return err
		}
		o.Listen = listen
	}
	switch {
	case o.Installation != "" && !installationPattern.MatchString(o.Installation):
		return fmt.Errorf("-installation: found %q; expected up to 12 of a-z and 0-9", o.Installation)
	case o.Region != "" && checkRegion(o.Region) != nil:
		return fmt.Errorf("-region: found %q; expected %w", o.Region, checkRegion(o.Region))
	case o.Settings < o.Poll:
		return errors.New("-settings may not be less than -poll: no bucket is looked at more often")
	case o.PruneMost < 1 || o.PrunePercent < 1 || o.PrunePercent > 100:
		return errors.New("-prune-most must be above zero, and -prune-percent between 1 and 100")
	case o.TrustState && !o.Prune:
		return errors.New("-trust-state is for -prune")
	case o.Prune && o.Installation == "" && !o.durable() && !o.inProcess():
		// "demo" is the name of all that try this program.
		return errors.New("-prune wants -store, or an -installation of your own: what others marked would be taken for yours")
	case o.Poll < 0 || o.Timeout <= 0 || o.Workers < 1 || !(o.Rate > 0) || !(o.Writes > 0):
		return errors.New("-poll, -timeout, -workers, -rate and -writes must be above zero")
	case o.JSON && !o.Plan:
		return errors.New("-json is for -plan")
	case o.Plan && (o.Once || o.Chaos > 0):
		return errors.New("-plan does nothing: it goes neither with -once nor with -chaos")
	case o.Chaos < 0 || o.Removals < 0:
		return errors.New("-chaos and -confirm-removals may not be negative")
	case o.Chaos > 0 && !o.harmless():
		return errors.New("-chaos is only for a server on this machine")
	}
	return nil
}

// harmless: the endpoint is one where altering buckets at random does no harm.
func (o *options) harmless() bool {
	u, err := url.Parse(o.Endpoint)
	return o.inProcess() || err == nil && isLoopback(u)
}

// localByDefault: a page that shows every bucket's name is not for the whole
// network unless it is told to.
func localByDefault(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("-listen: %w; expected host:port", err)
	}
	if host == "" {
		host = "localhost"
	}
	return net.JoinHostPort(host, port), nil
}
