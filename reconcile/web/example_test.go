package web_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"strings"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/web"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/objects"
)

// The manager starts the server, and stops it with everything else. This program has put its parts together
// by hand, and says which objects are shown and counted; of a program.Program the handler knows them.
func Example() {
	ok := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	manager := reconcile.Manager{Logger: slog.New(slog.DiscardHandler)}
	b, err := memory.New(nil)
	ok(err)
	disks, err := store.New[struct{}, struct{}](b, "disk", nil)
	ok(err)
	held, err := cache.New(disks, nil)
	ok(err)
	page, err := web.Listen("127.0.0.1:0", &manager, &web.Options{ // port 0: a free one
		Objects: []objects.Kind{objects.OfCache(held)},
	})
	ok(err)
	ok(manager.Register(held, page))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- manager.Run(ctx) }()

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path string) string {
		answer, err := client.Get("http://" + page.Addr() + path)
		ok(err)
		text, err := io.ReadAll(answer.Body)
		ok(errors.Join(err, answer.Body.Close()))
		if path == "/livez" {
			return answer.Status
		}
		return string(text)
	}
	fmt.Println("/livez", get("/livez"))
	<-held.Synced()
	fmt.Println("disks are counted:", strings.Contains(get("/metrics"), `kind="disk"`))
	stop()
	fmt.Println("ended with", <-ended)
	// Output:
	// /livez 200 OK
	// disks are counted: true
	// ended with <nil>
}
