package file_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/file"
)

type BucketSpec struct{ Region string }

type BucketStatus struct{ Ready bool }

type Bucket = store.Object[BucketSpec, BucketStatus]

func Example() {
	dir, err := os.MkdirTemp("", "tend")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "state.db")
	ctx := context.Background()

	backend, err := file.Open(path)
	if err != nil {
		panic(err)
	}
	buckets, err := store.New[BucketSpec, BucketStatus](backend, "bucket", nil)
	if err != nil {
		panic(err)
	}
	if _, err := buckets.Create(ctx, &Bucket{Meta: store.Meta{Name: "logs"}, Spec: BucketSpec{Region: "eu"}}); err != nil {
		panic(err)
	}
	_, err = file.Open(path)
	fmt.Println("open elsewhere:", errors.Is(err, file.ErrLocked))
	if err := backend.Close(); err != nil {
		panic(err)
	}

	// After a restart everything is there.
	if backend, err = file.Open(path); err != nil {
		panic(err)
	}
	defer backend.Close()
	if buckets, err = store.New[BucketSpec, BucketStatus](backend, "bucket", nil); err != nil {
		panic(err)
	}
	logs, err := buckets.Get(ctx, store.Key{Name: "logs"})
	if err != nil {
		panic(err)
	}
	fmt.Println(logs.Name, "is in", logs.Spec.Region)
	// Output:
	// open elsewhere: true
	// logs is in eu
}
