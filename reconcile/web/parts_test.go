package web_test

import (
	"context"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/reconcile/web"
	"github.com/tendhq/tend/reconcile/web/api"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

type (
	zoneSpec struct{ TTL int }
	zone     = store.Object[zoneSpec, struct{}]
)

// newZones is a program with a kind that is reconciled by way of an inventory, which nothing but
// its reconciler names, and with parts that come after the handler was made.
func newZones(t *testing.T, mux *http.ServeMux) *program.Program {
	p := program.New(memory.New(nil))
	p.Manager.Logger = slog.New(slog.DiscardHandler)
	p.Check(web.Mount(mux, "/ops/", nil, &web.Options{
		Program: p, API: &api.Options{Allow: func(*http.Request, api.Access) error { return nil }},
	}))
	zones := program.AddKind[zoneSpec, struct{}](p, "zone", nil)
	list, err := external.NewInventory(&external.InventoryOptions[zoneSpec, struct{}, string]{
		Store: zones.Store, Installation: "here",
		List:    func(context.Context) iter.Seq2[string, error] { return func(func(string, error) bool) {} },
		Get:     func(context.Context, string) (string, bool, error) { return "", false, nil },
		ID:      func(r string) string { return r },
		Owner:   func(string) (m external.Mark, marked bool) { return m, false },
		Compare: func(*zone, string) external.Observation { return external.Observation{UpToDate: true} },
	})
	p.Check(err)
	reconciler, err := external.New(zones.Store, list.Client(external.ClientFuncs[zoneSpec, struct{}]{
		CreateFunc: func(context.Context, *zone) error { return nil },
	}), &external.Options[zoneSpec, struct{}]{Naming: external.ByMark})
	p.Check(err)
	zones.ReconcileBy(reconciler, nil)
	p.Use(list.Pruning(time.Hour, nil))
	p.Use(list, nil) // a second time
	p.Use(ratelimit.NewBucket("calls", 1, 1))
	quotas, err := quota.NewSet(&quota.Options{Limits: func(quota.Name) (quota.Limits, error) {
		return quota.Limits{Read: quota.Rate{PerSecond: 1}, Judge: quota.Judge}, nil
	}})
	p.Use(quotas, err)
	_, err = quotas.Get(quota.Name{API: "dns"})
	p.Check(err)
	p.Use(prometheus.NewGauge(prometheus.GaugeOpts{Name: "zones_of_ours", Help: "Ours."}), nil)
	_, err = zones.Create(t.Context(), &zone{Meta: store.Meta{Name: "shop.example"}})
	p.Check(err)
	return p
}

// What a program is made of is shown, counted and served below a prefix, without a line for each
// part and whenever it was added; until the program runs, nothing is. The inventory is found through
// its reconciler.
func TestPartsOfAProgramAreServed(t *testing.T) {
	mux := http.NewServeMux()
	p := newZones(t, mux)
	get := func(path string) (int, string) {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil))
		text, _ := io.ReadAll(answer.Body)
		return answer.Code, string(text)
	}
	if status, _ := get("/ops/livez"); status != http.StatusServiceUnavailable {
		t.Errorf("before it runs: %d", status)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx, nil) }() // ended by cancel, waited for below
	for status := 0; status != http.StatusOK; {
		status, _ = get("/ops/readyz")
	}
	for path, want := range map[string][]string{
		"/ops/":                  {`href="debug"`, `href="objects"`, `href="metrics"`},
		"/ops/debug?format=text": {"zone", "prune zone", "calls", "dns"},
		"/ops/metrics":           {`tend_objects{kind="zone"`, `tend_external_calls_total{`, `tend_inventory_`, `bucket="calls"`, `tend_quota_`, "zones_of_ours"},
		"/ops/objects?kind=zone": {"shop.example"},
		"/ops/healthz":           {"zone"},
	} {
		status, text := get(path)
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %d without %q:\n%.2000s", path, status, part, text)
			}
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A part that nothing would show and nothing runs is an error, as is a prefix that clashes.
func TestPartsWithoutAUseAreErrors(t *testing.T) {
	mux := http.NewServeMux()
	p := newZones(t, mux)
	p.Use(new(int), nil)
	if err := p.Run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "*int") {
		t.Errorf("a part that is of no use: %v", err)
	}
	if err := web.Mount(mux, "/ops", nil, &web.Options{Program: program.New(memory.New(nil))}); err == nil {
		t.Error("a prefix that clashes is taken")
	}
}
