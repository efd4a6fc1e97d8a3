//go:build peers

package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/file"
)

const (
	fileRecords = 20_000
	fileBytes   = 500
)

func fileKey(i int) store.Key { return store.Key{Name: fmt.Sprintf("object-%08d", i)} }

// benchmarkFileStore: n writers, each committing one random record after the
// other, beside bbolt putting n random records into a bucket of the same size in
// one transaction after the other, with the options that it documents as the
// fastest, one of which tend's own database has too. Both sync each commit to the
// disk. One operation is one record. What bbolt need not do, and tend does within
// its figure: keep each record's revision and the changes that watchers may ask
// for, check a transaction before it is written, and tell each writer of it alone.
func benchmarkFileStore(b *testing.B) {
	for _, writers := range []int{1, 16, 128} {
		b.Run(fmt.Sprint("op=put/writers=", writers), func(b *testing.B) {
			b.Run("impl=tend", func(b *testing.B) {
				s := newFileStore(b)
				measure(b, func() { putAtOnce(b, s, writers) })
			})
			b.Run("impl=bbolt", func(b *testing.B) {
				put := newBolt(b)
				measure(b, func() {
					for n := 0; n < b.N; n += writers {
						put(min(writers, b.N-n), func(int) int { return rand.N(fileRecords) })
					}
				})
			})
		})
	}
	b.Run("op=get/impl=tend", func(b *testing.B) {
		s := newFileStore(b)
		measure(b, func() {
			for range b.N {
				if _, err := s.Get(context.Background(), "thing", fileKey(rand.N(fileRecords))); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}

func putAtOnce(b *testing.B, s store.FullBackend, writers int) {
	value := store.Bytes(make([]byte, fileBytes))
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for range share(b.N, writers, w) {
				op := store.Op{Kind: "thing", Key: fileKey(rand.N(fileRecords)), Put: value}
				if _, err := s.Commit(context.Background(), store.Txn{Ops: []store.Op{op}}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// newFileStore holds fileRecords records, and has been closed and opened since, so
// that they lie where they will stay.
func newFileStore(b *testing.B) store.FullBackend {
	path := filepath.Join(b.TempDir(), "state")
	s, err := file.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	value := store.Bytes(make([]byte, fileBytes))
	for i := 0; i < fileRecords; i += store.MaxTxn {
		var t store.Txn
		for j := i; j < min(i+store.MaxTxn, fileRecords); j++ {
			t.Ops = append(t.Ops, store.Op{Kind: "thing", Key: fileKey(j), Put: value})
		}
		if _, err := s.Commit(context.Background(), t); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	if s, err = file.Open(path); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// newBolt returns what puts n records in one transaction.
func newBolt(b *testing.B) func(n int, which func(i int) int) {
	db, err := bolt.Open(filepath.Join(b.TempDir(), "bolt"), 0o600,
		&bolt.Options{NoFreelistSync: true, FreelistType: bolt.FreelistMapType})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	value := make([]byte, fileBytes)
	put := func(n int, which func(i int) int) {
		if err := db.Update(func(tx *bolt.Tx) error {
			bucket, err := tx.CreateBucketIfNotExists([]byte("things"))
			for i := 0; i < n && err == nil; i++ {
				err = bucket.Put([]byte("thing//"+fileKey(which(i)).Name), value)
			}
			return err
		}); err != nil {
			b.Fatal(err)
		}
	}
	put(fileRecords, func(i int) int { return i })
	return put
}
