package fleet

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tendhq/tend/examples/pgserver"
)

// A schema that the caller names is the caller's, with whatever else it holds: only one that
// the fleet has named is dropped at the end.
//
// Negative control: with each schema dropped the caller's table was gone.
func TestSchemaOfTheCallersOwnIsNotDropped(t *testing.T) {
	server, err := pgserver.Start()
	if errors.Is(err, pgserver.ErrNoBinaries) && os.Getenv("TEND_NEED_POSTGRES") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	conn, err := pgx.Connect(t.Context(), server.DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	if _, err := conn.Exec(t.Context(), "CREATE SCHEMA mine; CREATE TABLE mine.orders (id int)"); err != nil {
		t.Fatal(err)
	}
	for _, schema := range []string{"mine", ""} {
		p, stop, err := newPlace(Options{Place: Place{Store: Postgres, DSN: server.DSN, Schema: schema}})
		if err != nil {
			t.Fatal(err)
		}
		backend, err := p.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(backend.Close(), stop()); err != nil {
			t.Fatal(err)
		}
		var there bool
		if err := conn.QueryRow(t.Context(), "SELECT count(*) > 0 FROM pg_namespace WHERE nspname = $1", p.Schema).Scan(&there); err != nil {
			t.Fatal(err)
		}
		if want := schema != ""; there != want {
			t.Errorf("asked for the schema %q: %s is there afterwards: %v, want %v", schema, p.Schema, there, want)
		}
	}
	if _, err := conn.Exec(t.Context(), "SELECT FROM mine.orders"); err != nil {
		t.Errorf("what the caller had in its schema: %v", err)
	}
}
