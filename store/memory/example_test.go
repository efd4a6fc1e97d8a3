package memory_test

import (
	"context"
	"fmt"
	"log"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// Objects in memory, for a test or for what is rebuilt at each start.
func Example() {
	type spec struct{ Servers int }
	ctx := context.Background()
	backend, err := memory.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer backend.Close()
	sites, err := store.New[spec, struct{}](backend, "site", nil)
	if err != nil {
		log.Fatal(err)
	}
	site, err := sites.Create(ctx, &store.Object[spec, struct{}]{Meta: store.Meta{Name: "shop"}, Spec: spec{3}})
	if err != nil {
		log.Fatal(err)
	}
	site.Spec.Servers = 4
	if site, err = sites.Update(ctx, site); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s has %d servers in generation %d\n", site.Name, site.Spec.Servers, site.Generation)
	// Output: shop has 4 servers in generation 2
}
