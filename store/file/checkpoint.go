package file

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/tendhq/tend/store"
)

// A checkpoint is due when this much has changed since the last one. More would
// make the commit that carries it take longer; less would write the same pages
// more often.
const (
	checkpointRows  = 4096
	checkpointBytes = 8 << 20
)

// bbolt shows a transaction to readers as soon as its meta page is written: before
// the disk has it, and before publish. Of most commits a reader notices nothing, as
// they leave the objects bucket alone. A checkpoint changes it, and until publish the
// dirty rows and the history are those of before:
//
//	             meta page written           publish
//	─────────────────────┼──────────────────────┼─────────────▶
//	old objects          │ new objects          │ new objects
//	old dirty, history   │ old dirty, history   │ new dirty, history
//
// A reader that begins in between takes the group's changes back.
type unpublished struct {
	txid int
	base base
}

// A base says what the objects bucket of a read transaction is.
type base struct {
	at    store.Revision // it is the state at this revision
	ahead []entry        // of the changes up to at those that are not published
}

// beginLocked begins a read transaction. The lock has its base, dirty and history be
// of one moment.
func (b *backend) beginLocked() (*bolt.Tx, base, error) {
	tx, err := b.db.Begin(false)
	if err != nil {
		return nil, base{}, wrap(err)
	}
	if u := b.unpublished; u != nil && tx.ID() >= u.txid {
		return tx, u.base, nil
	}
	return tx, base{at: b.state.checkpoint}, nil
}

// announce is called before a checkpoint is committed.
func (b *backend) announce(g *group) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unpublished = &unpublished{g.tx.ID(), base{g.head, g.entries}}
}

// retract is called when it was not committed; after publish it does nothing.
func (b *backend) retract() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unpublished = nil
}

// row returns what a record that is not among the dirty ones was at the last
// published revision.
func (s base) row(tx *bolt.Tx, a address) (*row, error) {
	for _, e := range s.ahead {
		for i := range e.events {
			if e.events[i].addr == a {
				return e.events[i].was, nil
			}
		}
	}
	return readRow(tx, a)
}

// write puts the group into its transaction.
func (g *group) write() error {
	if len(g.entries) > 0 {
		log := g.tx.Bucket(bucketLog)
		log.FillPercent = 1 // keys only ever grow: leave no room between them
		key := chunkKey(g.head)
		if err := log.Put(key, sealed(key, appendChunk(nil, g.entries))); err != nil {
			return err
		}
		if err := log.SetSequence(uint64(g.head)); err != nil {
			return err
		}
	}
	if err := g.writeLease(); err != nil {
		return err
	}
	if g.checkpointDue() {
		if err := g.writeCheckpoint(); err != nil {
			return err
		}
	}
	return putCommit(g.tx)
}

func (g *group) checkpointDue() bool {
	b := g.b
	rows, size := len(b.dirty)+len(g.staged), b.dirtyBytes
	for _, e := range g.entries {
		size += e.size()
	}
	return rows >= checkpointRows || size >= checkpointBytes ||
		b.history.exceeds(over(b.opts.historyRevisions), over(b.opts.historyBytes))
}

// over is how far the history may grow beyond its bound before a checkpoint is
// made for the sake of cutting it.
func over(bound int) int { return bound + min(bound/4+16, math.MaxInt-bound) }

// writeCheckpoint brings the objects bucket up to the group's head and cuts the
// log, in the group's own transaction.
func (g *group) writeCheckpoint() error {
	changed := maps.Clone(g.b.dirty)
	maps.Copy(changed, g.staged)
	st := g.b.state
	if err := applyRows(g.tx.Bucket(bucketObjects), changed, &st); err != nil {
		return err
	}
	g.cut = g.b.history.cut(g.b.opts.historyRevisions, g.b.opts.historyBytes, g.b.history.head())
	st.checkpoint = g.head
	var err error
	if st.floor, err = cutLog(g.tx.Bucket(bucketLog), st.floor, g.cut); err != nil {
		return err
	}
	g.state = &st
	return g.tx.Bucket(bucketMeta).Put(keyState, st.encode())
}

// applyRows writes rows in the order of their addresses: neighbours share pages.
func applyRows(objects *bolt.Bucket, rows map[address]*row, st *state) error {
	for _, a := range slices.Sorted(maps.Keys(rows)) {
		key := []byte(a)
		if old := objects.Get(key); old != nil {
			st.count--
			st.sum -= rowSum(old)
		}
		r := rows[a]
		if r == nil {
			if err := objects.Delete(key); err != nil {
				return err
			}
			continue
		}
		v := sealed(key, r.append(make([]byte, 0, len(r.data)+overhead)))
		st.count++
		st.sum += rowSum(v)
		if err := objects.Put(key, v); err != nil {
			return err
		}
	}
	return nil
}

// cutLog removes the chunks that end at or before to and returns where the log
// now begins. A chunk is never split.
func cutLog(log *bolt.Bucket, floor, to store.Revision) (store.Revision, error) {
	var doomed [][]byte
	c := log.Cursor()
	for k, _ := c.First(); k != nil && store.Revision(binary.BigEndian.Uint64(k)) <= to; k, _ = c.Next() {
		doomed = append(doomed, k)
	}
	for _, k := range doomed {
		if err := log.Delete(k); err != nil {
			return floor, err
		}
		floor = store.Revision(binary.BigEndian.Uint64(k))
	}
	return floor, nil
}
