package cache_test

import (
	"context"
	"fmt"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

type BucketSpec struct{ Region string }

type BucketStatus struct{ Ready bool }

type Bucket = store.Object[BucketSpec, BucketStatus]

func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	backend, err := memory.New(nil)
	if err != nil {
		panic(err)
	}
	buckets, err := store.New[BucketSpec, BucketStatus](backend, "bucket", nil)
	if err != nil {
		panic(err)
	}
	c, err := cache.New(buckets, nil)
	if err != nil {
		panic(err)
	}
	byRegion, err := c.AddIndex("region", func(b *Bucket) []string { return []string{b.Spec.Region} })
	if err != nil {
		panic(err)
	}
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()

	logs, err := buckets.Create(ctx, &Bucket{Meta: store.Meta{Name: "logs"}, Spec: BucketSpec{Region: "eu"}})
	if err != nil {
		panic(err)
	}
	// Wait until the cache has seen that write.
	seen := make(chan struct{})
	c.OnRevision(logs.Revision, func() { close(seen) })
	<-seen

	for b := range byRegion.Get("eu") {
		fmt.Println(b.Name, "is in", b.Spec.Region)
	}
	cancel()
	fmt.Println("Run ended with", <-ended)
	// Output:
	// logs is in eu
	// Run ended with <nil>
}
