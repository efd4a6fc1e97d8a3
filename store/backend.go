package store

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"
)

// Backend is what a place that keeps records has to do. Everything typed is
// written once above it, in [Store]; [storetest.Run] proves an implementation,
// one subtest per sentence of these comments.
//
// Every method may be called from any number of goroutines. After Close every
// method returns [ErrClosed]. A context that ended before the backend did
// anything gives an error that matches context.Cause(ctx). A Backend is
// compared with ==, so it is a pointer.
//
// [storetest.Run]: https://pkg.go.dev/github.com/tendhq/tend/store/storetest#Run
type Backend interface {
	// Get returns the record as of now: it sees every Commit that returned
	// before Get was called, by any client (linearizable). A record
	// that does not exist is [ErrNotFound]; a kind or key that could never
	// exist is [ErrInvalid].
	Get(ctx context.Context, kind string, key Key) (Record, error)

	// List returns one page of a kind. The first page, asked for without a
	// Cursor, sees every Commit that returned before; it is pinned to
	// Page.Revision. The pages that follow are asked for with the Cursor of
	// the page before and show the same instant, whatever was committed
	// since: no record twice, none missing, none newer than Page.Revision. A
	// backend that no longer holds that instant returns [ErrCompacted] and the
	// caller starts over. No list is of an earlier revision than one that ended
	// before it began. A Cursor that no page of this backend gave is
	// [ErrInvalid]. An unknown kind is an empty page, not an error. The order
	// of records is the backend's own.
	List(ctx context.Context, kind string, o ListOptions) (Page, error)

	// Commit applies a transaction whole or not at all and returns its
	// revision, which every record it wrote carries. It begins with
	// [Txn.Prepare], which adds the guards that travel in ctx.
	//
	// A guard that does not hold is [ErrFenced]; then, in order, an If that
	// does not hold is a [*ConflictError] with what is there instead. Nothing
	// was written in either case. Deleting what does not exist changes nothing
	// and is no error. A transaction that changes nothing returns the current
	// revision, and no watcher is told.
	//
	// When the backend cannot tell whether the transaction was applied (a
	// deadline passed or the connection broke after it was sent) the error is
	// [ErrUnknownOutcome]; every other error promises that nothing was
	// written. A Commit is never retried by the backend once it may have been
	// applied.
	//
	// A backend that encodes does so with [Txn.Encode], and fails the Commit with
	// its error: a Value that does not encode, or [ErrInvalid] for one of more than
	// [MaxValue] bytes, or for more than [MaxTxnBytes] together.
	//
	// From Commit on, the Values in it belong to the backend: the caller must
	// not touch them again, whatever Commit returned.
	Commit(ctx context.Context, t Txn) (Revision, error)

	// Watch streams a kind, in the order of its revisions, each change once
	// and none left out.
	//
	// After 0 it sends the records there are, in any number of BatchSnapshot
	// (also none), one BatchSnapshotEnd with the revision they are pinned to,
	// and then changes after that revision. After R > 0 it sends the changes
	// after R and no snapshot. A batch never splits a revision: what one
	// Commit changed of the kind is in one batch. BatchProgress says that
	// everything up to its revision was delivered; it is sent from time to
	// time so that the watcher of a quiet kind has a recent revision to resume
	// from. Batch.Revision never goes down, and within a batch of changes the
	// last change carries it.
	//
	// A change carries the record as written. A deletion carries the record as
	// it last was, at the revision of the deletion; Value and Bytes may both
	// be nil if the backend no longer holds it.
	//
	// The sequence ends with one error, its last element, unless the caller
	// stops reading: the cause of ctx; [ErrClosed]; [ErrCompacted] when R is
	// older than the history kept, when R is newer than the store itself (it
	// was restored from a backup), or when this watcher was too slow, of which
	// no other watcher and no writer notices anything; [ErrInvalid] for an
	// impossible kind. Any other error is a lost connection: watch again from
	// the last Batch.Revision received. Nothing runs before the sequence is
	// ranged over nor after the loop ended.
	Watch(ctx context.Context, kind string, after Revision) iter.Seq2[Batch, error]

	// Close ends every watch and frees what the backend holds. Closing again
	// does nothing and returns nil.
	Close() error
}

// Leaser is what a [Backend] may offer besides: leases, to which records are
// bound. When a lease ends, by expiry or Revoke, its records are deleted, in
// one commit that watchers see like any other.
type Leaser interface {
	// Shared reports whether another process can have the same store open.
	Shared() bool
	// Grant starts a lease that lives for at least ttl and, unless it is
	// renewed, not much longer. No two leases of a store have the same id. A ttl
	// below [MinTTL] is [ErrInvalid].
	Grant(ctx context.Context, ttl time.Duration) (LeaseID, error)
	// Renew lets the lease live for at least its ttl from now. A lease that
	// ended or never was is [ErrLeaseGone]: it cannot be revived, and no record
	// is bound to it any more.
	Renew(ctx context.Context, id LeaseID) error
	// Revoke ends the lease. When it returns nil, the lease's records are
	// gone. A lease that already ended is no error.
	Revoke(ctx context.Context, id LeaseID) error
}

// FullBackend is what the backends of this module are: a [Backend] with leases, which reads slots.
// Those outside of the process can say how they are too; see [Health].
type FullBackend interface {
	Backend
	Leaser
	SlotReader
}

// MinTTL is the shortest lease that may be asked for. A backend may round a
// ttl up to a whole second.
const MinTTL = time.Second

// LeaseID names a lease of one backend. Zero is no lease.
type LeaseID int64

// Value is what a record holds. A backend that keeps bytes calls Encode; one
// that keeps Go values keeps the Value itself and never encodes.
type Value interface {
	// Encode returns the stored form. It may be called more than once and
	// from any goroutine; the result is not modified by anybody.
	Encode() ([]byte, error)
}

// Stamper is implemented by a Value that wants to know the revision it was
// committed at. A backend that keeps Values calls Stamp once, before anybody
// can read the record; one that encodes does not call it.
type Stamper interface {
	Stamp(r Revision)
}

// Bytes is a Value that is its own encoding.
type Bytes []byte

// Encode returns b itself.
func (b Bytes) Encode() ([]byte, error) { return b, nil }

// Record is one stored thing. It is addressed by kind, namespace and name.
type Record struct {
	Kind string
	Key  Key
	// Created is the revision at which the record came to be; a record that
	// was deleted and made again has a new one. It is what guards compare.
	Created Revision
	// Revision is that of the last commit that wrote the record.
	Revision Revision
	// Value or Bytes holds the content: one of them, whichever the backend
	// keeps. Both are shared and read-only.
	Value Value
	Bytes []byte
}

// Encode returns the record's content as bytes, whichever form it has.
func (r Record) Encode() ([]byte, error) {
	if r.Value == nil {
		return r.Bytes, nil
	}
	return r.Value.Encode()
}

// Compare is a condition on one record. With Created and Revision both zero
// the record must not exist. Otherwise it must exist, and each of the two that
// is not zero must be equal to the record's.
type Compare struct {
	Kind              string
	Key               Key
	Created, Revision Revision
}

// Holds reports whether the condition holds for the record found, or for none
// (exists false). Backends share it, so that they cannot disagree.
func (c Compare) Holds(r Record, exists bool) bool {
	if c.Created == 0 && c.Revision == 0 {
		return !exists
	}
	return exists &&
		(c.Created == 0 || c.Created == r.Created) &&
		(c.Revision == 0 || c.Revision == r.Revision)
}

// String names the record and what is expected of it.
func (c Compare) String() string {
	switch {
	case c.Created == 0 && c.Revision == 0:
		return fmt.Sprintf("%s %s must not exist", c.Kind, c.Key)
	case c.Created == 0:
		return fmt.Sprintf("%s %s at revision %d", c.Kind, c.Key, c.Revision)
	case c.Revision == 0:
		return fmt.Sprintf("%s %s created at revision %d", c.Kind, c.Key, c.Created)
	}
	return fmt.Sprintf("%s %s created at revision %d, at revision %d", c.Kind, c.Key, c.Created, c.Revision)
}

// Op is one write of a transaction: a put, or with a nil Put a deletion.
type Op struct {
	Kind string
	Key  Key
	Put  Value
	// Lease binds the record to a lease. Zero binds it to none, also if it
	// was bound before. An ended lease makes Commit return [ErrLeaseGone].
	// A backend that is no [Leaser] refuses any lease with [ErrInvalid].
	Lease LeaseID
}

// Txn is a transaction: if every guard and every If holds, all of Ops happen
// at one revision, otherwise none. At most [MaxTxn] guards and Ifs together,
// and as many Ops; no two Ops on one record.
type Txn struct {
	Guards, If []Compare
	Ops        []Op
}

// MaxValue is the longest encoding of a Value, in bytes: 1 MiB.
const MaxValue = 1 << 20

// MaxTxn bounds a transaction: so many conditions and so many writes.
const MaxTxn = 32

// MaxTxnBytes is the most that the encodings of all Values of one transaction may
// have together, in bytes: 1.25 MiB. With the keys of all conditions and writes that
// is less than the 1.5 MiB that etcd takes in one request by default.
const MaxTxnBytes = MaxValue + MaxValue/4

// Prepare is the first thing every Commit does: it returns t with the guards
// that travel in ctx (see [WithGuard]) added, or an [ErrInvalid] that names
// what is wrong with it. It does not modify t.
func (t Txn) Prepare(ctx context.Context) (Txn, error) {
	if g := Guards(ctx); len(g) > 0 {
		t.Guards = append(slices.Clip(t.Guards), g...)
	}
	return t, t.check()
}

// Encode returns the encoding of the Value of each write, nil for a deletion. It
// fails if one does not encode, and with [ErrInvalid] if one has more than [MaxValue]
// bytes or all have more than [MaxTxnBytes]. Encoders are code of the user's: call it
// without a lock.
func (t Txn) Encode() ([][]byte, error) {
	data, all := make([][]byte, len(t.Ops)), 0
	for i := range t.Ops {
		o := &t.Ops[i]
		if o.Put == nil {
			continue
		}
		b, err := o.Put.Encode()
		if err != nil {
			return nil, fmt.Errorf("store: encode %s %s: %w", o.Kind, o.Key, err)
		}
		if len(b) > MaxValue {
			return nil, fmt.Errorf("%w: %s %s has %d bytes, at most %d", ErrInvalid, o.Kind, o.Key, len(b), MaxValue)
		}
		if all += len(b); all > MaxTxnBytes {
			return nil, fmt.Errorf("%w: the values of one transaction have more than %d bytes", ErrInvalid, MaxTxnBytes)
		}
		if b == nil {
			b = []byte{}
		}
		data[i] = b
	}
	return data, nil
}

func (t Txn) check() error {
	if n := len(t.Guards) + len(t.If); n > MaxTxn {
		return fmt.Errorf("%w: %d conditions in one transaction, at most %d", ErrInvalid, n, MaxTxn)
	}
	if n := len(t.Ops); n > MaxTxn {
		return fmt.Errorf("%w: %d writes in one transaction, at most %d", ErrInvalid, n, MaxTxn)
	}
	for _, cs := range [2][]Compare{t.Guards, t.If} {
		for i := range cs {
			if err := CheckAddress(cs[i].Kind, cs[i].Key); err != nil {
				return err
			}
		}
	}
	for i := range t.Ops {
		if err := t.checkOp(i); err != nil {
			return err
		}
	}
	return nil
}

func (t Txn) checkOp(i int) error {
	o := &t.Ops[i]
	for j := range i {
		if t.Ops[j].Key == o.Key && t.Ops[j].Kind == o.Kind {
			return fmt.Errorf("%w: %s %s written twice in one transaction", ErrInvalid, o.Kind, o.Key)
		}
	}
	return CheckAddress(o.Kind, o.Key)
}

// ListOptions says which records a list is about.
type ListOptions struct {
	// Namespace limits the list; empty means every namespace.
	Namespace string
	// At pins the first page to a revision that is not the newest. Zero means
	// now. A revision that is no longer held is [ErrCompacted], one that is
	// not yet reached is [ErrInvalid]; with a Cursor it is ignored.
	At Revision
	// Limit is the most records in a page; a negative one is [ErrInvalid].
	// Zero leaves it to the backend, which may always return fewer.
	Limit int
	// Cursor continues a list. Namespace must be the same as before.
	Cursor string
}

// Page is a part of a list.
type Page struct {
	// Records is shared and read-only.
	Records []Record
	// Revision is the instant that all pages of the list show.
	Revision Revision
	// Cursor asks for the next page; empty means this was the last.
	Cursor string
}

// BatchKind says what a [Batch] is.
type BatchKind uint8

const (
	// BatchSnapshot holds records that exist; more may follow.
	BatchSnapshot BatchKind = iota + 1
	// BatchSnapshotEnd says that the snapshot is complete.
	BatchSnapshotEnd
	// BatchChanges holds changes, whole revisions of them.
	BatchChanges
	// BatchProgress holds nothing but a revision.
	BatchProgress
)

// String returns the name in lower case.
func (k BatchKind) String() string {
	switch k {
	case BatchSnapshot:
		return "snapshot"
	case BatchSnapshotEnd:
		return "snapshot end"
	case BatchChanges:
		return "changes"
	case BatchProgress:
		return "progress"
	}
	return fmt.Sprintf("batch kind %d", uint8(k))
}

// Batch is one element of a watch. Its Changes are shared by every watcher and
// read-only.
type Batch struct {
	Kind     BatchKind
	Revision Revision
	Changes  []Change
	// Skipped counts the changes of other slots that the watch of some slots read and
	// dropped within this process. Zero where the store itself leaves them out.
	Skipped int
}

// Change is one record as written, or with Deleted as it last was.
type Change struct {
	Record
	Deleted bool
}
