package memory

import (
	"context"
	"fmt"

	"github.com/tendhq/tend/store"
)

func init() { store.Register("memory", openURL) }

// openURL opens a store of its own at each call.
func openURL(_ context.Context, url string) (store.Backend, error) {
	if url != "memory" && url != "memory:" {
		return nil, fmt.Errorf("%w: a store in memory has no place: its URL is memory", store.ErrInvalid)
	}
	return New(nil)
}
