// Command dns keeps zones and records at a DNS provider as a file declares them. It is what a
// service with tend looks like: two kinds, of which one needs the other, a quota, a store by
// its URL, metrics, page and API. The provider is one inside the process (fake.go): it is rate
// limited, shows what was written only after a while, and chooses the ids.
//
//	go run ./examples/dns -once -q               # until all is as declared, without a line for each change
//	go run ./examples/dns -store file:dns.db     # go on; look at http://localhost:8080/ops/
//	DNS_TOKEN=secret go run ./examples/dns -store etcd:localhost:2379/dns
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/reconcile/web"
)

type options struct {
	Store, File, Listen, Token string
	Poll, Prune                time.Duration
	Once, Quiet                bool
}

func main() {
	o := options{Token: os.Getenv("DNS_TOKEN")}
	flag.StringVar(&o.Store, "store", "memory", "the store: memory, file:PATH, etcd:HOST:PORT/PREFIX or postgres://…")
	flag.StringVar(&o.File, "file", "examples/dns/dns.json", "the zones and records declared")
	flag.StringVar(&o.Listen, "listen", "localhost:8080", "where /ops/ is served")
	flag.DurationVar(&o.Poll, "poll", time.Minute, "how often each zone and record is looked at")
	flag.DurationVar(&o.Prune, "prune", time.Hour, "how often what nothing declares is deleted")
	flag.BoolVar(&o.Once, "once", false, "end when all is as declared")
	flag.BoolVar(&o.Quiet, "q", false, "log no line for each change that is made")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dns, err := newProvider()
	if err = errors.Join(err, run(ctx, o, dns, os.Stdout)); err != nil {
		log.Fatal(err)
	}
}

// run is the service until ctx ends, or with -once until all is as declared.
func run(ctx context.Context, o options, dns *provider, out io.Writer) error {
	mux := http.NewServeMux() // of the service, for what else it serves
	p := newProgram(ctx, o, dns, mux)
	l, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return err
	}
	p.Use(web.Serve(l, mux), nil)
	fmt.Fprint(out, p)
	fmt.Fprintf(out, "http://%s/ops/\n", l.Addr())
	return p.Run(ctx, &program.Options{Once: o.Once, Out: program.NewPrinter(out)})
}
