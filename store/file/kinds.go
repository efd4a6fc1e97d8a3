package file

import (
	"context"

	"github.com/tendhq/tend/store"
)

// Kinds returns how many records there are of each kind, for the command tend: a program knows
// its kinds. It reads the address of every record.
func (b *backend) Kinds(ctx context.Context) (counts map[string]int, err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	v, err := b.pin("", "", store.ListOptions{})
	if err != nil {
		return nil, err
	}
	counts = map[string]int{}
	err = guarded(func() error {
		defer func() { _ = v.tx.Rollback() }()
		count := func(a address) {
			kind, _, _ := a.split()
			counts[kind]++
		}
		for a, r := range v.diff {
			if r != nil { // else it was deleted
				count(a)
			}
		}
		c := v.tx.Bucket(bucketObjects).Cursor()
		for k, _ := c.First(); k != nil; k, _ = c.Next() {
			if _, changed := v.diff[address(k)]; !changed {
				count(address(k))
			}
		}
		return nil
	})
	return counts, err
}
