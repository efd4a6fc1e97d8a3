package file

import (
	"fmt"
	"time"

	"github.com/tendhq/tend/store"
)

// report is what check found in a file that is whole.
type report struct {
	Records  int            // stored
	Revision store.Revision // the newest
	History  store.Revision // a watch can be resumed after this one, or a later one
	Leases   int
}

// String is one line for a human.
func (r report) String() string {
	return fmt.Sprintf("%d records at revision %d, history after %d, %d leases", r.Records, r.Revision, r.History, r.Leases)
}

// check reads the whole file, as Open does, and changes nothing in it. It cannot
// look into a file that is open, in this or another process: that is ErrLocked. Otherwise the
// errors are those of Open.
func check(path string) (report, error) {
	if path == "" {
		return report{}, errNoPath
	}
	c, err := inspect(path, time.Second)
	if err != nil {
		return report{}, err
	}
	return report{Records: c.records, Revision: c.history.head(), History: c.history.floor, Leases: len(c.leases.byID)}, nil
}
