package match

import (
	"testing"

	"github.com/tendhq/tend/store"
)

type origin struct {
	kind    string
	backend store.Backend
}

func (o origin) Kind() string           { return o.kind }
func (o origin) Backend() store.Backend { return o.backend }

// wrapped is a backend of a comparable type, whose values are comparable only if inner is.
type wrapped struct {
	store.Backend
	inner any
}

func TestCheckComparesWhatItCan(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b origin
		want string
	}{
		{"one value twice", origin{"a", wrapped{inner: 1}}, origin{"a", wrapped{inner: 1}}, ""},
		{"another value", origin{"a", wrapped{inner: 1}}, origin{"a", wrapped{inner: 2}}, `the cache has the kind "a" of another backend, not that of the store`},
		{"another kind", origin{"a", wrapped{inner: 1}}, origin{"b", wrapped{inner: 1}}, `the cache has the kind "b", the store has the kind "a"`},
		{"both", origin{"a", wrapped{inner: 1}}, origin{"b", wrapped{inner: 2}}, `the cache has the kind "b" of another backend, the store has the kind "a"`},
		{"incomparable", origin{"a", wrapped{inner: []int{1}}}, origin{"a", wrapped{inner: []int{2}}}, ""},
		{"incomparable, of another kind", origin{"a", wrapped{inner: []int{1}}}, origin{"b", wrapped{inner: []int{2}}}, `the cache has the kind "b", the store has the kind "a"`},
		{"one is incomparable", origin{"a", wrapped{inner: 1}}, origin{"a", wrapped{inner: []int{2}}}, `the cache has the kind "a" of another backend, not that of the store`},
	} {
		got := ""
		if err := Check(c.a, c.b); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
