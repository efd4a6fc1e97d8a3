package lifecycle_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lifecycle"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

type ZoneSpec struct{ Domain string }

type ZoneStatus struct{ Records int }

type Zone = store.Object[ZoneSpec, ZoneStatus]

// A handler is told what happens to the zones; deletion waits for it.
func ExampleNew() {
	backend, err := memory.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer backend.Close()
	zones, err := store.New[ZoneSpec, ZoneStatus](backend, "zone", nil)
	if err != nil {
		log.Fatal(err)
	}
	dns := lifecycle.Handler[ZoneSpec, ZoneStatus]{
		Name: "dns",
		Add: func(ctx context.Context, z *Zone) (reconcile.Result, error) {
			fmt.Println("serve", z.Spec.Domain)
			z.Status.Records = 2
			return reconcile.Result{}, nil
		},
		Update: func(ctx context.Context, old, now *Zone) (reconcile.Result, error) {
			fmt.Println("move", old.Spec.Domain, "to", now.Spec.Domain)
			return reconcile.Result{}, nil
		},
		Delete: func(ctx context.Context, z *Zone) (reconcile.Result, error) {
			fmt.Println("drop", z.Spec.Domain)
			return reconcile.Result{}, nil
		},
	}
	life, err := lifecycle.New(zones, []lifecycle.Handler[ZoneSpec, ZoneStatus]{dns}, nil)
	if err != nil {
		log.Fatal(err)
	}
	controller, err := life.Controller("", nil, nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	var m reconcile.Manager
	if err := m.Register(controller); err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }() // ended by stop, waited for below

	home := store.Key{Name: "home"}
	if _, err := zones.Create(ctx, &Zone{Meta: store.Meta{Name: "home"}, Spec: ZoneSpec{"example.org"}}); err != nil {
		log.Fatal(err)
	}
	if _, err := zones.WaitReady(ctx, home); err != nil {
		log.Fatal(err)
	}
	if _, err := zones.Mutate(ctx, home, func(z *Zone) error { z.Spec.Domain = "example.net"; return nil }); err != nil {
		log.Fatal(err)
	}
	z, err := zones.WaitReady(ctx, home)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ready with", z.Status.Records, "records, kept by", z.Finalizers)
	if err := zones.Delete(ctx, z); err != nil {
		log.Fatal(err)
	}
	if err := gone(ctx, zones, z); err != nil {
		log.Fatal(err)
	}
	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	// Output:
	// serve example.org
	// move example.org to example.net
	// ready with 2 records, kept by [tend.zone.dns]
	// drop example.net
}

// gone waits until an object has been deleted.
func gone(ctx context.Context, zones *store.Store[ZoneSpec, ZoneStatus], z *Zone) error {
	for e, err := range zones.Watch(ctx, z.Revision) {
		if err != nil || e.Deleted && e.Key == z.Key() {
			return err
		}
	}
	return nil
}

type Settings struct{ Region string }

// PollInterval makes every bucket be looked at once an hour.
func (Settings) PollInterval() time.Duration { return time.Hour }

type Account struct{ ID string }

type BucketSpec struct{ Size int }

type BucketStatus struct{ URL string }

type Bucket = store.Object[BucketSpec, BucketStatus]

// Buckets is the domain logic of a service.
type Buckets struct{}

func (Buckets) CreateOrUpdate(ctx context.Context, b *Bucket, s Settings, a Account) (reconcile.Result, error) {
	fmt.Printf("make %s of size %d in %s as %s\n", b.Name, b.Spec.Size, s.Region, a.ID)
	b.Status.URL = "https://" + s.Region + "/" + b.Name
	return reconcile.Result{}, nil
}

func (Buckets) Delete(ctx context.Context, b *Bucket, s Settings, a Account) (reconcile.Result, error) {
	fmt.Println("empty and drop", b.Name)
	return reconcile.Result{}, nil
}

// Accounts is the access that a bucket needs.
type Accounts struct{}

func (Accounts) Ensure(ctx context.Context, b *Bucket, s Settings) (Account, reconcile.Result, error) {
	return Account{"account-of-" + b.Namespace}, reconcile.Result{}, nil
}

func (Accounts) Release(ctx context.Context, b *Bucket, s Settings) (reconcile.Result, error) {
	fmt.Println("close the account of", b.Namespace)
	return reconcile.Result{}, nil
}

// A provider gets its config and the access that the object needs. Here two runs
// are made by hand; Lifecycle.Controller makes them whenever they are due.
func ExampleNewProvider() {
	ctx := context.Background()
	backend, err := memory.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer backend.Close()
	buckets, err := store.New[BucketSpec, BucketStatus](backend, "bucket", nil)
	if err != nil {
		log.Fatal(err)
	}
	settings, err := store.New[Settings, struct{}](backend, "settings", nil)
	if err != nil {
		log.Fatal(err)
	}
	config, err := lifecycle.WatchedConfig(settings, store.Key{Name: "main"}, &Settings{Region: "eu"})
	if err != nil {
		log.Fatal(err)
	}
	life, err := lifecycle.NewProvider(buckets, Buckets{}, config, Accounts{}, nil)
	if err != nil {
		log.Fatal(err)
	}
	b, err := buckets.Create(ctx, &Bucket{Meta: store.Meta{Namespace: "shop", Name: "logs"}, Spec: BucketSpec{5}})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := life.Reconcile(ctx, b.Key()); err != nil {
		log.Fatal(err)
	}
	if b, err = buckets.Get(ctx, b.Key()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(b.Phase, b.Status.URL)
	if err := buckets.Delete(ctx, b); err != nil {
		log.Fatal(err)
	}
	if _, err := life.Reconcile(ctx, b.Key()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// make logs of size 5 in eu as account-of-shop
	// Ready https://eu/logs
	// empty and drop logs
	// close the account of shop
}
