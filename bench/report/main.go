// Command report runs the benchmarks in interleaved passes and writes what came
// of them: bench/RESULTS.md, with every goal, met or missed, and bench/*.svg.
//
//	go run ./bench/report                    six passes of everything
//	go run ./bench/report -passes 2 -time 0.1s -bench 'Cycle|Memory'
//	go run ./bench/report -from out.txt      only the report, from saved output: bench/out.txt,
//	                                         or the outputs of several runs, one after the other
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// families run in this order, each in all its implementations, before the next
// pass begins: so a quiet minute or a busy one favours none.
var families = []struct {
	bench string
	time  string   // instead of -time; 1x: one operation is the whole family
	once  bool     // in the first pass only
	args  []string // of the benchmark
}{
	{bench: "^BenchmarkCycle$/key=/keys=(1k|1M)$"},
	{bench: "^BenchmarkMachine$"},
	{bench: "^BenchmarkDuplicateAdd$"},
	{bench: "^BenchmarkReaddWhileRunning$"},
	{bench: "^BenchmarkPipeline$"},
	{bench: "^BenchmarkController$"},
	// A million keys are put in before each attempt at finding out how many
	// operations fill the time, so their number is given.
	{bench: "^BenchmarkDepth$", time: "300000x"},
	{bench: "^BenchmarkDepth$/depth=/impl=(tend|client-go|least)$", time: "300000x", once: true, args: []string{"-depth", "10M"}},
	{bench: "^BenchmarkRetry$"},
	{bench: "^BenchmarkContention$", time: "1x"},
	{bench: "^BenchmarkMemory$", time: "1x"},
	{bench: "^BenchmarkDelayed$", time: "1x"},
	{bench: "^BenchmarkStore$", args: []string{"-watchers", "1,100"}},
	// An update costs the less the more of them a watcher finds at once, so the
	// number is given here too: one burst, after which all are waited for.
	{bench: "^BenchmarkStore$/^backend=memory$/^op=watch$", time: "1024x", args: []string{"-watchers", "10k"}},
	{bench: "^BenchmarkStoreMemory$", time: "1x"},
	{bench: "^BenchmarkConverge$", time: "1x"},
	{bench: "^BenchmarkConvergeStores$", time: "1x"},
	{bench: "^BenchmarkManager$", time: "1x"},
	{bench: "^BenchmarkIdle$", time: "1x"},
	{bench: "^BenchmarkStore$/^backend=postgres$/^op=cas$/^objects=1M$/^clients=256$", once: true, args: []string{"-postgres-objects", "1000000"}},
	{bench: "^BenchmarkServers$", time: "1x", once: true},
}

func main() {
	log.SetFlags(0)
	passes := flag.Int("passes", 6, "interleaved passes")
	each := flag.String("time", "300ms", "time for each figure of a pass")
	only := flag.String("bench", "", "regular expression of families; empty: all")
	from := flag.String("from", "", "read saved output instead of running")
	flag.Parse()
	dir, err := benchDir()
	if err != nil {
		log.Fatal(err)
	}
	out := filepath.Join(dir, "out.txt")
	if *from != "" {
		out = *from
	} else if err := run(dir, out, *passes, *each, *only); err != nil {
		log.Fatal(err)
	}
	f, err := os.Open(out)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	r, err := parse(f)
	if err != nil {
		log.Fatalf("report: %s: %v", out, err)
	}
	page := filepath.Join(dir, "RESULTS.md")
	old, err := os.ReadFile(page)
	if err == nil {
		err = os.WriteFile(page, []byte(withApart(r.markdown(), string(old))), 0o644)
	}
	if err != nil {
		log.Fatal(err)
	}
	for name, svg := range r.charts() {
		if err := os.WriteFile(filepath.Join(dir, name+".svg"), []byte(svg), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// apart begins the part of the page that is written by hand: what takes hours, or processes.
const apart = "\n## Measured apart\n"

// withApart is a new page with that part of the old one.
func withApart(page, old string) string {
	if i := strings.Index(old, apart); i >= 0 {
		return page + old[i:]
	}
	return page
}

// benchDir is the bench module's folder, from the root or from within it.
func benchDir() (string, error) {
	for _, dir := range []string{"bench", ".", ".."} {
		if _, err := os.Stat(filepath.Join(dir, "cycle_test.go")); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("report: run me from the root of the repository")
}

// run builds the test binary once and runs it family by family, pass by pass.
func run(dir, out string, passes int, each, only string) error {
	pick, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "tend-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	bin := filepath.Join(tmp, "bench.test")
	build := exec.Command("go", "test", "-tags", "peers", "-c", "-o", bin, ".")
	build.Dir, build.Stderr = dir, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("report: build: %w", err)
	}
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	defer f.Close()
	fmt.Fprintf(f, "%s%s\n%s%s\n", onMachine, machine(dir), byCommand, strings.Join(append([]string{"go run ./bench/report"}, os.Args[1:]...), " "))
	began := time.Now()
	if pick.MatchString("BenchmarkSize") {
		if err := sizes(dir, tmp, f); err != nil {
			return err
		}
	}
	for pass := range passes {
		for i, family := range families {
			if !pick.MatchString(family.bench) || family.once && pass > 0 {
				continue
			}
			progress(pass*len(families)+i, passes*len(families), family.bench, began)
			var text bytes.Buffer
			c := exec.Command(bin, append([]string{
				"-test.run", "^$", "-test.bench", family.bench,
				"-test.benchtime", cmp.Or(family.time, each), "-test.benchmem", "-test.timeout", "30m",
			}, family.args...)...)
			c.Dir, c.Stdout, c.Stderr = dir, io.MultiWriter(f, &text), os.Stderr
			if err := c.Run(); err != nil {
				return fmt.Errorf("report: %s: %w\n%s", family.bench, err, text.String())
			}
		}
	}
	fmt.Fprintln(os.Stderr)
	return nil
}

func progress(done, of int, what string, began time.Time) {
	const width = 30
	filled := done * width / of
	fmt.Fprintf(os.Stderr, "\r[%s%s] %3d %% %v %-50s",
		strings.Repeat("#", filled), strings.Repeat(".", width-filled), 100*done/of, time.Since(began).Round(time.Second), what)
}

// Lines of the output that say where the figures come from, and by which command.
const (
	onMachine = "machine: "
	byCommand = "command: "
)

// machine says where the figures come from.
func machine(dir string) string {
	model := runtime.GOARCH
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			if name, value, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	c := exec.Command("git", "rev-parse", "--short", "HEAD")
	c.Dir = dir
	commit, err := c.Output()
	if err != nil {
		commit = []byte("unknown")
	}
	return fmt.Sprintf("%s, %d cores, %s %s, commit %s, %s", model, runtime.NumCPU(),
		runtime.GOOS, runtime.Version(), strings.TrimSpace(string(commit)), time.Now().UTC().Format(time.DateOnly))
}
