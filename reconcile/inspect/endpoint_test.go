package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/inspect"
	"github.com/tendhq/tend/reconcile/quota"
)

// Package quota's words for an endpoint that does not answer are known here: that is the first cause, with what to
// do, and keys that wait for it are counted there.
func TestEndpointThatQuotaSaysIsDownIsTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := slog.New(slog.DiscardHandler)
		broken := errors.New("PUT https://dns:\n503")
		limits := quota.Limits{Read: quota.Rate{PerSecond: 100}, Judge: func(err error) quota.Verdict { return quota.Verdict{Down: err != nil} }}
		set, err := quota.NewSet(&quota.Options{Logger: silent, Limits: func(quota.Name) (quota.Limits, error) { return limits, nil }})
		if err != nil {
			t.Fatal(err)
		}
		account, err := set.Get(quota.Name{API: "dns"})
		if err != nil {
			t.Fatal(err)
		}
		limited, err := quota.Limit(func(string) (*quota.Quota, error) { return account, nil },
			&reconcile.Options[string]{Logger: silent, Backoff: queue.Backoff{Max: 10 * time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		tried := false
		mail, err := reconcile.New("mail", reconcile.Func[string](func(ctx context.Context, key string) (reconcile.Result, error) {
			if key == "frank" && !tried {
				tried = true
				return reconcile.Result{}, errors.New("no template")
			}
			return reconcile.Result{}, account.Do(ctx, quota.Read, func(context.Context) error { return fmt.Errorf("mail to %s: %w", key, broken) })
		}), limited)
		if err != nil {
			t.Fatal(err)
		}
		m := reconcile.Manager{Logger: silent}
		looker, err := inspect.New(&m, nil)
		if err := errors.Join(err, m.Register(mail, set), mail.Add("alice"), mail.Add("bob"), mail.Add("carol"), mail.Add("dave")); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }() // ended by stop, waited for below
		time.Sleep(time.Minute)
		if err := mail.Add("frank"); err != nil {
			t.Error(err)
		}
		time.Sleep(3 * time.Second)
		v, err := looker.Look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(v.Causes) == 0 || !strings.Contains(v.Causes[0].Why, "dns/read: the endpoint is down since") || !strings.HasSuffix(v.Causes[0].Why, ": PUT https://dns: 503") || v.Causes[0].Since.IsZero() || v.Causes[0].HoldsUp["mail"] == 0 ||
			len(v.Causes[0].Do) != 1 || !strings.HasPrefix(v.Causes[0].Do[0], "mend the endpoint") {
			t.Errorf("the causes are %+v", v.Causes)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
