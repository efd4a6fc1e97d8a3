package file

import (
	"bytes"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// A read of what was read ahead gives what the file has there, and its error beyond the end.
func TestReadAheadReadsWhatIsThere(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 300_000)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	file := bytes.NewReader(data)
	r := &readAhead{file: file, block: make([]byte, 0, 64<<10)}
	at := int64(0)
	for range 5000 {
		size := 1 + random.IntN(5000)
		got, want := make([]byte, size), make([]byte, size)
		n, err := r.ReadAt(got, at)
		wantN, wantErr := file.ReadAt(want, at)
		if n != wantN || !errors.Is(err, wantErr) || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes at %d: got %d, %v, want %d, %v", len(got), at, n, err, wantN, wantErr)
		}
		if at += int64(n); random.IntN(8) == 0 || err != nil {
			at = random.Int64N(int64(len(data)))
		}
	}
}

// A number of pages beyond the end of the file is damage, however large: one whose bytes
// together overflow 64 bits was accepted.
func TestFileWithTooManyPagesIsRefused(t *testing.T) {
	for _, pages := range []uint64{1 << 40, 1<<64 - 1} {
		data := written(t)
		second := int(order.Uint32(data[pageHeader+8:])) // the size of a page, which is the system's
		for _, at := range []int{0, second} {
			meta := data[at+pageHeader:]
			order.PutUint64(meta[40:], pages)
			sum := fnv.New64a()
			_, _ = sum.Write(meta[:56])
			order.PutUint64(meta[56:], sum.Sum64())
		}
		if err := checkPages(bytes.NewReader(data), int64(len(data))); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d pages: got %v, want ErrCorrupt", pages, err)
		}
	}
}

// The check goes from page to page below each other. A file can be made in which there are
// millions of them, and a stack that has no room left ends the process, which nothing catches.
//
// promise S1. Negative control: the mutant "buckets in buckets are followed without end".
func TestFileOfBucketsInBucketsIsRefused(t *testing.T) {
	for depth, fine := range map[int]bool{50: true, 150: false} {
		path := filepath.Join(t.TempDir(), "x.db")
		db, err := bolt.Open(path, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = db.Update(func(tx *bolt.Tx) error {
			b, err := tx.CreateBucket([]byte("b"))
			for n := 1; n < depth && err == nil; n++ {
				b, err = b.CreateBucket([]byte("b"))
			}
			return err
		})
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkPages(bytes.NewReader(data), int64(len(data))); (err == nil) != fine || !fine && !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d buckets in each other: %v, fine %v", depth, err, fine)
		}
	}
}

// What bbolt relies on, and a page can say otherwise though it looks whole: each key once, each page below the
// number of pages, and no free page in use or listed twice.
//
// promise S1
func TestPagesThatLookWholeAreRefused(t *testing.T) {
	page := os.Getpagesize()
	refused := func(what string, data []byte) {
		t.Helper()
		if err := checkPages(bytes.NewReader(data), int64(len(data))); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", what, err)
		}
	}
	whole := written(t)
	twice, beyond, buckets := 0, 0, 0
	for _, id := range pagesInUse(t, whole) {
		data := bytes.Clone(whole)
		at := data[int(id)*page:][:page]
		order.PutUint32(at[12:], 1<<20)
		refused("a page that goes on behind the last one", data)
		order.PutUint32(at[12:], order.Uint32(whole[int(id)*page+12:]))
		switch order.Uint16(at[8:]) {
		case flagLeaf:
			keys, err := elements(id, at, 4)
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range keys {
				if k.flags&flagBucket != 0 && len(k.value) == bucketSize {
					root := order.Uint64(k.value)
					order.PutUint64(k.value, 0)
					refused("a bucket that lies right here, and has no page", data)
					order.PutUint64(k.value, root)
					buckets++
				}
			}
			if len(keys) > 1 && len(keys[0].key) == len(keys[1].key) {
				copy(keys[0].key, keys[1].key)
				refused("a leaf with a key twice", data)
				twice++
			}
		case flagBranch: // its first child lies behind the last page
			c := &pageCheck{file: bytes.NewReader(data), size: int64(len(data))}
			if err := c.readMetas(); err != nil {
				t.Fatal(err)
			}
			behind := c.pages() + 1
			data = append(data, make([]byte, max(0, int(behind+1)*page-len(data)))...)
			child := data[int(id)*page:][pageHeader+8:]
			moved := data[int(behind)*page:][:page]
			copy(moved, data[int(order.Uint64(child))*page:])
			order.PutUint64(moved, behind)
			order.PutUint64(child, behind)
			refused("a page behind the last one", data)
			beyond++
			data = bytes.Clone(whole)
			keys, err := elements(id, data[int(id)*page:][:page], 0)
			if err != nil {
				t.Fatal(err)
			}
			if len(keys) > 1 && len(keys[0].key) == len(keys[1].key) {
				copy(keys[0].key, keys[1].key)
				refused("a branch with a key twice", data)
			}
		}
	}
	if twice == 0 || beyond == 0 || buckets == 0 {
		t.Errorf("%d leaves, %d branches and %d buckets were altered: this shows nothing", twice, beyond, buckets)
	}

	path := filepath.Join(t.TempDir(), "x.db")
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		err = errors.Join(err, db.Update(func(tx *bolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte("b"))
			return errors.Join(err, b.Put([]byte("k"), make([]byte, 3*page)))
		}))
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	listed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c := &pageCheck{file: bytes.NewReader(listed), size: int64(len(listed))}
	if err := errors.Join(checkPages(c.file, c.size), c.readMetas()); err != nil {
		t.Fatal(err)
	}
	root, list := order.Uint64(c.meta[16:]), int(order.Uint64(c.meta[32:]))*page
	if n := order.Uint16(listed[list+10:]); n < 2 {
		t.Fatalf("%d pages are free: this shows nothing", n)
	}
	for what, free := range map[string]uint64{"in use": root, "free twice": order.Uint64(listed[list+pageHeader+8:])} {
		data := bytes.Clone(listed)
		order.PutUint64(data[list+pageHeader:], free)
		refused("a free page that is "+what, data)
	}
}
