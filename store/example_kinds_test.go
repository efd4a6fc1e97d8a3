package store_test

import (
	"bytes"
	"context"
	"fmt"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// Version 1 of the program had one address, version 2 has a list.
func ExampleRewrite() {
	type spec struct{ Addresses []string }
	ctx := context.Background()
	backend, _ := memory.New(&memory.Options{Encode: true})
	_, _ = backend.Commit(ctx, store.Txn{Ops: []store.Op{{Kind: "host", Key: store.Key{Name: "web"}, Put: store.Bytes(
		`{"schema":1,"meta":{"name":"web","uid":"u","generation":1},"spec":{"Address":"10.0.0.1"},"status":{}}`)}}})

	hosts, err := store.New(backend, "host", &store.Options[spec, struct{}]{
		Version: 2,
		Convert: []store.Conversion{
			func(o map[string]any) error { // from 1 to 2
				spec := o["spec"].(map[string]any)
				spec["Addresses"] = []any{spec["Address"]}
				delete(spec, "Address")
				return nil
			},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	web, err := hosts.Get(ctx, store.Key{Name: "web"})
	fmt.Println(web.Spec.Addresses, err)
	n, err := store.Rewrite(ctx, hosts) // when no server of version 1 runs any more
	fmt.Println(n, "rewritten", err)
	// Output:
	// [10.0.0.1] <nil>
	// 1 rewritten <nil>
}

func ExampleNewEncryption() {
	secret := bytes.Repeat([]byte("k"), 32) // from a secret manager
	encryption, err := store.NewEncryption([]store.EncryptionKey{{ID: "2026-11", Secret: secret}}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	backend, _ := memory.New(&memory.Options{Encode: true})
	logins, _ := store.New(backend, "login", &store.Options[struct{ Password string }, struct{}]{Encryption: encryption})
	o := &store.Object[struct{ Password string }, struct{}]{Meta: store.Meta{Name: "db"}}
	o.Spec.Password = "hunter2"
	_, err = logins.Create(ctx, o)
	record, _ := backend.Get(ctx, "login", o.Key())
	fmt.Println(bytes.Contains(record.Bytes, []byte("hunter2")), err)
	// Output: false <nil>
}
