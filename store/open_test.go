package store_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tendhq/tend/store"
	_ "github.com/tendhq/tend/store/file"
	_ "github.com/tendhq/tend/store/memory"
)

func init() {
	store.Register("fails", func(context.Context, string) (store.Backend, error) {
		return (*struct{ store.Backend })(nil), errors.New("down")
	})
}

// A store is opened by its URL where its package is imported; what is wrong with a URL, or
// which import is missing, is said.
//
// Seen to fail with each condition of the openers taken away, and with a nil pointer handed on.
func TestStoresAreOpenedByURL(t *testing.T) {
	for _, url := range []string{"memory", "memory:", "file:" + filepath.Join(t.TempDir(), "a"), "file://" + filepath.Join(t.TempDir(), "b")} {
		b, err := store.Open(t.Context(), url)
		if err != nil {
			t.Fatalf("%s: %v", url, err)
		}
		if _, err := store.Installation(t.Context(), b); err != nil {
			t.Errorf("%s: %v", url, err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	for url, want := range map[string][]string{
		"":               {"memory", "file:PATH"},
		"etcd:localhost": {"import", "github.com/tendhq/tend/store/etcd is missing", "file:PATH"},
		"postgres://h/d": {"github.com/tendhq/tend/store/postgres is missing"},
		"consul:x":       {`"consul"`, "memory", "file:PATH", "store/etcd"},
		"file:":          {"file:PATH"},
		"file":           {"file:PATH"},
		"file://host/x":  {"file:PATH"},
		"memory:x":       {"its URL is memory"},
	} {
		b, err := store.Open(t.Context(), url)
		if !errors.Is(err, store.ErrInvalid) || b != nil {
			t.Errorf("%q: %v, %v, want an ErrInvalid", url, b, err)
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q: %q does not say %q", url, err, part)
			}
		}
	}
	for _, url := range []string{"file:" + t.TempDir(), "fails:x"} {
		if b, err := store.Open(t.Context(), url); err == nil || b != nil {
			t.Errorf("%s is opened: %v, %v", url, b, err)
		}
	}
}

func TestASchemeIsRegisteredOnce(t *testing.T) {
	open := func(context.Context, string) (store.Backend, error) { return nil, nil }
	for name, register := range map[string]func(){
		"twice": func() { store.Register("file", open) }, "colon": func() { store.Register("a:b", open) },
		"empty": func() { store.Register("", open) }, "nil": func() { store.Register("other", nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: there was no panic", name)
				}
			}()
			register()
		}()
	}
}
