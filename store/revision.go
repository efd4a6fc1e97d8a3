package store

import (
	"fmt"
	"strconv"
)

// Revision is a point in the history of one whole backend. It grows with every
// commit that changes something, survives restarts, and is compared with <. A backend
// may give one revision to several commits that were under way at once, so that equal
// revisions do not tell that two records were written by one commit.
// Revisions of two backends have nothing to do with each other. Zero means
// none.
type Revision uint64

// String returns the decimal number.
func (r Revision) String() string { return strconv.FormatUint(uint64(r), 10) }

// MarshalText writes the decimal number, which in JSON makes it a string: a
// JSON number loses its last digits in readers that use floats.
func (r Revision) MarshalText() ([]byte, error) {
	return strconv.AppendUint(nil, uint64(r), 10), nil
}

// UnmarshalText reads what MarshalText wrote.
func (r *Revision) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		return fmt.Errorf("%w: revision %.32q is not a number", ErrInvalid, text)
	}
	*r = Revision(n)
	return nil
}
