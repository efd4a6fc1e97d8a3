// Package wall tells the time of day for records: what is stored, shown or sent.
//
// The clocks of two servers differ, and one server's clock may jump, by hours. So no
// decision compares a recorded time with a clock: durations are measured with
// time.Now and time.Since, whose monotonic readings stay inside one process. A Now of
// this package has no monotonic reading, which makes such a comparison show in the
// simulation: it shifts this clock, and no other one.
package wall

import (
	"sync/atomic"
	"time"
)

var shift atomic.Int64 // a time.Duration

// Now is the time of day in UTC, without a monotonic reading.
func Now() time.Time { return At(time.Now()) }

// At is the time of day at t, a reading of this process's clock, as Now would have
// told it with the present shift.
func At(t time.Time) time.Time {
	return t.UTC().Round(0).Add(time.Duration(shift.Load()))
}

// Shift makes Now tell a time that is d later than it is, or earlier if d is
// negative, in the whole process. It is for tests; zero ends it.
func Shift(d time.Duration) { shift.Store(int64(d)) }
