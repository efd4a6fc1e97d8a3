//go:build unix

package etcd_test

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/etcd"
)

func ExampleNew() {
	ctx := context.Background()
	backend, err := etcd.New(clientv3.Config{
		Endpoints: []string{server}, // TLS, user name and password go here too
	}, &etcd.Options{Prefix: "/example"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer backend.Close()

	type spec struct{ Region string }
	type status struct{ Ready bool }
	buckets, err := store.New[spec, status](backend, "bucket", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	made, err := buckets.Create(ctx, &store.Object[spec, status]{
		Meta: store.Meta{Namespace: "team-a", Name: "logs"},
		Spec: spec{Region: "eu-west-1"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	got, err := buckets.Get(ctx, made.Key())
	fmt.Println(got.Key(), got.Spec.Region, "generation", got.Generation, err)
	// Output: team-a/logs eu-west-1 generation 1 <nil>
}
