package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/tendhq/tend/store"
)

func matches(err, want error) bool { return err != nil && errors.Is(err, want) }

var getChecks = []check{
	{"Get/a record that does not exist is ErrNotFound", func(e *env) {
		e.wantMissing(key("a"))
		e.commit(put(key("a"), "1"))
		e.wantMissing(key("b"))
		e.commit(del(key("a")))
		e.wantMissing(key("a"))
	}},
	{"Get/an impossible kind or key is ErrInvalid", func(e *env) {
		for _, bad := range []struct {
			kind string
			key  store.Key
		}{
			{"", key("a")},
			{"a/b", key("a")},
			{kind, store.Key{}},
			{kind, store.Key{Namespace: "a/b", Name: "c"}},
			{kind, key("new\nline")},
			{kind, key("\xff")},
			{kind, key(strings.Repeat("x", store.MaxName+1))},
			{strings.Repeat("x", store.MaxKind+1), key("a")},
			{kind, store.Key{Namespace: strings.Repeat("x", store.MaxNamespace+1), Name: "a"}},
		} {
			_, err := e.b.Get(e.ctx, bad.kind, bad.key)
			e.wantErr(fmt.Sprintf("Get(%q, %q)", bad.kind, bad.key), err, store.ErrInvalid)
			_, err = e.b.Commit(e.ctx, store.Txn{Ops: []store.Op{{Kind: bad.kind, Key: bad.key, Put: store.Bytes("x")}}})
			e.wantErr(fmt.Sprintf("Commit of %q %q", bad.kind, bad.key), err, store.ErrInvalid)
		}
	}},
	{"Get/returns what was committed, with its revisions", func(e *env) {
		r1 := e.commit(put(key("a"), "1"))
		e.wantGet(key("a"), r1, r1, "1")
		r2 := e.commit(put(key("a"), "2"))
		e.wantGet(key("a"), r1, r2, "2")
		r3 := e.commit(put(key("a"), ""))
		e.wantGet(key("a"), r1, r3, "")
	}},
	{"Get/a record made again has a new create revision", func(e *env) {
		e.commit(put(key("a"), "1"))
		e.commit(del(key("a")))
		r := e.commit(put(key("a"), "2"))
		e.wantGet(key("a"), r, r, "2")
	}},
	{"Get/sees every commit that returned before", func(e *env) {
		var wg sync.WaitGroup
		for w := range 4 {
			k := key(fmt.Sprint("k", w))
			wg.Go(func() {
				for i := range 50 {
					want := fmt.Sprint(i)
					r, err := e.b.Commit(e.ctx, store.Txn{Ops: []store.Op{put(k, want)}})
					if err != nil {
						e.Errorf("Commit: %v", err)
						return
					}
					got, err := e.b.Get(e.ctx, kind, k)
					if data, _ := got.Encode(); err != nil || got.Revision != r || string(data) != want {
						e.Errorf("after the commit of %q at %d, Get returned %q at %d, error %v", want, r, data, got.Revision, err)
						return
					}
				}
			})
		}
		wg.Wait()
	}},
	{"Get/any address the contract allows is kept apart from all others", func(e *env) {
		all := addresses()
		for i, a := range all {
			e.commit(store.Op{Kind: a.kind, Key: a.key, Put: store.Bytes(fmt.Sprint(i))})
		}
		for i, a := range all {
			r, err := e.b.Get(e.ctx, a.kind, a.key)
			data, _ := r.Encode()
			if err != nil || string(data) != fmt.Sprint(i) || r.Key != a.key || r.Kind != a.kind {
				e.Errorf("Get(%q, %q): got %s, error %v, want %q", a.kind, a.key, show(r), err, fmt.Sprint(i))
			}
		}
		for k, n := range count(all, func(a address) string { return a.kind }) {
			if got, _ := e.listAll(k, store.ListOptions{}); len(got) != n {
				e.Errorf("List(%q): got %d records, want %d", k, len(got), n)
			}
		}
		for ns, n := range count(all, func(a address) string { return a.kind + "/" + a.key.Namespace }) {
			k, ns, _ := strings.Cut(ns, "/")
			if got, _ := e.listAll(k, store.ListOptions{Namespace: ns}); ns != "" && len(got) != n {
				e.Errorf("List(%q, %q): got %d records, want %d", k, ns, len(got), n)
			}
		}
	}},
	{"Get/what was read stays as it was read", func(e *env) {
		r := e.commit(put(key("a"), "first"), put(key("b"), "other"))
		s := e.watch(kind, r)
		e.commit(put(key("a"), "second"))
		got := []store.Record{e.get(key("a")), e.get(key("b")), s.raw(1)[0].Record}
		snapshot, _ := e.watch(kind, 0).snapshot()
		listed, _ := e.listAll(kind, store.ListOptions{})
		got = append(append(got, snapshot...), listed...)
		var before []string
		for _, r := range got {
			before = append(before, show(r))
		}
		e.commit(put(key("a"), "third!"), put(key("b"), "!third"))
		s.raw(2)
		e.get(key("b"))
		e.get(key("a"))
		e.commit(del(key("a")), del(key("b")))
		s.raw(2)
		e.listAll(kind, store.ListOptions{})
		for i, r := range got {
			if now := show(r); now != before[i] {
				e.Errorf("read as %s, and later it is %s", before[i], now)
			}
		}
	}},
	{"Get/a context that is over gives its cause", func(e *env) {
		ctx, cause := e.over()
		_, err := e.b.Get(ctx, kind, key("a"))
		e.wantErr("Get", err, cause)
	}},
}

type address struct {
	kind string
	key  store.Key
}

// addresses are what a careless encoding of keys would mix up.
func addresses() []address {
	var all []address
	for _, k := range []string{"a", "ab", "a-b", "_a", "A", "ä"} {
		for _, ns := range []string{"", "a", "ab", "a-b", "a b", "..", "%2F"} {
			for _, name := range []string{"a", "a/b", "/a", "a/", "b", "%2F", "ab", "ä€", " ", ".."} {
				all = append(all, address{k, store.Key{Namespace: ns, Name: name}})
			}
		}
	}
	return all
}

func count(all []address, group func(address) string) map[string]int {
	n := make(map[string]int)
	for _, a := range all {
		n[group(a)]++
	}
	return n
}
