//go:build unix

package campaign

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/tendhq/tend/store"
)

// Worker is a process that a test kills, freezes and cuts off: the test's own binary, run
// again. Its TestMain reads the configuration from the environment, and the process ends
// when its standard input does, see [UntilReleased].
type Worker struct {
	*Process

	proxies []*Proxy
}

// NewWorker starts a process with the configuration, in JSON, in the environment variable
// env, and passes each line of its standard output to hear, on one goroutine. Its
// connections go through the proxies. It is killed when the test ends, and the test fails if it ends
// by itself.
func NewWorker(t testing.TB, name, env string, cfg any, proxies []*Proxy, hear func(w *Worker, line string)) *Worker {
	t.Helper()
	text, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w := &Worker{proxies: proxies}
	w.Process = &Process{
		Name: name,
		Command: func() *exec.Cmd {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), env+"="+string(text))
			return cmd
		},
		Hear:   func(line string) { hear(w, line) },
		Failed: func(err error) { t.Error(err) },
	}
	w.Start(t)
	t.Cleanup(func() {
		w.Resume()
		w.Kill()
	})
	return w
}

// Start starts the process again, after Kill or Stop.
func (w *Worker) Start(t testing.TB) {
	t.Helper()
	if err := w.Process.Start(); err != nil {
		t.Fatal(err)
	}
}

// Cut has the connections of the process carry nothing until Heal.
func (w *Worker) Cut() { w.set(Blackhole) }

// Heal ends Cut.
func (w *Worker) Heal() { w.set(Pass) }

func (w *Worker) set(m Mode) {
	for _, p := range w.proxies {
		p.Set(m)
	}
}

// UntilReleased returns, in the process of a [Worker], a context that ends with Stop, and
// with the process of the test.
func UntilReleased() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return ctx
}

// WriteAsHolder writes the record of a shard, for [Leases], while trusted says that the
// shard is held under the token, and says so on standard output, for [Trust]: "trust SHARD
// TOKEN FIRST LAST", where First is a moment after the trust began and Last one before it
// was found to hold. unfenced leaves the guards of ctx out, for negative controls.
func WriteAsHolder(ctx context.Context, b store.Backend, server string, shard int, token uint64, unfenced bool, trusted func() bool) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var first, told int64
	for ctx.Err() == nil {
		before := time.Now().UnixNano()
		if !trusted() { // for a moment, or until ctx ends
			<-tick.C
			first = 0
			continue
		}
		if first == 0 {
			first = time.Now().UnixNano()
		}
		if before-told > int64(50*time.Millisecond) {
			fmt.Printf("trust %d %d %d %d\n", shard, token, first, before)
			told = before
		}
		// Between this check and the write the process may be stopped for longer than its
		// lease lives: that is what the guard is for. The wait is here to make it likely,
		// and the write does not see the end of ctx, so that nothing else keeps it back.
		<-tick.C
		wctx := context.WithoutCancel(ctx)
		if unfenced {
			wctx = store.WithoutGuards(wctx)
		}
		value := store.Bytes(fmt.Sprintf("%d %s", token, server))
		_, _ = b.Commit(wctx, store.Txn{Ops: []store.Op{{Kind: "work", Key: ShardRecord(shard), Put: value}}})
	}
}

// ShardRecord is the key of the record that the holders of a shard write.
func ShardRecord(shard int) store.Key { return store.Key{Name: fmt.Sprint("shard", shard)} }

// Torment breaks one thing after the other until ctx ends, and mends it all: victims crash,
// are frozen and cut off for longer than ttl, and leave in good order; and there are the
// faults of the store. Each comes once before any comes again. It returns how many there
// were.
func Torment(ctx context.Context, t testing.TB, r *rand.Rand, ttl time.Duration, victim func() *Worker, faults ...func()) (n int) {
	worker := func(do func(w *Worker)) func() { return func() { do(victim()) } }
	frozen := worker(func(w *Worker) { // past its lease, at any instant
		w.Pause()
		Wait(ctx, r, ttl+time.Second, ttl+3*time.Second)
		w.Resume()
	})
	all := append([]func(){
		worker(func(w *Worker) {
			w.Kill()
			Wait(ctx, r, 100*time.Millisecond, time.Second)
			w.Start(t)
		}),
		frozen, frozen,
		worker(func(w *Worker) {
			w.Stop()
			w.Start(t)
		}),
		worker(func(w *Worker) {
			w.Cut()
			Wait(ctx, r, ttl+time.Second, ttl+3*time.Second)
			w.Heal()
		}),
	}, faults...)
	for ; ctx.Err() == nil; n++ {
		if n%len(all) == 0 {
			r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		}
		all[n%len(all)]()
		Wait(ctx, r, 100*time.Millisecond, 500*time.Millisecond)
	}
	return n
}

// Wait waits for a random time between least and most, or until ctx ends.
func Wait(ctx context.Context, r *rand.Rand, least, most time.Duration) {
	timer := time.NewTimer(least + time.Duration(r.Int64N(int64(most-least))))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
