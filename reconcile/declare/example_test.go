package declare_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/declare"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

// The store gets what the file declares. A service leaves Once out, and follows the file.
func Example() {
	type spec struct{ Servers int }
	ok := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	folder, err := os.MkdirTemp("", "declare")
	ok(err)
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "sites.json")
	ok(os.WriteFile(path, []byte(`[{"meta": {"name": "shop"}, "spec": {"Servers": 3}}]`), 0o600))

	backend, err := memory.New(nil)
	ok(err)
	sites, err := store.New[spec, struct{}](backend, "site", nil)
	ok(err)
	siteCache, err := cache.New(sites, nil)
	ok(err)
	file, err := declare.New(sites, siteCache, path, &declare.Options[spec, struct{}]{Every: 10 * time.Millisecond})
	ok(err)
	manager := reconcile.Manager{Logger: slog.New(slog.DiscardHandler)}
	ok(manager.Register(file.Controller()))
	ok(program.Run(context.Background(), &manager, &program.Options{Parts: []program.Part{file}, Once: true}))

	for site, err := range sites.All(context.Background(), store.Selector{}) {
		ok(err)
		fmt.Println(site.Name, "has", site.Spec.Servers, "servers")
	}
	// Output: shop has 3 servers
}
