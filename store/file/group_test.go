package file

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// grouped commits transactions as one group, and the same one by one to a store in memory.
type grouped struct {
	*testing.T
	b     *backend
	model store.FullBackend
	rnd   *rand.Rand
	head  store.Revision
	log   []string // what the transactions were
}

// txn is a random transaction on few keys: about one in three does not hold.
func (g *grouped) txn() (t store.Txn) {
	for range 1 + g.rnd.IntN(3) {
		k := store.Key{Name: string(rune('a' + g.rnd.IntN(5)))}
		op := store.Op{Kind: "k", Key: k}
		if !slices.ContainsFunc(t.Ops, func(o store.Op) bool { return o.Key == k }) {
			if g.rnd.IntN(3) > 0 {
				op.Put = store.Bytes(fmt.Sprint(k.Name, len(g.log)))
			}
			if g.rnd.IntN(30) == 0 {
				op.Lease = 99 // there is none
			}
			t.Ops = append(t.Ops, op)
		}
		c := store.Compare{Kind: "k", Key: k}
		switch g.rnd.IntN(5) {
		case 0:
		case 1:
			c.Revision = max(1, g.head-store.Revision(g.rnd.IntN(4))+store.Revision(g.rnd.IntN(4)))
		case 2: // what is there before the group
			r, _ := g.b.Get(context.Background(), "k", k)
			c.Created = r.Created
		default:
			continue
		}
		if g.rnd.IntN(4) == 0 {
			t.Guards = append(t.Guards, c)
		} else {
			t.If = append(t.If, c)
		}
	}
	if g.rnd.IntN(12) == 0 {
		t.Ops = nil // it only looks
	}
	return t
}

// answer is what a caller learns.
func answer(r store.Revision, err error) string {
	if c, ok := errors.AsType[*store.ConflictError](err); ok {
		data, _ := c.Current.Encode()
		return fmt.Sprintf("%v, there is %s created %d revision %d", c.Want, data, c.Current.Created, c.Current.Revision)
	}
	for _, e := range []error{store.ErrFenced, store.ErrLeaseGone, store.ErrInvalid, context.Canceled} {
		if errors.Is(err, e) {
			return e.Error()
		}
	}
	return fmt.Sprint(r, " ", err)
}

// commit makes a group of n members. The context of some ends before they are decided:
// these must change nothing.
func (g *grouped) commit(n int) {
	ended, end := context.WithCancel(context.Background())
	end()
	lives := map[bool]context.Context{false: context.Background(), true: ended}
	var members []*pending
	var want []string
	for range n {
		t := g.txn()
		g.log = append(g.log, fmt.Sprintf("%+v", t))
		data, err := t.Encode()
		if err != nil {
			g.Fatal(err)
		}
		late := g.rnd.IntN(8) == 0
		p := &pending{ctx: lives[late], work: func(g *group) (store.Revision, error) { return g.commit(t, data) }}
		if late {
			want = append(want, context.Canceled.Error())
		} else {
			want = append(want, answer(g.model.Commit(context.Background(), t)))
		}
		members = append(members, p)
	}
	g.b.commitGroup(members)
	for i, p := range members {
		if got := answer(p.revision, p.err); got != want[i] {
			g.Fatalf("member %d of %d: %s: got %s, want %s", i, n, g.log[len(g.log)-n+i], got, want[i])
		}
	}
	g.head, _ = g.model.Commit(context.Background(), store.Txn{})
}

// list reads all records; a list has no order.
func (g *grouped) list(b store.Backend, at store.Revision) (all []string) {
	g.Helper()
	p, err := b.List(g.Context(), "k", store.ListOptions{At: at})
	if err != nil {
		g.Fatal(err)
	}
	for _, r := range p.Records {
		data, _ := r.Encode()
		all = append(all, fmt.Sprintf("%s created %d revision %d %s", r.Key, r.Created, r.Revision, data))
	}
	slices.Sort(all)
	return all
}

// compare reads both stores: all records, and a watch from a revision on.
func (g *grouped) compare(from store.Revision) {
	g.Helper()
	show := func(b store.Backend) []string {
		all := g.list(b, 0)
		last := from
		for batch, err := range b.Watch(g.Context(), "k", from) {
			if err != nil {
				g.Fatalf("watch after %d: %v", from, err)
			}
			for _, c := range batch.Changes {
				data, _ := c.Encode()
				all = append(all, fmt.Sprintf("%s created %d revision %d %s, deleted %v", c.Key, c.Created, c.Revision, data, c.Deleted))
			}
			if last = batch.Revision; last >= g.head {
				break
			}
		}
		return append(all, fmt.Sprint("at ", last))
	}
	expect(g, fmt.Sprintf("records, and changes after %d", from), show(g.b), show(g.model))
}

// promise S1
// Of a group each member is decided on what those before it leave: one that is refused, gives
// up, deletes what another one of the group made or only looks has no effect on the others.
// Negative controls: a member that looks at what is on disk alone; one whose context ended
// and is decided nevertheless; a record made, deleted and made again in one group that
// keeps its first creation; a checkpoint without what the group itself wrote.
func TestGroupsAreDecidedAsIfOneByOne(t *testing.T) {
	for seed := range uint64(4) {
		path := newPath(t)
		o := &options{historyRevisions: 14}
		b, err := openWith(path, o)
		if err != nil {
			t.Fatal(err)
		}
		model, err := memory.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		g := &grouped{T: t, b: b.(*backend), model: model, rnd: rand.New(rand.NewPCG(seed, 15))}
		commits := func(ops ...store.Op) {
			commit(t, g.b, ops...)
			if g.head, err = model.Commit(t.Context(), store.Txn{Ops: ops}); err != nil {
				t.Fatal(err)
			}
		}
		commits(put("a", "0"))
		for range 24 {
			from, before := g.head, g.list(g.model, 0)
			g.commit(1 + g.rnd.IntN(12))
			commits(put("end", fmt.Sprint(g.head)))
			g.compare(from)
			expect(t, fmt.Sprintf("records at %d", from), g.list(g.b, from), before)
			if g.rnd.IntN(8) == 0 {
				closeNow(t, g.b)
				b, err := openWith(path, o)
				if err != nil {
					t.Fatal(err)
				}
				g.b = b.(*backend)
				commits(put("end", fmt.Sprint(g.head)))
				g.compare(g.head - 1)
			}
		}
		closeNow(t, g.b)
		if err := model.Close(); err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			t.Fatalf("seed %d:\n%s", seed, strings.Join(g.log, "\n"))
		}
	}
}
