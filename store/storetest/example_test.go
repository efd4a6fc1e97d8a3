package storetest_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/storetest"
)

// The answer of a commit is lost: the program does not know whether it was made, and it was.
func ExampleFaulty() {
	ctx := context.Background()
	backend, err := memory.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer backend.Close()
	faulty := storetest.Faulty(backend, func(c storetest.Call) (f storetest.Fault) {
		if c.Method == "Commit" {
			f.Break = storetest.ReplyLost
		}
		return f
	})
	sites, err := store.New[struct{}, struct{}](faulty, "site", nil)
	if err != nil {
		log.Fatal(err)
	}
	_, err = sites.Create(ctx, &store.Object[struct{}, struct{}]{Meta: store.Meta{Name: "shop"}})
	fmt.Println("not known:", errors.Is(err, store.ErrUnknownOutcome))
	shop, err := sites.Get(ctx, store.Key{Name: "shop"})
	fmt.Println("there is", shop.Name, err)
	// Output:
	// not known: true
	// there is shop <nil>
}
