package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

type opener = func(ctx context.Context, url string) (Backend, error)

var openers = struct {
	mu       sync.Mutex // guards byScheme
	byScheme map[string]opener
}{byScheme: map[string]opener{}}

// ours are the packages of this library that register themselves, with what their URLs
// look like: an error names the one that is to be imported.
var ours = map[string]struct{ path, form string }{
	"memory":   {"store/memory", "memory"},
	"file":     {"store/file", "file:PATH"},
	"etcd":     {"store/etcd", "etcd:[https://]HOST:PORT,.../PREFIX"},
	"postgres": {"store/postgres", "postgres://USER@HOST/DATABASE, or postgres:DSN"},
}

// Register makes [Open] know a scheme, as database/sql knows drivers. A package that has a
// backend calls it in an init function. Open calls open with the whole URL; open fails with
// an [ErrInvalid] where the URL itself is wrong, and shows no password. Register panics where
// the scheme is empty, holds a colon or is registered already, and where open is nil.
func Register(scheme string, open func(ctx context.Context, url string) (Backend, error)) {
	openers.mu.Lock()
	defer openers.mu.Unlock()
	if scheme == "" || strings.Contains(scheme, ":") || open == nil || openers.byScheme[scheme] != nil {
		panic(fmt.Sprintf("store: Register: the scheme %q is not one, is registered already, or has no function", scheme))
	}
	openers.byScheme[scheme] = open
}

// Open opens the backend that a URL names. What comes before the first colon is the scheme,
// and says which package opens it; the program imports that package, if only for its
// registration:
//
//	memory                               store/memory: in this process, and gone with it
//	file:PATH                            store/file: one file, which is made if it is not there
//	etcd:[https://]HOST:PORT,.../PREFIX  store/etcd, with the variables of etcdctl for TLS and the user
//	postgres://USER@HOST/DATABASE        store/postgres, with the variables of psql (PG*)
//
// An unknown scheme is an [ErrInvalid] that names the schemes that are known, and the
// import that is missing. Open blocks as long as the package's own opening does; ctx bounds
// it where that takes one. It is safe for concurrent use. The caller closes the backend.
func Open(ctx context.Context, url string) (Backend, error) {
	scheme, _, _ := strings.Cut(url, ":")
	openers.mu.Lock()
	open := openers.byScheme[scheme]
	known := slices.Sorted(maps.Keys(openers.byScheme))
	openers.mu.Unlock()
	if open == nil {
		return nil, fmt.Errorf("%w: %s", ErrInvalid, unknownScheme(scheme, known))
	}
	b, err := open(ctx, url)
	if err != nil {
		return nil, err // a nil pointer is no nil Backend
	}
	return b, nil
}

// unknownScheme says what is known instead, and what to import.
func unknownScheme(scheme string, known []string) string {
	text := "no package is imported that opens a store"
	if len(known) > 0 {
		text = "the stores that can be opened are " + urlForms(known)
	}
	if p, is := ours[scheme]; is {
		return fmt.Sprintf("nothing opens %s:, the import of %s/%s is missing; %s", scheme, module, p.path, text)
	}
	return fmt.Sprintf("%q is no store's URL: %s; more are known after an import of %s/store/..., such as store/memory, store/file, store/etcd or store/postgres", Clip(scheme), text, module)
}

const module = "github.com/tendhq/tend"

func urlForms(schemes []string) string {
	list := make([]string, len(schemes))
	for i, s := range schemes {
		if list[i] = s + ":"; ours[s].form != "" {
			list[i] = ours[s].form
		}
	}
	return strings.Join(list, "; ")
}
