package web_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/web"
)

// The manager starts the server, and stops it with everything else.
func Example() {
	ok := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	manager := reconcile.Manager{Logger: slog.New(slog.DiscardHandler)}
	page, err := web.Listen("127.0.0.1:0", &manager, nil) // port 0: a free one
	ok(err)
	ok(manager.Register(page))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- manager.Run(ctx) }()

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get("http://" + page.Addr() + "/livez")
	ok(err)
	ok(answer.Body.Close())
	fmt.Println("/livez", answer.Status)
	stop()
	fmt.Println("ended with", <-ended)
	// Output:
	// /livez 200 OK
	// ended with <nil>
}
