package reconcile

import (
	"fmt"
	"time"

	"github.com/tendhq/tend/store"
)

// newerPause is how long a key waits whose object is of a newer version. A change of the
// object is heard at once.
const newerPause = time.Minute

// CheckNewer returns the error with which a run stands off that finds an object stored by a
// newer version of the program ([store.Meta].Newer), nil for any other object. It wraps
// [store.ErrNewer] and asks for the next run in a minute, so that the key shows as failing,
// with the reason, until the object can be read in full or a newer server runs the key.
// [For], [AsReconciler], packages lifecycle, external and depend call it; a reconciler that
// reads objects itself calls it before it acts on one.
func CheckNewer(o *store.Meta) error {
	if !o.Newer {
		return nil
	}
	return RetryAfter(fmt.Errorf("%w: %s is left alone: this program knows its spec in part", store.ErrNewer, o.Key()), newerPause)
}
