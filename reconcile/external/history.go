package external

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tendhq/tend/store"
)

// history is what an inventory knows of its store's past. A store that was
// restored from a backup lacks what was declared since, while its resources are
// there, marked as ours.
//
//	declared ──x──────x─────x            x  what has left a sign: a write's time
//	backup            │
//	lost              └─────o──────┤     o  an orphan's mark says: declared then
//	made                           │        this inventory: what is younger proves nothing
//
// The marks in the cloud are what the store cannot forget. A sign as young as the
// orphan's declaration would prove that the backup is younger, and the declaration
// therefore gone by an operator's will.
//
// Signs and declarations are times of the clocks of whatever servers wrote them. A
// clock that is off by more than apart can have a prune refused that need not be, until
// Release, or hide a restore, as if there were no history: then the two sides are still
// complete, the cap still holds, and each deletion is still asked for once more.
type history struct {
	high    store.Revision // the newest revision seen
	lost    string         // why the store is held to have gone back; empty: it is not
	leapt   string         // why it may lack commits, until a list shows whether one is missed; empty: it does not
	since   time.Time      // that is known
	stored  bool           // lost is on record in the store
	trusted bool           // an operator said that all is as it should be
}

// HoldKind is the kind of the records that have prunes refused, one for each kind
// of objects, named like that. [Inventory.Release] removes it. It is exported for
// programs that copy a store to try something out.
const HoldKind = "_prunehold"

// leap is more commits than there are from one list to the next. A store that was restored under its
// clients, and does not go back, leaps further: etcdutl's --bump-revision by 1e9 as its
// documentation has it, store/postgres by 1<<40.
const leap = 1 << 29

// apart is how far the clocks of our servers may be apart.
const apart = time.Minute

func (v *Inventory[S, T, R]) holdKey() store.Key { return store.Key{Name: v.o.Store.Kind()} }

// Release ends a Hold, and the one that Prune put itself because the store seems
// to have gone back in time: an operator confirms that the declarations are as they
// should be. Other processes hear of it with their next Prune.
func (v *Inventory[S, T, R]) Release(ctx context.Context) error {
	_, err := v.o.Store.Backend().Commit(ctx, store.Txn{Ops: []store.Op{{Kind: HoldKind, Key: v.holdKey()}}})
	if err != nil {
		return fmt.Errorf("external: inventory: release: %w", err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.held, v.history = "", history{trusted: true}
	return nil
}

// heldLocked is why Prune is refused, or empty.
func (v *Inventory[S, T, R]) heldLocked() string { return cmp.Or(v.held, v.history.lost) }

// noteStore notices a revision that went back or leapt, and a hold on record. It is called with
// each list, so that what is written after a restore hides it no more than what came between
// two lists.
func (v *Inventory[S, T, R]) noteStore(ctx context.Context) error {
	v.mu.Lock()
	before := v.history // what is read now is no older; what others note meanwhile may be younger
	v.mu.Unlock()
	b := v.o.Store.Backend()
	page, err := b.List(ctx, HoldKind, store.ListOptions{}) // a record for each kind at most
	if err != nil {
		return fmt.Errorf("external: inventory: read the declarations: %w", err)
	}
	var reason []byte
	r, err := b.Get(ctx, HoldKind, v.holdKey())
	if err == nil {
		reason, err = r.Encode()
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("external: inventory: read whether prunes are held: %w", err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	h := &v.history
	switch {
	case h.high < before.high: // Release was called meanwhile
		return nil
	case len(reason) > 0:
		h.lost, h.stored = string(reason), true
	case before.stored && h.stored: // an operator has released it
		*h = history{trusted: true} // high may be of what the restore lost
		before.high = 0
	}
	switch {
	case h.lost != "" || before.high == 0:
	case page.Revision < before.high:
		h.lost = fmt.Sprintf("the store went back from revision %d to %d: was it restored from a backup?", before.high, page.Revision)
	case page.Revision-before.high >= leap:
		h.leapt = fmt.Sprintf("the store leapt from revision %d to %d: was it restored from a backup, or did a failover lose commits?", before.high, page.Revision)
		h.since = time.Now()
	}
	h.high = max(h.high, page.Revision)
	return nil
}

// lastSign is the youngest thing that was in the store when this inventory was
// made, as far as can be seen now.
func (v *Inventory[S, T, R]) lastSign(all map[store.Key]*store.Object[S, T]) (last time.Time) {
	for _, o := range all {
		signs := []time.Time{o.Created, o.Deleted, o.Intent.Pending, o.Intent.Succeeded, o.Intent.Failed}
		for _, c := range o.Conditions {
			signs = append(signs, c.Since)
		}
		for _, at := range signs {
			if at.Before(v.made) && at.After(last) {
				last = at
			}
		}
	}
	return last
}

// noteOrphans notices an orphan that was declared when the store, as it was found,
// had ended already. It is read once more: a list may show for a while what was
// deleted with its object a moment ago.
//
// After a leap each orphan may be one whose declaration was lost. A list that was begun later, and shows
// none, says that no such thing is missed.
func (v *Inventory[S, T, R]) noteOrphans(ctx context.Context, s Report, last time.Time) error {
	v.mu.Lock()
	h := &v.history
	switch {
	case h.leapt == "":
	case len(s.Orphans) > 0:
		h.lost, h.leapt = cmp.Or(h.lost, h.leapt), ""
	case s.unsettled == 0 && s.Listed.After(h.since.Add(max(v.o.Settle, apart))):
		h.leapt = ""
	}
	known := h.trusted || h.lost != ""
	v.mu.Unlock()
	if known {
		return nil
	}
	for _, f := range s.Orphans {
		declared := time.Unix(f.Mark.Declared, 0).UTC()
		if f.Mark.Declared == 0 || !declared.Add(time.Second+apart).After(last) || !declared.Before(v.made.Add(apart)) {
			continue
		}
		r, exists, err := v.get(ctx, f.ID)
		if err != nil {
			return err
		}
		if !exists {
			continue
		}
		if mark, marked := v.o.Owner(r); !marked || v.o.Letters.mark(mark) != v.o.Letters.mark(*f.Mark) {
			continue
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		v.history.lost = fmt.Sprintf("%s was declared at %s, and nothing in the store was as young when this process began (%s; clocks may differ by %v): was it restored from a backup?",
			f, declared.Format(time.RFC3339), describeSign(last), apart)
		return nil
	}
	return nil
}

func describeSign(last time.Time) string {
	if last.IsZero() {
		return "it was empty"
	}
	return "it ended at " + last.UTC().Format(time.RFC3339)
}

// keepHold puts on record why the store is held to have gone back, for processes
// that come later: what they find in it will be younger.
func (v *Inventory[S, T, R]) keepHold(ctx context.Context) error {
	v.mu.Lock()
	lost, stored := v.history.lost, v.history.stored
	v.mu.Unlock()
	if lost == "" || stored {
		return nil
	}
	_, err := v.o.Store.Backend().Commit(ctx, store.Txn{Ops: []store.Op{{Kind: HoldKind, Key: v.holdKey(), Put: store.Bytes(store.Clip(lost))}}})
	if err != nil {
		return fmt.Errorf("external: inventory: put on record that prunes are held: %w", err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.history.stored = true
	return nil
}
