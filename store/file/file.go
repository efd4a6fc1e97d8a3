package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/tendhq/tend/store"
)

// backend keeps records in one file:
//
//	Commit ─▶ queue ─▶ group ─▶ bbolt: log chunk, now and then a checkpoint
//	                     │
//	                     ▼ published under mu
//	          dirty      newest rows since the checkpoint ──▶ Get (else bbolt)
//	          history    the tail of the log ───────────────▶ Watch, pinned List
//	          changed    closed and replaced at each group ─▶ wakes watchers
//
// All methods are safe for concurrent use.
type backend struct {
	path     string // absolute: the process may change its directory
	opts     options
	db       *bolt.DB
	identity os.FileInfo // of the file that db has open
	reader   *os.File    // of the file, for inPlace
	pageSize int64
	writes   *store.WriteHealth
	txid     atomic.Int64 // the last transaction; the committer sets it

	queueMu    sync.Mutex // guards the three below
	queue      []*pending
	committing bool // a committer is at work
	closing    bool
	working    sync.WaitGroup // the committer, and leases that expire; Close waits
	submitted  atomic.Int64   // queued, or in the group under way
	lastGroup  int            // how many the last group of commitAll had; the committer's own

	// mu guards what follows. The committer alone writes it, so the committer
	// may read it without. Never held during disk writes.
	mu          sync.RWMutex
	state       state
	dirty       map[address]*row // newest rows since state.checkpoint; nil means absent
	dirtyBytes  int
	history     history
	unpublished *unpublished   // nil unless a checkpoint is being committed
	pinFloor    store.Revision // pinned lists reach back to here, no further
	leases      leases
	changed     chan struct{}
	broken      error // set once: by a disk that failed in the middle of a commit, or a file that was replaced
	brokenSince time.Time
	inDoubt     bool        // what is being committed may be on disk and is not published; the committer's own
	looking     *time.Timer // calls look
	closed      bool
}

// options are for tests: nothing about a file needs tuning.
type options struct {
	// lockWait is how long Open waits for the file if it is open already, in this or
	// another process. Default: 1 s.
	lockWait time.Duration

	// historyRevisions and historyBytes bound the history from which watches
	// are resumed, in memory and in the file. It is cut to them when it has
	// grown a quarter beyond one of them. What it holds twice, the version
	// written and the one it replaced, counts twice. Default: 16384
	// revisions, 16 MiB.
	historyRevisions int
	historyBytes     int

	// openFile is how bbolt opens the file for writing; tests break it.
	openFile func(string, int, os.FileMode) (*os.File, error)
	// beforePublish is called between bbolt's commit and publish; tests read then.
	beforePublish func()
}

var (
	// ErrLocked is returned by Open when the file is open already, in this or another process.
	ErrLocked = errors.New("file: the file is open already, in this or another process")
	// ErrForeign is returned by Open for a file that is not one of tend's, or is
	// of another format. It is left as it is.
	ErrForeign = errors.New("file: not a tend file")
	// ErrCorrupt is returned by Open for a file that is torn or altered, and by
	// an operation that meets such a record. Nothing is ever repaired: restore
	// the file from a backup.
	ErrCorrupt = errors.New("file: the file is damaged")

	errNoPath = errors.New("file: the path is empty")
)

// Open opens the file at path, or creates it, readable and writable for its
// owner only; its directory must exist. It reads the whole file once to be sure
// of it (one to two seconds per GB from a warm cache), and refuses one that is
// another's (ErrForeign), damaged (ErrCorrupt), or still open after a second, in this or
// another process (ErrLocked). It starts no goroutine; a timer looks twice a second whether
// the file is still the one at its path.
func Open(path string) (store.FullBackend, error) { return openWith(path, nil) }

func openWith(path string, o *options) (store.FullBackend, error) {
	if path == "" {
		return nil, errNoPath // filepath.Abs would make it the current directory
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, wrap(err)
	}
	b := &backend{path: path, changed: make(chan struct{})}
	b.writes = store.NewWriteHealth(b, path, nil)
	if o != nil {
		b.opts = *o
	}
	if err := b.opts.setDefaults(); err != nil {
		return nil, err
	}
	if err := createMissing(path); err != nil {
		return nil, err
	}
	seen, err := inspect(path, b.opts.lockWait)
	if err != nil {
		return nil, err
	}
	if err := guarded(func() error { return b.open(seen) }); err != nil {
		return nil, err
	}
	return b, nil
}

func (o *options) setDefaults() error {
	if o.lockWait < 0 || o.historyRevisions < 0 || o.historyBytes < 0 {
		return errors.New("file: Open: an option is negative")
	}
	if o.lockWait == 0 {
		o.lockWait = time.Second
	}
	if o.historyRevisions == 0 {
		o.historyRevisions = 16384
	}
	if o.historyBytes == 0 {
		o.historyBytes = 16 << 20
	}
	return nil
}

// createMissing creates the file under another name and links it into place
// when it is complete: a process that finds the path finds a whole file, and of two
// processes that create at once one finds the other's.
func createMissing(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return wrap(err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-*") // mode 0600
	if err != nil {
		return wrap(err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	if err := f.Close(); err != nil {
		return wrap(err)
	}
	db, err := bolt.Open(f.Name(), 0o600, &bolt.Options{NoFreelistSync: true})
	if err != nil {
		return wrap(err)
	}
	if err := errors.Join(db.Update(create), db.Close()); err != nil {
		return wrap(err)
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, os.ErrExist) {
		return wrap(err)
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return wrap(err)
	}
	return wrap(errors.Join(d.Sync(), d.Close()))
}

func wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("file: %w", err)
}

// open opens for writing what inspect has seen, and writes a checkpoint if the
// log is ahead of the objects.
func (b *backend) open(seen *contents) error {
	db, err := bolt.Open(b.path, 0o600, &bolt.Options{
		Timeout: b.opts.lockWait, OpenFile: b.openAndRemember,
		// A checkpoint frees thousands of pages, which the log then fills one by
		// one: the list of them would be half of what each commit writes.
		NoFreelistSync: true,
	})
	if errors.Is(err, os.ErrPermission) { // inspect has read it
		return fmt.Errorf("file: it is read-only, and a store has to be written to: %w", err)
	}
	if err != nil {
		return openError(b.path, err)
	}
	b.db = db
	if err := b.load(seen); err != nil {
		return errors.Join(err, db.Close())
	}
	return nil
}

func (b *backend) load(seen *contents) error {
	txid, err := b.txOnDisk()
	if err == nil && txid != seen.txid {
		seen, err = walk(b.db) // it was written to between our two looks
	}
	if err != nil {
		return err
	}
	b.state, b.dirty, b.history, b.leases = seen.state, seen.dirty, seen.history, seen.leases
	if err := b.checkpointNow(); err != nil {
		return err
	}
	if txid, err = b.txOnDisk(); err != nil {
		return err
	}
	if b.reader, err = os.Open(b.path); err != nil {
		return wrap(err)
	}
	b.txid.Store(int64(txid))
	b.pageSize = int64(b.db.Info().PageSize)
	b.pinFloor = b.history.head()
	b.leases.arm(b)
	b.mu.Lock() // look may come before this returns
	defer b.mu.Unlock()
	b.looking = time.AfterFunc(lookEvery, b.look)
	return nil
}

// checkpointNow brings the objects bucket up to date at Open. From then on each
// event knows what it replaced, which a pinned list needs.
func (b *backend) checkpointNow() error {
	if len(b.dirty) == 0 {
		return nil
	}
	tx, err := b.db.Begin(true)
	if err != nil {
		return wrap(err)
	}
	defer func() { _ = tx.Rollback() }()
	g := b.newGroup(tx)
	if err := errors.Join(g.writeCheckpoint(), putCommit(tx)); err != nil {
		return wrap(err)
	}
	if err := tx.Commit(); err != nil {
		return wrap(err)
	}
	b.publish(g)
	return nil
}

// Close waits for the commits under way, refuses everything after, ends the
// watches with ErrClosed and lets go of the file. A second Close does nothing.
func (b *backend) Close() error {
	b.queueMu.Lock()
	closing := b.closing
	b.closing = true
	b.queueMu.Unlock()
	if closing {
		return nil
	}
	b.writes.Close()
	b.working.Wait()
	b.mu.Lock()
	b.closed = true
	b.leases.disarm()
	b.looking.Stop()
	close(b.changed)
	b.mu.Unlock()
	return wrap(errors.Join(b.reader.Close(), b.db.Close()))
}

// usable returns why nothing can be done with the backend any more.
func (b *backend) usableLocked() error {
	if b.closed {
		return errClosed
	}
	return b.broken
}

// Get returns the newest version of a record.
func (b *backend) Get(ctx context.Context, kind string, key store.Key) (store.Record, error) {
	if err := context.Cause(ctx); err != nil {
		return store.Record{}, err
	}
	if err := store.CheckAddress(kind, key); err != nil {
		return store.Record{}, err
	}
	a := addressOf(kind, key)
	b.mu.RLock()
	if err := b.usableLocked(); err != nil {
		b.mu.RUnlock()
		return store.Record{}, err
	}
	r, ok := b.dirty[a]
	if ok {
		b.mu.RUnlock()
		return found(kind, key, r)
	}
	// Begun under the lock: a checkpoint that empties dirty afterwards cannot
	// come between the two looks.
	tx, base, err := b.beginLocked()
	b.mu.RUnlock()
	if err != nil {
		return store.Record{}, err
	}
	err = guarded(func() error {
		defer func() { _ = tx.Rollback() }()
		r, err = base.row(tx, a)
		return err
	})
	if err != nil {
		return store.Record{}, err
	}
	return found(kind, key, r)
}
