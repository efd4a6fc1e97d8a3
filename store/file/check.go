package file

import (
	"fmt"
	"time"

	"github.com/tendhq/tend/store"
)

// A Report says what Check found in a file that is whole.
type Report struct {
	Records  int            // stored
	Revision store.Revision // the newest
	History  store.Revision // a watch can be resumed after this one, or a later one
	Leases   int
}

// String is one line for a human.
func (r Report) String() string {
	return fmt.Sprintf("%d records at revision %d, history after %d, %d leases", r.Records, r.Revision, r.History, r.Leases)
}

// Check reads the whole file, as Open does, and changes nothing in it. It cannot
// look into a file that is open, in this or another process: that is ErrLocked. Otherwise the
// errors are those of Open.
func Check(path string) (Report, error) {
	if path == "" {
		return Report{}, errNoPath
	}
	c, err := inspect(path, time.Second)
	if err != nil {
		return Report{}, err
	}
	return Report{Records: c.records, Revision: c.history.head(), History: c.history.floor, Leases: len(c.leases.byID)}, nil
}
