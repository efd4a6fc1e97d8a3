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
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
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
		fmt.Printf("%s  %d of %d  %s: go %s\n", time.Now().Format(time.TimeOnly), i+1, len(chosen), c.name, strings.Join(c.command(c.atOnce(each)), " "))
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
	r := result{campaign: c, out: out, counts: counts{}}
	f, err := os.Create(out)
	if err != nil {
		r.err = err
		return r
	}
	defer f.Close()
	began, crashes := time.Now(), 0
	for left := each; left > 0 && r.err == nil && ctx.Err() == nil; left = each - time.Since(began) {
		var crashed bool
		if crashed, r.err = c.once(ctx, c.atOnce(left), f); crashed {
			crashes++
		}
		if c.stretch == 0 {
			break
		}
	}
	r.took = time.Since(began)
	if _, err := f.Seek(0, io.SeekStart); err == nil {
		r.counts, err = count(f)
		r.err = cmp.Or(r.err, err)
	}
	if r.err == nil && len(r.counts) == 0 {
		r.err = fmt.Errorf("it counted nothing: was a test run at all?")
	}
	if crashes > 0 {
		r.counts["crashes of the race detector"] = crashes
	}
	return r
}

// once runs the campaign for a time, and appends what it prints to f. The end of the test
// binary by a crash of the race detector is no failure of a campaign that runs in stretches.
func (c campaign) once(ctx context.Context, d time.Duration, f *os.File) (crashed bool, err error) {
	begin, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return false, err
	}
	cmd := exec.CommandContext(ctx, "go", c.command(d)...)
	cmd.Dir = c.module
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // go test passes it on
	cmd.WaitDelay = time.Minute
	cmd.Stdout, cmd.Stderr = f, f
	err = cmd.Run()
	if err == nil || c.stretch == 0 {
		return false, err
	}
	end, _ := f.Seek(0, io.SeekEnd)
	text, readErr := io.ReadAll(io.NewSectionReader(f, begin, end-begin))
	if readErr == nil && raceDetectorCrashed(text) {
		return true, nil
	}
	return false, err
}

// raceDetectorCrashed tells whether the race detector's own runtime ended a test binary, in
// which no test had failed. In Go code a fault of memory is a panic; tend has no other code.
func raceDetectorCrashed(out []byte) bool {
	has := func(pattern string) bool { return regexp.MustCompile("(?m)" + pattern).Match(out) }
	return has("^SIGSEGV: segmentation violation|ThreadSanitizer: CHECK failed") &&
		!has("^panic: |^ *--- FAIL: |WARNING: DATA RACE")
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
