package main

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/etcd"
)

func main() {
	backend, err := etcd.New(clientv3.Config{Endpoints: []string{"127.0.0.1:1"}}, nil)
	if err != nil {
		panic(err)
	}
	names, err := store.New[string, string](backend, "name", nil)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err = names.Get(ctx, store.Key{Name: "a"})
	fmt.Println("without a server:", err != nil, backend.Close())
}
