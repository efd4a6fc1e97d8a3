package postgres

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tendhq/tend/store"
)

// pageRecords bounds a page by count, pageBytes by weight.
const (
	pageRecords = 1000
	pageBytes   = 1 << 20
)

// List implements store.Backend, as ListSlots does.
func (b *backend) List(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
	return b.ListSlots(ctx, kind, store.AllSlots(), o)
}

// ListSlots implements store.SlotReader. A page holds at most 1,000 records and about 1 MiB.
//
// A page at an earlier revision is made of the records as they are now and of the log:
// for each record that was changed since, the log holds what the first of those changes
// replaced.
func (b *backend) ListSlots(ctx context.Context, kind string, slots store.SlotSet, o store.ListOptions) (store.Page, error) {
	if err := store.CheckKind(kind); err != nil {
		return store.Page{}, err
	}
	if o.Limit < 0 {
		return store.Page{}, fmt.Errorf("postgres: %w: limit %d", store.ErrInvalid, o.Limit)
	}
	if o.Cursor == "" && o.At > math.MaxInt64 {
		return store.Page{}, fmt.Errorf("postgres: %w: revision %d is not reached yet", store.ErrInvalid, o.At)
	}
	q := query{kind: kind, slots: bitmap(slots), records: recordsOf(slots), namespace: o.Namespace, at: int64(o.At), limit: pageRecords}
	if o.Limit > 0 {
		q.limit = min(q.limit, o.Limit)
	}
	if o.Cursor != "" {
		if err := q.resume(o.Cursor); err != nil {
			return store.Page{}, err
		}
	}
	ctx, done, err := b.request(ctx)
	if err != nil {
		return store.Page{}, err
	}
	defer done()
	if _, err := b.look(ctx, b.readers); err != nil { // a restored store must not be listed as if nothing had happened
		return store.Page{}, b.gave(ctx, "list", err)
	}
	var page store.Page
	err = b.retry(ctx, func() error {
		return b.readers.use(ctx, func(c *pgx.Conn) (err error) {
			page, err = b.page(ctx, c, q)
			return err
		})
	})
	if err != nil {
		return store.Page{}, b.gave(ctx, "list", err)
	}
	b.tail.ring(int64(page.Revision)) // as after Get
	return page, nil
}

type query struct {
	kind, namespace string
	slots           []byte // see bitmap
	records         string // ofAll or ofFew
	at              int64  // 0: now
	last            store.Key
	limit           int
	pinned          bool // at comes from a cursor
}

func (b *backend) page(ctx context.Context, c *pgx.Conn, q query) (store.Page, error) {
	// One snapshot for all statements, in one round trip.
	batch := &pgx.Batch{}
	batch.Queue("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
	batch.Queue(b.sql(`SELECT h.revision, h.compacted FROM {schema}.head h`))
	batch.Queue(b.sql(pageSQL(q.records)), q.kind, q.namespace, q.last.Namespace, q.last.Name, q.limit, pageBytes, q.slots)
	batch.Queue(b.sql(restoreSQL(q.records)), q.kind, q.namespace, q.last.Namespace, q.last.Name, q.limit, pageBytes, q.slots, q.at)
	batch.Queue("COMMIT")
	res := c.SendBatch(ctx, batch)
	defer res.Close()
	if _, err := res.Exec(); err != nil {
		return store.Page{}, err
	}
	var head, compacted int64
	if err := res.QueryRow().Scan(&head, &compacted); err != nil {
		return store.Page{}, err
	}
	switch {
	case q.at > head && !q.pinned:
		return store.Page{}, final{fmt.Errorf("%w: revision %d is not reached yet", store.ErrInvalid, q.at)}
	case q.at > head || q.at != 0 && q.at < compacted:
		return store.Page{}, final{fmt.Errorf("%w: revision %d", store.ErrCompacted, q.at)}
	}
	page := store.Page{Revision: store.Revision(q.at)}
	if q.at == 0 {
		page.Revision = store.Revision(head)
	}
	now, more, err := readPage(res, q.kind)
	if err != nil {
		return store.Page{}, err
	}
	then, err := readRestored(res, q.kind)
	if err != nil {
		return store.Page{}, err
	}
	if _, err := res.Exec(); err != nil {
		return store.Page{}, err
	}
	page.Records = merge(now, then)
	if n := len(page.Records); n > q.limit { // more were deleted since than created
		page.Records = page.Records[:q.limit]
		page.Cursor = q.cursor(page.Revision, page.Records[q.limit-1].Key)
	} else if more {
		page.Cursor = q.cursor(page.Revision, now[len(now)-1].Key)
	}
	return page, nil
}

// ofAll and ofFew are the records after a key in its order. Of few slots each is read in its
// part of an index, and as far as all of them together are wanted; all other records of the
// kind would have to be read, too, otherwise.
const (
	ofAll = `
		SELECT namespace, name, created, revision, value FROM {schema}.records
		WHERE kind = $1 AND ($2 = '' OR namespace = $2) AND (namespace, name) > ($3, $4)
			AND coalesce(get_bit($7::bytea, slot) = 1, true)
		ORDER BY namespace, name LIMIT $5::integer + 1`
	ofFew = `
		SELECT r.* FROM generate_series(0, 1023) AS s(slot) CROSS JOIN LATERAL (
			SELECT namespace, name, created, revision, value FROM {schema}.records
			WHERE kind = $1 AND slot = s.slot AND ($2 = '' OR namespace = $2) AND (namespace, name) > ($3, $4)
			ORDER BY namespace, name LIMIT $5::integer + 1
		) AS r WHERE get_bit($7::bytea, s.slot) = 1
		ORDER BY namespace, name LIMIT $5::integer + 1`
	// fewSlots is about where a list of a million records reads as many either way.
	fewSlots = 32
)

func recordsOf(slots store.SlotSet) string {
	if slots.Len() <= fewSlots {
		return ofFew
	}
	return ofAll
}

// pageOf are records after a key, cut to a number and to a weight. total is the number of
// those before the cut by weight.
func pageOf(records string) string {
	return `
	SELECT * FROM (
		SELECT *, count(*) OVER () AS total,
			coalesce(sum(octet_length(value)) OVER (ORDER BY namespace, name ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS weight
		FROM (` + records + `) AS counted
	) AS weighed WHERE weight < $6::bigint`
}

func pageSQL(records string) string {
	return `SELECT namespace, name, created, revision, value, total FROM (` + pageOf(records) + `) AS p ORDER BY namespace, name LIMIT $5::integer`
}

// restoreSQL gives, for each record within the page that was changed after a revision,
// what it was at that revision: nothing if it did not exist (prev 0).
func restoreSQL(records string) string {
	return `
	WITH page AS (
		SELECT namespace, name, total, row_number() OVER (ORDER BY namespace, name) AS n FROM (` + pageOf(records) + `) AS p
	), edge AS (
		SELECT namespace, name, n < total AS more FROM page WHERE n <= $5::integer ORDER BY n DESC LIMIT 1
	), next AS (
		SELECT DISTINCT ON (namespace, name) namespace, name, created, prev, deleted, value, before
		FROM {schema}.changes c
		WHERE $8::bigint > 0 AND revision > $8::bigint AND kind = $1 AND ($2 = '' OR namespace = $2) AND (namespace, name) > ($3, $4)
			AND coalesce(get_bit($7::bytea, slot) = 1, true)
			AND NOT EXISTS (SELECT FROM edge e WHERE e.more AND (c.namespace, c.name) > (e.namespace, e.name))
		ORDER BY namespace, name, revision
	)
	SELECT n.namespace, n.name, n.created, n.prev,
		CASE WHEN n.deleted THEN n.value ELSE coalesce(n.before, old.value) END
	FROM next n
	LEFT JOIN LATERAL (
		SELECT o.value FROM {schema}.changes o
		WHERE n.before IS NULL AND NOT n.deleted AND n.prev > 0
			AND o.revision = n.prev AND o.kind = $1 AND o.namespace = n.namespace AND o.name = n.name
	) AS old ON true
	ORDER BY n.namespace, n.name`
}

// bitmap is the parameter of get_bit for a set of slots; nil, which is NULL, for all.
func bitmap(slots store.SlotSet) []byte {
	if slots == store.AllSlots() {
		return nil
	}
	return slots.Bitmap()
}

// readPage reads the answer to pageSQL.
func readPage(res pgx.BatchResults, kind string) (all []store.Record, more bool, err error) {
	rows, _ := res.Query() // rows.Err returns its error
	defer rows.Close()
	total := 0
	for rows.Next() {
		r := store.Record{Kind: kind}
		if err := rows.Scan(&r.Key.Namespace, &r.Key.Name, (*int64AsRevision)(&r.Created), (*int64AsRevision)(&r.Revision), &r.Bytes, &total); err != nil {
			return nil, false, err
		}
		all = append(all, r)
	}
	return all, total > len(all), rows.Err()
}

// readRestored reads the answer to restoreSQL. A record with the revision 0 did not exist.
func readRestored(res pgx.BatchResults, kind string) (all []store.Record, err error) {
	rows, _ := res.Query() // rows.Err returns its error
	defer rows.Close()
	for rows.Next() {
		r := store.Record{Kind: kind}
		if err := rows.Scan(&r.Key.Namespace, &r.Key.Name, (*int64AsRevision)(&r.Created), (*int64AsRevision)(&r.Revision), &r.Bytes); err != nil {
			return nil, err
		}
		if r.Revision != 0 && r.Bytes == nil {
			return nil, final{fmt.Errorf("%w: %s %s at revision %d is not in the log", store.ErrCompacted, kind, r.Key, r.Revision)}
		}
		all = append(all, r)
	}
	return all, rows.Err()
}

// merge puts the records of an earlier revision in the place of those of now. Both are
// in order.
func merge(now, then []store.Record) []store.Record {
	if len(then) == 0 {
		return now
	}
	var out []store.Record
	for _, old := range then {
		for len(now) > 0 && before(now[0].Key, old.Key) {
			out, now = append(out, now[0]), now[1:]
		}
		if len(now) > 0 && now[0].Key == old.Key {
			now = now[1:]
		}
		if old.Revision != 0 {
			out = append(out, old)
		}
	}
	return append(out, now...)
}

func before(a, b store.Key) bool {
	return a.Namespace < b.Namespace || a.Namespace == b.Namespace && a.Name < b.Name
}

// int64AsRevision scans a bigint.
type int64AsRevision store.Revision

// ScanInt64 implements pgtype.Int64Scanner.
func (r *int64AsRevision) ScanInt64(v pgtype.Int8) error {
	if !v.Valid || v.Int64 < 0 {
		return fmt.Errorf("%d is no revision", v.Int64)
	}
	*r = int64AsRevision(v.Int64)
	return nil
}

// A cursor is the pinned revision, the list that it belongs to, and the last key given.
func (q query) cursor(at store.Revision, last store.Key) string {
	raw := binary.AppendUvarint(nil, uint64(at))
	return base64.RawURLEncoding.EncodeToString(append(raw, q.kind+"/"+q.namespace+"/"+last.Namespace+"/"+last.Name...))
}

// resume continues the list at a cursor.
func (q *query) resume(s string) error {
	raw, err := base64.RawURLEncoding.DecodeString(s)
	rev, n := binary.Uvarint(raw)
	ok := err == nil && n > 0 && rev != 0 && rev <= math.MaxInt64
	var parts []string
	if ok {
		parts = strings.SplitN(string(raw[n:]), "/", 4) // only a name may have a slash
		ok = len(parts) == 4 && parts[0] == q.kind && parts[1] == q.namespace
	}
	if ok {
		q.at, q.last, q.pinned = int64(rev), store.Key{Namespace: parts[2], Name: parts[3]}, true
		ok = q.last.Check() == nil
	}
	if !ok {
		return fmt.Errorf("postgres: %w: cursor %q", store.ErrInvalid, s)
	}
	return nil
}
