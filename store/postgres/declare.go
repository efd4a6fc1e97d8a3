package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tendhq/tend/store"
)

// Declare creates an object, or changes its spec, labels and annotations, with the
// caller's transaction: when that commits, the declaration is there together with what
// else the transaction wrote, and otherwise neither is. tx is a transaction on the
// database of b, of any isolation level.
//
// The declaration lies in a table of its own until a backend of any server applies it,
// which it does within milliseconds of the commit if a server watches a kind (200 ms at most
// if all of them watch some slots only, while there are many commits), and
// otherwise, and with Options.NoNotify, within Options.poll. Until then Get, List and watches do not show it. The transaction holds up
// no commit of others, however long it stays open, except other declarations of the same
// object: these wait for its end. Transactions that declare several objects should do so
// in one order, or the server ends one of them with a deadlock.
//
// Declarations of one object are applied in the order in which their transactions commit,
// each once; of different objects in no promised order. A declaration has no condition: it
// replaces the spec that is there when it is applied ([store.Declaration.Over] says what
// stays), and a reader that has read the object before meets a conflict. One for an object
// that is being deleted waits until that is gone, and then creates it again. One that
// cannot be applied (the object was stored by a newer version of the program, or would
// become too large) stays in the table, with the reason in its column refused, and holds
// up nothing; it is logged.
//
// The object's limits and the store's Validate are checked here; the error is
// [store.ErrInvalid]. Guards in ctx do not apply.
func Declare[S, T any](ctx context.Context, tx pgx.Tx, b store.Backend, s *store.Store[S, T], o *store.Object[S, T]) error {
	own, ok := b.(*backend)
	if !ok {
		return fmt.Errorf("postgres: declare: the backend is a %T, not what Open returned", b)
	}
	d, err := s.Declaration(o)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, own.sql(`SELECT {schema}.declare($1::text, $2::text, $3::text, $4::bytea, $5::text)`),
		d.Kind, d.Key.Namespace, d.Key.Name, d.Value, own.channel())
	if err != nil {
		return fmt.Errorf("postgres: declare %s %s: %w", d.Kind, d.Key, err)
	}
	return nil
}

// declared is a row of the inbox, with the record that it is about.
type declared struct {
	id int64
	store.Declaration
	current store.Record // Revision 0: there is none
}

// drain applies declarations for as long as the backend is open, when it hears of some
// and after Options.poll in any case. All servers do; one of them is the first.
func (b *backend) drain() {
	for told := ""; ; {
		select {
		case <-b.inbox:
		case <-time.After(b.opts.poll):
		case <-b.ctx.Done():
			return
		}
		// What is left to do after an error waits for the next look.
		if err := b.drainAll(b.ctx); b.ctx.Err() == nil {
			b.tell(&told, err, "postgres: cannot apply declarations to the store", "postgres: declarations are applied again")
		}
	}
}

// drainAll applies what there is, in order.
func (b *backend) drainAll(ctx context.Context) error {
	for after, more := int64(0), true; more; {
		var err error
		if after, more, err = b.drainSome(ctx, after); err != nil {
			return err
		}
	}
	return nil
}

// drainSome applies the next rows after one, and says after which to go on; not more: there
// were none.
func (b *backend) drainSome(ctx context.Context, after int64) (next int64, more bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, b.opts.Timeout, errTimeout)
	defer cancel()
	rows, last, err := b.declarations(ctx, after)
	again := false
	if err == nil && len(rows) > 0 {
		again, err = b.applyDeclarations(ctx, rows)
	}
	if errors.Is(err, errEra) {
		again, err = true, b.newEra(ctx)
	}
	if again {
		return 0, true, err
	}
	return last, last != 0, err
}

// declarations reads the next rows of the inbox: of each record the first, because the
// later ones apply to what that one makes of it. The first may lie before after: one that waits
// for the end of a deletion, or was committed since. last is the id of the last row that was
// looked at; 0 says that there are no more.
func (b *backend) declarations(ctx context.Context, after int64) (all []declared, last int64, err error) {
	var d declared
	var created, revision *int64
	var behind bool
	seen := make(map[address]bool)
	repeated := int64(0)
	err = b.readers.rows(ctx, []any{&d.id, &d.Kind, &d.Key.Namespace, &d.Key.Name, &d.Value, &created, &revision, &d.current.Bytes, &behind}, func() error {
		if revision != nil {
			d.current.Created, d.current.Revision = store.Revision(*created), store.Revision(*revision)
		}
		last = d.id
		switch a := (address{d.Kind, d.Key}); {
		case behind:
		case seen[a]:
			repeated = cmp.Or(repeated, d.id)
		default:
			seen[a] = true
			all = append(all, d)
		}
		d = declared{}
		return nil
	}, b.sql(`
		SELECT i.id, i.kind, i.namespace, i.name, i.value, r.created, r.revision, r.value, EXISTS (
			SELECT FROM {schema}.inbox e
			WHERE e.id <= $1 AND e.refused IS NULL AND e.kind = i.kind AND e.namespace = i.namespace AND e.name = i.name
		) FROM (
			SELECT * FROM {schema}.inbox WHERE id > $1 AND refused IS NULL ORDER BY id LIMIT 100
		) AS i
		LEFT JOIN {schema}.records r ON r.kind = i.kind AND r.namespace = i.namespace AND r.name = i.name
		ORDER BY i.id`), after)
	if err != nil {
		return nil, 0, err
	}
	if repeated != 0 {
		last = repeated - 1 // look at it, and at what follows, again
	}
	return all, last, nil
}

// applyDeclarations applies rows that are about different records. again says that one of
// the records was changed since it was read, or that another server has applied some rows.
func (b *backend) applyDeclarations(ctx context.Context, rows []declared) (again bool, err error) {
	var batch []*member
	var ids []int64
	size := 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		_, err := b.call(ctx, batch, ids)
		if errors.Is(err, errFaster) {
			again, err = true, nil
		}
		for _, m := range batch {
			again = again || m.err != nil
		}
		batch, ids, size = nil, nil, 0
		return err
	}
	for _, d := range rows {
		next, err := d.next()
		switch {
		case errors.Is(err, store.ErrDeleting):
			continue // until it is gone
		case err != nil:
			if err := b.refuse(ctx, d, err); err != nil {
				return again, err
			}
			continue
		}
		m, err := newMember(next)
		if err != nil {
			return again, err
		}
		if size+m.size > 1<<20 {
			if err := flush(); err != nil {
				return again, err
			}
		}
		batch, ids, size = append(batch, m), append(ids, d.id), size+m.size
	}
	err = flush()
	return again, err
}

// next returns the transaction that applies a declaration to the record as it was read.
// One that changes nothing has no write.
func (d *declared) next() (store.Txn, error) {
	t := store.Txn{If: []store.Compare{{Kind: d.Kind, Key: d.Key, Revision: d.current.Revision}}}
	var value []byte
	var err error
	if d.current.Revision != 0 {
		value, err = d.Over(d.current.Bytes)
	} else {
		value, err = d.Stored()
	}
	if err != nil || value == nil {
		return t, err
	}
	t.Ops = []store.Op{{Kind: d.Kind, Key: d.Key, Put: store.Bytes(value)}}
	return t, nil
}

// refuse puts a declaration aside that cannot be applied.
func (b *backend) refuse(ctx context.Context, d declared, reason error) error {
	tag, err := b.writers.exec(ctx, b.sql(`UPDATE {schema}.inbox SET refused = $2 WHERE id = $1 AND refused IS NULL`), d.id, reason.Error())
	if err == nil && tag.RowsAffected() > 0 {
		b.opts.logger.Warn("postgres: a declaration cannot be applied", "schema", b.opts.Schema, "id", d.id,
			"kind", d.Kind, "namespace", d.Key.Namespace, "name", d.Key.Name, "error", reason)
	}
	return err
}
