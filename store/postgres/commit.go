package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tendhq/tend/store"
)

// member is one Commit on its way to the server.
type member struct {
	txn    store.Txn
	values [][]byte // of txn.Ops; nil: a deletion
	size   int      // bytes it adds to a request

	done     chan struct{} // closed when what follows is set; nil: no other goroutine waits
	revision store.Revision
	err      error
}

// Commit implements store.Backend.
func (b *backend) Commit(ctx context.Context, t store.Txn) (store.Revision, error) {
	t, err := t.Prepare(ctx)
	if err != nil {
		return 0, err
	}
	m, err := newMember(t)
	if err != nil {
		return 0, err
	}
	revision, err := b.batch.commit(ctx, m)
	b.writeHealth.Committed(ctx, t, err)
	var conflict *store.ConflictError
	if errors.As(err, &conflict) && conflict.Current.Revision != 0 && conflict.Current.Bytes == nil {
		conflict.Current.Bytes = b.valueAt(ctx, conflict.Current)
	}
	return revision, err
}

func newMember(t store.Txn) (*member, error) {
	values, err := t.Encode()
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	m := &member{txn: t, values: values}
	m.size = 100 * (len(t.Guards) + len(t.If) + len(t.Ops))
	for _, value := range values {
		m.size += len(value)
	}
	return m, nil
}

// conditions are those of t in the order in which they are judged.
func conditions(t *store.Txn) iter.Seq2[int, *store.Compare] {
	return func(yield func(int, *store.Compare) bool) {
		for i := range t.Guards {
			if !yield(i, &t.Guards[i]) {
				return
			}
		}
		for i := range t.If {
			if !yield(len(t.Guards)+i, &t.If[i]) {
				return
			}
		}
	}
}

// arguments are the arrays of the function commit: c... one element a condition, o... one
// a write, with the condition on the record that it writes.
type arguments struct {
	cm, cnumber          []int32
	ckind, cspace, cname []string
	ccreated, crevision  []int64
	om                   []int32
	okind, ospace, oname []string
	oslot                []int16
	ovalue               [][]byte
	olease               []int64
	onumber              []int32 // 0: there is no condition
	ocreated, orevision  []int64
}

func together(batch []*member) *arguments {
	a := new(arguments)
	for i, m := range batch {
		number := int32(i + 1)
		ops := m.txn.Ops
		own := m.ownCondition()
		for j, c := range conditions(&m.txn) {
			if j == own {
				continue
			}
			a.cm, a.cnumber = append(a.cm, number), append(a.cnumber, int32(j+1))
			a.ckind, a.cspace, a.cname = append(a.ckind, c.Kind), append(a.cspace, c.Key.Namespace), append(a.cname, c.Key.Name)
			a.ccreated, a.crevision = append(a.ccreated, int64(c.Created)), append(a.crevision, int64(c.Revision))
		}
		for j := range ops {
			op := &ops[j]
			a.om = append(a.om, number)
			a.okind, a.ospace, a.oname = append(a.okind, op.Kind), append(a.ospace, op.Key.Namespace), append(a.oname, op.Key.Name)
			a.oslot = append(a.oslot, int16(store.Slot(op.Key)))
			a.ovalue = append(a.ovalue, m.values[j])
			a.olease = append(a.olease, int64(op.Lease))
			var condition store.Compare
			if own >= 0 {
				condition = m.txn.If[own-len(m.txn.Guards)]
			}
			a.onumber = append(a.onumber, int32(own+1))
			a.ocreated, a.orevision = append(a.ocreated, int64(condition.Created)), append(a.orevision, int64(condition.Revision))
		}
	}
	return a
}

// ownCondition is the index, among all conditions of m, of the one on the record that m
// writes, if m writes one record and that condition is the last. -1: there is none.
func (m *member) ownCondition() int {
	last := len(m.txn.If) - 1
	if len(m.txn.Ops) == 1 && last >= 0 && m.txn.If[last].Kind == m.txn.Ops[0].Kind && m.txn.If[last].Key == m.txn.Ops[0].Key {
		return len(m.txn.Guards) + last
	}
	return -1
}

// lone says that there is one member with one put, bound to no lease.
func (a *arguments) lone(batch []*member) bool {
	return len(batch) == 1 && len(a.om) == 1 && a.ovalue[0] != nil && a.olease[0] == 0
}

// channel is the one to notify; nil: none.
func (b *backend) channel() *string {
	if b.opts.NoNotify {
		return nil
	}
	return &b.opts.Schema
}

// send makes one transaction of the batch and answers its members. What is known not to
// have been done is tried again until ctx ends.
func (b *backend) send(ctx context.Context, batch []*member) {
	ctx, cancel := context.WithTimeoutCause(ctx, b.opts.Timeout, errTimeout)
	defer cancel()
	for wait := time.Millisecond; ; wait = min(2*wait, time.Second) {
		executed, err := b.sendOnce(ctx, batch)
		if err == nil {
			return
		}
		sent := !errors.Is(err, errNotSent)
		if errors.Is(err, errEra) {
			if err = b.newEra(ctx); err == nil {
				continue
			}
			sent = false
		}
		v := judge(err, executed)
		switch {
		case v == unknown && sent:
			err = fmt.Errorf("postgres: %w: %w", store.ErrUnknownOutcome, reason(ctx, err))
		case v != refused && pause(ctx, wait):
			continue
		case v == again:
			err = fmt.Errorf("postgres: commit: not done: %w", reason(ctx, err))
		default:
			err = b.gave(ctx, "commit", err)
		}
		for _, m := range batch {
			m.err = err
		}
		return
	}
}

// reason prefers the cause of an ended context to what the driver says about it.
func reason(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	}
	return err
}

// errFaster: another server has applied some of the declarations.
var errFaster = errors.New("postgres: another server was faster")

// sendOnce makes the transaction once. executed says that its results had arrived when
// err was met. Without an error, the members are answered.
func (b *backend) sendOnce(ctx context.Context, batch []*member) (executed bool, err error) {
	return b.call(ctx, batch, nil)
}

// seen is the argument of that name of the functions that change the store. Its value bounds how
// long the call waits for locks, before the call is made, also when its client has gone. A server
// whose table is locked would otherwise collect the calls of all clients that gave up, and make
// them when it is not.
const (
	seen       = `CASE WHEN set_config('lock_timeout', $1::text, true) <> '' THEN $2::bigint END`
	parameters = seen + `, $3::text, $4::integer,
	$5::integer[], $6::integer[], $7::text[], $8::text[], $9::text[], $10::bigint[], $11::bigint[],
	$12::integer[], $13::text[], $14::text[], $15::text[], $16::smallint[], $17::bytea[], $18::bigint[],
	$19::integer[], $20::bigint[], $21::bigint[]`
	commitSQL    = `SELECT * FROM {schema}.commit(` + parameters + `)`
	drainSQL     = `SELECT * FROM {schema}.drain($22::bigint[], ` + parameters + `)`
	commitOneSQL = `SELECT * FROM {schema}.commit_one(` + seen + `, $3::text, $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[],
		$9::text, $10::text, $11::text, $12::smallint, $13::bytea, $14::integer, $15::bigint, $16::bigint)`
)

// lockBound is how long a request may wait for a lock: nearly until its context ends, so that the
// answer comes in time that nothing was done.
func lockBound(ctx context.Context) string {
	end, _ := ctx.Deadline() // every request has one
	return strconv.FormatInt(min(max(1, time.Until(end).Milliseconds()*9/10), math.MaxInt32), 10)
}

// call calls the function commit or, for a lone member, commit_one, or for declarations,
// of which it is given the ids, drain.
func (b *backend) call(ctx context.Context, batch []*member, declarations []int64) (executed bool, err error) {
	answers := make([]answer, 0, len(batch)+1)
	err = b.writers.use(ctx, func(c *pgx.Conn) error {
		sql, args := b.statement(ctx, batch, declarations)
		rows, err := c.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		var x answer
		_, err = pgx.ForEachRow(rows, []any{&x.member, &x.at, &x.failed, &x.made, &x.found, &x.content}, func() error {
			answers = append(answers, x)
			x.content = nil
			return nil
		})
		return err
	})
	if err != nil {
		return len(answers) > 0, err // the driver forgets that the statement was over when the session ends after it
	}
	switch {
	case len(answers) == 0 && declarations != nil:
		return true, errFaster
	case len(answers) == 0 || answers[0].failed == anotherStore:
		return true, errEra
	}
	b.apply(batch, answers)
	return true, nil
}

// statement is the call of a function that does it all.
func (b *backend) statement(ctx context.Context, batch []*member, declarations []int64) (sql string, args []any) {
	a := together(batch)
	if declarations == nil && a.lone(batch) {
		return b.sql(commitOneSQL), []any{
			lockBound(ctx), b.seen.Load(), b.channel(), a.ckind, a.cspace, a.cname, a.ccreated, a.crevision,
			a.okind[0], a.ospace[0], a.oname[0], a.oslot[0], a.ovalue[0], a.onumber[0], a.ocreated[0], a.orevision[0],
		}
	}
	sql, args = b.sql(commitSQL), []any{
		lockBound(ctx), b.seen.Load(), b.channel(), int32(len(batch)),
		a.cm, a.cnumber, a.ckind, a.cspace, a.cname, a.ccreated, a.crevision,
		a.om, a.okind, a.ospace, a.oname, a.oslot, a.ovalue, a.olease, a.onumber, a.ocreated, a.orevision,
	}
	if declarations != nil {
		sql, args = b.sql(drainSQL), append(args, declarations)
	}
	return sql, args
}

// answer is a row that the function commit returns.
type answer struct {
	member  int32 // 0: the store before
	at      int64 // the revision
	failed  int32 // 0: nothing; the number of a condition; or one of the constants
	made    int64 // of the record that fails the condition
	found   int64
	content []byte
}

const (
	leaseGone    = -1
	anotherStore = -2
)

// apply hands out the answers.
func (b *backend) apply(batch []*member, answers []answer) {
	newest := int64(0)
	for _, a := range answers {
		newest = max(newest, a.at)
		if a.member == 0 {
			for _, m := range batch {
				m.revision = store.Revision(a.at) // unless it changed something
			}
			continue
		}
		m := batch[a.member-1]
		switch {
		case a.failed == 0:
			m.revision = store.Revision(a.at)
		case a.failed == leaseGone:
			m.revision, m.err = 0, fmt.Errorf("postgres: %w", store.ErrLeaseGone)
		default:
			m.revision, m.err = 0, m.refusal(a)
		}
	}
	b.saw(newest)
	b.tail.ring(newest)
}

// refusal is the error of a member of which a condition did not hold.
func (m *member) refusal(a answer) error {
	for i, c := range conditions(&m.txn) {
		if i+1 != int(a.failed) {
			continue
		}
		if i < len(m.txn.Guards) {
			return fmt.Errorf("postgres: %w: %v", store.ErrFenced, c)
		}
		err := &store.ConflictError{Want: *c}
		if a.found != 0 {
			err.Current = store.Record{
				Kind: c.Kind, Key: c.Key, Bytes: a.content,
				Created: store.Revision(a.made), Revision: store.Revision(a.found),
			}
		}
		return err
	}
	return store.ErrConflict // not reached: the number is one of ours
}

// valueAt reads what a record held at its revision. A commit does not return long
// values: it would wait, with everybody else behind it, for this process to read them.
func (b *backend) valueAt(ctx context.Context, r store.Record) []byte {
	ctx, done, err := b.request(ctx)
	if err != nil {
		return nil
	}
	defer done()
	var value []byte
	_ = b.readers.row(ctx, []any{&value}, b.sql(`
		SELECT value FROM {schema}.records WHERE kind = $1 AND namespace = $2 AND name = $3 AND revision = $4
		UNION ALL
		SELECT value FROM {schema}.changes WHERE revision = $4 AND kind = $1 AND namespace = $2 AND name = $3 AND NOT deleted
		UNION ALL
		SELECT CASE WHEN deleted THEN value ELSE before END FROM {schema}.changes
		WHERE revision > $4 AND prev = $4 AND kind = $1 AND namespace = $2 AND name = $3 AND (deleted OR before IS NOT NULL)
		LIMIT 1`), r.Kind, r.Key.Namespace, r.Key.Name, int64(r.Revision))
	return value // nil if it is gone by now: the conflict stands without it
}
