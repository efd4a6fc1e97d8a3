package main

import (
	"context"
	"io"
	"time"

	"github.com/tendhq/tend/examples/fleet"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/store"
)

type (
	// Term is the time of one leader.
	Term struct {
		Leader  string
		Token   uint64 // of its lease: it grows from leader to leader
		Entries int    // that it wrote
	}
	// Pages are what the leaders write. The spec is empty: there is nothing to
	// declare but that the ledger is there.
	Pages  struct{ Terms []Term }
	Ledger = store.Object[struct{}, Pages]

	ledgers = store.Store[struct{}, Pages]
)

const kind = "ledger"

var ledgerKey = store.Key{Name: "ledger"}

// serve is one server. All three run this, and the lease decides which of them
// gets to run the controller.
func serve(ctx context.Context, o options, out io.Writer) error {
	return fleet.Serve(ctx, o, out, func(p *program.Program, lo *lease.Options) {
		ledgers := program.AddKind[struct{}, Pages](p, kind, nil)
		one, err := lease.NewSingleton(p.Backend(), "bookkeeper", lo)
		p.Check(err)
		ledgers.Reconcile(func(ctx context.Context, l *Ledger) (reconcile.Result, error) {
			// Nothing here asks whether this server still leads: a write with this
			// context by a server that does not is refused.
			token, _ := lease.Token(ctx)
			terms := l.Status.Terms
			if n := len(terms); n == 0 || terms[n-1].Token != token {
				terms = append(terms, Term{Leader: o.Server, Token: token})
			}
			terms[len(terms)-1].Entries++
			l.Status.Terms = terms
			_, err := ledgers.UpdateStatus(ctx, l)
			return reconcile.Result{RequeueAfter: 50 * time.Millisecond}, err
		}, &reconcile.ForOptions[struct{}, Pages]{Options: reconcile.Options[store.Key]{Placement: fleet.Told(one, out)}})
	})
}
