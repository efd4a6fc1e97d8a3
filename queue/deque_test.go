package queue

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tendhq/tend/internal/campaign"
)

// A deque does what a sorted list does.
func TestDequeIsASortedList(t *testing.T) {
	for seed := range uint64(campaign.Sized(400, 50)) {
		random := rand.New(rand.NewPCG(seed, 1))
		var d deque
		var want []uint64
		last := uint64(1 << 33)
		for step := range 1500 {
			grow := int(seed+uint64(step)/200) % 10
			switch x := random.IntN(10); {
			case x < grow || len(want) == 0:
				last += 1 + random.Uint64N(3)
				d.insert(cellOf(last, 0))
				want = append(want, last)
			case x%3 == 0:
				d.take()
				want = want[1:]
			case x%3 == 1:
				seq := want[0] - 5 + random.Uint64N(last-want[0]+5)
				if at, found := slices.BinarySearch(want, seq); !found {
					d.insert(cellOf(seq, 0))
					want = slices.Insert(want, at, seq)
				}
			default:
				k := random.IntN(len(want))
				d.remove(want[k])
				want = slices.Delete(want, k, k+1)
			}
			if step%50 != 0 && d.n == len(want) {
				continue
			}
			var got []uint64
			for _, b := range d.blocks {
				for _, c := range b.cells[b.at:] {
					got = append(got, c.seq())
				}
			}
			if !slices.Equal(got, want) || d.n != len(want) {
				t.Fatalf("seed %d, step %d: %d, counted %d; want %d", seed, step, got, d.n, want)
			}
			if places := d.places(); places > 2*len(want)+mostPlaces {
				t.Fatalf("seed %d, step %d: room for %d cells of %d", seed, step, places, len(want))
			}
		}
	}
}

// An empty deque that was large keeps no list of blocks.
func TestDequeGivesItsListOfBlocksBack(t *testing.T) {
	var d deque
	for k := range uint64(100_000) {
		d.insert(cellOf(k+1, 0))
	}
	for d.n > 0 {
		d.take()
	}
	if cap(d.blocks) > len(d.few) || d.few[1] != nil {
		t.Errorf("room for %d blocks, and a second one is %v", cap(d.blocks), d.few[1])
	}
}
