package storetest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/tendhq/tend/store"
)

// fillStore writes n records in two namespaces and returns their content by key.
func (e *env) fillStore(n int) map[store.Key]string {
	e.Helper()
	all := make(map[store.Key]string, n)
	for i := range n {
		k := store.Key{Namespace: fmt.Sprint("ns", i%2), Name: fmt.Sprint("n", i)}
		all[k] = fmt.Sprint(i)
		e.commit(put(k, all[k]))
	}
	return all
}

// wantRecords compares a list with the content it must have.
func (e *env) wantRecords(what string, got []store.Record, want map[store.Key]string, upTo store.Revision) {
	e.Helper()
	var lines, wanted []string
	for _, r := range got {
		data, _ := r.Encode()
		lines = append(lines, fmt.Sprintf("%s=%s", r.Key, data))
		if r.Revision > upTo || r.Created > r.Revision || r.Created == 0 {
			e.Errorf("%s at revision %d has %s", what, upTo, show(r))
		}
	}
	for k, v := range want {
		wanted = append(wanted, fmt.Sprintf("%s=%s", k, v))
	}
	slices.Sort(lines)
	slices.Sort(wanted)
	if !slices.Equal(lines, wanted) {
		e.Errorf("%s:\n got %s\nwant %s", what, strings.Join(lines, " "), strings.Join(wanted, " "))
	}
}

func only(all map[store.Key]string, namespace string) map[store.Key]string {
	some := make(map[store.Key]string)
	for k, v := range all {
		if k.Namespace == namespace {
			some[k] = v
		}
	}
	return some
}

var listChecks = []check{
	{"List/an unknown kind is an empty page", func(e *env) {
		r := e.commit(put(key("a"), "1"))
		if all, rev := e.listAll("Nothing", store.ListOptions{}); len(all) != 0 || rev != r {
			e.Errorf("got %d records at %d, want none at %d", len(all), rev, r)
		}
	}},
	{"List/has every record of the kind, or of one namespace", func(e *env) {
		want := e.fillStore(25)
		e.commit(store.Op{Kind: "Thing2", Key: key("a"), Put: store.Bytes("x")})
		e.commit(del(store.Key{Namespace: "ns0", Name: "n0"}))
		delete(want, store.Key{Namespace: "ns0", Name: "n0"})
		for _, limit := range []int{0, 1, 7, 24, 1000} {
			all, rev := e.listAll(kind, store.ListOptions{Limit: limit})
			e.wantRecords(fmt.Sprintf("List with a limit of %d", limit), all, want, rev)
			all, rev = e.listAll(kind, store.ListOptions{Namespace: "ns1", Limit: limit})
			e.wantRecords(fmt.Sprintf("List of ns1 with a limit of %d", limit), all, only(want, "ns1"), rev)
		}
		if all, _ := e.listAll(kind, store.ListOptions{Namespace: "ns"}); len(all) != 0 {
			e.Errorf("List of a namespace whose name is only a prefix: got %d records", len(all))
		}
	}},
	{"List/sees every commit that returned before", func(e *env) {
		for i := range 20 {
			ops := []store.Op{put(key(fmt.Sprint(i)), "x")}
			if i%2 == 1 {
				ops = append(ops, store.Op{Kind: "Other", Key: key("a"), Put: store.Bytes("x")})
			}
			r := e.commit(ops...)
			if all, rev := e.listAll(kind, store.ListOptions{}); len(all) != i+1 || rev < r {
				e.Fatalf("after commit %d at %d: %d records at %d", i+1, r, len(all), rev)
			}
		}
	}},
	{"List/pages show one instant whatever is written meanwhile", func(e *env) {
		want := e.fillStore(30)
		var got []store.Record
		o := store.ListOptions{Limit: 4}
		var pinned store.Revision
		for i := 0; ; i++ {
			p, err := e.b.List(e.ctx, kind, o)
			if err != nil {
				e.Fatalf("page %d: %v", i, err)
			}
			if pinned == 0 {
				pinned = p.Revision
			}
			if p.Revision != pinned {
				e.Errorf("page %d is of revision %d, the list of %d", i, p.Revision, pinned)
			}
			got = append(got, p.Records...)
			if o.Cursor = p.Cursor; o.Cursor == "" {
				break
			}
			e.disturb(i)
		}
		e.wantRecords("List", got, want, pinned)
	}},
	{"List/a page after the history was forgotten shows the same instant, or is ErrCompacted", func(e *env) {
		want := e.fillStore(10)
		first, err := e.b.List(e.ctx, kind, store.ListOptions{Limit: 4})
		if err != nil || first.Cursor == "" {
			e.Fatalf("the first page: cursor %q, error %v", first.Cursor, err)
		}
		for i := range 3 {
			e.disturb(i)
		}
		e.compact()
		got, cursor := first.Records, first.Cursor
		for cursor != "" {
			p, err := e.b.List(e.ctx, kind, store.ListOptions{Limit: 4, Cursor: cursor})
			if err != nil {
				e.wantErr("the next page", err, store.ErrCompacted)
				return
			}
			got, cursor = append(got, p.Records...), p.Cursor
		}
		e.wantRecords("List", got, want, first.Revision)
	}},
	{"List/with a cursor At is ignored", func(e *env) {
		want := e.fillStore(10)
		for _, at := range []store.Revision{1, e.head() + 1000, math.MaxUint64} {
			first, err := e.b.List(e.ctx, kind, store.ListOptions{Limit: 4})
			if err != nil || first.Cursor == "" {
				e.Fatalf("the first page: cursor %q, error %v", first.Cursor, err)
			}
			rest, rev := e.listAll(kind, store.ListOptions{Cursor: first.Cursor, At: at})
			e.wantRecords(fmt.Sprintf("List continued at %d", at), append(slices.Clone(first.Records), rest...), want, first.Revision)
			if rev != first.Revision {
				e.Errorf("continued at %d it is of revision %d, and began at %d", at, rev, first.Revision)
			}
		}
	}},
	{"List/a limit may be as large as there are numbers", func(e *env) {
		want := e.fillStore(10)
		first, err := e.b.List(e.ctx, kind, store.ListOptions{Limit: 4})
		if err != nil || first.Cursor == "" {
			e.Fatalf("the first page: cursor %q, error %v", first.Cursor, err)
		}
		rest, rev := e.listAll(kind, store.ListOptions{Cursor: first.Cursor, Limit: math.MaxInt})
		e.wantRecords("List", append(first.Records, rest...), want, rev)
		for _, limit := range []int{math.MaxInt, math.MaxInt/64 + 1} { // a backend may count in larger units
			p, err := store.ListSlots(e.ctx, e.b, kind, quarter(1), store.ListOptions{Limit: limit})
			if err != nil || p.Cursor != "" {
				e.Errorf("ListSlots with a limit of %d: cursor %q, error %v", limit, p.Cursor, err)
			}
			e.wantRecords("ListSlots", p.Records, of(want, quarter(1)), p.Revision)
		}
	}},
	{"List/never goes back", func(e *env) {
		e.fillStore(5)
		var writers sync.WaitGroup
		defer writers.Wait()
		for w := range 2 {
			writers.Go(func() { e.scribble(w, 40) })
		}
		var last store.Revision
		for range 40 {
			if _, rev := e.listAll(kind, store.ListOptions{}); rev < last {
				e.Errorf("a list of revision %d after one of %d", rev, last)
			} else {
				last = rev
			}
		}
	}},
	{"List/two lists at once do not mix", func(e *env) {
		want := e.fillStore(10)
		a, errA := e.b.List(e.ctx, kind, store.ListOptions{Limit: 4})
		e.commit(put(key("new"), "x"))
		b, errB := e.b.List(e.ctx, kind, store.ListOptions{Limit: 4})
		if errA != nil || errB != nil {
			e.Fatalf("List: %v, %v", errA, errB)
		}
		restA, revA := e.listAll(kind, store.ListOptions{Limit: 4, Cursor: a.Cursor})
		e.wantRecords("first list", append(slices.Clone(a.Records), restA...), want, revA)
		restB, revB := e.listAll(kind, store.ListOptions{Limit: 4, Cursor: b.Cursor})
		want[key("new")] = "x"
		e.wantRecords("second list", append(slices.Clone(b.Records), restB...), want, revB)
	}},
	{"List/at a revision shows that instant, or is ErrCompacted", func(e *env) {
		want := e.fillStore(3)
		then := e.head()
		all, rev := e.listAll(kind, store.ListOptions{At: then})
		e.wantRecords("List at now", all, want, rev)
		e.commit(put(key("later"), "x"))
		p, err := e.b.List(e.ctx, kind, store.ListOptions{At: then})
		if err == nil {
			e.wantRecords("List at then", p.Records, want, then)
		} else {
			e.wantErr("List at then", err, store.ErrCompacted)
		}
		for _, at := range []store.Revision{e.head() + 1000, math.MaxInt64 + 1, math.MaxUint64} { // a medium may count in signed numbers
			_, err = e.b.List(e.ctx, kind, store.ListOptions{At: at})
			e.wantErr("List in the future", err, store.ErrInvalid)
		}
	}},
	{"List/a cursor of another kind or namespace is ErrInvalid", func(e *env) {
		for i := range 3 {
			for _, ns := range []string{"n0", "n1"} {
				op := put(store.Key{Namespace: ns, Name: fmt.Sprint(i)}, "x")
				other := op
				other.Kind = "other"
				e.commit(op)
				e.commit(other)
			}
		}
		page, err := e.b.List(e.ctx, kind, store.ListOptions{Limit: 2})
		if err != nil || page.Cursor == "" {
			e.Fatalf("the first page: cursor %q, error %v", page.Cursor, err)
		}
		_, err = e.b.List(e.ctx, "other", store.ListOptions{Cursor: page.Cursor})
		e.wantErr("the cursor of another kind", err, store.ErrInvalid)
		_, err = e.b.List(e.ctx, kind, store.ListOptions{Namespace: "n0", Cursor: page.Cursor})
		e.wantErr("the cursor of all namespaces", err, store.ErrInvalid)
		rest, _ := e.listAll(kind, store.ListOptions{Cursor: page.Cursor})
		if n := len(page.Records) + len(rest); n != 6 {
			e.Errorf("%d records of both pages, want 6", n)
		}
	}},
	{"List/what cannot be asked for is ErrInvalid", func(e *env) {
		e.fillStore(10)
		_, err := e.b.List(e.ctx, "a/b", store.ListOptions{})
		e.wantErr("List of an impossible kind", err, store.ErrInvalid)
		_, err = e.b.List(e.ctx, kind, store.ListOptions{Limit: -1})
		e.wantErr("List with a negative limit", err, store.ErrInvalid)
		for _, c := range []string{"x", "-1", "1:", "9999:1", "\x00", "0:0"} {
			_, err = e.b.List(e.ctx, kind, store.ListOptions{Cursor: c, Limit: 1})
			if !errors.Is(err, store.ErrInvalid) {
				e.Errorf("List with the cursor %q: got error %v, want %v", c, err, store.ErrInvalid)
			}
		}
	}},
	{"List/a context that is over gives its cause", func(e *env) {
		ctx, cause := e.over()
		_, err := e.b.List(ctx, kind, store.ListOptions{})
		e.wantErr("List", err, cause)
	}},
}

// disturb writes, changes and deletes.
func (e *env) disturb(i int) {
	e.Helper()
	e.commit(put(store.Key{Namespace: "ns0", Name: fmt.Sprint("new", i)}, "new"))
	e.commit(put(store.Key{Namespace: "ns1", Name: fmt.Sprint("n", 2*i+1)}, "changed"))
	e.commit(del(store.Key{Namespace: "ns0", Name: fmt.Sprint("n", 28-2*i)}))
}
