package file

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/tendhq/tend/store"
)

// The file is a bbolt database with four buckets:
//
//	tend     "format" → "tend file 1"
//	         "state"  → checkpoint, floor, count, sum           (sealed)
//	         "commit" → the number of the transaction
//	log      last revision (8 bytes, big endian) → chunk        (sealed)
//	         its sequence is the head revision
//	objects  address → row, as of the checkpoint                (sealed)
//	leases   lease id (8 bytes) → seconds to live
//
// A commit appends one chunk to the log. The objects bucket is brought up to
// date at a checkpoint, every thousand or so changed records, in the same
// transaction as the commit that made it due. What is later than the checkpoint
// is in memory too, and is read back from the log at Open.
var (
	bucketMeta    = []byte("tend")
	bucketLog     = []byte("log")
	bucketObjects = []byte("objects")
	bucketLeases  = []byte("leases")

	keyFormat = []byte("format")
	keyState  = []byte("state")
	keyCommit = []byte("commit")
)

const format = "tend file 1"

// state is the accounting of the objects bucket. bbolt has no checksums, so a
// page that a bad copy left empty would read as objects that were never there,
// and a user's resources in a cloud would be deleted for it. Count and sum
// (of all rows' checksums, in any order) tell.
type state struct {
	checkpoint store.Revision // the objects bucket is the state at this revision
	floor      store.Revision // the log holds what is later than this
	count      uint64
	sum        uint64
}

func (s state) encode() []byte {
	var b []byte
	for _, v := range []uint64{uint64(s.checkpoint), uint64(s.floor), s.count, s.sum} {
		b = binary.AppendUvarint(b, v)
	}
	return sealed(keyState, b)
}

func parseState(v []byte) (s state, err error) {
	b, err := unseal(keyState, v)
	if err != nil {
		return s, err
	}
	d := decoder{b: b}
	s.checkpoint, s.floor = store.Revision(d.uvarint()), store.Revision(d.uvarint())
	s.count, s.sum = d.uvarint(), d.uvarint()
	if d.err == nil && s.floor > s.checkpoint {
		d.err = fmt.Errorf("log begins at %d, after the checkpoint %d", s.floor, s.checkpoint)
	}
	return s, d.err
}

// create makes the buckets of an empty file.
func create(tx *bolt.Tx) error {
	for _, name := range [][]byte{bucketMeta, bucketLog, bucketObjects, bucketLeases} {
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	return errors.Join(
		tx.Bucket(bucketMeta).Put(keyFormat, []byte(format)),
		tx.Bucket(bucketMeta).Put(keyState, state{}.encode()),
		putCommit(tx))
}

// putCommit ties the root of the tree to bbolt's meta page, which has the same
// number: an old root, with all that was below it then, is as sound as the new
// one. It costs nothing, the page that holds it is written anyway.
func putCommit(tx *bolt.Tx) error {
	return tx.Bucket(bucketMeta).Put(keyCommit, commitNumber(tx))
}

func commitNumber(tx *bolt.Tx) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(tx.ID()))
}

// readRow reads a row of the objects bucket; nil if there is none. It copies.
func readRow(tx *bolt.Tx, a address) (*row, error) {
	v := tx.Bucket(bucketObjects).Get([]byte(a))
	if v == nil {
		return nil, nil
	}
	return copyRow([]byte(a), v)
}

// copyRow checks a stored row and returns one that outlives the transaction.
func copyRow(key, v []byte) (*row, error) {
	r, err := openRow(key, v)
	r.data = bytes.Clone(r.data)
	return &r, err
}

// openRow checks a stored row, which belongs to the transaction.
func openRow(key, v []byte) (row, error) {
	b, err := unseal(key, v)
	if err == nil {
		var r row
		if r, err = parseRow(b); err == nil {
			return r, nil
		}
	}
	return row{}, fmt.Errorf("%w: record %q: %w", ErrCorrupt, key, err)
}

// rowSum is what a stored row adds to state.sum: its own checksum, and its
// length. A sum over the row and its checksum would be the same for all rows.
func rowSum(v []byte) uint64 {
	return uint64(binary.LittleEndian.Uint32(v[len(v)-4:])) | uint64(len(v))<<32
}
