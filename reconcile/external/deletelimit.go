package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/tendhq/tend/store"
)

// deleteHoldKind is the kind of the records that hold deletions, one for each kind of
// objects, named like that; see [Reconciler.AllowDeletes].
const deleteHoldKind = "_deletehold"

// deleteWindow is the time that Options.DeleteLimit is for.
const deleteWindow = time.Hour

// deleteHold is what the store remembers, for all servers and for processes that come
// later.
type deleteHold struct {
	Held string `json:"held,omitempty"` // why deletions wait; empty: they do not
	More int    `json:"more,omitempty"` // how many an operator has allowed that no server has taken
}

// deleteBlock is how many allowed deletions a server takes at once. A server that ends
// loses what it has not used of them.
const deleteBlock = 64

// deletions counts what a process has deleted lately.
type deletions struct {
	limit int // Options.DeleteLimit

	mu    sync.Mutex          // guards what follows; not held during calls to the store
	begun map[string]deletion // by uid; begun or looked at within the window
	more  int                 // allowed beyond the limit, taken from the store
}

// deletion is one that was begun. It is known for longer than it counts: one that takes
// longer than the window would otherwise count again.
type deletion struct{ begun, seen time.Time }

// count takes one deletion from what is allowed to this process.
func (d *deletions) count(uid string, held bool) (allowed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if known, again := d.begun[uid]; again {
		d.begun[uid] = deletion{known.begun, now}
		return true
	}
	switch {
	case !held && d.latelyLocked(now) < d.limit:
	case d.more > 0:
		d.more--
	default:
		return false
	}
	if d.begun == nil {
		d.begun = map[string]deletion{}
	}
	d.begun[uid] = deletion{now, now}
	return true
}

// latelyLocked is how many deletions count, or more where that is below the limit. It
// forgets those that are over.
func (d *deletions) latelyLocked(now time.Time) (n int) {
	if len(d.begun) < d.limit { // or each deletion would go through all
		return len(d.begun)
	}
	for uid, known := range d.begun {
		switch {
		case now.Sub(known.seen) >= deleteWindow:
			delete(d.begun, uid)
		case now.Sub(known.begun) < deleteWindow:
			n++
		}
	}
	return n
}

func (d *deletions) allow(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.more += n
}

// mayDelete asks whether the resource of an object may be deleted now; held is why not.
// What goes beyond the limit is held by a record in the store, for every server, until
// an operator's word.
func (r *Reconciler[S, T]) mayDelete(ctx context.Context, uid string) (held string, err error) {
	if r.deletes.limit == 0 {
		return "", nil
	}
	for {
		at, hold, err := r.readDeleteHold(ctx)
		if err != nil {
			return "", err
		}
		if r.deletes.count(uid, hold.Held != "") {
			return "", nil
		}
		taken := min(hold.More, deleteBlock)
		next := deleteHold{Held: hold.Held, More: hold.More - taken}
		switch {
		case taken > 0:
		case hold.Held != "":
			return hold.Held, nil
		default:
			next.Held = fmt.Sprintf("more than %d resources would have been deleted within %v, the rest waits for an operator", r.deletes.limit, deleteWindow)
		}
		switch err := r.writeDeleteHold(ctx, at, next); {
		case errors.Is(err, store.ErrConflict):
		case err != nil:
			return "", err
		case taken > 0:
			r.deletes.allow(taken)
		default:
			return next.Held, nil
		}
	}
}

// AllowDeletes is an operator's word: n more resources may be deleted beyond
// [Options.DeleteLimit], by all servers together, whether deletions are held now or not.
// Objects that wait are deleted at their next look, which is a minute later at most. Once
// n are deleted the limit holds again, and n that is not used up stays. An error says
// that n is not positive, or that the store did not take it.
func (r *Reconciler[S, T]) AllowDeletes(ctx context.Context, n int) error {
	if n <= 0 {
		return fmt.Errorf("external: allow deletes: %d is not a number of deletions", n)
	}
	for {
		at, hold, err := r.readDeleteHold(ctx)
		if err == nil {
			hold.More = min(hold.More, math.MaxInt-n) // the sum must not overflow
			err = r.writeDeleteHold(ctx, at, deleteHold{Held: hold.Held, More: hold.More + n})
		}
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}

// DeletesHeld says why deletions beyond [Options.DeleteLimit] wait for an operator, and
// how many are allowed and not begun. It is empty if none waits. It reads the store.
func (r *Reconciler[S, T]) DeletesHeld(ctx context.Context) (reason string, allowed int, err error) {
	_, hold, err := r.readDeleteHold(ctx)
	return hold.Held, hold.More, err
}

// ResumeDeletes ends a hold of deletions: the limit counts again as at the start of the
// process, for every server whose window is over. Allowed deletions that no server has
// taken are forgotten.
func (r *Reconciler[S, T]) ResumeDeletes(ctx context.Context) error {
	_, err := r.store.Backend().Commit(ctx, store.Txn{Ops: []store.Op{{Kind: deleteHoldKind, Key: r.deleteHoldKey()}}})
	if err != nil {
		return fmt.Errorf("external: resume deletes: %w", err)
	}
	return nil
}

func (r *Reconciler[S, T]) deleteHoldKey() store.Key { return store.Key{Name: r.kind} }

func (r *Reconciler[S, T]) readDeleteHold(ctx context.Context) (at store.Revision, hold deleteHold, err error) {
	record, err := r.store.Backend().Get(ctx, deleteHoldKind, r.deleteHoldKey())
	if errors.Is(err, store.ErrNotFound) {
		return 0, hold, nil
	}
	var text []byte
	if err == nil {
		text, err = record.Encode()
	}
	if err == nil {
		err = json.Unmarshal(text, &hold)
	}
	if err != nil {
		return 0, hold, fmt.Errorf("external: read whether deletions are held: %w", err)
	}
	return record.Revision, hold, nil
}

// writeDeleteHold replaces the record of that revision; zero: there is none.
func (r *Reconciler[S, T]) writeDeleteHold(ctx context.Context, at store.Revision, hold deleteHold) error {
	text, err := json.Marshal(hold)
	if err == nil {
		_, err = r.store.Backend().Commit(ctx, store.Txn{
			If:  []store.Compare{{Kind: deleteHoldKind, Key: r.deleteHoldKey(), Revision: at}},
			Ops: []store.Op{{Kind: deleteHoldKind, Key: r.deleteHoldKey(), Put: store.Bytes(text)}},
		})
	}
	if err != nil {
		return fmt.Errorf("external: record that deletions are held: %w", err)
	}
	return nil
}
