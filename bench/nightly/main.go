// Command nightly runs the campaigns against tend's promises in their large size.
// In their small size they are ordinary tests, which CI runs.
//
//	go run ./bench/nightly                      each campaign for 10 minutes
//	go run ./bench/nightly -for 4h etcd-faults  one of them, for longer
//	go run ./bench/nightly -for 21m cloud       those of a group: all of docs/COST.md
//	go run ./bench/nightly -list                what there is, and what it proves
//
// It runs from the root of the repository, prints a line for each campaign as it
// ends, and writes nightly.md: what was run, for how long, how many operations,
// faults and seeds, and what failed. The whole output of each lies in nightly.out,
// with the seed of every run. The exit status is 1 if a campaign failed.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	log.SetFlags(0)
	each := flag.Duration("for", 10*time.Minute, "how long each campaign goes on")
	list := flag.Bool("list", false, "list the campaigns")
	to := flag.String("out", "nightly.out", "folder for the output of each campaign")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: nightly [flags] [campaign ...]")
		flag.PrintDefaults()
	}
	flag.Parse()
	chosen, err := choose(flag.Args())
	if err != nil {
		log.Fatal(err)
	}
	if *list {
		fmt.Print(table(chosen))
		for name, of := range groups {
			fmt.Printf("\n%s is %s\n", name, strings.Join(of, ", "))
		}
		return
	}
	if *each < time.Second {
		log.Fatalf("-for is %v, want a second or more", *each)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, chosen, *each, *to); err != nil {
		log.Fatal(err)
	}
}

// choose gives the campaigns of these names, which may be groups; all of them if there is none.
func choose(names []string) (chosen []campaign, err error) {
	if len(names) == 0 {
		return campaigns, nil
	}
	for _, name := range names {
		if group, ok := groups[name]; ok {
			of, err := choose(group)
			if err != nil {
				return nil, err
			}
			chosen = append(chosen, of...)
			continue
		}
		i := slices.IndexFunc(campaigns, func(c campaign) bool { return c.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no campaign is called %q: see -list", name)
		}
		chosen = append(chosen, campaigns[i])
	}
	return chosen, nil
}

func run(ctx context.Context, chosen []campaign, each time.Duration, to string) error {
	if _, err := os.Stat("go.work"); err != nil {
		return fmt.Errorf("run it from the root of the repository: %w", err)
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	var results []result
	failed := 0
	for i, c := range chosen {
		fmt.Printf("%s  %d of %d  %s: go %s\n", time.Now().Format(time.TimeOnly), i+1, len(chosen), c.name, strings.Join(c.command(each), " "))
		r := c.run(ctx, each, filepath.Join(to, c.name+".txt"))
		if results = append(results, r); r.err != nil {
			failed++
		}
		fmt.Printf("%s  %s\n", time.Now().Format(time.TimeOnly), r)
		// Written each time: a night that is cut short has not been for nothing.
		if err := os.WriteFile("nightly.md", []byte(summary(results, each)), 0o644); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted after %d of %d campaigns", i+1, len(chosen))
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d campaigns failed: see nightly.md", failed, len(chosen))
	}
	return nil
}

// result is what came of a campaign.
type result struct {
	campaign
	took   time.Duration
	counts counts
	out    string // file
	err    error
}

func (c campaign) run(ctx context.Context, each time.Duration, out string) result {
	r := result{campaign: c, out: out}
	f, err := os.Create(out)
	if err != nil {
		r.err = err
		return r
	}
	defer f.Close()
	cmd := exec.CommandContext(ctx, "go", c.command(each)...)
	cmd.Dir = c.module
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // go test passes it on
	cmd.WaitDelay = time.Minute
	cmd.Stdout, cmd.Stderr = f, f
	began := time.Now()
	r.err = cmd.Run()
	r.took = time.Since(began)
	if _, err := f.Seek(0, io.SeekStart); err == nil {
		r.counts, err = count(f)
		if r.err == nil {
			r.err = err
		}
	}
	if r.err == nil && len(r.counts) == 0 {
		r.err = fmt.Errorf("it counted nothing: was a test run at all?")
	}
	return r
}

func (r result) String() string {
	verdict := "held"
	if r.err != nil {
		verdict = fmt.Sprintf("FAILED (%v): see %s", r.err, r.out)
	}
	return fmt.Sprintf("%s %s after %v: %v", r.name, verdict, r.took.Round(time.Second), r.counts)
}

// summary is nightly.md.
func summary(results []result, each time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# A night's campaigns\n\n%s, %v each, %s, %s/%s, %d processors.\n\n",
		time.Now().Format(time.DateOnly), each, runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	b.WriteString("| campaign | promises | verdict | took | what was done |\n|---|---|---|---|---|\n")
	for _, r := range results {
		verdict := "held"
		if r.err != nil {
			verdict = "**failed**, see " + r.out
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %v | %v |\n", r.name, r.promises, verdict, r.took.Round(time.Second), r.counts)
	}
	return b.String()
}

// table is what -list prints.
func table(chosen []campaign) string {
	var b strings.Builder
	for _, c := range chosen {
		fmt.Fprintf(&b, "%-14s %-12s %s\n%28s%s\n%28snegative control: %s\n", c.name, c.promises, c.what, "", c.where(), "", c.control)
	}
	return b.String()
}
