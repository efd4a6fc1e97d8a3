package metrics_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tendhq/tend/metrics"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/objects"
)

// away is a store that can be down.
type away struct {
	store.Backend
	since time.Time // zero: it answers
}

func (*away) String() string { return "the store" }

func (b *away) Health() error {
	if b.since.IsZero() {
		return nil
	}
	return &store.UnavailableError{Since: b.since, Err: errors.New("no answer")}
}

// What the debug page calls a cause is a series: how many keys fail, and since when; and none is
// left when all works again.
func TestCausesOfTroubleAreSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, err := memory.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		b := &away{Backend: inner}
		disks, err1 := store.New[struct{}, struct{}](b, "disk", nil)
		cached, err2 := cache.New(disks, nil)
		broken := true
		c, err3 := reconcile.New("mail", reconcile.Func[string](func(_ context.Context, key string) (reconcile.Result, error) {
			switch {
			case !broken:
			case key == "panics":
				panic("as told")
			case key == "given up":
				return reconcile.Result{}, reconcile.Terminal(errors.New("no such user"))
			default:
				return reconcile.Result{}, errors.New("refused")
			}
			return reconcile.Result{}, nil
		}), &reconcile.Options[string]{Workers: 1})
		m := new(reconcile.Manager)
		collector := metrics.New(m)
		tapes, err4 := store.New[struct{}, struct{}](b, "tape", nil)
		sharded, err5 := cache.New(tapes, &cache.Options[struct{}, struct{}]{Shards: 4})
		if err := errors.Join(err1, err2, err3, err4, err5, m.Register(c, cached, sharded), collector.AddObjects(objects.OfCache(sharded)), c.Add("a"), c.Add("b"), c.Add("panics"), c.Add("given up")); err != nil {
			t.Fatal(err)
		}
		r := prometheus.NewPedanticRegistry()
		r.MustRegister(collector)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		time.Sleep(time.Minute)
		b.since = time.Now().Add(-20 * time.Second)

		got := gathered(t, r)
		for name, want := range map[string]float64{
			"tend_trouble/mail//fails": 2, "tend_trouble/mail//panics": 1, "tend_trouble/mail//given up": 1, "tend_trouble//the store/store": 1,
			"tend_objects_partial/tape": 1, "tend_trouble_seconds/mail//fails": 60, "tend_trouble_seconds//the store/store": 20,
		} {
			if m := got[name]; m.GetGauge() == nil || m.Gauge.GetValue() != want {
				t.Errorf("%s is %v, want %v", name, m, want)
			}
		}

		broken, b.since = false, time.Time{}
		if err := errors.Join(c.Add("a"), c.Add("b"), c.Add("panics"), c.Kick("given up")); err != nil {
			t.Error(err)
		}
		time.Sleep(20 * time.Minute)
		for name := range gathered(t, r) {
			if strings.HasPrefix(name, "tend_trouble") {
				t.Errorf("%s is left after the cure", name)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// The age of the oldest object that is not synced grew for ever in a kind whose reconciler writes
// no such condition, and so did that of the oldest that is not ready.
func TestAgeOfAConditionThatNoObjectHasIsNotTold(t *testing.T) {
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
		c, r := metrics.New(nil), prometheus.NewPedanticRegistry()
		if err := errors.Join(c.AddObjects(objects.Of(disks)), r.Register(c)); err != nil {
			t.Fatal(err)
		}
		ages := func(ready, synced time.Duration) {
			t.Helper()
			got := gathered(t, r)
			for name, want := range map[string]time.Duration{"not ready": ready, "not synced": synced} {
				if age := got["tend_objects_oldest_seconds/disk/"+name].Gauge.GetValue(); age != want.Seconds() {
					t.Errorf("the oldest object is %s for %v s, want %v", name, age, want)
				}
			}
		}
		o, err := disks.Create(t.Context(), &object{Meta: store.Meta{Name: "a"}})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		ages(0, 0)
		o.SetProgressing("Creating", "it takes time")
		if o, err = disks.UpdateStatus(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		ages(time.Hour, 0)
		o.SetCondition(store.Condition{Type: store.ConditionSynced, Status: store.False, Reason: "Refused"})
		if _, err = disks.UpdateStatus(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		ages(2*time.Hour, time.Hour)
		if got := gathered(t, r)["tend_objects_partial/disk"]; got.Gauge.GetValue() != 0 {
			t.Errorf("all objects are counted, and tend_objects_partial is %v", got)
		}
	})
}
