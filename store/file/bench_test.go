package file

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/tendhq/tend/store"
)

const (
	benchRecords = 20000
	benchBytes   = 500
)

func benchKey(i int) store.Key { return store.Key{Name: fmt.Sprintf("object-%08d", i)} }

func benchValue() store.Bytes { return bytes.Repeat([]byte("v"), benchBytes) }

// BenchmarkCommitAgainstBolt compares n writers, each committing one record after
// the other, with bbolt alone putting n records into a bucket in one transaction
// after the other, with its default options; both write random ones of the same
// records. The two take turns within one run, so that what else the machine does
// meets both. The metric bolt/tend is bbolt's time divided by ours: above 1 we
// are faster. syncs/round is how many disk writes n records took us.
func BenchmarkCommitAgainstBolt(b *testing.B) {
	const rounds = 20
	for _, n := range []int{1, 16, 128} {
		b.Run(fmt.Sprintf("writers=%d", n), func(b *testing.B) {
			raw, s := rawBolt(b), benchBackend(b)
			first := transactions(s)
			var rawTime, tendTime time.Duration
			for b.Loop() {
				began := time.Now()
				for range rounds {
					raw(n)
				}
				turn := time.Now()
				writeAtOnce(b, s, n, rounds)
				rawTime += turn.Sub(began)
				tendTime += time.Since(turn)
			}
			b.ReportMetric(float64(rawTime)/float64(tendTime), "bolt/tend")
			b.ReportMetric(float64(tendTime.Nanoseconds())/float64(b.N*n*rounds), "ns/record")
			b.ReportMetric(float64(transactions(s)-first)/float64(b.N*rounds), "syncs/round")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// writeAtOnce has n goroutines commit so many random records each.
func writeAtOnce(b *testing.B, s *Backend, n, rounds int) {
	val := benchValue()
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for range rounds {
				op := store.Op{Kind: "bucket", Key: benchKey(rand.N(benchRecords)), Put: val}
				if _, err := s.Commit(b.Context(), store.Txn{Ops: []store.Op{op}}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// rawBolt returns what puts n random records.
func rawBolt(b *testing.B) func(n int) {
	db, err := bolt.Open(newPath(b), 0o600, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	val := benchValue()
	update := func(n int, key func(i int) int) {
		err := db.Update(func(tx *bolt.Tx) error {
			bucket, err := tx.CreateBucketIfNotExists([]byte("objects"))
			for i := 0; i < n && err == nil; i++ {
				err = bucket.Put([]byte(addressOf("bucket", benchKey(key(i)))), val)
			}
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	update(benchRecords, func(i int) int { return i })
	return func(n int) { update(n, func(int) int { return rand.N(benchRecords) }) }
}

// benchBackend holds benchRecords records, checkpointed.
func benchBackend(b *testing.B) *Backend {
	path := newPath(b)
	s := open(b, path, nil)
	val := benchValue()
	for i := 0; i < benchRecords; i += store.MaxTxn {
		var t store.Txn
		for j := i; j < i+store.MaxTxn; j++ {
			t.Ops = append(t.Ops, store.Op{Kind: "bucket", Key: benchKey(j), Put: val})
		}
		if _, err := s.Commit(b.Context(), t); err != nil {
			b.Fatal(err)
		}
	}
	closeNow(b, s)
	return open(b, path, nil)
}

func BenchmarkGet(b *testing.B) {
	s := benchBackend(b)
	for b.Loop() {
		if _, err := s.Get(b.Context(), "bucket", benchKey(rand.N(benchRecords))); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpen is the price of reading the whole file.
func BenchmarkOpen(b *testing.B) {
	path := newPath(b)
	s := open(b, path, nil)
	for i := 0; i < benchRecords; i += store.MaxTxn {
		var t store.Txn
		for j := i; j < i+store.MaxTxn; j++ {
			t.Ops = append(t.Ops, store.Op{Kind: "bucket", Key: benchKey(j), Put: benchValue()})
		}
		if _, err := s.Commit(b.Context(), t); err != nil {
			b.Fatal(err)
		}
	}
	closeNow(b, s)
	for b.Loop() {
		s, err := Open(path, nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
