package debug_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/reconcile/web/debug"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/objects"
)

// On a server that does not hold a key's lease the queue does not know the key. Its page
// names the server that does.
func TestPageOfAKeyNamesTheServerThatRunsIt(t *testing.T) {
	for name, place := range map[string]func(store.Backend, string) (lease.Placement, error){
		"singleton": func(b store.Backend, server string) (lease.Placement, error) {
			return lease.NewSingleton(b, "things", &lease.Options{Server: server})
		},
		"sharded": func(b store.Backend, server string) (lease.Placement, error) {
			if server == "standby" { // it divides the keys otherwise, and waits
				return lease.NewSharded(b, "things", 3, &lease.Options{Server: server})
			}
			return lease.NewSharded(b, "things", 2, &lease.Options{Server: server})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := must(memory.New(nil))
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 2)
				start := func(server string) http.Handler {
					c := must(reconcile.New("things", reconcile.Func[store.Key](func(context.Context, store.Key) (reconcile.Result, error) {
						return reconcile.Result{}, nil
					}), nil))
					m := &reconcile.Manager{Placement: must(place(b, server))}
					if err := m.Register(c); err != nil {
						t.Fatal(err)
					}
					go func() { done <- m.Run(ctx) }() // ends at cancel
					time.Sleep(time.Second)
					return must(debug.New(m, nil))
				}
				holder, standby := start("server-a"), start("standby")
				page := []string{"c", "things", "key", "ns/x", "format", "text"}
				wantAll(t, get(t, holder, http.StatusOK, page...), "The queue does not know this key")
				wantAll(t, get(t, standby, http.StatusOK, page...), "does not hold the lease of this key", "server-a does, and runs the key")
				cancel()
				for range 2 {
					if err := <-done; err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// The pages of a sharded controller's servers lead to each other: from the overview, from the list of the
// leases, and from a key's page to the same key on the server that runs it. What is no address of a web page
// is no link.
func TestPagesOfSeveralServersLeadToEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := must(memory.New(nil))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 2)
		var pages []http.Handler
		for _, server := range []string{"server-a", "server-b"} {
			c := must(reconcile.New("things", reconcile.Func[store.Key](func(context.Context, store.Key) (reconcile.Result, error) {
				return reconcile.Result{}, nil
			}), nil))
			m := &reconcile.Manager{Placement: must(lease.NewSharded(b, "things", 4, &lease.Options{Server: server}))}
			if err := m.Register(c); err != nil {
				t.Fatal(err)
			}
			pages = append(pages, must(debug.New(m, &debug.Options{Servers: func() map[string]string {
				return map[string]string{
					"server-a": "http://a.example:1/ops/debug", "server-b": "https://me:secret@b.example/debug?x=1",
					"script": "javascript:alert(1)", "nowhere": "http:///debug", "broken": "http://%", "file": "file:///etc/passwd",
				}
			}})))
			go func() { done <- m.Run(ctx) }() // ends at cancel
		}
		time.Sleep(time.Minute)
		look, others := get(t, pages[0], http.StatusOK), get(t, pages[1], http.StatusOK)
		wantAll(t, look, `<a href="https://b.example/debug">server server-b</a>`, `<a href="https://b.example/debug">server-b</a>`)
		wantAll(t, others, `<a href="http://a.example:1/ops/debug">server server-a</a>`, `<a href="http://a.example:1/ops/debug">server-a</a>`)
		for _, no := range []string{"javascript:", "passwd", "nowhere", "broken", "secret"} {
			if strings.Contains(look, no) {
				t.Errorf("the page has %q", no)
			}
		}
		led := 0
		for i, there := range []string{"https://b.example/debug?c=things&amp;key=ns%2F", "http://a.example:1/ops/debug?c=things&amp;key=ns%2F"} {
			for _, key := range []string{"x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8"} {
				page := get(t, pages[i], http.StatusOK, "c", "things", "key", "ns/"+key)
				link, elsewhere := strings.Contains(page, `href="`+there+key+`"`), strings.Contains(page, "does not hold the lease of this key")
				if link != elsewhere {
					t.Errorf("key %s on server %d: another runs it: %t, a link to it: %t", key, i, elsewhere, link)
				}
				if link {
					led++
				}
			}
		}
		if led != 8 {
			t.Errorf("%d links for 8 keys on 2 servers, want 8", led)
		}
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// What is stored says nothing of an object whose function stores nothing: a server that does not run
// it does not know how it is. Its page said "as declared" of one that failed on the server beside it.
func TestPageOfAnObjectThatAnotherServerRunsDoesNotSayThatItIsWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent, b := slog.New(slog.DiscardHandler), must(memory.New(nil))
		kind := must(store.New[spec, status](b, "bucket", nil))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 2)
		var pages []http.Handler
		for _, server := range []string{"server-a", "server-b"} {
			c := must(reconcile.For(kind, func(_ context.Context, o *bucket) (reconcile.Result, error) {
				if strings.HasPrefix(o.Name, "bad") {
					return reconcile.Result{}, errors.New("refused: " + o.Name)
				}
				return reconcile.Result{}, nil
			}, &reconcile.ForOptions[spec, status]{Options: reconcile.Options[reconcile.Request]{Logger: silent}, Cache: &cache.Options[spec, status]{Shards: 4}}))
			m := &reconcile.Manager{Logger: silent, Placement: must(lease.NewSharded(b, "buckets", 4, &lease.Options{Server: server, Logger: silent}))}
			if err := m.Register(c); err != nil {
				t.Fatal(err)
			}
			pages = append(pages, must(debug.New(m, &debug.Options{Objects: []objects.Kind{objects.OfCache(c.Cache())}, Logger: silent, Servers: func() map[string]string {
				return map[string]string{"server-a": "http://a.example/debug", "server-b": "http://b.example/debug"}
			}})))
			go func() { done <- m.Run(ctx) }() // ends at cancel
		}
		time.Sleep(time.Minute)
		var names []string
		for i := range 4 {
			names = append(names, fmt.Sprintf("bad-%d", i), fmt.Sprintf("good-%d", i))
		}
		for _, name := range names {
			_ = must(kind.Create(t.Context(), &bucket{Meta: store.Meta{Name: name}}))
		}
		time.Sleep(time.Minute)
		for i, other := range []string{"server-b", "server-a"} {
			get(t, pages[i], http.StatusOK) // what is counted is no excuse
			known := 0
			for _, name := range names {
				page := get(t, pages[i], http.StatusOK, "view", "object", "kind", "bucket", "key", name)
				elsewhere := "not known here: " + other + " runs it"
				switch {
				case strings.Contains(page, elsewhere):
					wantAll(t, page, `<a href="http://`+other[len("server-"):]+`.example/debug?c=bucket&amp;key=`+name+`">this key on `+other)
					wantAll(t, get(t, pages[i], http.StatusOK, "view", "object", "kind", "bucket", "key", name, "format", "json"), `"runsOn": "`+other+`"`)
					if strings.Contains(page, "as declared") {
						t.Errorf("%s is as declared, says the server that does not run it", name)
					}
				case strings.HasPrefix(name, "good"):
					known++
					wantAll(t, page, "as declared")
				default:
					known++
					wantAll(t, page, ">failing<", "refused: "+name)
				}
			}
			if known == 0 || known == len(names) {
				t.Errorf("the server beside %s knows of %d of %d objects", other, known, len(names))
			}
		}
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// A controller whose source has not listed everything runs nothing, and the page says so: it said
// that nothing is stuck. A cache of shards that holds none is not without a watch that it needs.
// Health has neither: a slow list is no error, and a restart would begin it again.
//
// Negative control: mutant "a controller that waits for a source is well".
func TestPageSaysWhichSourceIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listed := make(chan struct{})
		c := must(reconcile.New("things", reconcile.Func[store.Key](func(context.Context, store.Key) (reconcile.Result, error) {
			return reconcile.Result{}, nil
		}), nil))
		things := must(cache.New(must(store.New[spec, status](must(memory.New(nil)), "thing", nil)), &cache.Options[spec, status]{Shards: 4}))
		m := &reconcile.Manager{}
		if err := errors.Join(m.Register(things), m.Register(c), c.Watch(reconcile.Source[store.Key]{
			Name: "list", Run: func(ctx context.Context, to reconcile.Sink[store.Key]) error {
				select {
				case <-listed:
					to.Synced()
				case <-ctx.Done():
				}
				<-ctx.Done()
				return nil
			},
		})); err != nil {
			t.Fatal(err)
		}
		h := must(debug.New(m, nil))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }() // ends at cancel
		time.Sleep(time.Hour)
		wantAll(t, get(t, h, http.StatusOK, "format", "text"), "runs nothing: source list has not listed everything yet", "controller things", "none: no shard is held")
		if check := m.Health(); !check[0].OK || !check[1].OK {
			t.Errorf("%v, want that nothing is wrong", check)
		}
		close(listed)
		time.Sleep(time.Second)
		wantAll(t, get(t, h, http.StatusOK, "format", "text"), "All is well: nothing fails, and nothing is stuck.")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// gated is a backend whose lists and watches wait.
type gated struct {
	store.Backend
	store.Leaser
	gate chan struct{}
}

func (g gated) List(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
	select {
	case <-g.gate:
	case <-ctx.Done():
		return store.Page{}, context.Cause(ctx)
	}
	return g.Backend.List(ctx, kind, o)
}

func (g gated) Watch(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
	select {
	case <-g.gate:
	case <-ctx.Done():
	}
	return g.Backend.Watch(ctx, kind, after)
}

// "This server does not hold the lease of this key: server-a does, and runs the key", said the page
// on server-a of a key that no server ran, because the cache could not list its shard.
//
// Negative control: mutant "a lease whose shard is not listed is another server's".
func TestPageOfAKeyWhoseShardIsNotListedSaysThatNoServerRunsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent, inner := slog.New(slog.DiscardHandler), must(memory.New(nil))
		b := gated{inner, inner, make(chan struct{})}
		things := must(store.New[spec, status](b, "thing", nil))
		_ = must(things.Create(t.Context(), &bucket{Meta: store.Meta{Name: "x"}}))
		c := must(reconcile.For(things, func(context.Context, *bucket) (reconcile.Result, error) { return reconcile.Result{}, nil }, &reconcile.ForOptions[spec, status]{
			Options: reconcile.Options[reconcile.Request]{Logger: silent}, Cache: &cache.Options[spec, status]{Shards: 2},
		}))
		m := &reconcile.Manager{Logger: silent, Placement: must(lease.NewSharded(inner, "thing", 2, &lease.Options{Server: "server-a"}))}
		if err := m.Register(c); err != nil {
			t.Fatal(err)
		}
		h := must(debug.New(m, &debug.Options{Objects: []objects.Kind{objects.Of(things)}, Logger: silent}))
		defer running(t, m)()
		time.Sleep(time.Minute)
		for _, page := range [][]string{{"c", "thing", "key", "x"}, {"view", "object", "kind", "thing", "key", "x"}} {
			text := get(t, h, http.StatusOK, append(page, "format", "text")...)
			wantAll(t, text, "This server holds the lease of this key", "runs the key once cache thing has listed its shard. Until then no server does.")
			if strings.Contains(text, "does not hold") {
				t.Errorf("it denies the lease that it holds:\n%s", text)
			}
		}
		close(b.gate)
		time.Sleep(time.Minute)
		wantAll(t, get(t, h, http.StatusOK, "c", "thing", "key", "x", "format", "text"), "there is nothing to run for it")
	})
}
