package inspect_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/inspect"
	"github.com/tendhq/tend/reconcile/quota"
)

// Package quota's words for an endpoint that does not answer are known here: that is the first cause, with what to
// do, and keys that wait for it are counted there.
func TestEndpointThatQuotaSaysIsDownIsTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := slog.New(slog.DiscardHandler)
		broken := errors.New("broken")
		limits := quota.Limits{Read: quota.Rate{PerSecond: 100}, Judge: func(err error) quota.Verdict { return quota.Verdict{Down: err != nil} }}
		set, err := quota.NewSet(&quota.Options{Logger: silent, Limits: func(quota.Name) (quota.Limits, error) { return limits, nil }})
		if err != nil {
			t.Fatal(err)
		}
		account, err := set.Get(quota.Name{API: "dns"})
		if err != nil {
			t.Fatal(err)
		}
		mail, err := reconcile.New("mail", reconcile.Func[string](func(ctx context.Context, _ string) (reconcile.Result, error) {
			return reconcile.Result{}, account.Do(ctx, quota.Read, func(context.Context) error { return broken })
		}), &reconcile.Options[string]{Logger: silent})
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
		time.Sleep(5 * time.Minute)
		v, err := looker.Look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(v.Causes) == 0 || !strings.Contains(v.Causes[0].Why, "dns/read: the endpoint is down since") || v.Causes[0].HoldsUp["mail"] == 0 ||
			len(v.Causes[0].Do) != 1 || !strings.HasPrefix(v.Causes[0].Do[0], "mend the endpoint") {
			t.Errorf("the causes are %+v", v.Causes)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
