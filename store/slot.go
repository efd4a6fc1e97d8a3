package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"math/bits"
)

// Slots is the number of hash slots. It never changes: backends that list or watch
// by slot keep the slot of each record.
const Slots = 1024

// Slot is the hash slot of a key, from 0 to Slots-1. It is the same in every
// process and version.
func Slot(k Key) int { return ShardOf(k, Slots) }

// ShardOf is the shard, of so many, that a key belongs to by its hash. It is the same
// in every process and version. Of a power of two up to [Slots], each shard is a set
// of slots: see [SlotsOf]. It panics if shards is not positive.
func ShardOf(k Key, shards int) int {
	if shards <= 0 {
		panic("store: ShardOf: the number of shards is not positive")
	}
	h := uint64(14695981039346656037) // FNV-1a, 64 bits
	for _, s := range [3]string{k.Namespace, "/", k.Name} {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * 1099511628211
		}
	}
	// FNV alone leaves neighbouring slots correlated; this is splitmix64's finalizer.
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return int((h ^ h>>31) % uint64(shards))
}

// SlotsOf is the set of slots that have the keys of a shard. Where the number of
// shards is a power of two up to [Slots] they have no others, so that no two shards
// share a slot. For other numbers the slots may have keys of other shards besides;
// with an odd one they are all slots.
func SlotsOf(shard, shards int) (s SlotSet) {
	step := Slots // the greatest common divisor
	for r := shards; r != 0; {
		step, r = r, step%r
	}
	for slot := shard % step; slot < Slots; slot += step {
		s.Add(slot)
	}
	return s
}

// SlotSet is a set of hash slots. The zero value is empty. Sets are compared with ==.
type SlotSet [Slots / 64]uint64

// AllSlots is the set of every slot.
func AllSlots() (s SlotSet) {
	for i := range s {
		s[i] = ^uint64(0)
	}
	return s
}

// Add adds a slot. It panics if there is no such slot.
func (s *SlotSet) Add(slot int) { s[slot/64] |= 1 << (slot % 64) }

// has reports whether the slot is in the set.
func (s *SlotSet) has(slot int) bool { return s[slot/64]&(1<<(slot%64)) != 0 }

// HasKey reports whether the slot of the key is in the set.
func (s *SlotSet) HasKey(k Key) bool { return s.has(Slot(k)) }

// Union is the set of the slots that are in either set.
func (s SlotSet) Union(o SlotSet) SlotSet {
	for i := range s {
		s[i] |= o[i]
	}
	return s
}

// Contains reports whether every slot of o is in s.
func (s SlotSet) Contains(o SlotSet) bool { return s.Union(o) == s }

// Len is the number of slots in the set.
func (s SlotSet) Len() (n int) {
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// Bitmap is the set as bytes: slot n is bit n%8 of byte n/8, the lowest bit first.
func (s SlotSet) Bitmap() []byte {
	b := make([]byte, 0, Slots/8)
	for _, w := range s {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// String says how many slots there are in the set.
func (s SlotSet) String() string { return fmt.Sprintf("%d of %d slots", s.Len(), Slots) }

// SlotReader is what a [Backend] may offer besides: to read the records of some slots
// without those of the others. [ListSlots] and [WatchSlots] do the same with any
// backend.
type SlotReader interface {
	// ListSlots is List of the records whose slot is in slots. A Cursor is only good
	// with the same slots: with others it may be [ErrInvalid], or records may be missing.
	// A page may have no records although more pages follow.
	ListSlots(ctx context.Context, kind string, slots SlotSet, o ListOptions) (Page, error)

	// WatchSlots is Watch of the records whose slot is in slots. A commit that changes
	// only other records of the kind is told as progress, as soon as a change would be:
	// a writer that waits until its write was seen may have written to another slot.
	// Several of them may be told as one.
	WatchSlots(ctx context.Context, kind string, slots SlotSet, after Revision) iter.Seq2[Batch, error]
}

// ListSlots lists records of some slots, as [SlotReader] says. Of a backend that is no
// SlotReader it reads the pages of the whole kind and drops the others.
func ListSlots(ctx context.Context, b Backend, kind string, slots SlotSet, o ListOptions) (Page, error) {
	if slots == AllSlots() {
		return b.List(ctx, kind, o)
	}
	if r, ok := b.(SlotReader); ok {
		return r.ListSlots(ctx, kind, slots, o)
	}
	p, err := b.List(ctx, kind, o)
	if err != nil {
		return p, err
	}
	all := p.Records
	p.Records = make([]Record, 0, len(all)*slots.Len()/Slots)
	for i := range all {
		if slots.HasKey(all[i].Key) {
			p.Records = append(p.Records, all[i])
		}
	}
	return p, nil
}

// WatchSlots watches records of some slots, as [SlotReader] says. Of a backend that is
// no SlotReader it reads the watch of the whole kind, with [FilterSlots].
func WatchSlots(ctx context.Context, b Backend, kind string, slots SlotSet, after Revision) iter.Seq2[Batch, error] {
	if slots == AllSlots() {
		return b.Watch(ctx, kind, after)
	}
	if r, ok := b.(SlotReader); ok {
		return r.WatchSlots(ctx, kind, slots, after)
	}
	return FilterSlots(b.Watch(ctx, kind, after), slots)
}

// FilterSlots makes the watch of some slots of that of more slots. Batches say in
// Skipped how many changes it dropped.
func FilterSlots(watch iter.Seq2[Batch, error], slots SlotSet) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		for b, err := range watch {
			if err == nil {
				b = b.only(&slots)
			}
			if b.Kind == BatchSnapshot && len(b.Changes) == 0 && b.Skipped == 0 {
				continue
			}
			last := len(b.Changes) - 1
			if b.Kind != BatchChanges || last < 0 || b.Changes[last].Revision == b.Revision {
				if !yield(b, err) {
					return
				}
				continue
			}
			// The last changes were dropped: the revision of a batch is that of its last one.
			upTo := b.Revision
			b.Revision = b.Changes[last].Revision
			if !yield(b, nil) || !yield(Batch{Kind: BatchProgress, Revision: upTo}, nil) {
				return
			}
		}
	}
}

// only is the batch without the changes of other slots. What it shares with b is not
// written to.
func (b Batch) only(slots *SlotSet) Batch {
	n := 0
	for n < len(b.Changes) && slots.HasKey(b.Changes[n].Key) {
		n++
	}
	if n == len(b.Changes) {
		return b
	}
	all := b.Changes
	b.Changes = all[:n:n]
	for i := n; i < len(all); i++ {
		if slots.HasKey(all[i].Key) {
			b.Changes = append(b.Changes, all[i])
			continue
		}
		b.Skipped++
	}
	if len(b.Changes) == 0 && b.Kind == BatchChanges {
		b.Kind, b.Changes = BatchProgress, nil
	}
	return b
}
