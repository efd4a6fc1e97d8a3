package quotatest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/store"
	"golang.org/x/time/rate"
)

// Config says how a server is to run.
type Config struct {
	Name      string  // of the server
	URL       string  // of the cloud
	PerSecond float64 // writes that the cloud grants to all servers together
	TTL       time.Duration
	Members   int // it begins when so many servers have their parts
	Workers   int // so many calls it has under way at most
}

const (
	kind   = "Disk"
	shards = 64 // into which the keys are divided
	burst  = 3
)

type (
	spec struct{ Size int }
	disk = store.Object[spec, struct{}]
)

// Serve creates what is declared in the store, with the others, until ctx ends.
func Serve(ctx context.Context, b store.Backend, c Config) error {
	quiet := slog.New(slog.DiscardHandler)
	of := &lease.Options{Server: c.Name, TTL: c.TTL, Logger: quiet}
	members, err := lease.NewMembers(b, "quotas", of)
	if err != nil {
		return err
	}
	set, err := quota.NewSet(&quota.Options{Limits: c.limits, Members: members, Backend: b})
	if err != nil {
		return err
	}
	q, err := set.Get(quota.Name{API: "disks"})
	if err != nil {
		return err
	}
	controller, err := c.controller(ctx, b, q, of)
	if err != nil {
		return err
	}
	manager := reconcile.Manager{Logger: quiet}
	if err := manager.Register(set); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- manager.Run(ctx) }() // ends with ctx; waited for below
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for members.Live() < c.Members || set.Snapshot()[1].Share == 0 {
		select {
		case err := <-ended:
			return err
		case <-look.C:
		}
	}
	if _, err := manager.Start(controller); err != nil && ctx.Err() == nil {
		return err
	}
	return <-ended
}

func (c Config) limits(quota.Name) (quota.Limits, error) {
	return quota.Limits{
		Read: quota.Rate{PerSecond: rate.Limit(2 * c.PerSecond)}, Write: quota.Rate{PerSecond: rate.Limit(c.PerSecond), Burst: burst}, Judge: quota.Judge,
	}, nil
}

// controller makes the controller of this server's share of the disks.
func (c Config) controller(ctx context.Context, b store.Backend, q *quota.Quota, of *lease.Options) (*reconcile.Controller[reconcile.Request], error) {
	disks, err := store.New[spec, struct{}](b, kind, nil)
	if err != nil {
		return nil, err
	}
	installation, err := store.Installation(ctx, b)
	if err != nil {
		return nil, err
	}
	a := api{url: c.URL, client: http.Client{Timeout: time.Minute, Transport: &quota.Transport{
		Quota: func(*http.Request) (*quota.Quota, error) { return q, nil },
	}}}
	inventory, err := external.NewInventory(&external.InventoryOptions[spec, struct{}, resource]{
		Store: disks, Installation: installation,
		List: external.Pages(a.page), Get: a.get,
		ID:    func(r resource) string { return r.Name },
		IDOf:  func(o *disk) string { return o.Name },
		Owner: func(r resource) (external.Mark, bool) { return r.Mark, true },
		Compare: func(*disk, resource) external.Observation {
			return external.Observation{UpToDate: true}
		},
		Fresh: 10 * time.Minute,
	})
	if err != nil {
		return nil, err
	}
	never := func(context.Context, *disk) error { return errors.New("the test changes and deletes nothing") }
	rec, err := external.New(disks, inventory.Client(external.ClientFuncs[spec, struct{}]{
		CreateFunc: func(ctx context.Context, o *disk) error {
			r := resource{o.Name, external.Mark{Installation: installation, Kind: kind, Key: o.Key(), UID: o.UID}}
			err := a.create(ctx, r)
			if err == nil {
				inventory.Wrote(r) // the answer is the proof
			}
			return err
		},
		UpdateFunc: never, DeleteFunc: never,
	}), &external.Options[spec, struct{}]{Naming: external.ByUs, ExclusiveCreate: true, Poll: 10 * time.Minute})
	if err != nil {
		return nil, err
	}
	placement, err := lease.NewSharded(b, "disks", shards, of)
	if err != nil {
		return nil, err
	}
	o, err := quota.Limit(func(reconcile.Request) (*quota.Quota, error) { return q, nil }, &reconcile.Options[reconcile.Request]{
		Workers: c.Workers, Placement: placement, Logger: of.Logger,
	})
	if err != nil {
		return nil, err
	}
	controller, err := rec.Controller("", nil, o)
	if err != nil {
		return nil, err
	}
	return controller, controller.Watch(inventory.Changed("lists"))
}

// api makes the calls of one server. Its client's transport pays for them.
type api struct {
	url    string
	client http.Client
}

// call makes one call and decodes its answer into answer, which may be nil.
func (a *api) call(ctx context.Context, method, path string, body []byte, answer any) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, method, a.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	resp, err := a.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode < 300 && answer != nil {
		err = json.NewDecoder(resp.Body).Decode(answer)
	}
	return resp.StatusCode, err
}

func (a *api) create(ctx context.Context, r resource) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	switch status, err := a.call(ctx, http.MethodPut, "/disks/"+r.Name, body, nil); {
	case err != nil:
		return err
	case status == http.StatusConflict:
		return fmt.Errorf("%w: %s", external.ErrExists, r.Name)
	case status != http.StatusCreated:
		return fmt.Errorf("the cloud answers %d", status)
	}
	return nil
}

func (a *api) get(ctx context.Context, name string) (r resource, exists bool, err error) {
	status, err := a.call(ctx, http.MethodGet, "/disks/"+name, nil, &r)
	return r, status == http.StatusOK, err
}

func (a *api) page(ctx context.Context, after string) (page []resource, next string, err error) {
	_, err = a.call(ctx, http.MethodGet, "/disks?after="+url.QueryEscape(after), nil, &page)
	if len(page) == pageSize {
		next = page[len(page)-1].Name
	}
	return page, next, err
}
