package cache_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

const benchObjects = 10000

func benchKeys() []store.Key {
	keys := make([]store.Key, benchObjects)
	for i := range keys {
		keys[i] = store.Key{Namespace: "team-a", Name: fmt.Sprintf("object-%08d", i)}
	}
	return keys
}

func shuffled(keys []store.Key) []store.Key {
	rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}

func benchCache(b *testing.B) (*cache.Cache[spec, status], []store.Key) {
	_, s := newMemory(b)
	keys := benchKeys()
	for _, k := range keys {
		if _, err := s.Create(b.Context(), &object{Meta: store.Meta{Namespace: k.Namespace, Name: k.Name}}); err != nil {
			b.Fatal(err)
		}
	}
	c, err := cache.New(s, nil)
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Run(b.Context()) }()
	b.Cleanup(func() { <-ended }) // b.Context has ended by then
	<-c.Synced()
	return c, shuffled(keys)
}

// The limit: the same objects in a map under a lock.
type plain struct {
	mu sync.RWMutex
	m  map[store.Key]*object
}

func benchPlain() (*plain, []store.Key) {
	keys := benchKeys()
	p := &plain{m: make(map[store.Key]*object)}
	for _, k := range keys {
		p.m[k] = &object{Meta: store.Meta{Namespace: k.Namespace, Name: k.Name, Generation: 1}}
	}
	return p, shuffled(keys)
}

func BenchmarkLimitGet(b *testing.B) {
	p, keys := benchPlain()
	i := 0
	for b.Loop() {
		if i++; i == len(keys) {
			i = 0
		}
		p.mu.RLock()
		o, ok := p.m[keys[i]]
		p.mu.RUnlock()
		if !ok || o.Generation == 0 {
			b.Fatal("missing")
		}
	}
}

func BenchmarkLimitAll(b *testing.B) {
	p, keys := benchPlain()
	for b.Loop() {
		n := int64(0)
		p.mu.RLock()
		for _, o := range p.m {
			n += o.Generation
		}
		p.mu.RUnlock()
		if n != int64(len(keys)) {
			b.Fatal("missing")
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(keys)), "ns/object")
}

func BenchmarkGet(b *testing.B) {
	c, keys := benchCache(b)
	i := 0
	for b.Loop() {
		if i++; i == len(keys) {
			i = 0
		}
		if o, ok := c.Get(keys[i]); !ok || o.Generation == 0 {
			b.Fatal("missing")
		}
	}
}

func BenchmarkAll(b *testing.B) {
	c, keys := benchCache(b)
	for b.Loop() {
		n := int64(0)
		for o := range c.All() {
			n += o.Generation
		}
		if n != int64(len(keys)) {
			b.Fatal("missing")
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(keys)), "ns/object")
}
