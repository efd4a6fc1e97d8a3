package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/inspect"
)

// A program asks for itself what the debug page opens with.
func Example() {
	failed := make(chan struct{})
	mail, err := reconcile.New("mail", reconcile.Func[string](func(context.Context, string) (reconcile.Result, error) {
		return reconcile.Result{}, reconcile.Terminal(errors.New("no such user"))
	}), &reconcile.Options[string]{Hooks: reconcile.Hooks[string]{OnError: func(reconcile.Failure[string]) { close(failed) }}})
	if err != nil {
		fmt.Println(err)
		return
	}
	manager := reconcile.Manager{Logger: slog.New(slog.DiscardHandler)}
	looker, err := inspect.New(&manager, nil)
	if err := errors.Join(err, manager.Register(mail), mail.Add("alice")); err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() { // ends with the example
		<-failed
		v, err := looker.Look(ctx)
		if err == nil {
			fmt.Println(v.Says)
			fmt.Println(v.Causes[0].What, "-", v.Causes[0].Why, "-", v.Causes[0].Example)
		}
		stop()
	}()
	if err := manager.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// Not well. 1 cause; 1 needs a person.
	// given up - no such user - alice
}
