//go:build peers

package bench

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// What a user tunes. They go after -args.
var (
	workersFlag     = list("workers", "worker counts of Controller", count, 1, 8, 64)
	batchFlag       = list("batch", "sizes of tend-batch's batches", count, 16)
	workFlag        = list("work", "what a run of Controller does: none, context, cache, status, http, or how long it waits", parseWork, "none", "context", "cache", "status", "http")
	keysFlag        = list("keys", "numbers of keys of Cycle, Retry and Controller; empty: the family's own", count)
	depthFlag       = list("depth", "resident keys of Depth", count, 1e3, 1e4, 1e5, 1e6)
	memoryFlag      = list("memory", "numbers of keys of Memory", count, 1e6)
	watchersFlag    = list("watchers", "watchers of Store on the memory backend", count, 1, 100, 1e4)
	objectsFlag     = list("objects", "numbers of objects of Converge", count, 1e4, 1e5, 1e6)
	postgresObjects = flag.Int("postgres-objects", 100_000, "records of Store on the PostgreSQL backend")
	serversObjects  = flag.Int("servers-objects", 100_000, "objects of Servers")
	startObjects    = flag.Int("start-objects", 10_000, "objects of Start")
	shardsFlag      = list("shards", "shards of tend's queues, the first counts; empty: the default", count)
)

// list declares a flag that holds values separated by commas.
func list[T any](name, usage string, parse func(string) (T, error), def ...T) *[]T {
	v := def
	flag.Func(name, usage, func(s string) error {
		v = nil
		for field := range strings.SplitSeq(s, ",") {
			t, err := parse(field)
			if err != nil {
				return err
			}
			v = append(v, t)
		}
		return nil
	})
	return &v
}

// or is what the flag says, or a family's own values.
func or[T any](flagged []T, own ...T) []T {
	if len(flagged) > 0 {
		return flagged
	}
	return own
}

func shards() int {
	if len(*shardsFlag) > 0 {
		return (*shardsFlag)[0]
	}
	return 0
}

func TestMain(m *testing.M) {
	slog.SetDefault(discard) // benchstat reads no result that a log line splits
	if cfg := os.Getenv(serverEnv); cfg != "" {
		os.Exit(serveBench(cfg)) // this process is a server of BenchmarkServers
	}
	if cfg := os.Getenv(startEnv); cfg != "" {
		os.Exit(startBench(cfg)) // this process is a start of BenchmarkStart
	}
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "bench: what is", flag.Args(), "for?")
		os.Exit(2)
	}
	goleak.VerifyTestMain(benchmarks{m}) // exits
}

// benchmarks are those of the package, with the end of the stores that they share.
type benchmarks struct{ *testing.M }

func (b benchmarks) Run() int {
	defer stopPostgres()
	defer stopMember()
	return b.M.Run()
}
