package external_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/store"
	_ "github.com/tendhq/tend/store/memory"
)

// credentials of an account of the provider: the token is shown nowhere, and stored encrypted.
type credentials struct {
	Token string `tend:"secret"`
}

// inAccount is what is kept in the account that it names.
type inAccount struct{ Account string }

// Each object names the account that it lies in. The account's token is a secret of an object of its own
// kind, from which each run makes its client. An object runs again when the token of its account changes.
func ExampleConnectorFunc() {
	ctx, stop := context.WithCancel(context.Background())
	p := program.Open(ctx, "memory") // a service: "file:domains.db", "etcd:…" or "postgres:…"
	p.Manager.Logger = slog.New(slog.DiscardHandler)
	key := store.EncryptionKey{ID: "2026", Secret: []byte("thirty-two bytes from the vault.")}
	encryption, err := store.NewEncryption([]store.EncryptionKey{key}, nil)
	p.Check(err)
	accounts := program.AddKind(p, "account", &program.ObjectsOptions[credentials, struct{}]{
		Store: &store.Options[credentials, struct{}]{Encryption: encryption}, NoReconciler: true,
	})
	domains := program.AddKind[inAccount, struct{}](p, "domain", nil)

	tokens := make(chan string) // with which the provider is called
	connect := external.ConnectorFunc[inAccount, struct{}](func(ctx context.Context, d *store.Object[inAccount, struct{}]) (external.Client[inAccount, struct{}], error) {
		a, err := accounts.Get(ctx, store.Key{Name: d.Spec.Account})
		if err != nil {
			return nil, err
		}
		return external.ClientFuncs[inAccount, struct{}]{ // an SDK's client, with the token
			ObserveFunc: func(ctx context.Context, _ *store.Object[inAccount, struct{}]) (external.Observation, error) {
				select {
				case tokens <- a.Spec.Token:
				case <-ctx.Done():
				}
				return external.Observation{Exists: true, UpToDate: true}, nil
			},
		}, nil
	})
	accountOf := func(d *store.Object[inAccount, struct{}]) []store.Key { return []store.Key{{Name: d.Spec.Account}} }
	watched, err := depend.New(domains.Cache(), depend.Watching(accounts.Cache(), accountOf, nil), nil)
	p.Check(err)
	reconciler, err := external.New(domains.Store, connect, &external.Options[inAccount, struct{}]{Naming: external.ByUs, Poll: time.Hour, Depends: watched})
	p.Check(err)
	domains.ReconcileBy(reconciler, nil)

	_, err = accounts.Create(ctx, &store.Object[credentials, struct{}]{Meta: store.Meta{Name: "red"}, Spec: credentials{Token: "first"}})
	p.Check(err)
	_, err = domains.Create(ctx, &store.Object[inAccount, struct{}]{Meta: store.Meta{Name: "shop.org"}, Spec: inAccount{Account: "red"}})
	p.Check(err)
	ended := make(chan error)
	go func() { ended <- p.Run(ctx, nil) }()
	fmt.Println("called with the", <-tokens, "token")
	_, err = accounts.Mutate(ctx, store.Key{Name: "red"}, func(a *store.Object[credentials, struct{}]) error {
		a.Spec.Token = "second"
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	for token := range tokens {
		if token == "second" {
			fmt.Println("called with the", token, "token")
			break
		}
	}
	stop()
	fmt.Println("ended with", <-ended)
	// Output:
	// called with the first token
	// called with the second token
	// ended with <nil>
}
