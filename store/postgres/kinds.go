package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Kinds returns how many records there are of each kind, for the command tend: a program knows
// its kinds. It reads an index of all records. It is safe for concurrent use.
func (b *backend) Kinds(ctx context.Context) (counts map[string]int, err error) {
	ctx, done, err := b.request(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	err = b.retry(ctx, func() error {
		return b.readers.use(ctx, func(c *pgx.Conn) error {
			rows, err := c.Query(ctx, b.sql(`SELECT kind, count(*) FROM {schema}.records GROUP BY kind`))
			if err != nil {
				return err
			}
			counts = map[string]int{}
			var kind string
			var n int
			_, err = pgx.ForEachRow(rows, []any{&kind, &n}, func() error {
				counts[kind] = n
				return nil
			})
			return err
		})
	})
	if err != nil {
		return nil, b.gave(ctx, "kinds", err)
	}
	return counts, nil
}
