package file

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
)

// bbolt trusts its pages: it follows what they say through mapped memory, and a
// damaged one makes it panic, fault, or go on and answer wrongly. So before
// bbolt reads the tree, pageCheck has read every page of it with plain reads and
// checked what bbolt relies on: offsets within the page, keys in order and under
// the right branch, every page in one place only.

// The page format, in the machine's byte order:
//
//	page   id 8 | flags 2 | count 2 | overflow 4 | elements …
//	branch pos 4 | ksize 4 | page 8                 pos counts from the element
//	leaf   flags 4 | pos 4 | ksize 4 | vsize 4      the value follows the key
//	meta   magic 4 | version 4 | page size 4 | flags 4 | root 8 | sequence 8 |
//	       freelist 8 | pages 8 | transaction 8 | checksum 8
//	bucket root 8 | sequence 8 | an inline page, if root is 0
const (
	pageHeader  = 16
	elementSize = 16
	metaSize    = 64
	bucketSize  = 16

	flagBranch   = 1
	flagLeaf     = 2
	flagFreelist = 16
	flagBucket   = 1   // of a leaf element
	maxDepth     = 100 // of pages below each other; a file of ours has some ten at most

	boltMagic   = 0xED0CDAED
	boltVersion = 2
	noFreelist  = ^uint64(0)
)

var order = binary.NativeEndian

type pageCheck struct {
	file     io.ReaderAt
	size     int64
	pageSize int64
	meta     []byte // the newer one
	seen     []bool // by page
	spare    [][]byte
}

// readAhead reads a block where a read follows on the one before: a checkpoint writes the leaves
// in the order of their keys, so that most of a tree's pages follow on each other.
type readAhead struct {
	file  io.ReaderAt
	block []byte
	at    int64 // of the block in the file
	next  int64 // where the last read ended
}

func (r *readAhead) ReadAt(p []byte, at int64) (int, error) {
	follows, end := at == r.next, at+int64(len(p))
	r.next = end
	inBlock := func() bool { return r.at <= at && end <= r.at+int64(len(r.block)) }
	if follows && !inBlock() {
		n, _ := r.file.ReadAt(r.block[:cap(r.block)], at) // an error comes again below
		r.at, r.block = at, r.block[:n]
	}
	if !inBlock() {
		return r.file.ReadAt(p, at)
	}
	return copy(p, r.block[at-r.at:]), nil
}

// checkPages reads all pages in use and returns an ErrCorrupt that says where
// the first damage is. It does not panic, whatever the bytes.
func checkPages(file io.ReaderAt, size int64) error {
	c := &pageCheck{file: &readAhead{file: file, block: make([]byte, 0, 64<<10)}, size: size}
	if err := c.readMetas(); err != nil {
		return err
	}
	if c.pages() > uint64(size/c.pageSize) {
		return fmt.Errorf("%w: it has %d bytes of %d pages: the end is missing", ErrCorrupt, size, c.pages())
	}
	if err := c.tree(order.Uint64(c.meta[16:]), nil, nil, 0); err != nil {
		return err
	}
	return c.freelist()
}

func (c *pageCheck) pages() uint64 { return order.Uint64(c.meta[40:]) }

// readMetas wants both meta pages whole. bbolt is content with one, and so with
// the state one commit ago: a commit that was acknowledged would silently be
// gone. A crash does not leave one half written, its bytes are in one sector.
func (c *pageCheck) readMetas() error {
	first, err := c.readMeta(0)
	if err != nil {
		return err
	}
	c.pageSize = int64(order.Uint32(first[8:]))
	if c.pageSize < 512 || c.pageSize > 1<<24 || c.pageSize&(c.pageSize-1) != 0 {
		return fmt.Errorf("%w: pages of %d bytes", ErrCorrupt, c.pageSize)
	}
	second, err := c.readMeta(c.pageSize)
	if err != nil {
		return err
	}
	c.seen = make([]bool, c.size/c.pageSize)
	c.meta = first
	if order.Uint64(second[48:]) > order.Uint64(first[48:]) {
		c.meta = second
	}
	return nil
}

func (c *pageCheck) readMeta(at int64) ([]byte, error) {
	page := make([]byte, pageHeader+metaSize)
	if _, err := c.file.ReadAt(page, at); err != nil {
		return nil, fmt.Errorf("%w: no meta page at %d: %w", ErrCorrupt, at, err)
	}
	meta := page[pageHeader:]
	sum := fnv.New64a()
	_, _ = sum.Write(meta[:56])
	if order.Uint32(meta) != boltMagic || order.Uint32(meta[4:]) != boltVersion || order.Uint64(meta[56:]) != sum.Sum64() {
		return nil, fmt.Errorf("%w: the meta page at %d is damaged; the last commit may be missing", ErrCorrupt, at)
	}
	return meta, nil
}

// read returns a page with its overflow, once. A caller that has done with the page appends
// it to spare.
func (c *pageCheck) read(id uint64) ([]byte, error) {
	if id < 2 || id >= c.pages() {
		return nil, damaged(id, "is outside the file")
	}
	var page []byte
	if n := len(c.spare); n > 0 {
		page, c.spare = c.spare[n-1], c.spare[:n-1]
	}
	page = slices.Grow(page[:0], int(c.pageSize))[:c.pageSize]
	if _, err := c.file.ReadAt(page, int64(id)*c.pageSize); err != nil {
		return nil, damaged(id, err.Error())
	}
	overflow := uint64(order.Uint32(page[12:]))
	if order.Uint64(page) != id || overflow >= c.pages()-id {
		return nil, damaged(id, "is not what it says it is")
	}
	for i := id; i <= id+overflow; i++ {
		if c.seen[i] {
			return nil, damaged(i, "is used twice")
		}
		c.seen[i] = true
	}
	if overflow == 0 {
		return page, nil
	}
	page = slices.Grow(page, int(overflow)*int(c.pageSize))[:int(overflow+1)*int(c.pageSize)]
	if _, err := c.file.ReadAt(page[c.pageSize:], int64(id+1)*c.pageSize); err != nil {
		return nil, damaged(id, err.Error())
	}
	return page, nil
}

// tree checks a page and all below it; its keys have to be in [low, high), where
// nil means no bound.
func (c *pageCheck) tree(id uint64, low, high []byte, depth int) error {
	// Every page is read once, so a deep chain of pages ends; but a stack of ten million of
	// them, of branches or of buckets in buckets, would end the process.
	if depth > maxDepth {
		return damaged(id, "lies too deep")
	}
	page, err := c.read(id)
	if err != nil {
		return err
	}
	defer func() { c.spare = append(c.spare, page) }()
	switch order.Uint16(page[8:]) {
	case flagBranch:
		return c.branch(id, page, low, high, depth)
	case flagLeaf:
		return c.leaf(id, page, low, high, depth)
	}
	return damaged(id, "is neither branch nor leaf")
}

func (c *pageCheck) branch(id uint64, page, low, high []byte, depth int) error {
	keys, err := elements(id, page, 0)
	if err != nil {
		return err
	}
	if len(keys) == 0 || !ordered(keys, low, high) {
		return damaged(id, "has keys out of order")
	}
	for i, k := range keys {
		next := high
		if i+1 < len(keys) {
			next = keys[i+1].key
		}
		if err := c.tree(order.Uint64(page[pageHeader+i*elementSize+8:]), k.key, next, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (c *pageCheck) leaf(id uint64, page, low, high []byte, depth int) error {
	keys, err := elements(id, page, 4)
	if err != nil {
		return err
	}
	if !ordered(keys, low, high) {
		return damaged(id, "has keys out of order")
	}
	for _, k := range keys {
		if k.flags&flagBucket == 0 {
			continue
		}
		if err := c.bucket(id, k.value, depth); err != nil {
			return err
		}
	}
	return nil
}

// bucket checks what a leaf says of a bucket: where its tree is, or a small tree
// right there.
func (c *pageCheck) bucket(id uint64, value []byte, depth int) error {
	if len(value) < bucketSize {
		return damaged(id, "has a bucket cut short")
	}
	if root := order.Uint64(value); root != 0 {
		return c.tree(root, nil, nil, depth+1)
	}
	inline := value[bucketSize:]
	if len(inline) < pageHeader || order.Uint16(inline[8:]) != flagLeaf {
		return damaged(id, "has a bucket cut short")
	}
	keys, err := elements(id, inline, 4)
	if err == nil && !ordered(keys, nil, nil) {
		err = damaged(id, "has keys out of order")
	}
	return err
}

type element struct {
	flags      uint32
	key, value []byte
}

// elements reads a page's elements. skip is 4 on a leaf, whose elements begin
// with flags, and 0 on a branch.
func elements(id uint64, page []byte, skip int) ([]element, error) {
	count := int(order.Uint16(page[10:]))
	if pageHeader+count*elementSize > len(page) {
		return nil, damaged(id, "has more elements than room")
	}
	keys := make([]element, count)
	for i := range keys {
		e := page[pageHeader+i*elementSize:]
		pos, ksize, vsize := uint64(order.Uint32(e[skip:])), uint64(order.Uint32(e[skip+4:])), uint64(0)
		if skip > 0 {
			keys[i].flags, vsize = order.Uint32(e), uint64(order.Uint32(e[12:]))
		}
		if pos < elementSize || pos+ksize+vsize > uint64(len(e)) {
			return nil, damaged(id, "has an element that leaves the page")
		}
		keys[i].key, keys[i].value = e[pos:pos+ksize], e[pos+ksize:pos+ksize+vsize]
	}
	return keys, nil
}

func ordered(keys []element, low, high []byte) bool {
	for i, k := range keys {
		if i > 0 && bytes.Compare(keys[i-1].key, k.key) >= 0 {
			return false
		}
	}
	if len(keys) == 0 {
		return true
	}
	return bytes.Compare(keys[0].key, low) >= 0 && (high == nil || bytes.Compare(keys[len(keys)-1].key, high) < 0)
}

// freelist wants every free page to be one, and no page in use among them: it
// would be written over.
func (c *pageCheck) freelist() error {
	id := order.Uint64(c.meta[32:])
	if id == noFreelist {
		return nil
	}
	page, err := c.read(id)
	if err != nil {
		return err
	}
	if order.Uint16(page[8:]) != flagFreelist {
		return damaged(id, "is not the list of free pages")
	}
	count, list := uint64(order.Uint16(page[10:])), page[pageHeader:]
	if count == 0xFFFF && len(list) >= 8 { // too many for two bytes
		count, list = order.Uint64(list), list[8:]
	}
	if count > uint64(len(list))/8 {
		return damaged(id, "lists more free pages than it has room for")
	}
	for i := range count {
		free := order.Uint64(list[i*8:])
		if free < 2 || free >= c.pages() || c.seen[free] {
			return damaged(free, "is listed as free")
		}
		c.seen[free] = true
	}
	return nil
}

func damaged(id uint64, what string) error {
	return fmt.Errorf("%w: page %d %s", ErrCorrupt, id, what)
}
