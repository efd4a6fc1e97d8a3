package lease

import (
	"fmt"

	"github.com/tendhq/tend/store"
)

// NewSingleton places work on one server at a time: the first that takes the lease
// of that name, until it stops or dies. The backend must have leases
// ([store.Leaser]) and be the same for all servers. [NewSingletons] spreads several of them.
func NewSingleton(b store.Backend, name string, o *Options) (Placement, error) {
	e, err := newElector(b, name, fmt.Sprintf("singleton %q", name), 1, o)
	if err != nil {
		return nil, err
	}
	e.wants = func(map[string]string, string, int) []bool { return []bool{true} }
	return e, nil
}
