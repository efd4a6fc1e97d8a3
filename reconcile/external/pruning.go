package external

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/internal/ofobjects"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// pruneAgain is the time after which a prune that failed is tried again, if the interval is
// longer. One that was refused waits for the interval: a person has to look.
const pruneAgain = time.Minute

// Pruning makes a controller that calls [Inventory.Prune] at once and then in each interval,
// with InventoryOptions.Cap. It has no keys: what it does is the work of its one source. Each
// resource that was pruned is a line in the log (Options.Logger, slog.Default()). A prune that is refused or fails is the failure
// of the source, in the log, in Health and on the page, until one succeeds: a refusal until the
// next interval at least, a failure for a minute, or the interval if that is less. One that finds
// a quota used up is made again when there is budget, and is no failure.
//
// O may be nil. Without a Placement it runs on one server at a time, by a lease in the store of
// the declarations, if other processes can open that (store.Leaser, Shared). Pruning fails on an
// interval that is not positive, and on the errors of [reconcile.New].
func (v *Inventory[S, T, R]) Pruning(every time.Duration, o *reconcile.Options[reconcile.Request]) (*reconcile.Controller[reconcile.Request], error) {
	if v == nil || every <= 0 {
		return nil, errors.New("external: Pruning: no inventory, or an interval that is not positive")
	}
	var options reconcile.Options[reconcile.Request]
	if o != nil {
		options = *o
	}
	name := "prune " + v.o.Store.Kind()
	if b, ok := v.o.Store.Backend().(store.Leaser); ok && options.Placement == nil && b.Shared() {
		var err error
		if options.Placement, err = lease.NewSingleton(v.o.Store.Backend(), name, nil); err != nil {
			return nil, err
		}
	}
	none := func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil }
	c, err := ofobjects.Controller(name, reconcile.Func[reconcile.Request](none), &options)
	if err != nil {
		return nil, err
	}
	return c, c.Watch(reconcile.Source[reconcile.Request]{Name: "interval", Run: func(ctx context.Context, to reconcile.Sink[reconcile.Request]) error {
		to.Synced()
		for wait := time.Duration(0); sleep.For(ctx, wait); {
			wait = v.pruneOnce(ctx, every, to, options.Logger)
		}
		return nil
	}})
}

// pruneOnce prunes, reports how that went, and returns the time until the next prune.
func (v *Inventory[S, T, R]) pruneOnce(ctx context.Context, every time.Duration, to reconcile.Sink[reconcile.Request], log *slog.Logger) time.Duration {
	if log == nil {
		log = slog.Default()
	}
	pruned, err := v.Prune(ctx, Cap{})
	for _, f := range pruned {
		log.Info("pruned", "kind", v.o.Store.Kind(), "id", f.ID, "key", f.Key)
	}
	if until, throttled := ratelimit.ThrottledUntil(err); throttled {
		return max(time.Until(until), budgetPause) // it is no failure
	}
	if r, ok := to.(reconcile.Reporter); ok && ctx.Err() == nil {
		r.Failed(err)
	}
	refused, ok := errors.AsType[*PruneError](err)
	if err == nil || ok && len(refused.Would) > 0 {
		return every
	}
	return min(every, pruneAgain)
}
