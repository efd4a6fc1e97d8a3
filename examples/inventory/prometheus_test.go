package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tendhq/tend/metrics"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/objects"
)

// The dashboard, the alerts and the metrics themselves are tried on a Prometheus
// that scrapes this program. It is Debian's package of that name, which has
// promtool too. Where it is not installed these tests are skipped, unless
// TEND_PROMETHEUS is "required", which .ci/run sees to.
func needs(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err == nil {
		return path
	}
	if os.Getenv("TEND_PROMETHEUS") == "required" {
		t.Fatalf("%v; TEND_PROMETHEUS says it is required", err)
	}
	t.Skipf("%v: apt-get install prometheus", err)
	return ""
}

// shipped is a file of package metrics.
func shipped(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "metrics", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// promtool runs it over some input, and wants it content.
func promtool(t *testing.T, stdin string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), needs(t, "promtool"), args...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestAlertsFireWhenTheyShouldAndOnlyThen(t *testing.T) {
	t.Parallel()
	promtool(t, "", "check", "rules", shipped(t, "alerts.yaml"))
	promtool(t, "", "test", "rules", shipped(t, "alerts_test.yaml"))
}

// The tile of shards without owner is the sum over controllers, of which none has less than none:
// one without leases runs its keys on every server, and hid the shards of another.
func TestDashboardCountsTheShardsThatNoServerRuns(t *testing.T) {
	type series struct {
		Series string `json:"series"`
		Values string `json:"values"`
	}
	var input []series
	for _, one := range []struct {
		controller    string
		owned, shards int
	}{{"everywhere", 1, 1}, {"sharded", 2, 8}, {"whole", 1, 3}} {
		for server := range 3 {
			labels := fmt.Sprintf(`{job="j",instance="%d",controller=%q}`, server, one.controller)
			input = append(input, series{"tend_controller_owned_shards" + labels, fmt.Sprint(one.owned)}, series{"tend_controller_shards" + labels, fmt.Sprint(one.shards)})
		}
	}
	for panel, expr := range dashboardExpressions(t) {
		if panel != "Shards without owner" {
			continue
		}
		sample := map[string]any{"expr": expr, "eval_time": "0m", "exp_samples": []any{map[string]any{"labels": "{}", "value": 2}}}
		data, err := json.Marshal(map[string]any{"tests": []any{map[string]any{"interval": "1m", "input_series": input, "promql_expr_test": []any{sample}}}})
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "tests.yaml") // JSON is YAML
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		promtool(t, "", "test", "rules", file)
		return
	}
	t.Error("the dashboard has no such tile")
}

func TestPrometheusUnderstandsMetricsDashboardAndAlerts(t *testing.T) {
	t.Parallel()
	needs(t, "prometheus")
	server := newTestS3(t, true)
	s := begin(t, declaring(numbered(5)...), options{Endpoint: server.URL, Listen: "localhost:0"})
	s.Await(t, "5 of 5 as declared", 1)
	inventory := serving(t, s)
	other, panics := otherTarget(t)

	for _, target := range []string{inventory, other} {
		promtool(t, fetch(t, "http://"+target+"/metrics"), "check", "metrics")
	}

	p := startPrometheus(t, []string{inventory, other}, shipped(t, "alerts.yaml"))
	native := startPrometheus(t, []string{inventory, other}, "", "--enable-feature=native-histograms")
	for _, p := range []*promServer{p, native} {
		p.eventually(t, "up", func(v []float64) bool { return len(v) == 2 && v[0] == 1 && v[1] == 1 })
	}
	for panel, expr := range dashboardExpressions(t) {
		p.eventually(t, expr, anyNumber)
		t.Logf("%s has data", panel)
	}
	p.rulesWork(t)

	// A native histogram answers without buckets in the query.
	native.eventually(t, `histogram_count(workqueue_work_duration_seconds{name="bucket"})`, func(v []float64) bool {
		return len(v) == 1 && v[0] > 0
	})
	native.eventually(t, `histogram_quantile(0.9, rate(controller_runtime_reconcile_time_seconds{controller="bucket"}[1m]))`, anyNumber)

	// And an alert fires for something that really happened.
	p.eventually(t, `controller_runtime_reconcile_panics_total{controller="other"}`, anyNumber)
	panics.Store(true)
	p.eventually(t, `ALERTS{alertname="TendRunsPanic",controller="other",alertstate="firing"}`, anyNumber)
}

func anyNumber(v []float64) bool {
	return slices.ContainsFunc(v, func(x float64) bool { return !math.IsNaN(x) })
}

// otherTarget serves the metrics of what this program has no use for: an
// inventory, and workers that adapt. Its reconciler panics once told to.
func otherTarget(t *testing.T) (address string, panics *atomic.Bool) {
	t.Helper()
	panics = new(atomic.Bool)
	m := new(reconcile.Manager)
	c := metrics.New(m)
	backend, err := memory.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	measured, err := c.Measure("other", backend)
	if err != nil {
		t.Fatal(err)
	}
	disks, err := store.New[struct{}, struct{}](measured, "Disk", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := disks.Create(t.Context(), &store.Object[struct{}, struct{}]{Meta: store.Meta{Name: "declared"}}); err != nil {
		t.Fatal(err)
	}
	v, err := external.NewInventory(&external.InventoryOptions[struct{}, struct{}, string]{
		Store: disks, Installation: "here",
		List: func(context.Context) iter.Seq2[string, error] { return maps.All(map[string]error{"orphan": nil}) },
		Get:  func(_ context.Context, id string) (string, bool, error) { return id, id == "orphan", nil },
		ID:   func(r string) string { return r },
		Owner: func(string) (external.Mark, bool) {
			return external.Mark{Installation: "here", Kind: "Disk", Key: store.Key{Name: "gone"}, UID: "1"}, true
		},
		Compare: func(*store.Object[struct{}, struct{}], string) external.Observation { return external.Observation{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := v.Report(t.Context()); err != nil || len(r.Orphans) != 1 {
		t.Fatalf("the report says %+v, %v; want an orphan", r, err)
	}
	tapes, err := store.New[struct{}, struct{}](backend, "Tape", nil)
	if err != nil {
		t.Fatal(err)
	}
	runs := 0
	ctl, err := reconcile.New("other", reconcile.Func[string](func(ctx context.Context, _ string) (reconcile.Result, error) {
		if panics.Load() {
			panic("as told")
		}
		runs++
		return reconcile.Result{RequeueAfter: 50 * time.Millisecond}, renew(ctx, tapes, runs)
	}), &reconcile.Options[string]{Adapt: &reconcile.Adapt{}, Logger: kernelLogger(false)})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	if err := errors.Join(m.Register(ctl), c.AddInventory(v), c.AddObjects(objects.Of(tapes)), registry.Register(c)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	if err := ctl.Add("k"); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(web.Close)
	return strings.TrimPrefix(web.URL, "http://"), panics
}

// renew replaces the object of the run before by another one that becomes ready: how long
// objects take to be ready is a rate, which needs some at each scrape.
func renew(ctx context.Context, tapes *store.Store[struct{}, struct{}], run int) error {
	name := func(n int) store.Key { return store.Key{Name: fmt.Sprint("tape-", n)} }
	if old, err := tapes.Get(ctx, name(run-1)); err == nil {
		if err := tapes.Delete(ctx, old); err != nil {
			return err
		}
	}
	o, err := tapes.Create(ctx, &store.Object[struct{}, struct{}]{Meta: store.Meta{Name: name(run).Name}})
	if err != nil {
		return err
	}
	o.SetReady()
	_, err = tapes.UpdateStatus(ctx, o)
	return err
}

// dashboardExpressions yields every query of the dashboard, its variables filled
// in.
func dashboardExpressions(t *testing.T) iter.Seq2[string, string] {
	t.Helper()
	data, err := os.ReadFile(shipped(t, "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(data, &dashboard); err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", "$controller", ".*")
	return func(yield func(string, string) bool) {
		for _, p := range dashboard.Panels {
			for _, target := range p.Targets {
				expr := fill.Replace(target.Expr)
				if strings.Contains(expr, "$") {
					t.Errorf("panel %q has a variable that is not known: %s", p.Title, expr)
				}
				if !yield(p.Title, expr) {
					return
				}
			}
		}
	}
}

// promServer is a Prometheus of our own.
type promServer struct {
	url string
	log *screen // what it prints
}

var listening = regexp.MustCompile(`msg="Listening on" address=(\S+)`)

// startPrometheus starts one on a free port, which scrapes the targets once a
// second and is stopped when the test ends.
func startPrometheus(t *testing.T, targets []string, rules string, flags ...string) *promServer {
	t.Helper()
	job := fmt.Sprintf("- {job_name: tend, static_configs: [{targets: [%s]}]}\n", strings.Join(targets, ", "))
	return startPrometheusOn(t, job, time.Second, rules, flags...)
}

// startPrometheusOn is startPrometheus for scrape_configs and an interval of its own.
func startPrometheusOn(t *testing.T, jobs string, scrape time.Duration, rules string, flags ...string) *promServer {
	t.Helper()
	dir := t.TempDir()
	config := fmt.Sprintf("global: {scrape_interval: %v, evaluation_interval: %v}\nscrape_configs:\n%s", scrape, scrape, jobs)
	if rules != "" {
		config += "rule_files: [" + strconv.Quote(rules) + "]\n"
	}
	file := filepath.Join(dir, "prometheus.yml")
	writeFile(t, file, config)
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, needs(t, "prometheus"), append([]string{
		"--config.file=" + file, "--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:0",
	}, flags...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	p := &promServer{log: newScreen()}
	cmd.Stderr = p.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { // ends with the process
		defer close(ended)
		fmt.Fprintln(p.log, "prometheus ended:", cmd.Wait())
	}()
	t.Cleanup(func() { stop(); <-ended })
	p.log.Until(t, "Listening on", func(log string) bool {
		if m := listening.FindStringSubmatch(log); m != nil {
			p.url = "http://" + m[1]
		}
		return p.url != "" || strings.Contains(log, "prometheus ended")
	})
	if p.url == "" {
		t.Fatal(p.log)
	}
	return p
}

// eventually asks until the values of the answer are as wanted.
func (p *promServer) eventually(t *testing.T, expr string, want func([]float64) bool) {
	t.Helper()
	var values []float64
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if values, err = p.query(t.Context(), expr); err == nil && want(values) {
			return
		}
	}
	t.Fatalf("%s: %v, %v\n%s", expr, values, err, p.log)
}

func (p *promServer) query(ctx context.Context, expr string) ([]float64, error) {
	var answer struct {
		Status, Error string
		Data          struct {
			Result []struct{ Value []any }
		}
	}
	if err := p.get(ctx, "/api/v1/query?query="+url.QueryEscape(expr), &answer); err != nil {
		return nil, err
	}
	if answer.Status != "success" {
		return nil, errors.New(answer.Error)
	}
	var values []float64
	for _, r := range answer.Data.Result {
		x, err := strconv.ParseFloat(fmt.Sprint(r.Value[1]), 64)
		if err != nil {
			return nil, err
		}
		values = append(values, x)
	}
	return values, nil
}

func (p *promServer) get(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	return json.NewDecoder(bytes.NewReader(body)).Decode(into)
}

// rulesWork waits until every alert has been evaluated, and wants no error.
func (p *promServer) rulesWork(t *testing.T) {
	t.Helper()
	var bad []string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		var answer struct {
			Data struct {
				Groups []struct {
					Rules []struct{ Name, Health, LastError string }
				}
			}
		}
		if err := p.get(t.Context(), "/api/v1/rules", &answer); err != nil {
			t.Fatal(err)
		}
		n := 0
		bad = nil
		for _, g := range answer.Data.Groups {
			for _, r := range g.Rules {
				if n++; r.Health != "ok" {
					bad = append(bad, fmt.Sprintf("%s: %s %s", r.Name, r.Health, r.LastError))
				}
			}
		}
		if n > 20 && len(bad) == 0 {
			return
		}
	}
	t.Errorf("alerts that were not evaluated: %q\n%s", bad, p.log)
}
