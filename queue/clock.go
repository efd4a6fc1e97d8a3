package queue

import "github.com/tendhq/tend/internal/tick"

// clock tells since when a key is in its state. Entries keep the lower 32 bits of
// its ticks, which are 208 days.
type clock struct{ tick.Clock }

// tick is the present tick.
func (c *clock) tick() uint32 { return uint32(c.Ticks()) }

// warm is tick without a reading; 0 says that it needs one.
func (c *clock) warm() uint32 { return uint32(c.Warm()) }

// whole is an entry's tick with all its bits: the last that has these and is not
// later than now or some minutes after, when the entry may have been looked at. An
// entry that is in its state for longer than 208 days looks younger.
func whole(at uint32, now uint64) uint64 {
	latest := now + 1<<16
	return latest - uint64(uint32(latest)-at)
}
