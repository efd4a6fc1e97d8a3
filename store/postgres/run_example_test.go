//go:build unix

package postgres_test

import (
	"testing"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/postgres"
)

// The example of Declare, which has no output of its own, does what it says.
func TestExampleOfDeclare(t *testing.T) {
	t.Setenv("DATABASE_URL", shared.socket())
	if err := shared.exec("CREATE TABLE orders (customer text)"); err != nil {
		t.Fatal(err)
	}
	ExampleDeclare()
	b := openAt(t, shared.socket(), postgres.Options{Schema: "tend"})
	buckets, err := store.New[BucketSpec, struct{}](b, "bucket", nil)
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		o, err := buckets.Get(t.Context(), store.Key{Namespace: "ada", Name: "photos"})
		return err == nil && o.Spec.Region == "eu"
	})
	var orders int
	if err := shared.query("SELECT count(*) FROM orders", &orders); err != nil || orders != 1 {
		t.Errorf("%d orders, error %v, want 1", orders, err)
	}
}
