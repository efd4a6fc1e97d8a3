package postgres

import (
	"context"
	"strings"

	"github.com/tendhq/tend/store"
)

func init() { store.Register("postgres", openURL) }

// openURL opens the database of postgres://…, or of the connection string that follows
// postgres: in either form; the PG* variables say what it does not.
func openURL(ctx context.Context, url string) (store.Backend, error) {
	dsn := url
	if rest, _ := strings.CutPrefix(url, "postgres:"); !strings.HasPrefix(rest, "//") {
		dsn = rest
	}
	b, err := Open(ctx, dsn, nil)
	if err != nil {
		return nil, err
	}
	return b, nil
}
