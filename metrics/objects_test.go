package metrics_test

import (
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
				"tend_objects/disk/all": 3, "tend_objects/disk/ready": 2, "tend_objects/disk/synced": 2, "tend_objects/disk/paused": 1, "tend_objects/disk/deleting": 1,
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
