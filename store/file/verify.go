package file

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// contents is what a walk over the whole file found.
type contents struct {
	txid    int
	state   state
	history history          // the log, read back
	dirty   map[address]*row // what the log says beyond the checkpoint
	leases  leases
	records int // stored, the log included
}

// inspect opens the file for reading only, which changes nothing in it, and
// walks all of it. Only what passed is ever opened for writing.
func inspect(path string, wait time.Duration) (c *contents, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is not a regular file", ErrForeign, path)
	}
	if info.Size() == 0 {
		// An empty file is what a failed copy leaves. To create a new store in its place
		// would make everything declared in it look deleted.
		return nil, fmt.Errorf("%w: %s is empty; remove it to begin with a new one", ErrCorrupt, path)
	}
	err = guarded(func() error {
		db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: wait})
		if err != nil {
			return openError(path, err)
		}
		defer func() { _ = db.Close() }()
		c, err = walk(db)
		return err
	})
	return c, err
}

// walk reads everything there is: first the pages, then rows and chunks with
// their checksums, and the whole by the accounting in state.
func walk(db *bolt.DB) (*contents, error) {
	if err := readPages(db.Path()); err != nil {
		return nil, err
	}
	c := &contents{dirty: make(map[address]*row), leases: newLeases()}
	err := db.View(func(tx *bolt.Tx) error {
		c.txid = tx.ID()
		meta := tx.Bucket(bucketMeta)
		if meta == nil || string(meta.Get(keyFormat)) != format {
			return fmt.Errorf("%w: %s", ErrForeign, foreignness(meta))
		}
		if !bytes.Equal(meta.Get(keyCommit), commitNumber(tx)) {
			return fmt.Errorf("%w: its root is of commit %x, not of %x", ErrCorrupt, meta.Get(keyCommit), commitNumber(tx))
		}
		for _, name := range [][]byte{bucketLog, bucketObjects, bucketLeases} {
			if tx.Bucket(name) == nil {
				return fmt.Errorf("%w: bucket %q is missing", ErrCorrupt, name)
			}
		}
		var err error
		if c.state, err = parseState(meta.Get(keyState)); err != nil {
			return fmt.Errorf("%w: state: %w", ErrCorrupt, err)
		}
		return firstError(
			func() error { return c.readLeases(tx.Bucket(bucketLeases)) },
			func() error { return c.readObjects(tx.Bucket(bucketObjects)) },
			func() error { return c.readLog(tx.Bucket(bucketLog)) },
			func() error { return c.countRecords(tx.Bucket(bucketObjects)) })
	})
	return c, err
}

func readPages(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return wrap(err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return wrap(err)
	}
	return checkPages(f, info.Size())
}

func firstError(fs ...func() error) error {
	for _, f := range fs {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

func foreignness(meta *bolt.Bucket) string {
	if meta == nil {
		return "a bbolt file, but not one of tend's"
	}
	return fmt.Sprintf("its format is %q, this version reads %q", meta.Get(keyFormat), format)
}

func (c *contents) readObjects(objects *bolt.Bucket) error {
	var count, sum uint64
	err := objects.ForEach(func(k, v []byte) error {
		r, err := openRow(k, v)
		if err != nil {
			return err
		}
		if _, _, ok := address(k).split(); !ok || r.revision > c.state.checkpoint {
			return fmt.Errorf("%w: record %q of revision %d does not belong here", ErrCorrupt, k, r.revision)
		}
		count++
		sum += rowSum(v)
		c.leases.bind(address(k), &r)
		return nil
	})
	if err == nil && (count != c.state.count || sum != c.state.sum) {
		err = fmt.Errorf("%w: %d records are left of %d, or they are not the ones that were written", ErrCorrupt, count, c.state.count)
	}
	return err
}

// readLog reads the chunks back and rolls what is beyond the checkpoint forward.
func (c *contents) readLog(log *bolt.Bucket) error {
	c.history.floor, c.history.unknown = c.state.floor, c.state.floor
	err := log.ForEach(func(k, v []byte) error {
		b, err := unseal(k, v)
		if err != nil || len(k) != 8 {
			return fmt.Errorf("%w: log at %x: %w", ErrCorrupt, k, errors.Join(err, errKey(k)))
		}
		entries, err := parseChunk(append([]byte(nil), b...), c.history.head()+1)
		if err != nil {
			return fmt.Errorf("%w: log at %x: %w", ErrCorrupt, k, err)
		}
		for _, e := range entries {
			c.replay(e)
		}
		if got := binary.BigEndian.Uint64(k); got != uint64(c.history.head()) {
			return fmt.Errorf("%w: log at %x ends at %d", ErrCorrupt, k, c.history.head())
		}
		return nil
	})
	if head := c.history.head(); err == nil && (uint64(head) != log.Sequence() || head < c.state.checkpoint) {
		err = fmt.Errorf("%w: the log ends at revision %d, not at %d", ErrCorrupt, head, max(log.Sequence(), uint64(c.state.checkpoint)))
	}
	return err
}

func (c *contents) countRecords(objects *bolt.Bucket) error {
	c.records = int(c.state.count)
	for a, r := range c.dirty {
		if objects.Get([]byte(a)) != nil {
			c.records--
		}
		if r != nil {
			c.records++
		}
	}
	return nil
}

func errKey(k []byte) error {
	if len(k) == 8 {
		return nil
	}
	return errors.New("malformed key")
}

func (c *contents) replay(e entry) {
	c.history.append(e)
	if e.revision <= c.state.checkpoint {
		return
	}
	for i := range e.events {
		c.dirty[e.events[i].addr] = e.events[i].after()
		c.leases.bind(e.events[i].addr, e.events[i].after())
	}
}

// guarded turns bbolt's panics on malformed pages, and faults on a file that
// was cut short while open, into ErrCorrupt.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrCorrupt, p)
		}
	}()
	return f()
}

func openError(path string, err error) error {
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return fmt.Errorf("%w: %s", ErrLocked, path)
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrVersionMismatch):
		return fmt.Errorf("%w: %s: %w", ErrForeign, path, err)
	case errors.Is(err, berrors.ErrChecksum):
		return fmt.Errorf("%w: %s: %w", ErrCorrupt, path, err)
	}
	var pathErr *os.PathError
	var errno syscall.Errno
	if errors.As(err, &pathErr) || errors.As(err, &errno) {
		return fmt.Errorf("file: %w", err)
	}
	return fmt.Errorf("%w: %s: %w", ErrCorrupt, path, err) // bbolt's own words, "file size too small"
}
