package joints_test

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/objects"
)

// A loop over a sequence may be left at any element. A sequence that goes on panics then.
//
// Negative control: Cache.All that did not look at what yield gave panicked.
func TestEachSequenceCanBeLeftAtAnyElement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const there = 3 // elements of each at least
		type thing = store.Object[struct{ Size int }, struct{}]
		b, err := memory.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		things, err := store.New[struct{ Size int }, struct{}](b, "thing", nil)
		if err != nil {
			t.Fatal(err)
		}
		seen, err := cache.New(things, nil)
		if err != nil {
			t.Fatal(err)
		}
		bySize, err := seen.AddIndex("size", func(o *thing) []string { return []string{fmt.Sprint(o.Spec.Size)} })
		if err != nil {
			t.Fatal(err)
		}
		q, err := queue.New[string](nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- seen.Run(ctx) }()
		defer func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		for i := range there {
			if _, err := things.Create(ctx, &thing{Meta: store.Meta{Name: fmt.Sprint("t", i)}}); err != nil {
				t.Fatal(err)
			}
			if err := q.AddAfter(fmt.Sprint(i), time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		bare, err := objects.Bare(b, "thing", false)
		if err != nil {
			t.Fatal(err)
		}
		again := make(chan struct{}, 1)
		again <- struct{}{}
		pages := external.Pages(func(context.Context, string) ([]int, string, error) { return []int{1, 2}, "more", nil })
		for name, seq := range map[string]iter.Seq[any]{
			"Store.All":              firsts(things.All(ctx, store.Selector{})),
			"Store.Watch":            firsts(things.Watch(ctx, 0)),
			"Backend.Watch":          changes(b.Watch(ctx, "thing", 0)),
			"Cache.All":              anys(seen.All()),
			"Index.Get":              anys(bySize.Get("0")),
			"Cache.Changes":          firsts(seen.Changes(ctx, nil)),
			"Cache.Changes, again":   firsts(seen.Changes(ctx, again)),
			"objects.Of.All":         firsts(objects.Of(things).All(ctx, store.Selector{})),
			"objects.Of.Watch":       firsts(objects.Of(things).Watch(ctx, 0)),
			"objects.OfCache.All":    firsts(objects.OfCache(seen).All(ctx, store.Selector{})),
			"objects.OfCache.States": firsts(objects.States(ctx, objects.OfCache(seen), store.Selector{})),
			"objects.Bare.All":       firsts(bare.All(ctx, store.Selector{})),
			"objects.Bare.Watch":     firsts(bare.Watch(ctx, 0)),
			"Queue.Snapshot":         anys(q.Snapshot()),
			"external.Pages":         firsts(pages(ctx)),
		} {
			for n := 1; n <= there; n++ {
				got := 0
				for range seq {
					if got++; got == n {
						break
					}
				}
				if got != n {
					t.Errorf("%s ended after %d elements, want %d at least", name, got, there)
				}
			}
		}
		for ch := range seen.Changes(ctx, nil) { // what was there, and then what comes
			if ch.Synced {
				if _, err := things.Create(ctx, &thing{Meta: store.Meta{Name: "new"}}); err != nil {
					t.Error(err)
				}
			} else if !ch.Initial {
				break
			}
		}
	})
}

func anys[V any](seq iter.Seq[V]) iter.Seq[any] {
	return func(yield func(any) bool) {
		for v := range seq {
			if !yield(v) {
				return
			}
		}
	}
}

func firsts[V any](seq iter.Seq2[V, error]) iter.Seq[any] {
	return func(yield func(any) bool) {
		for v := range seq {
			if !yield(v) {
				return
			}
		}
	}
}

// changes are those of batches, left in the batch that one of them is in.
func changes(seq iter.Seq2[store.Batch, error]) iter.Seq[any] {
	return func(yield func(any) bool) {
		for b := range seq {
			for _, ch := range b.Changes {
				if !yield(ch) {
					return
				}
			}
		}
	}
}
