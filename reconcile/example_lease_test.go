package reconcile_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

type (
	ServiceSpec struct{ Address string }
	Service     = store.Object[ServiceSpec, struct{}]
	ProxySpec   struct{ Upstream string } // a service's name
	ProxyStatus struct{ Route string }
	Proxy       = store.Object[ProxySpec, ProxyStatus]
)

// Proxies follow the services that they name, on the one server whose host says
// that it leads: a Raft group, say, that it has anyway.
func Example_underALease() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	backend, _ := memory.New(nil) // etcd, where there are several servers
	services, _ := store.New[ServiceSpec, struct{}](backend, "service", nil)
	proxies, _ := store.New[ProxySpec, ProxyStatus](backend, "proxy", nil)
	serviceCache, _ := cache.New(services, nil)
	proxyCache, _ := cache.New(proxies, nil)
	byUpstream, _ := proxyCache.AddIndex("upstream", func(p *Proxy) []string { return []string{p.Spec.Upstream} })
	routes := make(chan string)
	route := func(ctx context.Context, p *Proxy) (reconcile.Result, error) {
		service, ok := serviceCache.Get(store.Key{Name: p.Spec.Upstream})
		if !ok {
			return reconcile.Result{}, reconcile.RetryAfter(nil, time.Minute) // or when it comes
		}
		if p.Status.Route == service.Spec.Address {
			return reconcile.Result{}, nil
		}
		p.Status.Route = service.Spec.Address
		if _, err := proxies.UpdateStatus(ctx, p); err != nil { // refused, if another leads by now
			return reconcile.Result{}, err
		}
		routes <- fmt.Sprintf("%s routes to %s", p.Name, p.Status.Route)
		return reconcile.Result{}, nil
	}
	raft, _ := lease.NewManual(backend, "proxies")
	controller, err := reconcile.New("proxies", reconcile.AsReconciler(proxyCache, route), &reconcile.Options[reconcile.Request]{
		Placement: raft,
		Backoff:   queue.Backoff{Base: 5 * time.Millisecond, Max: time.Minute},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = controller.Watch(reconcile.From(proxyCache), reconcile.Map(serviceCache,
		func(_ context.Context, _, now *Service) (keys []reconcile.Request, _ error) {
			if now == nil {
				return nil, nil
			}
			for p := range byUpstream.Get(now.Name) {
				keys = append(keys, p.Key())
			}
			return keys, nil
		}))
	_, _ = services.Create(ctx, &Service{Meta: store.Meta{Name: "web"}, Spec: ServiceSpec{Address: "10.0.0.1"}})
	_, _ = proxies.Create(ctx, &Proxy{Meta: store.Meta{Name: "edge"}, Spec: ProxySpec{Upstream: "web"}})

	var manager reconcile.Manager
	_ = manager.Register(controller)
	ended := make(chan error)
	go func() { ended <- manager.Run(ctx) }()

	raft.Set(true, 1) // the host was elected, in its first term
	fmt.Println(<-routes)
	_, _ = services.Mutate(ctx, store.Key{Name: "web"}, func(s *Service) error { s.Spec.Address = "10.0.0.2"; return nil })
	fmt.Println(<-routes)
	raft.Set(false, 1) // and deposed: its runs end, and nothing runs until it leads again
	stop()
	fmt.Println("ended with", <-ended)
	// Output:
	// edge routes to 10.0.0.1
	// edge routes to 10.0.0.2
	// ended with <nil>
}
