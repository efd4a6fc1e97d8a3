package lease_test

import (
	"context"
	"fmt"

	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

func ExampleNewSingleton() {
	backend, err := memory.New(nil) // etcd, where there are several servers
	if err != nil {
		fmt.Println(err)
		return
	}
	defer backend.Close()
	placement, err := lease.NewSingleton(backend, "nightly-report", &lease.Options{Server: "server-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	err = placement.Run(ctx, func(ctx context.Context, shard int) error {
		_, fenced := lease.Token(ctx)
		fmt.Println("working; fenced:", fenced, "guards:", len(store.Guards(ctx)))
		cancel() // the program is told to stop
		<-ctx.Done()
		return nil // the lease is released now, and not before
	})
	fmt.Println("released:", err)
	// Output:
	// working; fenced: true guards: 1
	// released: <nil>
}

// Three controllers of which each runs on one server, and of which each of three servers
// gets one. Each server makes the group with the same names.
func ExampleNewSingletons() {
	backend, err := memory.New(nil) // in production one that the servers share
	if err != nil {
		panic(err)
	}
	defer backend.Close()
	group, err := lease.NewSingletons(backend, "controllers", []string{"sites", "billing", "mail"}, nil)
	if err != nil {
		panic(err)
	}
	fmt.Println(group.Placement("sites")) // for reconcile.Options.Placement
	// Output: singleton "sites" of "controllers"
}
