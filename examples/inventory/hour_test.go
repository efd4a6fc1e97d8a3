package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/tendhq/tend/metrics"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/objects"
)

// hourScrape is the time between two scrapes of an hour.
const hourScrape = 15 * time.Second

// hour is what Prometheus would have scraped in an hour of fake time.
type hour struct {
	wanted  *regexp.Regexp // names that the alerts ask for
	scrapes int
	series  map[string][]string
	seen    map[string]int // the last scrape that had the series
}

func newHour(t *testing.T) *hour {
	t.Helper()
	rules, err := os.ReadFile(shipped(t, "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, expr := range regexp.MustCompile(`(?m)^ +expr: (.*)$`).FindAllStringSubmatch(string(rules), -1) {
		for _, name := range regexp.MustCompile(`\b(tend|controller_runtime)_[a-z0-9_]+`).FindAllString(expr[1], -1) {
			names[name] = true
		}
	}
	wanted := regexp.MustCompile("^(" + strings.Join(slices.Sorted(maps.Keys(names)), "|") + ")$")
	return &hour{wanted: wanted, series: map[string][]string{}, seen: map[string]int{}}
}

// scrape adds what the servers show now, by instance; a server that is down shows nothing.
func (h *hour) scrape(t *testing.T, servers map[string]prometheus.Gatherer) {
	t.Helper()
	n := h.scrapes
	h.scrapes++
	for instance, r := range servers {
		families, err := r.Gather()
		if err != nil {
			t.Error(err)
		}
		for _, f := range families {
			for _, m := range f.Metric {
				name, value := f.GetName(), sampleOf(m)
				if m.Histogram != nil {
					name += "_count"
				}
				if !h.wanted.MatchString(name) {
					continue
				}
				series := fmt.Sprintf(`%s{job="hour",instance=%q`, name, instance)
				for _, l := range m.Label {
					series += fmt.Sprintf(",%s=%q", l.GetName(), l.GetValue())
				}
				h.add(series+"}", n, value)
			}
		}
	}
	for series, values := range h.series {
		if len(values) == n { // it is not there any more
			h.series[series] = append(values, "stale")
		}
	}
}

func (h *hour) add(series string, n int, value float64) {
	values := h.series[series]
	for len(values) < n {
		values = append(values, "_")
	}
	h.series[series] = append(values, strconv.FormatFloat(value, 'f', -1, 64))
}

func sampleOf(m *dto.Metric) float64 {
	switch {
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	case m.Counter != nil:
		return m.Counter.GetValue()
	case m.Histogram != nil:
		return float64(m.Histogram.GetSampleCount())
	}
	return math.NaN()
}

// quiet has promtool run the shipped rules over the hour, and wants no alert at any time.
func (h *hour) quiet(t *testing.T) {
	t.Helper()
	type object = map[string]any
	var input, wants []any
	for _, series := range slices.Sorted(maps.Keys(h.series)) {
		input = append(input, object{"series": series, "values": strings.Join(h.series[series], " ")})
	}
	for n := range h.scrapes {
		wants = append(wants, object{"expr": `count by (alertname) (ALERTS{alertstate="firing"})`, "eval_time": (time.Duration(n) * hourScrape).String(), "exp_samples": []any{}})
	}
	data, err := json.Marshal(object{
		"rule_files": []string{shipped(t, "alerts.yaml")}, "evaluation_interval": hourScrape.String(),
		"tests": []any{object{"interval": hourScrape.String(), "input_series": input, "promql_expr_test": wants}},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "hour.yaml") // JSON is YAML
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "", "test", "rules", file)
	t.Logf("%d series, %d scrapes", len(h.series), h.scrapes)
}

// No alert fires in a healthy hour: three servers create 3,000 objects through a quota of one a
// second, one begins with a list of 100,000, and they are deployed one after the other.
//
// Negative controls: TendKeysFail without its twentieth of the queue, and TendQuotaUsedUp and
// TendOldestReadyKeyWaits without what they say of fewer keys, each fire.
func TestNoAlertInAHealthyHour(t *testing.T) {
	t.Parallel()
	h := newHour(t)
	synctest.Test(t, func(t *testing.T) {
		b, err := memory.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		declared, err := store.New[int, struct{}](b, "db", nil)
		if err != nil {
			t.Fatal(err)
		}
		servers := map[string]*hourServer{}
		for _, name := range []string{"a", "b", "c"} {
			servers[name] = startHourServer(t, b, name)
		}
		for n := range int(time.Hour / hourScrape) {
			switch at := time.Duration(n) * hourScrape; at {
			case 5 * time.Minute:
				for i := range 3000 {
					if _, err := declared.Create(t.Context(), &store.Object[int, struct{}]{Meta: store.Meta{Name: fmt.Sprintf("db-%04d", i)}}); err != nil {
						t.Error(err)
					}
				}
			case 20 * time.Minute, 25 * time.Minute, 30 * time.Minute: // a deploy
				name := string(rune('a' + (at/time.Minute-20)/5))
				servers[name].end(t)
				delete(servers, name)
			case 20*time.Minute + 30*time.Second, 25*time.Minute + 30*time.Second, 30*time.Minute + 30*time.Second:
				name := string(rune('a' + (at/time.Minute-20)/5))
				servers[name] = startHourServer(t, b, name)
			}
			shown := map[string]prometheus.Gatherer{}
			for name, s := range servers {
				shown[name] = s.registry
			}
			h.scrape(t, shown)
			time.Sleep(hourScrape)
		}
		for _, s := range servers {
			s.end(t)
		}
	})
	h.quiet(t)
}

type hourServer struct {
	registry *prometheus.Registry
	stop     context.CancelFunc
	ended    chan error
}

func startHourServer(t *testing.T, b store.Backend, name string) *hourServer {
	t.Helper()
	p := program.New(b, nil)
	log := slog.New(slog.DiscardHandler)
	p.Manager.Logger = log
	c := metrics.New(&p.Manager)
	p.Wrap(func(b store.Backend) (store.Backend, error) { return c.Measure("memory", b) })
	of := &lease.Options{Server: name, Logger: log}
	members, err1 := lease.NewMembers(p.Backend(), "cloud", of)
	placement, err2 := lease.NewSharded(p.Backend(), "db", 16, of)
	limits := quota.Limits{Read: quota.Rate{PerSecond: 1, Burst: 1}, Judge: quota.Judge}
	quotas, err3 := quota.NewSet(&quota.Options{Limits: func(quota.Name) (quota.Limits, error) { return limits, nil }, Members: members, Logger: log})
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	account, err := quotas.Get(quota.Name{API: "cloud"})
	p.Use(quotas, err)
	db := program.AddKind[int, struct{}](p, "db", nil)
	limited, err := quota.Limit(func(reconcile.Request) (*quota.Quota, error) { return account, nil },
		&reconcile.Options[reconcile.Request]{Placement: placement, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	db.Reconcile(func(ctx context.Context, o *store.Object[int, struct{}]) (reconcile.Result, error) {
		if store.ReadyAt(&o.Meta, o.Conditions, o.Generation) {
			return reconcile.Result{}, nil
		}
		if err := account.Do(ctx, quota.Read, func(context.Context) error { return nil }); err != nil {
			return reconcile.Result{}, err
		}
		o.SetReady()
		_, err := db.UpdateStatus(ctx, o)
		return reconcile.Result{}, err
	}, &reconcile.ForOptions[int, struct{}]{Options: *limited})
	if name == "a" {
		p.Use(manyFiles(log))
	}
	s := &hourServer{registry: prometheus.NewRegistry(), ended: make(chan error, 1)}
	if err := errors.Join(c.AddQuotas(quotas), c.AddObjects(objects.OfCache(db.Cache())), s.registry.Register(c)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	s.stop = stop
	go func() { s.ended <- p.Run(ctx, nil) }()
	return s
}

func (s *hourServer) end(t *testing.T) {
	t.Helper()
	s.stop()
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}

// manyFiles is a controller of 100,000 keys, of which some fail once.
func manyFiles(log *slog.Logger) (*reconcile.Controller[int], error) {
	files := map[int]int{}
	for i := range 100_000 {
		files[i] = i
	}
	tries := map[int]int{} // by one worker
	return reconcile.Each("files", 6*time.Hour, func(context.Context) (map[int]int, error) { return files, nil },
		func(_ context.Context, key int, _ *int) (reconcile.Result, error) {
			time.Sleep(8 * time.Millisecond)
			if tries[key]++; key%1000 == 0 && tries[key] == 1 {
				return reconcile.Result{}, errors.New("busy, come again")
			}
			return reconcile.Result{}, nil
		}, &reconcile.Options[int]{Workers: 1, Logger: log, Backoff: queue.Backoff{Max: 10 * time.Second}})
}
