package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/tendhq/tend/metrics"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/reconcile/web"
	"github.com/tendhq/tend/reconcile/web/debug"
	"github.com/tendhq/tend/store"
	_ "github.com/tendhq/tend/store/etcd"
	_ "github.com/tendhq/tend/store/file"
	_ "github.com/tendhq/tend/store/memory"
	_ "github.com/tendhq/tend/store/postgres"
)

// nightEnv holds the nightConfig of a test binary that is a service.
const nightEnv = "TEND_NIGHT"

// nightConfig is a service that faults are tried on: objects in a store, each kept by a call to a
// cloud, and a poll of the same cloud.
type nightConfig struct {
	Store, Cloud, Listen string
	Objects              int
	Again                time.Duration // between two runs of an object
}

// The answers of the cloud that make the service itself misbehave.
const (
	nightPanic = "panic"
	nightStuck = "stuck"
)

func serveNight(config string) int {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	var c nightConfig
	err := json.Unmarshal([]byte(config), &c)
	if err == nil {
		err = c.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "night:", err)
		return 1
	}
	return 0
}

func (c nightConfig) run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	p := program.Open(ctx, c.Store)
	collector := metrics.New(&p.Manager)
	p.Manager.Summary = time.Minute
	p.Wrap(func(b store.Backend) (store.Backend, error) { return collector.Measure("store", b) })
	limits := quota.Limits{Read: quota.Rate{PerSecond: 200}, Judge: quota.Judge}
	quotas, err := quota.NewSet(&quota.Options{Limits: func(quota.Name) (quota.Limits, error) { return limits, nil }})
	if err != nil {
		return err
	}
	account, err := quotas.Get(quota.Name{API: "cloud"})
	p.Use(quotas, err)
	db := program.AddKind[int, int](p, "db", nil)
	limited, err := quota.Limit(func(reconcile.Request) (*quota.Quota, error) { return account, nil },
		&reconcile.Options[reconcile.Request]{Timeout: 10 * time.Second, Backoff: queue.Backoff{Max: 30 * time.Second}})
	p.Check(err)
	if err != nil {
		return err
	}
	db.Reconcile(func(ctx context.Context, o *store.Object[int, int]) (reconcile.Result, error) {
		err := account.Do(ctx, quota.Read, func(ctx context.Context) error {
			_, err := c.ask(ctx, "/db/"+o.Name)
			return err
		})
		if err != nil {
			return reconcile.Result{}, err
		}
		o.Status++ // each run is a write
		o.SetReady()
		_, err = db.UpdateStatus(ctx, o)
		return reconcile.Result{RequeueAfter: c.Again}, err
	}, &reconcile.ForOptions[int, int]{Options: *limited})
	poll := &reconcile.EachOptions[string, int]{MaxGone: func(known int) int { return known / 2 }}
	if leaser, ok := p.Backend().(store.Leaser); ok && leaser != nil {
		poll.Placement, err = lease.NewSingleton(p.Backend(), "poll", nil)
		p.Check(err)
	}
	p.Use(reconcile.EachWith("poll", 5*time.Second, c.list, func(context.Context, string, *int) (reconcile.Result, error) {
		return reconcile.Result{}, nil
	}, poll))
	p.Use(web.Listen(c.Listen, nil, &web.Options{Program: p, Metrics: collector, Debug: &debug.Options{}}))
	for i := range c.Objects {
		o := &store.Object[int, int]{Meta: store.Meta{Name: fmt.Sprintf("db-%04d", i)}}
		if _, err := db.Create(ctx, o); err != nil && !errors.Is(err, store.ErrExists) {
			return err
		}
	}
	return p.Run(ctx, nil)
}

// list is what the poll asks for.
func (c nightConfig) list(ctx context.Context) (map[string]int, error) {
	body, err := c.ask(ctx, "/list")
	all := map[string]int{}
	for name := range strings.FieldsSeq(body) {
		all[name] = 1
	}
	return all, err
}

// ask makes one call to the cloud. Its answer may say that this service is to panic, or to hang
// without a look at its context.
func (c nightConfig) ask(ctx context.Context, path string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Cloud+path, nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	if err := quota.CheckResponse(answer); err != nil {
		return "", err
	}
	body, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return "", err
	case string(body) == nightPanic:
		panic("index out of range, as the cloud says")
	case string(body) == nightStuck:
		select {}
	}
	return string(body), nil
}
