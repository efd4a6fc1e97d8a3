package cache_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

type (
	spec   struct{ Region, Size string }
	status struct{ Ready bool }
	object = store.Object[spec, status]
	change = cache.Change[spec, status]
)

// A feed is a backend whose watch says exactly what a test tells it to. Only
// Watch works; the cache uses nothing else.
type feed struct {
	store.Backend
	batches chan any // store.Batch or error

	mu     sync.Mutex
	afters []store.Revision
	health error
}

func newFeed() *feed { return &feed{batches: make(chan any)} }

func (f *feed) Watch(ctx context.Context, _ string, after store.Revision) iter.Seq2[store.Batch, error] {
	f.mu.Lock()
	f.afters = append(f.afters, after)
	f.mu.Unlock()
	return func(yield func(store.Batch, error) bool) {
		for {
			select {
			case x := <-f.batches:
				if err, ok := x.(error); ok {
					yield(store.Batch{}, err)
					return
				}
				if !yield(x.(store.Batch), nil) {
					return
				}
			case <-ctx.Done():
				yield(store.Batch{}, context.Cause(ctx))
				return
			}
		}
	}
}

// Health implements store.HealthChecker.
func (f *feed) Health() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.health
}

func (f *feed) fails(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.health = err
}

// opened returns after which revision each watch was opened.
func (f *feed) opened() []store.Revision {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]store.Revision(nil), f.afters...)
}

// send hands a batch, or the error that ends the watch, to the cache and waits
// until it was dealt with.
func (f *feed) send(xs ...any) {
	for _, x := range xs {
		f.batches <- x
	}
	synctest.Wait()
}

type edit func(*object)

// at makes an object of the feed; its uid is its name unless edited.
func at(r store.Revision, name string, edits ...edit) *object {
	o := &object{}
	o.Name, o.UID, o.Revision, o.Generation = name, "uid-"+name, r, 1
	for _, e := range edits {
		e(o)
	}
	return o
}

func region(v string) edit       { return func(o *object) { o.Spec.Region = v } }
func uid(v string) edit          { return func(o *object) { o.UID = v } }
func label(k, v string) edit     { return func(o *object) { o.Labels = map[string]string{k: v} } }
func finalizer(v ...string) edit { return func(o *object) { o.Finalizers = v } }
func namespace(v string) edit    { return func(o *object) { o.Namespace = v } }

func put(o *object) store.Change {
	data, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return store.Change{Record: store.Record{Kind: "bucket", Key: o.Key(), Created: 1, Revision: o.Revision, Bytes: data}}
}

func del(o *object, r store.Revision) store.Change {
	c := put(o)
	c.Deleted, c.Record.Revision = true, r
	return c
}

// garbage is a stored version that cannot be decoded.
func garbage(r store.Revision, name string) store.Change {
	return store.Change{Record: store.Record{Kind: "bucket", Key: store.Key{Name: name}, Created: 1, Revision: r, Bytes: []byte("{")}}
}

func snapshot(r store.Revision, cs ...store.Change) store.Batch {
	return store.Batch{Kind: store.BatchSnapshot, Revision: r, Changes: cs}
}

func end(r store.Revision) store.Batch { return store.Batch{Kind: store.BatchSnapshotEnd, Revision: r} }

func changes(r store.Revision, cs ...store.Change) store.Batch {
	return store.Batch{Kind: store.BatchChanges, Revision: r, Changes: cs}
}

func progress(r store.Revision) store.Batch {
	return store.Batch{Kind: store.BatchProgress, Revision: r}
}

// start runs a cache over a feed until the test's bubble ends.
func start(t *testing.T, o *cache.Options[spec, status]) (*feed, *cache.Cache[spec, status]) {
	t.Helper()
	f := newFeed()
	c := newCache(t, f, o)
	run(t, c)
	return f, c
}

func newCache(t *testing.T, b store.Backend, o *cache.Options[spec, status]) *cache.Cache[spec, status] {
	t.Helper()
	s, err := store.New[spec, status](b, "bucket", nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := cache.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func run(t *testing.T, c *cache.Cache[spec, status]) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run returned %v, want nil after its context ended", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// names lists what a sequence yields as name@revision, sorted.
func names(seq iter.Seq[*object]) string {
	var got []string
	for o := range seq {
		got = append(got, fmt.Sprintf("%s@%d", o.Name, o.Revision))
	}
	return sorted(got)
}

// A tape records what one consumer of Changes sees.
type tape struct {
	mu    sync.Mutex
	steps []string
	gate  chan struct{} // nil: never stops; otherwise a token per step
	err   error
}

func record(t *testing.T, c *cache.Cache[spec, status], gate chan struct{}) *tape {
	t.Helper()
	p := &tape{gate: gate}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ch, err := range c.Changes(ctx, nil) {
			if err != nil {
				p.err = err
				return
			}
			p.add(ch)
			if p.gate != nil {
				<-p.gate
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		if gate != nil {
			close(gate)
		}
		<-ended
		if !errors.Is(p.err, context.Canceled) {
			t.Errorf("Changes ended with %v, want the context's cause", p.err)
		}
	})
	return p
}

func (p *tape) add(ch change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.steps = append(p.steps, describe(ch))
}

// take returns the steps since the last take.
func (p *tape) take() []string {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.steps
	p.steps = nil
	return s
}

func describe(ch change) string {
	rev := func(o *object) string {
		if o == nil {
			return "-"
		}
		return fmt.Sprint(o.Revision)
	}
	switch {
	case ch.Synced:
		return fmt.Sprintf("synced@%d", ch.Revision)
	case ch.Initial:
		return fmt.Sprintf("initial %s@%s", ch.Key.Name, rev(ch.New))
	}
	return fmt.Sprintf("%s %s>%s@%d", ch.Key.Name, rev(ch.Old), rev(ch.New), ch.Revision)
}

func selector(t *testing.T, namespace, labels string) store.Selector {
	t.Helper()
	sel, err := store.ParseSelector(labels)
	sel.Namespace = namespace
	if err != nil {
		t.Fatal(err)
	}
	return sel
}

// A change is logged without what is in its objects, which may be secret.
func TestLoggedChangeSaysWhichAndNotWhat(t *testing.T) {
	var b strings.Builder
	o := &object{Meta: store.Meta{Name: "which"}, Spec: spec{Region: "not-to-be-seen"}}
	slog.New(slog.NewJSONHandler(&b, nil)).Info("seen", "change", change{Key: o.Key(), Old: o, New: o, Revision: 7})
	slog.New(slog.NewTextHandler(&b, nil)).Info("seen", "change", change{Key: o.Key(), Old: o, New: o, Revision: 7})
	if strings.Contains(b.String(), "not-to-be-seen") || !strings.Contains(b.String(), "which") {
		t.Errorf("the log is %s", &b)
	}
}
