// Package match compares what a cache holds with what a store holds.
package match

import (
	"fmt"
	"reflect"

	"github.com/tendhq/tend/store"
)

// An Origin says where objects are stored: a store, or a cache.
type Origin interface {
	Kind() string
	Backend() store.Backend
}

// Check fails if the cache is of another kind or another backend than the store. Two
// backends that cannot be compared count as one.
func Check(stored, cached Origin) error {
	other := different(stored.Backend(), cached.Backend())
	switch {
	case stored.Kind() != cached.Kind() && other:
		return fmt.Errorf("the cache has the kind %q of another backend, the store has the kind %q", cached.Kind(), stored.Kind())
	case stored.Kind() != cached.Kind():
		return fmt.Errorf("the cache has the kind %q, the store has the kind %q", cached.Kind(), stored.Kind())
	case other:
		return fmt.Errorf("the cache has the kind %q of another backend, not that of the store", cached.Kind())
	}
	return nil
}

// different does not panic on a struct with a field that cannot be compared.
func different(a, b store.Backend) bool {
	return reflect.ValueOf(a).Comparable() && a != b
}
