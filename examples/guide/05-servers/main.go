// Command 05-servers runs three servers that share the keys of one store: each key is
// worked on by one of them, and a server that stops hands its keys over. The servers
// are goroutines of one process here, on one backend in memory. In production each is
// a process, and the backend is store/etcd or store/postgres; nothing else changes.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

type (
	Work  struct{ By string } // the server that worked on the site last
	Site  = store.Object[struct{}, Work]
	Sites = store.Store[struct{}, Work]
)

type server struct {
	name  string
	stop  context.CancelFunc
	ended chan error
}

// guide: server

// start starts a server. All of them run the same code, and differ in their name.
func start(name string, backend store.Backend) *server {
	p := program.New(backend, nil)
	sites := program.AddKind(p, "site", &program.ObjectsOptions[struct{}, Work]{Store: &store.Options[struct{}, Work]{
		RequireGuard: true, // a write that is not fenced is refused
	}})
	placement := must(lease.NewSharded(backend, "sites", 64, &lease.Options{TTL: 2 * time.Second, Server: name}))
	sites.Reconcile(func(ctx context.Context, site *Site) (reconcile.Result, error) {
		if site.Status.By == name {
			return reconcile.Result{}, nil
		}
		site.Status.By = name
		_, err := sites.UpdateStatus(ctx, site) // refused, if the shard is another server's by now
		return reconcile.Result{}, err
	}, &reconcile.ForOptions[struct{}, Work]{Options: reconcile.Options[reconcile.Request]{Placement: placement}})
	s := &server{name: name, ended: make(chan error)}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	go func() { s.ended <- p.Run(ctx, nil) }()
	return s
}

// guide: end

func main() {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the program prints what there is to see
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	backend := must(memory.New(nil))
	sites := must(store.New[struct{}, Work](backend, "site", nil))
	for i := range 300 {
		must(sites.Create(ctx, &Site{Meta: store.Meta{Name: fmt.Sprintf("site-%d", i)}}))
	}

	servers := []*server{start("a", backend), start("b", backend), start("c", backend)}
	await(ctx, sites, servers)
	fmt.Println("every site is worked on by a, b or c")

	servers[2].stop()
	check(<-servers[2].ended)
	await(ctx, sites, servers[:2])
	fmt.Println("c stopped: every site is worked on by a or b")

	// A write without a guard, as of code that runs outside of a lease, is refused by
	// a store that requires one.
	guarded := must(store.New[struct{}, Work](backend, "site", &store.Options[struct{}, Work]{RequireGuard: true}))
	_, err := guarded.UpdateStatus(ctx, must(sites.Get(ctx, store.Key{Name: "site-1"})))
	fmt.Println("a write outside of a lease:", errors.Is(err, store.ErrUnguarded))

	for _, s := range servers[:2] {
		s.stop()
		check(<-s.ended)
	}
	fmt.Println("stopped")
}

// await waits until each of the servers has some of the sites, and all sites are theirs.
func await(ctx context.Context, sites *Sites, servers []*server) {
	for {
		by := map[string]int{}
		for _, site := range must(sites.List(ctx, store.Selector{})) {
			by[site.Status.By]++
		}
		n := 0
		for _, s := range servers {
			if by[s.name] > 0 {
				n += by[s.name]
			} else {
				n = -1000
			}
		}
		if n == 300 {
			return
		}
		select {
		case <-ctx.Done():
			log.Fatal(context.Cause(ctx), by)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}
