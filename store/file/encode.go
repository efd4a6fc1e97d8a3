package file

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/tendhq/tend/store"
)

// An address is a record's place in the file: kind, namespace and name, each
// but the last ended by a zero byte, so that byte order is (kind, namespace,
// name) and a kind, or a namespace of it, is one range.
type address string

func addressOf(kind string, k store.Key) address {
	return address(kind + "\x00" + k.Namespace + "\x00" + k.Name)
}

// prefixOf is what all addresses of a kind, or of a namespace of it, begin with. No kind is all.
func prefixOf(kind, namespace string) address {
	if kind == "" {
		return ""
	}
	if namespace == "" {
		return address(kind + "\x00")
	}
	return address(kind + "\x00" + namespace + "\x00")
}

func (a address) split() (kind string, k store.Key, ok bool) {
	kind, rest, ok1 := strings.Cut(string(a), "\x00")
	ns, name, ok2 := strings.Cut(rest, "\x00")
	return kind, store.Key{Namespace: ns, Name: name}, ok1 && ok2 && !strings.Contains(name, "\x00")
}

// A row is one version of a record as the file keeps it.
type row struct {
	created, revision store.Revision
	lease             store.LeaseID
	data              []byte
}

var errShort = errors.New("ends too early")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumOf guards a value together with the key it is stored under: a page that
// came from somewhere else in the file is as wrong as a flipped bit.
func sumOf(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}

func sealed(key, value []byte) []byte {
	return binary.LittleEndian.AppendUint32(value, sumOf(key, value))
}

// unseal checks the sum and returns what it guards.
func unseal(key, value []byte) ([]byte, error) {
	n := len(value) - 4
	if n < 0 {
		return nil, errShort
	}
	if got, want := binary.LittleEndian.Uint32(value[n:]), sumOf(key, value[:n]); got != want {
		return nil, fmt.Errorf("checksum is %08x, want %08x", got, want)
	}
	return value[:n], nil
}

// overhead is at least what a row, an event or a sum adds to the bytes of its parts. It is for
// buffers that are made large enough at once.
const overhead = 64

func (r row) append(b []byte) []byte {
	return append(r.appendHead(b), r.data...)
}

// appendHead appends what stands before the data.
func (r row) appendHead(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(r.created))
	b = binary.AppendUvarint(b, uint64(r.revision))
	return binary.AppendUvarint(b, uint64(r.lease))
}

// parseRow does not copy: data aliases b.
func parseRow(b []byte) (row, error) {
	d := decoder{b: b}
	r := row{
		created:  store.Revision(d.uvarint()),
		revision: store.Revision(d.uvarint()),
		lease:    store.LeaseID(d.uvarint()),
	}
	r.data = d.b
	if d.err == nil && (r.created == 0 || r.revision < r.created) {
		d.err = fmt.Errorf("revision %d cannot follow creation at %d", r.revision, r.created)
	}
	return r, d.err
}

// decoder reads what row.append and chunk.append wrote. The bytes may come from
// an older writer or an enemy: it never reads beyond them and keeps the first
// error.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.b, d.err = nil, errors.Join(d.err, errShort)
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) bytes() []byte {
	n := d.uvarint()
	if d.err != nil || n > uint64(len(d.b)) {
		d.b, d.err = nil, errors.Join(d.err, errShort)
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}
