package cache_test

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// loud is a spec that says when it is encoded.
type loud struct{ Text string }

var onEncode atomic.Pointer[func()]

func (l loud) MarshalJSON() ([]byte, error) {
	if f := onEncode.Load(); f != nil {
		(*f)()
	}
	return json.Marshal(l.Text)
}

func (l *loud) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &l.Text) }

// runLoud runs a cache with Options.DetectMutations of one object, until the test ends.
func runLoud(t *testing.T) (*store.Store[loud, status], *cache.Cache[loud, status], *store.Object[loud, status]) {
	b, _ := newMemory(t)
	s, err := store.New[loud, status](b, "loud", nil)
	if err != nil {
		t.Fatal(err)
	}
	o, err := s.Create(t.Context(), &store.Object[loud, status]{Meta: store.Meta{Name: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := cache.New(s, &cache.Options[loud, status]{DetectMutations: true, OnError: func(_ store.Key, err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := c.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	<-c.Synced()
	return s, c, o
}

// Negative control: mutant "objects are compared with what they looked like at another moment".
func TestObjectThatIsReplacedMeanwhileIsNotMutated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c, o := runLoud(t)
		var once atomic.Bool
		replace := func() {
			if !once.CompareAndSwap(false, true) {
				return
			}
			o.Spec.Text = "other"
			now, err := s.Update(t.Context(), o)
			if err != nil {
				t.Error(err)
				return
			}
			seen := make(chan struct{})
			c.OnRevision(now.Revision, func() { close(seen) })
			<-seen
		}
		onEncode.Store(&replace)
		defer onEncode.Store(nil)
		if err := c.CheckMutations(); err != nil {
			t.Errorf("an object that was replaced during the check: %v", err)
		}
		if got, _ := c.Get(o.Key()); got.Spec.Text != "other" {
			t.Errorf("the cache has %+v", got)
		}
		if err := c.CheckMutations(); err != nil {
			t.Error(err)
		}
	})
}

// The code of the user's that encodes an object may read the cache.
func TestFingerprintIsTakenWithoutALock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c, o := runLoud(t)
		read := func() { c.Len() }
		onEncode.Store(&read)
		defer onEncode.Store(nil)
		o.Spec.Text = "other"
		now, err := s.Update(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		seen := make(chan struct{})
		c.OnRevision(now.Revision, func() { close(seen) })
		<-seen
	})
}

// Negative control: mutant "a cache of a namespace reports what is in another one".
func TestWhatIsInAnotherNamespaceIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s := newMemory(t)
		put := func(k store.Key, data string) store.Revision {
			r, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{{Kind: "bucket", Key: k, Put: store.Bytes(data)}}})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		put(store.Key{Namespace: "theirs", Name: "a"}, "no object")
		c, err := cache.New(s, &cache.Options[spec, status]{
			Selector: store.Selector{Namespace: "ours"},
			OnError:  func(k store.Key, err error) { t.Errorf("%s: %v", k, err) },
		})
		if err != nil {
			t.Fatal(err)
		}
		run(t, c)
		put(store.Key{Namespace: "theirs", Name: "b"}, "no object")
		synctest.Wait()
		if err := c.Health(); err != nil {
			t.Errorf("Health: %v", err)
		}
	})
}
