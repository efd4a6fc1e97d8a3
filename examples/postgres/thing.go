package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/store"
)

// Seen is the status of an object: what was last found on the server.
type Seen[S any] struct{ Found S }

// A thing is how PostgreSQL speaks of one kind.
type thing[S comparable] struct {
	kind string // "Role" or "Database"
	// look is a query with the name as its parameter; scan reads its one row, of
	// which the last column is the comment.
	look string
	scan func(row pgx.Row) (found S, comment string, err error)
	// create brings it into being, marked, and update makes it as declared: one
	// transaction each.
	create func(name string, spec S, m mark) string
	update func(name string, spec S, m mark) string
	// half says that a thing without a comment is one that we began to make. Nil:
	// create is whole or not at all.
	half func(found S, m mark) bool
}

// A mark is our mark, as text for a COMMENT, and as a number.
type mark struct {
	external.Mark
}

// A hand is the kernel's client for one object.
type hand[S comparable] struct {
	thing[S]
	*session
	mark mark
}

// Observe looks at the thing.
func (h *hand[S]) Observe(ctx context.Context, o *store.Object[S, Seen[S]]) (external.Observation, error) {
	var found S
	var comment string
	err := h.do(ctx, func(c *pgx.Conn) (err error) {
		found, comment, err = h.scan(c.QueryRow(ctx, h.look, o.Name))
		return answer(err)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return external.Observation{}, nil
	}
	if err != nil {
		return external.Observation{}, err
	}
	o.Status.Found = found
	seen := external.Observation{Exists: true, UpToDate: found == o.Spec, Owner: h.mark.Compare(parseMark(comment))}
	if seen.Owner == external.Unmarked && h.half != nil && h.half(found, h.mark) {
		seen.Owner = external.Ours
	}
	if !seen.UpToDate {
		seen.Diff = fmt.Sprintf("found %+v, declared %+v", found, o.Spec)
	}
	return seen, nil
}

// Create makes the thing, marked from its first moment.
func (h *hand[S]) Create(ctx context.Context, o *store.Object[S, Seen[S]]) error {
	o.Intent.ExternalName = o.Name
	err := h.exec(ctx, h.create(ident(o.Name), o.Spec, h.mark))
	if err == nil && h.half != nil {
		return h.Update(ctx, o)
	}
	return err
}

// Update makes the thing as declared, mark included.
func (h *hand[S]) Update(ctx context.Context, o *store.Object[S, Seen[S]]) error {
	return h.exec(ctx, h.update(ident(o.Name), o.Spec, h.mark))
}

// Delete drops the thing. The server refuses while anything depends on it, and
// its words become the object's condition.
func (h *hand[S]) Delete(ctx context.Context, o *store.Object[S, Seen[S]]) error {
	return h.exec(ctx, fmt.Sprintf("DROP %s IF EXISTS %s", strings.ToUpper(h.kind), ident(o.Name)))
}

var roles = thing[RoleSpec]{
	kind: "Role",
	look: `select rolcanlogin, rolconnlimit, coalesce(shobj_description(oid, 'pg_authid'), '') from pg_roles where rolname = $1`,
	scan: func(row pgx.Row) (r RoleSpec, comment string, err error) {
		err = row.Scan(&r.Login, &r.Connections, &comment)
		r.Connections = fromLimit(r.Connections)
		return r, comment, err
	},
	create: func(name string, r RoleSpec, m mark) string {
		return fmt.Sprintf("CREATE ROLE %s %s; COMMENT ON ROLE %[1]s IS %[3]s", name, attributes(r), m.comment())
	},
	update: func(name string, r RoleSpec, m mark) string {
		return fmt.Sprintf("ALTER ROLE %s %s; COMMENT ON ROLE %[1]s IS %[3]s", name, attributes(r), m.comment())
	},
}

func attributes(r RoleSpec) string {
	login := "NOLOGIN"
	if r.Login {
		login = "LOGIN"
	}
	return fmt.Sprintf("%s CONNECTION LIMIT %d", login, toLimit(r.Connections))
}

var databases = thing[DatabaseSpec]{
	kind: "Database",
	look: `select pg_get_userbyid(datdba), datconnlimit, coalesce(shobj_description(oid, 'pg_database'), '') from pg_database where datname = $1`,
	scan: func(row pgx.Row) (d DatabaseSpec, comment string, err error) {
		err = row.Scan(&d.Owner, &d.Connections, &comment)
		d.Connections = fromLimit(d.Connections)
		return d, comment, err
	},
	// A database cannot be created in a transaction, so there is a moment at
	// which it has no comment. What tells it from a stranger's then is a limit of
	// connections that no other program would choose, and no server can reach.
	create: func(name string, d DatabaseSpec, m mark) string {
		return fmt.Sprintf("CREATE DATABASE %s OWNER %s CONNECTION LIMIT %d", name, ident(d.Owner), m.number())
	},
	update: func(name string, d DatabaseSpec, m mark) string {
		return fmt.Sprintf("ALTER DATABASE %s OWNER TO %s; ALTER DATABASE %[1]s CONNECTION LIMIT %[3]d; COMMENT ON DATABASE %[1]s IS %[4]s",
			name, ident(d.Owner), toLimit(d.Connections), m.comment())
	},
	half: func(found DatabaseSpec, m mark) bool { return found.Connections == m.number() },
}

// The server says -1 for any number, and 0 for none at all, which cannot be
// declared and so differs from everything that is.
func toLimit(connections int) int {
	if connections == 0 {
		return -1
	}
	return connections
}

func fromLimit(limit int) int {
	switch limit {
	case -1:
		return 0
	case 0:
		return -1
	}
	return limit
}

// The comment is for people, and after the colon for us.
const commentPrefix = "kept by tend, edits are undone: "

func (m mark) comment() string {
	text, err := json.Marshal(m.Mark)
	if err != nil {
		panic(err) // strings only
	}
	return literal(commentPrefix + string(text))
}

// number is a hash of the mark, from 2^30 up to what a connection limit can be.
func (m mark) number() int {
	h := fnv.New32a()
	_, _ = io.WriteString(h, m.String()) // never fails
	return 1<<30 | int(h.Sum32()>>2)
}

func parseMark(comment string) (m external.Mark, marked bool) {
	text, ok := strings.CutPrefix(comment, commentPrefix)
	marked = ok && json.Unmarshal([]byte(text), &m) == nil
	return m, marked
}

func ident(name string) string { return pgx.Identifier{name}.Sanitize() }

func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
