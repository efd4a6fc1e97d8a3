//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/postgres"
	"github.com/tendhq/tend/store/storetest/campaign"
)

type widgetSpec struct {
	Size int `json:"size"`
}

type (
	widgets = store.Store[widgetSpec, struct{}]
	widget  = store.Object[widgetSpec, struct{}]
)

func newWidgets(t testing.TB, b store.Backend) *widgets {
	t.Helper()
	s, err := store.New[widgetSpec, struct{}](b, "widget", nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newWidget(name string, size int) *widget {
	w := &widget{Spec: widgetSpec{Size: size}}
	w.Namespace, w.Name = "ns", name
	return w
}

func begin(t testing.TB, pool *pgxpool.Pool) pgx.Tx {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

func callersPool(t testing.TB, dsn string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// promise S3. Negative control: the mutant "a declaration is applied and left in the inbox".
func TestDeclarationIsThereIfAndOnlyIfTheTransactionCommits(t *testing.T) {
	t.Parallel()
	b := open(t, postgres.Options{})
	s := newWidgets(t, b)
	pool := callersPool(t, shared.socket())
	ctx := t.Context()
	table := b.Schema() + ".orders"
	if _, err := pool.Exec(ctx, "CREATE TABLE "+table+" (name text)"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"undone", "done"} {
		tx := begin(t, pool)
		if _, err := tx.Exec(ctx, "INSERT INTO "+table+" VALUES ($1)", name); err != nil {
			t.Fatal(err)
		}
		if err := postgres.Declare(ctx, tx, b, s, newWidget(name, 3)); err != nil {
			t.Fatal(err)
		}
		end := tx.Commit
		if name == "undone" {
			end = tx.Rollback
		}
		if err := end(ctx); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, func() bool {
		w, err := s.Get(ctx, key("done"))
		return err == nil && w.Spec.Size == 3 && w.Generation == 1 && w.UID != ""
	})
	var left int // the object and the end of its declaration are one transaction
	if err := pool.QueryRow(ctx, "SELECT count(*) FROM "+b.Schema()+".inbox").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d declarations are left, error %v", left, err)
	}
	if _, err := s.Get(ctx, key("undone")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a declaration that was rolled back: %v", err)
	}
	if err := postgres.Declare(ctx, begin(t, pool), b, s, newWidget("", 1)); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("Declare of an object without a name: %v, want ErrInvalid", err)
	}
	wrapped := struct{ store.FullBackend }{b}
	if err := postgres.Declare(ctx, begin(t, pool), wrapped, s, newWidget("wrapped", 1)); err == nil || !strings.Contains(err.Error(), "not what Open returned") {
		t.Errorf("Declare with a backend that wraps that of Open: %v, want an error that says so", err)
	}
}

// A transaction that has declared something and stays open holds up neither commits nor
// other declarations.
func TestOpenTransactionHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	b := open(t, postgres.Options{})
	s := newWidgets(t, b)
	pool := callersPool(t, shared.socket())
	ctx := t.Context()
	slow := begin(t, pool)
	if err := postgres.Declare(ctx, slow, b, s, newWidget("slow", 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(ctx, newWidget("created", 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(ctx, newWidget("slow", 7)); err != nil { // also of the same object
		t.Fatal(err)
	}
	quick := begin(t, pool)
	if err := errors.Join(postgres.Declare(ctx, quick, b, s, newWidget("quick", 2)), quick.Commit(ctx)); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		_, err := s.Get(ctx, key("quick"))
		return err == nil
	})
	if err := slow.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		w, err := s.Get(ctx, key("slow"))
		return err == nil && w.Spec.Size == 1 && w.Generation == 2
	})
}

// Declarations of one object are applied in the order in which their transactions commit,
// however these overlap.
func TestDeclarationsOfOneObjectAreAppliedInTheOrderOfCommits(t *testing.T) {
	t.Parallel()
	b := open(t, postgres.Options{})
	s := newWidgets(t, b)
	pool := callersPool(t, shared.socket())
	ctx := t.Context()
	var mu sync.Mutex
	var committed []int // sizes, in the order of commits: each is noted before its end lets the next one go on
	var wg sync.WaitGroup
	for i := range 20 {
		tx := begin(t, pool)
		wg.Go(func() {
			if err := postgres.Declare(ctx, tx, b, s, newWidget("a", 100+i)); err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			committed = append(committed, 100+i)
			mu.Unlock()
			if err := tx.Commit(ctx); err != nil {
				t.Error(err)
			}
		})
		if i%4 == 3 {
			wg.Wait() // the pool is small
		}
	}
	wg.Wait()
	waitFor(t, func() bool {
		w, err := s.Get(ctx, key("a"))
		return err == nil && w.Spec.Size == committed[len(committed)-1] && w.Generation == int64(len(committed))
	})
	var applied []int
	for batch, err := range b.Watch(ctx, "widget", 1) {
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range batch.Changes {
			w, err := s.Decode(c.Record)
			if err != nil {
				t.Fatal(err)
			}
			applied = append(applied, w.Spec.Size)
		}
		if len(applied) >= len(committed) {
			break
		}
	}
	if fmt.Sprint(applied) != fmt.Sprint(committed) {
		t.Errorf("applied  %v\ncommitted %v", applied, committed)
	}
}

func TestDeclarationForAnObjectThatIsBeingDeletedWaitsAndCreatesItAgain(t *testing.T) {
	b := open(t, *(&postgres.Options{}).SetPoll(20 * time.Millisecond))
	s := newWidgets(t, b)
	pool := callersPool(t, shared.socket())
	ctx := t.Context()
	old := newWidget("a", 1)
	old.Finalizers = []string{"test"}
	if _, err := s.Create(ctx, old); err != nil {
		t.Fatal(err)
	}
	o, err := s.Get(ctx, key("a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(ctx, o); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"a", "a", "b"} {
		tx := begin(t, pool)
		if err := errors.Join(postgres.Declare(ctx, tx, b, s, newWidget(name, 2+i)), tx.Commit(ctx)); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, func() bool { // the declaration after those that wait
		_, err := s.Get(ctx, key("b"))
		return err == nil
	})
	gone, err := s.Mutate(ctx, key("a"), func(w *widget) error { w.Finalizers = nil; return nil })
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		w, err := s.Get(ctx, key("a"))
		return err == nil && w.UID != gone.UID && w.Spec.Size == 3 && !w.Deleting()
	})
}

// Of one object nothing is applied before what was declared earlier, also where that waits
// for the end of a deletion and both are looked at apart.
//
// promise S3. Negative control: the mutant "a declaration goes before one that waits".
func TestDeclarationsAroundADeletionAreAppliedInOrder(t *testing.T) {
	b := open(t, *(&postgres.Options{NoNotify: true}).SetPoll(time.Hour))
	s := newWidgets(t, b)
	pool := callersPool(t, shared.socket())
	ctx := t.Context()
	old := newWidget("a", 1)
	old.Finalizers = []string{"test"}
	o, err := s.Create(ctx, old)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(ctx, o); err != nil {
		t.Fatal(err)
	}
	tx := begin(t, pool)
	declared := []error{postgres.Declare(ctx, tx, b, s, newWidget("a", 2))}
	for i := range 100 { // so that the two are no part of one look
		declared = append(declared, postgres.Declare(ctx, tx, b, s, newWidget(fmt.Sprint("other", i), i)))
	}
	if err := errors.Join(append(declared, postgres.Declare(ctx, tx, b, s, newWidget("a", 3)), tx.Commit(ctx))...); err != nil {
		t.Fatal(err)
	}
	after, more, err := b.DrainSome(ctx, 0)
	if err != nil || !more {
		t.Fatalf("the first look ended with %t, %v", more, err)
	}
	if _, err := s.Get(ctx, key("other0")); err != nil {
		t.Error(err)
	}
	if _, err := s.Mutate(ctx, key("a"), func(w *widget) error { w.Finalizers = nil; return nil }); err != nil {
		t.Fatal(err)
	}
	drainTo(t, b, s, after, more, 3)
}

// A transaction may commit what has a lower number than what was looked at already.
//
// promise S3. Negative control: the mutant "a declaration goes before one that waits".
func TestDeclarationThatCommitsLateIsAppliedBeforeTheNextOfItsObject(t *testing.T) {
	b := open(t, *(&postgres.Options{NoNotify: true}).SetPoll(time.Hour))
	s := newWidgets(t, b)
	pool := callersPool(t, shared.socket())
	ctx := t.Context()
	late, other := begin(t, pool), begin(t, pool)
	if err := errors.Join(
		postgres.Declare(ctx, late, b, s, newWidget("a", 1)),
		postgres.Declare(ctx, other, b, s, newWidget("b", 1)), other.Commit(ctx),
	); err != nil {
		t.Fatal(err)
	}
	after, more, err := b.DrainSome(ctx, 0) // b
	next := begin(t, pool)
	if err := errors.Join(err, late.Commit(ctx), postgres.Declare(ctx, next, b, s, newWidget("a", 2)), next.Commit(ctx)); err != nil {
		t.Fatal(err)
	}
	drainTo(t, b, s, after, more, 2)
}

// drainTo goes on with a look, and makes another, and then the object must have a size.
func drainTo(t *testing.T, b *postgres.Backend, s *widgets, after int64, more bool, size int) {
	t.Helper()
	for more {
		var err error
		if after, more, err = b.DrainSome(t.Context(), after); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.DrainAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w, err := s.Get(t.Context(), key("a")); err != nil || w.Spec.Size != size {
		t.Errorf("the object is %+v, error %v; the last declaration said %d", w, err, size)
	}
}

// What another server has not applied of the rows that were read is applied at once, and so is what was declared of
// an object that is written between its reading and the write.
//
// promise S3. Negative controls: the mutant "declarations that another server left wait", and with the declaration
// taken out of the inbox although it met a conflict.
func TestDeclarationsThatAnotherServerLeftAreApplied(t *testing.T) {
	for name, sql := range map[string]string{
		"applied the second": "DELETE FROM {schema}.inbox WHERE name = 'b'",
		"wrote the first": `WITH h AS (UPDATE {schema}.head SET revision = revision + 1 RETURNING revision)
			UPDATE {schema}.records r SET revision = h.revision FROM h WHERE name = 'a'`,
	} {
		t.Run(name, func(t *testing.T) { testDeclarationsLeft(t, sql) })
	}
}

func testDeclarationsLeft(t *testing.T, does string) {
	b := open(t, *(&postgres.Options{NoNotify: true}).SetPoll(time.Hour))
	s := newWidgets(t, b)
	pool := callersPool(t, shared.socket())
	ctx := t.Context()
	if _, err := s.Create(ctx, newWidget("a", 0)); err != nil {
		t.Fatal(err)
	}
	tx := begin(t, pool)
	if err := errors.Join(
		postgres.Declare(ctx, tx, b, s, newWidget("a", 1)), postgres.Declare(ctx, tx, b, s, newWidget("b", 1)), tx.Commit(ctx),
	); err != nil {
		t.Fatal(err)
	}
	other := begin(t, pool) // what another server does
	for _, sql := range []string{"SELECT FROM {schema}.head FOR UPDATE", does} {
		if _, err := other.Exec(ctx, strings.ReplaceAll(sql, "{schema}", b.Schema())); err != nil {
			t.Fatal(err)
		}
	}
	drained := make(chan error, 1)
	go func() { drained <- b.DrainAll(ctx) }()
	waitFor(t, func() bool {
		var pid int
		return pool.QueryRow(ctx, `SELECT pid FROM pg_stat_activity
			WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '.drain(%'`, b.Schema()).Scan(&pid) == nil
	})
	if err := errors.Join(other.Commit(ctx), <-drained); err != nil {
		t.Fatal(err)
	}
	if w, err := s.Get(ctx, key("a")); err != nil || w.Spec.Size != 1 {
		t.Errorf("what the other server left: %+v, %v", w, err)
	}
	if n := shared.number(t, "SELECT count(*) FROM "+b.Schema()+".inbox"); n != 0 {
		t.Errorf("%d declarations wait", n)
	}
}

// What was declared while no connection listened is applied when one does.
func TestDeclarationOfBeforeTheListenerIsApplied(t *testing.T) {
	b := open(t, *(&postgres.Options{}).SetPoll(time.Hour))
	s := newWidgets(t, b)
	tx := begin(t, callersPool(t, shared.socket()))
	if err := errors.Join(postgres.Declare(t.Context(), tx, b, s, newWidget("a", 1)), tx.Commit(t.Context())); err != nil {
		t.Fatal(err)
	}
	for batch, err := range b.Watch(longEnough(t), "widget", 0) { // from now on a connection listens
		if err != nil {
			t.Fatal(err)
		}
		if len(batch.Changes) > 0 {
			break
		}
	}
}

// A declaration that cannot be applied is put aside, and what comes after it is not.
func TestDeclarationOfAnOlderProgramIsPutAside(t *testing.T) {
	t.Parallel()
	b := open(t, postgres.Options{})
	s := newWidgets(t, b)
	newer, err := store.New(b, "widget", &store.Options[widgetSpec, struct{}]{Version: 2})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if _, err := newer.Create(ctx, newWidget("a", 1)); err != nil {
		t.Fatal(err)
	}
	pool := callersPool(t, shared.socket())
	for _, name := range []string{"a", "b"} {
		tx := begin(t, pool)
		if err := errors.Join(postgres.Declare(ctx, tx, b, s, newWidget(name, 2)), tx.Commit(ctx)); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, func() bool {
		_, err := s.Get(ctx, key("b"))
		return err == nil
	})
	var reason string
	if err := pool.QueryRow(ctx, "SELECT refused FROM "+b.Schema()+".inbox").Scan(&reason); err != nil || !strings.Contains(reason, "newer version") {
		t.Errorf("the declaration of an older program: refused is %q, error %v", reason, err)
	}
	if w, err := newer.Get(ctx, key("a")); err != nil || w.Spec.Size != 1 {
		t.Errorf("the object of the newer program: %+v, error %v", w, err)
	}
}

var declaresFor = flag.Duration("declares", 3*time.Second, "how long the campaign against declarations lasts")

// Servers that apply declarations are killed at any instant, and the database with them,
// while callers declare numbers that grow, and an operator edits the objects in between.
// An application that was lost would leave an old number; one that was made twice would
// take an edit back.
//
// promise S3
func TestDeclarationsSurviveKillsBetweenAnyTwoSteps(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	schema := newSchema()
	b := openAt(t, s.dsn(), postgres.Options{Schema: schema, Timeout: 20 * time.Second})
	objects := newWidgets(t, b)
	pool := callersPool(t, s.dsn())
	if _, err := pool.Exec(t.Context(), "CREATE TABLE "+schema+".business (name text PRIMARY KEY, size int)"); err != nil {
		t.Fatal(err)
	}
	var workers []*campaign.Worker
	for i := range 3 {
		workers = append(workers, newWorker(t, s, serverConfig{Name: fmt.Sprint(i), Schema: schema, DrainOnly: true, Rate: 100}, func(*campaign.Worker, string) {}))
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	ctx, stop := context.WithCancel(campaign.Context(t))
	defer stop()
	var declared atomic.Int64
	campaign.Until(ctx, stop, *declaresFor, func() bool { return declared.Load() >= 100 })
	var wg sync.WaitGroup
	for i := range 4 {
		name := fmt.Sprint("w", i)
		wg.Go(func() { // declares 1, 2, 3, … together with a row of its own
			for n := 1; ctx.Err() == nil; n++ {
				err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					if _, err := tx.Exec(ctx, "INSERT INTO "+schema+".business VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET size = $2", name, n); err != nil {
						return err
					}
					return postgres.Declare(ctx, tx, b, objects, newWidget(name, n))
				})
				if err == nil {
					declared.Add(1)
				}
			}
		})
	}
	r := rand.New(rand.NewPCG(seed, 1))
	faults := 0
	for ; ctx.Err() == nil; faults++ {
		w := workers[r.IntN(len(workers))]
		w.Kill()
		if faults%5 == 4 {
			s.endSessions()
		}
		w.Start(t)
		campaign.Wait(ctx, r, 0, 300*time.Millisecond)
	}
	wg.Wait()
	// The inbox empties, and every object is what its business row says.
	waitFor(t, func() bool {
		var left int
		return s.query("SELECT count(*) FROM "+schema+".inbox", &left) == nil && left == 0
	})
	for i := range 4 {
		name := fmt.Sprint("w", i)
		var size int
		if err := s.query("SELECT size FROM "+schema+".business WHERE name = '"+name+"'", &size); err != nil {
			t.Fatal(err)
		}
		if w, err := objects.Get(t.Context(), key(name)); err != nil || w.Spec.Size != size {
			t.Errorf("object %s: %+v, error %v; its business row says %d", name, w, err, size)
		}
	}
	// And none ever went back.
	last := make(map[store.Key]int)
	head, err := b.Commit(t.Context(), store.Txn{})
	if err != nil {
		t.Fatal(err)
	}
	log := &campaign.Watched{}
	log.ReadKind(t.Context(), b, "widget", 1, head)
	for _, c := range log.Changes {
		w, err := objects.Decode(c.Record)
		if err != nil {
			t.Fatal(err)
		}
		if w.Spec.Size <= last[c.Key] {
			t.Errorf("%s went from %d to %d", c.Key, last[c.Key], w.Spec.Size)
		}
		last[c.Key] = w.Spec.Size
	}
	t.Logf("campaign: %d declarations, %d changes, %d kills", declared.Load(), len(log.Changes), faults)
}
