package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/tendhq/tend/reconcile/web/api"
	"github.com/tendhq/tend/store"
)

// didYouMean names what a mistyped word is nearest to; empty: nothing is near.
func didYouMean(word string, names []string) string {
	best, least := "", max(len(word)/3, 1)+1
	for _, n := range names {
		if d := distance(word, n); d < least || strings.HasPrefix(n, word) && best == "" {
			best, least = n, min(d, least)
		}
	}
	if best == "" || best == word {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", best)
}

// distance is how many letters have to be added, taken away, changed or swapped with the next one
// to make b of a.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
		for j := 1; j <= len(b); j++ {
			if i == 0 {
				rows[i][j] = j
				continue
			}
			d := min(rows[i-1][j], rows[i][j-1]) + 1
			other := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				other++
			}
			if d = min(d, other); i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}

// withHint adds to an error what a user can do about it, where that is known.
func (r *command) withHint(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	if hint := r.hint(ctx, err); hint != "" {
		return fmt.Errorf("%w; %s", err, hint)
	}
	return err
}

func (r *command) hint(ctx context.Context, err error) string {
	text := err.Error()
	switch {
	case errors.Is(err, store.ErrNotFound) && len(r.words) > 1 && verbs[r.words[0]].takesKind():
		return r.kindHint(ctx, r.words[1])
	case errors.Is(err, errUsage) && r.store != "" && r.backend == nil:
		return storeHint(r.store)
	case r.client == nil:
		return ""
	case errors.Is(err, api.ErrUnreachable) && !noAnswer(err):
		return "tend status says what is wrong with the service"
	case strings.Contains(text, "connection refused"):
		return "nothing listens there: is the service up, and the port right? -store reads the store of a service that is down"
	case strings.Contains(text, "server gave HTTP response to HTTPS client"):
		return "it speaks http, not https"
	case strings.Contains(text, "400 Bad Request") && strings.HasPrefix(r.server, "http:"):
		return "does it speak https, not http?"
	case exitCode(err) == Failed && !errors.Is(err, errNotWell):
		return r.serverHint(ctx)
	}
	return ""
}

// noAnswer reports whether the server sent no answer: what the error says is of the way to it.
func noAnswer(err error) bool {
	_, failed := errors.AsType[*url.Error](err)
	return failed
}

// kindHint says which kind was meant, if the one that was named is none.
func (r *command) kindHint(ctx context.Context, kind string) string {
	names, err := r.kindNames(ctx)
	if err != nil || len(names) == 0 || slices.Contains(names, kind) {
		return ""
	}
	if near := didYouMean(kind, names); near != "" {
		return strings.TrimPrefix(near, "; ")
	}
	return "the kinds are " + strings.Join(names, ", ")
}

// storeHint is for an address that lacks its scheme.
func storeHint(address string) string {
	switch {
	case strings.HasPrefix(address, "http:"), strings.HasPrefix(address, "https:"):
		return "did you mean etcd:" + withoutPassword(address) + ", or -server?"
	case strings.HasPrefix(address, "postgresql:"):
		return "it is postgres: in place of postgresql:"
	case strings.HasPrefix(address, "/"), strings.HasPrefix(address, "."):
		return "did you mean file:" + address + "?"
	}
	return ""
}

func withoutPassword(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "..."
	}
	return u.Redacted()
}

// serverHint looks whether the objects are beside or below the address that has none.
func (r *command) serverHint(ctx context.Context) string {
	u, err := url.Parse(r.server)
	if err != nil {
		return ""
	}
	for _, at := range []string{path.Join("/", u.Path, "objects"), path.Join("/", path.Dir(u.Path), "objects"), "/objects"} {
		if at == u.Path {
			continue
		}
		other := *u
		other.Path = at
		if c, err := api.NewClient(other.String(), r.http, r.header()); err == nil {
			if _, err := c.Kinds(ctx); err == nil {
				return "did you mean -server " + other.Redacted() + "?"
			}
		}
	}
	return ""
}
