package file

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"

	"github.com/tendhq/tend/store"
)

// defaultPage bounds a page whose Limit is zero: a page is copied while a read
// transaction is open, which keeps bbolt from reusing pages.
const defaultPage = 1000

// maxRead bounds how many records are read for a page of some slots, in Limits.
const maxRead = 64

// List returns a page of records in the order of namespace and name. All pages
// of one list show the same revision: what was written since is taken back from
// the history in memory. Where that no longer reaches (or the file was reopened
// in between), the answer is store.ErrCompacted and the list has to begin again.
func (b *backend) List(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
	return b.ListSlots(ctx, kind, store.AllSlots(), o)
}

// ListSlots implements store.SlotReader. It reads the records of the other slots too,
// and copies nothing of them.
func (b *backend) ListSlots(ctx context.Context, kind string, slots store.SlotSet, o store.ListOptions) (store.Page, error) {
	if err := context.Cause(ctx); err != nil {
		return store.Page{}, err
	}
	if err := store.CheckKind(kind); err != nil {
		return store.Page{}, err
	}
	if o.Limit < 0 {
		return store.Page{}, fmt.Errorf("file: %w: list of at most %d records", store.ErrInvalid, o.Limit)
	}
	from, err := openCursor(kind, &o)
	if err != nil {
		return store.Page{}, err
	}
	v, err := b.pin(kind, from, o)
	if err != nil {
		return store.Page{}, err
	}
	var page store.Page
	err = guarded(func() error {
		defer func() { _ = v.tx.Rollback() }()
		page, err = v.page(kind, slots, o)
		return err
	})
	return page, err
}

// A view is the state of a range at one revision: a read transaction, which is
// the state at the checkpoint, and what differs from it.
type view struct {
	tx     *bolt.Tx
	prefix address
	from   address // the first address of the page
	at     store.Revision
	diff   map[address]*row
}

func (b *backend) pin(kind string, from address, o store.ListOptions) (*view, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if err := b.usableLocked(); err != nil {
		return nil, err
	}
	at := o.At
	if at == 0 {
		at = b.history.head()
	}
	if at > b.history.head() && o.Cursor == "" {
		return nil, fmt.Errorf("file: %w: list %s at revision %d, the newest is %d", store.ErrInvalid, kind, at, b.history.head())
	}
	if at < b.pinFloor || at > b.history.head() { // a cursor of before a backup was restored
		return nil, fmt.Errorf("file: list %s at revision %d: %w", kind, at, store.ErrCompacted)
	}
	prefix := prefixOf(kind, o.Namespace)
	from = max(from, prefix)
	tx, base, err := b.beginLocked()
	if err != nil {
		return nil, err
	}
	diff := b.history.overlay(at, base, func(a address) bool {
		return strings.HasPrefix(string(a), string(prefix)) && a >= from
	})
	return &view{tx: tx, prefix: prefix, from: from, at: at, diff: diff}, nil
}

// page merges the transaction's rows with the differences, in order.
func (v *view) page(kind string, slots store.SlotSet, o store.ListOptions) (store.Page, error) {
	p := store.Page{Revision: v.at}
	limit := o.Limit
	if limit == 0 {
		limit = defaultPage
	}
	all, read := slots == store.AllSlots(), 0
	diff := slices.Sorted(maps.Keys(v.diff))
	c := v.tx.Bucket(bucketObjects).Cursor()
	k, val := c.Seek([]byte(v.from))
	for {
		if !bytes.HasPrefix(k, []byte(v.prefix)) {
			k = nil
		}
		a, fromDiff := address(k), false
		if len(diff) > 0 && (k == nil || diff[0] <= a) {
			a, fromDiff = diff[0], true
		}
		if a == "" {
			return p, nil
		}
		if read++; len(p.Records) == limit || !all && (read-1)/maxRead >= limit { // limit may be as large as there are numbers
			p.Cursor = sealCursor(kind, o.Namespace, v.at, a)
			return p, nil
		}
		_, key, _ := a.split()
		wanted := all || slots.HasKey(key)
		var r *row
		var err error
		if fromDiff {
			r, diff = v.diff[a], diff[1:]
		} else if wanted {
			if r, err = copyRow(k, val); err != nil {
				return store.Page{}, err
			}
		}
		if string(k) == string(a) {
			k, val = c.Next()
		}
		if r != nil && wanted {
			p.Records = append(p.Records, r.record(kind, key))
		}
	}
}

func (r *row) record(kind string, k store.Key) store.Record {
	return store.Record{Kind: kind, Key: k, Created: r.created, Revision: r.revision, Bytes: r.data}
}

// A cursor is the list's revision and the first address of the next page, with
// a sum over them and what the list is about, so that one of another list, or an
// invented one, is refused.
func sealCursor(kind, namespace string, at store.Revision, next address) string {
	b := append(binary.AppendUvarint(nil, uint64(at)), next...)
	return hex.EncodeToString(sealed([]byte(prefixOf(kind, namespace)), b))
}

// openCursor sets o.At and returns where the page begins; without a cursor it
// does nothing.
func openCursor(kind string, o *store.ListOptions) (address, error) {
	if o.Cursor == "" {
		return "", nil
	}
	b, err := hex.DecodeString(o.Cursor)
	if err == nil {
		b, err = unseal([]byte(prefixOf(kind, o.Namespace)), b)
	}
	d := decoder{b: b, err: err}
	at, next := store.Revision(d.uvarint()), address(d.b)
	if d.err != nil || sealCursor(kind, o.Namespace, at, next) != o.Cursor {
		return "", fmt.Errorf("file: %w: cursor %.64q of another list", store.ErrInvalid, o.Cursor)
	}
	o.At = at
	return next, nil
}
