package postgres

import (
	"context"

	"github.com/tendhq/tend/store"
)

// Compact drops the log up to a revision.
func (b *Backend) Compact(ctx context.Context, r store.Revision) error {
	return b.compact(ctx, int64(r))
}
