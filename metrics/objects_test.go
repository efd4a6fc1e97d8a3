package metrics_test

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/tendhq/tend/metrics"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/objects"
)

// gathered are the metrics of a registry by name and, in the order of their names, the
// values of their labels.
func gathered(t *testing.T, r prometheus.Gatherer) map[string]*dto.Metric {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*dto.Metric{}
	for _, f := range families {
		for _, m := range f.Metric {
			name := f.GetName()
			for _, l := range m.Label {
				name += "/" + l.GetValue()
			}
			all[name] = m
		}
	}
	return all
}

func TestStatesOfObjectsAreCountedAndTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := memory.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		type object = store.Object[struct{}, struct{}]
		disks, err := store.New[struct{}, struct{}](b, "disk", nil)
		if err != nil {
			t.Fatal(err)
		}
		must := func(o *object, err error) *object {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			return o
		}
		create := func(name string) *object {
			return must(disks.Create(t.Context(), &object{Meta: store.Meta{Name: name, Finalizers: []string{"x.example/y"}}}))
		}
		ready := func(o *object) *object {
			o.SetReady()
			o.SetCondition(store.Condition{Type: store.ConditionSynced, Status: store.True})
			return must(disks.UpdateStatus(t.Context(), o))
		}
		old := create("old")
		time.Sleep(time.Hour)
		c := metrics.New(nil)
		if err := c.AddObjects(objects.Of(disks)); err != nil {
			t.Fatal(err)
		}
		if c.AddObjects(nil) == nil || c.AddObjects(objects.Of(disks)) == nil {
			t.Error("nil, or a kind twice, is added")
		}
		r := prometheus.NewPedanticRegistry()
		r.MustRegister(c)
		ready(old) // created before the process began: not timed
		a := create("a")
		_ = create("waits")
		time.Sleep(30 * time.Second)
		a = ready(a)
		a.Paused = true
		a = must(disks.Update(t.Context(), a))
		time.Sleep(30 * time.Second)
		if err := disks.Delete(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for range 2 { // a second scrape times nothing again
			got := gathered(t, r)
			for name, want := range map[string]float64{
				"tend_objects/disk/all": 3, "tend_objects/disk/ready": 1, "tend_objects/disk/synced": 2, "tend_objects/disk/paused": 1, "tend_objects/disk/deleting": 1,
				"tend_objects_oldest_seconds/disk/paused": 90, "tend_objects_oldest_seconds/disk/deleting": 60, "tend_objects_oldest_seconds/disk/not ready": 120, "tend_objects_oldest_seconds/disk/not synced": 120,
			} {
				if m := got[name]; m == nil || m.Gauge.GetValue() != want {
					t.Errorf("%s is %v, want %v", name, m, want)
				}
			}
			if h := got["tend_object_ready_seconds/disk"].GetHistogram(); h.GetSampleCount() != 1 || h.GetSampleSum() != 30 {
				t.Errorf("timed: %v", h)
			}
		}
	})
}

// An object whose spec was edited is not ready until that was reconciled, and has been so since
// the first scrape that found it: no object says when it was edited. It counted as ready for ever.
//
// Negative controls: mutants "an object that is Ready in an older generation counts", "the time of
// an edit is that of the newest scrape", "the time of an edit counts for the next one" and "a list
// that breaks off forgets when objects were edited".
func TestObjectIsNotReadyInAnOlderGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := memory.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		type object = store.Object[int, struct{}]
		disks, err := store.New[int, struct{}](b, "disk", nil)
		if err != nil {
			t.Fatal(err)
		}
		c, r := metrics.New(nil), prometheus.NewRegistry()
		k := &torn{kind: objects.Of(disks)}
		if err := errors.Join(c.AddObjects(k), r.Register(c)); err != nil {
			t.Fatal(err)
		}
		var o *object
		update := func(to *object, err error) {
			t.Helper()
			if o = to; err != nil {
				t.Fatal(err)
			}
		}
		reconciled := func() { o.SetReady(); update(disks.UpdateStatus(t.Context(), o)) }
		edit := func() { o.Spec++; update(disks.Update(t.Context(), o)) }
		wants := func(ready int, since time.Duration) {
			t.Helper()
			got := gathered(t, r)
			n, age := got["tend_objects/disk/ready"].Gauge.GetValue(), got["tend_objects_oldest_seconds/disk/not ready"].Gauge.GetValue()
			if n != float64(ready) || age != since.Seconds() {
				t.Errorf("%v are ready, and the oldest is not since %v s; want %d and %v", n, age, ready, since)
			}
		}
		for _, name := range []string{"a", "b"} {
			update(disks.Create(t.Context(), &object{Meta: store.Meta{Name: name}}))
			reconciled()
		}
		time.Sleep(24 * time.Hour)
		wants(2, 0)
		edit() // of b
		wants(1, 0)
		time.Sleep(time.Minute)
		edit()
		k.broken = true // after a
		gathered(t, r)
		k.broken = false
		wants(1, time.Minute)
		reconciled()
		edit() // between two scrapes
		time.Sleep(time.Minute)
		wants(1, 0)
		time.Sleep(time.Minute)
		wants(1, time.Minute)
		reconciled()
		wants(2, 0)
		if n := gathered(t, r)["tend_object_ready_seconds/disk"].GetHistogram().GetSampleCount(); n != 2 {
			t.Errorf("%d times to the first time ready were taken of two objects", n)
		}
	})
}

// torn is a kind whose list breaks off after the first object while broken is set, and
// whose objects cannot be decoded while odd is.
type torn struct {
	kind
	broken, odd bool
}

type kind = objects.Kind // an embedded Kind would hide its method of that name

func (k *torn) All(ctx context.Context, sel store.Selector) iter.Seq2[objects.Object, error] {
	return func(yield func(objects.Object, error) bool) {
		for o, err := range k.kind.All(ctx, sel) {
			if k.odd {
				o = objects.Object{Kind: o.Kind, Err: errors.New("the size is no number")}
			}
			if !yield(o, err) {
				return
			}
			if k.broken {
				yield(objects.Object{}, errors.New("the connection broke"))
				return
			}
		}
	}
}

// A list that broke off had its objects timed, and forgot that it had. So was forgotten what
// could not be decoded meanwhile.
func TestObjectIsTimedOnceAlthoughAListIsNotWhole(t *testing.T) {
	b, err := memory.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	type object = store.Object[struct{}, struct{}]
	disks, err := store.New[struct{}, struct{}](b, "disk", nil)
	if err != nil {
		t.Fatal(err)
	}
	c := metrics.New(nil)
	k := &torn{kind: objects.Of(disks)}
	if err := c.AddObjects(k); err != nil {
		t.Fatal(err)
	}
	r := prometheus.NewRegistry()
	if err := r.Register(c); err != nil {
		t.Fatal(err)
	}
	o, err := disks.Create(t.Context(), &object{Meta: store.Meta{Name: "a"}})
	if err == nil {
		o.SetReady()
		_, err = disks.UpdateStatus(t.Context(), o)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		k.broken, k.odd = i == 0 || i == 1 || i == 3, i == 5
		if n := gathered(t, r)["tend_object_ready_seconds/disk"].GetHistogram().GetSampleCount(); n != 1 {
			t.Fatalf("at scrape %d, with a list that broke off (%v) or holds what cannot be decoded (%v): %d objects were timed, want 1", i, k.broken, k.odd, n)
		}
	}
}

// sought is a secret that counts how often its forms are made.
type sought string

var searches atomic.Int64

func (s sought) String() string {
	searches.Add(1)
	return string(s)
}

// A scrape looked for the secrets of every object four times, and listed two thousand
// certificates for longer than it may: their metrics were gone.
//
// Seen to fail: 4 searches.
func TestScrapeLooksForNoSecret(t *testing.T) {
	type login struct {
		Password sought `tend:"secret"`
	}
	b, err := memory.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	logins, err := store.New[login, struct{}](b, "login", nil)
	if err != nil {
		t.Fatal(err)
	}
	o := &store.Object[login, struct{}]{Meta: store.Meta{Name: "a"}, Spec: login{"hunter22"}}
	o.SetProgressing("Refused", "the server refused hunter22")
	o.SetCondition(store.Condition{Type: store.ConditionSynced, Status: store.True, Reason: "Done", Message: "all is done"})
	if _, err := logins.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	c, r := metrics.New(nil), prometheus.NewRegistry()
	if err := errors.Join(c.AddObjects(objects.Of(logins)), r.Register(c)); err != nil {
		t.Fatal(err)
	}
	searches.Store(0)
	got := gathered(t, r)
	if n := searches.Load(); n != 0 {
		t.Errorf("a scrape made %d searches for secrets, want none", n)
	}
	if all, synced := got["tend_objects/login/all"].Gauge.GetValue(), got["tend_objects/login/synced"].Gauge.GetValue(); all != 1 || synced != 1 {
		t.Errorf("counted are %v, and %v synced", all, synced)
	}
}
