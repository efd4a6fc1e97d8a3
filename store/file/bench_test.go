package file

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/tendhq/tend/store"
)

// BenchmarkOpen is the price of reading the whole file. What else this backend
// costs, beside bbolt, is measured in module bench.
func BenchmarkOpen(b *testing.B) {
	const records, size = 20_000, 500
	path := newPath(b)
	s := open(b, path, nil)
	value := store.Bytes(bytes.Repeat([]byte("v"), size))
	for i := 0; i < records; i += store.MaxTxn {
		var t store.Txn
		for j := i; j < i+store.MaxTxn; j++ {
			t.Ops = append(t.Ops, store.Op{Kind: "bucket", Key: store.Key{Name: fmt.Sprintf("object-%08d", j)}, Put: value})
		}
		if _, err := s.Commit(b.Context(), t); err != nil {
			b.Fatal(err)
		}
	}
	closeNow(b, s)
	for b.Loop() {
		s, err := Open(path)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
