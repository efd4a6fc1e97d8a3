package web_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tendhq/tend/metrics"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/reconcile/web"
	"github.com/tendhq/tend/reconcile/web/api"
	"github.com/tendhq/tend/reconcile/web/debug"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/objects"
)

type site = store.Object[struct{}, struct{}]

var errAway = errors.New("dial tcp 10.0.0.1:2379: connection refused")

// remote is a backend on other machines, which can be away.
type remote struct {
	store.Backend
	store.Leaser
	away  atomic.Bool
	since time.Time
}

func newRemote() *remote {
	b := must(memory.New(nil))
	return &remote{Backend: b, Leaser: any(b).(store.Leaser), since: time.Now()}
}

func (b *remote) err() error {
	if b.away.Load() {
		return errAway
	}
	return nil
}

func (b *remote) Shared() bool { return true }

func (b *remote) Health() error {
	if err := b.err(); err != nil {
		return &store.UnavailableError{Since: b.since, Err: err}
	}
	return nil
}

func (b *remote) Get(ctx context.Context, kind string, k store.Key) (store.Record, error) {
	if err := b.err(); err != nil {
		return store.Record{}, err
	}
	return b.Backend.Get(ctx, kind, k)
}

func (b *remote) Commit(ctx context.Context, t store.Txn) (store.Revision, error) {
	if err := b.err(); err != nil {
		return 0, err
	}
	return b.Backend.Commit(ctx, t)
}

func (b *remote) Grant(ctx context.Context, ttl time.Duration) (store.LeaseID, error) {
	if err := b.err(); err != nil {
		return 0, err
	}
	return b.Leaser.Grant(ctx, ttl)
}

func (b *remote) Renew(ctx context.Context, id store.LeaseID) error {
	if err := b.err(); err != nil {
		return err
	}
	return b.Leaser.Renew(ctx, id)
}

// Watch breaks when the backend goes away.
func (b *remote) Watch(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		if err := b.err(); err != nil {
			yield(store.Batch{}, err)
			return
		}
		for batch, err := range b.Backend.Watch(ctx, kind, after) {
			if away := b.err(); away != nil {
				batch, err = store.Batch{}, away
			}
			if !yield(batch, err) || err != nil {
				return
			}
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

var quiet = slog.New(slog.DiscardHandler)

// newManager is a manager with one controller on a backend.
func newManager(b store.Backend) *reconcile.Manager {
	sites := must(store.New[struct{}, struct{}](b, "site", nil))
	m := &reconcile.Manager{Logger: quiet}
	c := must(reconcile.For(sites, func(context.Context, *site) (reconcile.Result, error) {
		return reconcile.Result{}, nil
	}, &reconcile.ForOptions[struct{}, struct{}]{Options: reconcile.Options[reconcile.Request]{
		Placement: must(lease.NewSingleton(b, "sites", &lease.Options{TTL: 5 * time.Second, Logger: quiet})),
	}}))
	if err := m.Register(c); err != nil {
		panic(err)
	}
	return m
}

// ask returns the status and the body of an answer.
func ask(h http.Handler, target string, header ...string) (int, string) {
	r := httptest.NewRequest(http.MethodGet, "http://localhost"+target, nil)
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// A store that is away is no reason to restart; readiness and health say it.
//
// Negative control: with a Live of the checks of Health, this fails.
func TestLivenessHoldsWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRemote()
		m := newManager(b)
		h := must(web.New(m, nil))
		expect := func(when string, live, ready, healthy int) {
			t.Helper()
			for path, want := range map[string]int{"/livez": live, "/readyz": ready, "/healthz": healthy} {
				if got, body := ask(h, path); got != want {
					t.Errorf("%s: %s answers %d, want %d:\n%s", when, path, got, want, body)
				}
			}
		}
		expect("before Run", 200, 503, 503)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		time.Sleep(time.Second)
		synctest.Wait()
		expect("running", 200, 200, 200)
		b.away.Store(true)
		for _, long := range []time.Duration{10 * time.Second, time.Hour} {
			time.Sleep(long)
			synctest.Wait()
			expect("away", 200, 503, 503)
		}
		if _, body := ask(h, "/healthz"); !strings.Contains(body, "FAIL  ") || !strings.Contains(body, errAway.Error()) {
			t.Errorf("/healthz says\n%s\nwant the reason", body)
		}
		if _, body := ask(h, "/healthz", "Accept", "application/json"); !strings.HasPrefix(body, `{"ok":false,"checks":[`) {
			t.Errorf("/healthz as JSON is %s", body)
		}
		b.away.Store(false)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		expect("back", 200, 200, 200)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A runner that failed while another hangs in its stop is what a restart mends.
func TestLivenessFailsWhenARunnerFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &reconcile.Manager{Logger: quiet, StopTimeout: time.Hour}
		h := must(web.New(m, nil))
		release := make(chan struct{})
		fail := make(chan struct{})
		if err := m.Register(runner(func(context.Context) error { <-fail; return errors.New("no memory") }),
			runner(func(context.Context) error { <-release; return nil })); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- m.Run(t.Context()) }()
		synctest.Wait()
		if got, _ := ask(h, "/livez"); got != 200 {
			t.Errorf("/livez answers %d", got)
		}
		close(fail)
		synctest.Wait()
		if got, body := ask(h, "/livez"); got != 503 || !strings.Contains(body, "no memory") {
			t.Errorf("/livez answers %d, want 503:\n%s", got, body)
		}
		close(release)
		<-ended
	})
}

type runner func(ctx context.Context) error

func (r runner) Run(ctx context.Context) error { return r(ctx) }

func TestMetricsAndDebugAreServed(t *testing.T) {
	m := newManager(newRemote())
	own := prometheus.NewGauge(prometheus.GaugeOpts{Name: "sites_declared", Help: "Sites."})
	h := must(web.New(m, &web.Options{
		Collectors: []prometheus.Collector{own}, Debug: &debug.Options{Title: "the sites"},
		API: &api.Options{Allow: func(*http.Request, api.Access) error { return nil }},
	}))
	code, body := ask(h, "/metrics")
	for _, want := range []string{"workqueue_depth{", "go_goroutines ", "process_cpu_seconds_total ", "sites_declared 0"} {
		if code != 200 || !strings.Contains(body, want) {
			t.Errorf("/metrics answers %d without %q", code, want)
		}
	}
	if code, body := ask(h, "/debug?format=text"); code != 200 || !strings.Contains(body, "site") {
		t.Errorf("/debug answers %d:\n%s", code, body)
	}
	if code, body := ask(h, "/debug", "Accept", "text/html"); code != 200 || !strings.Contains(body, "the sites") {
		t.Errorf("/debug answers %d:\n%s", code, body)
	}
	if code, body := ask(h, "/objects"); code != 200 {
		t.Errorf("/objects answers %d %s", code, body)
	}
	if code, _ := ask(h, "/debug/pprof/"); code != 404 {
		t.Errorf("profiles are served although they are off: %d", code)
	}
	if code, _ := ask(http.DefaultServeMux, "/debug/pprof/heap"); code != 404 {
		t.Errorf("the package added profiles to http.DefaultServeMux: %d", code)
	}
}

func TestHostsAndAllowGuardEachPath(t *testing.T) {
	m := newManager(newRemote())
	all := &api.Options{Allow: func(*http.Request, api.Access) error { return nil }}
	h := must(web.New(m, &web.Options{Pprof: true, API: all, Allow: func(r *http.Request) error {
		if r.Header.Get("Authorization") != "Bearer let-me-in" {
			return errors.New("a token is missing")
		}
		return nil
	}}))
	for _, path := range []string{"/livez", "/readyz", "/healthz", "/metrics", "/debug", "/debug/pprof/", "/objects"} {
		probe := path == "/livez" || path == "/readyz"
		if code, _ := ask(h, path, "Host", "evil.example", "Authorization", "Bearer let-me-in"); (code == 403) == probe {
			t.Errorf("%s answers %d to another host's name", path, code)
		}
		code, body := ask(h, path)
		if refused := code == 403 && strings.Contains(body, "a token is missing"); refused == probe {
			t.Errorf("%s without a password answers %d %s", path, code, body)
		}
	}
	only := must(web.New(m, &web.Options{Hosts: []string{"other.example"}}))
	if code, _ := ask(only, "/healthz", "Host", "sites.example"); code != 403 {
		t.Errorf("/healthz answers %d to a name that is not allowed", code)
	}
	for _, path := range []string{"/livez", "/readyz"} {
		code, body := ask(only, path, "Host", "sites.example")
		if code == 403 || !strings.Contains(http.StatusText(code)+"\n", body) {
			t.Errorf("%s by a name that is not allowed answers %d %q, want a status and nothing else", path, code, body)
		}
		if code, body := ask(only, path, "Host", "other.example"); code == 403 || !strings.Contains(body, "checks") {
			t.Errorf("%s by a name that is allowed answers %d %q, want the checks", path, code, body)
		}
	}
}

// What Allow does not guard gives no reason away: addresses and error texts are at /healthz.
func TestProbesGiveNoReasonWithAllow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRemote()
		m := newManager(b)
		if err := m.Register(runner(func(ctx context.Context) error { <-ctx.Done(); return nil })); err != nil {
			t.Fatal(err)
		}
		open := must(web.New(m, nil))
		guarded := must(web.New(m, &web.Options{Allow: func(*http.Request) error { return errors.New("no") }}))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }() // ends at cancel
		time.Sleep(time.Second)
		synctest.Wait()
		if code, body := ask(guarded, "/readyz"); code != 200 || body != "OK\n" {
			t.Errorf("/readyz answers %d %q", code, body)
		}
		b.away.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if code, body := ask(open, "/readyz"); code != 503 || !strings.Contains(body, errAway.Error()) {
			t.Errorf("without Allow /readyz answers %d %q, want the reason", code, body)
		}
		if code, body := ask(guarded, "/readyz"); code != 503 || body != "Service Unavailable\n" {
			t.Errorf("with Allow /readyz answers %d %q, want a status and no reason", code, body)
		}
		if code, body := ask(guarded, "/livez"); code != 200 || body != "OK\n" {
			t.Errorf("with Allow /livez answers %d %q", code, body)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestProfilesOnDemand(t *testing.T) {
	h := must(web.New(newManager(newRemote()), &web.Options{Pprof: true}))
	if code, body := ask(h, "/debug/pprof/"); code != 200 || !strings.Contains(body, "goroutine ") || !strings.Contains(body, "profile\n") {
		t.Errorf("the list answers %d:\n%s", code, body)
	}
	if code, body := ask(h, "/debug/pprof/goroutine?debug=1"); code != 200 || !strings.Contains(body, "TestProfilesOnDemand") {
		t.Errorf("goroutines answer %d:\n%s", code, body)
	}
	for _, path := range []string{"/debug/pprof/heap", "/debug/pprof/profile?seconds=0.01"} {
		code, body := ask(h, path)
		if _, err := gzip.NewReader(bytes.NewReader([]byte(body))); code != 200 || err != nil {
			t.Errorf("%s answers %d, not a profile: %v", path, code, err)
		}
	}
	if code, body := ask(h, "/debug/pprof/trace?seconds=0.01"); code != 200 || !strings.HasPrefix(body, "go 1.") {
		t.Errorf("the trace answers %d", code)
	}
	for path, want := range map[string]int{
		"/debug/pprof/nothing": 404, "/debug/pprof/profile?seconds=x": 400, "/debug/pprof/profile?seconds=0": 400,
		"/debug/pprof/trace?seconds=1000": 400, "/debug/pprof/profile?seconds=NaN": 400,
	} {
		if code, _ := ask(h, path); code != want {
			t.Errorf("%s answers %d, want %d", path, code, want)
		}
	}
}

// A HEAD had a profile made, for up to five minutes, and thrown away.
//
// Negative control: mutant "a HEAD makes a profile".
func TestHeadMakesNoProfile(t *testing.T) {
	h := must(web.New(newManager(newRemote()), &web.Options{Pprof: true}))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodHead, "http://localhost/debug/pprof/profile?seconds=0.01", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("HEAD is answered %d", w.Code)
	}
}

// The server ends with its manager, and lets an answer that is under way out.
func TestServeEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	began, goOn := make(chan struct{}), make(chan struct{})
	s := web.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(began)
		<-goOn
		_, _ = io.WriteString(w, "done")
	}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	answer := make(chan string, 1)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	go func() {
		res, err := client.Get("http://" + l.Addr().String())
		if err != nil {
			answer <- err.Error()
			return
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		answer <- string(body)
	}()
	<-began
	cancel()
	close(goOn)
	if got := <-answer; got != "done" {
		t.Errorf("the answer is %q", got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	// A listener that is closed under it is an error.
	l = must(net.Listen("tcp", "127.0.0.1:0"))
	l.Close()
	if err := web.Serve(l, http.NotFoundHandler()).Run(t.Context()); err == nil {
		t.Error("Run returns nil for a listener that is closed")
	}
}

// What streams until its caller leaves, as a watch does, ends as a whole: its caller can tell that
// from a connection that broke.
func TestServeEndsStreams(t *testing.T) {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	s := web.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "begun, ")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		_, _ = io.WriteString(w, "ended")
	}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get("http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	cancel()
	if body, err := io.ReadAll(res.Body); err != nil || string(body) != "begun, ended" {
		t.Errorf("the stream is %q, %v; want all of it", body, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestBadOptionsAreErrors(t *testing.T) {
	m := newManager(newRemote())
	twice := prometheus.NewGauge(prometheus.GaugeOpts{Name: "go_goroutines", Help: "Another."})
	for name, o := range map[string]*web.Options{
		"a clash of metrics": {Collectors: []prometheus.Collector{twice}},
		"a nil collector":    {Collectors: []prometheus.Collector{nil}},
		"a bad debug page":   {Debug: &debug.Options{Timeout: -1}},
		"a bad API":          {API: &api.Options{Timeout: -1}},
	} {
		if _, err := web.New(m, o); err == nil || !strings.HasPrefix(err.Error(), "web: New: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := web.New(nil, nil); err == nil {
		t.Error("a nil manager is accepted")
	}
}

// The kinds given are on the debug page and are counted at /metrics; a second handler with
// the same collector would count them twice, which is refused.
//
// Negative control: without the loop over opts.Objects in New, both assertions of /metrics
// fail.
func TestObjectsAreShownAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := must(memory.New(nil))
		sites := must(store.New[struct{}, struct{}](b, "site", nil))
		c := must(reconcile.For(sites, func(ctx context.Context, s *site) (reconcile.Result, error) {
			s.SetReady()
			_, err := sites.UpdateStatus(ctx, s)
			return reconcile.Result{}, err
		}, nil))
		m := &reconcile.Manager{Logger: quiet}
		if err := m.Register(c); err != nil {
			t.Fatal(err)
		}
		o := &web.Options{Metrics: metrics.New(m), Objects: []objects.Kind{objects.OfCache(c.Cache())}}
		h := must(web.New(m, o))
		for _, name := range []string{"a", "b"} {
			_ = must(sites.Create(t.Context(), &site{Meta: store.Meta{Name: name}}))
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }() // ended by cancel, waited for below
		time.Sleep(time.Minute)
		synctest.Wait()
		_, body := ask(h, "/metrics")
		for _, want := range []string{`tend_objects{kind="site",state="all"} 2`, `tend_objects{kind="site",state="ready"} 2`} {
			if !strings.Contains(body, want) {
				t.Errorf("/metrics lacks %s", want)
			}
		}
		if code, body := ask(h, "/debug?view=objects&kind=site&format=text"); code != 200 || !strings.Contains(body, "2 of 2 objects") && !strings.Contains(body, "Ready") {
			t.Errorf("the objects' page answers %d:\n%s", code, body)
		}
		if _, err := web.New(m, o); err == nil || !strings.Contains(err.Error(), "Options.Objects") {
			t.Errorf("the same kind twice: %v", err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Listen takes the port at once and serves while the manager runs; one that never runs is
// closed by Close.
func TestListenServesWhileTheManagerRuns(t *testing.T) {
	m := newManager(must(memory.New(nil)))
	s := must(web.Listen("127.0.0.1:0", m, nil))
	if _, err := web.Listen(s.Addr(), m, nil); err == nil || !strings.Contains(err.Error(), "web: Listen: ") {
		t.Errorf("a port that is taken: %v", err)
	}
	if err := m.Register(s); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }() // ended by cancel, waited for below
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get("http://" + s.Addr() + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	if res.Body.Close(); res.StatusCode != http.StatusOK {
		t.Errorf("/livez answers %s", res.Status)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("closing what has run: %v", err)
	}
	idle := must(web.Listen(s.Addr(), m, nil)) // the port is free again
	if err := idle.Close(); err != nil {
		t.Error(err)
	}
}

// While runs are being finished, supervisors and people are answered: a probe that is refused
// then has the process killed in the middle of them.
// promise Q8
//
// Negative control: without EndsLast the connection is refused.
func TestListenServesUntilTheLastRunHasEnded(t *testing.T) {
	m := newManager(must(memory.New(nil)))
	began, goOn := make(chan struct{}), make(chan struct{})
	ctrl := must(reconcile.Each("sites", time.Hour, func(context.Context) (map[string]int, error) {
		return map[string]int{"a": 1}, nil
	}, func(context.Context, string, *int) (reconcile.Result, error) {
		close(began)
		<-goOn
		return reconcile.Result{}, nil
	}, nil))
	s := must(web.Listen("127.0.0.1:0", m, nil))
	if err := m.Register(ctrl, s); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }() // ended by cancel, waited for below
	<-began
	cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	asked := func(path string) int {
		res, err := client.Get("http://" + s.Addr() + path)
		if err != nil {
			close(goOn)
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	for asked("/readyz") == http.StatusOK { // until it has been told to stop
		runtime.Gosched()
	}
	if got := asked("/livez"); got != http.StatusOK {
		t.Errorf("/livez answers %d while a run is being finished", got)
	}
	close(goOn)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := client.Get("http://" + s.Addr() + "/livez"); err == nil {
		t.Error("it is served after the end of Run")
	}
}

// A call that failed has counted nothing: Listen can be tried on another port, and New with
// mended options, although the collector is the same.
//
// Negative control: with the objects added at the beginning of New, each second call says
// that the kind is there already.
func TestFailureLeavesTheCollectorAlone(t *testing.T) {
	b := must(memory.New(nil))
	sites := must(store.New[struct{}, struct{}](b, "site", nil))
	c := must(reconcile.For(sites, func(context.Context, *site) (reconcile.Result, error) { return reconcile.Result{}, nil }, nil))
	m := &reconcile.Manager{Logger: quiet}
	o := web.Options{Metrics: metrics.New(m), Objects: []objects.Kind{objects.OfCache(c.Cache())}}
	bad := o
	bad.API = &api.Options{Timeout: -1}
	if _, err := web.Listen("127.0.0.1:0", m, &bad); err == nil {
		t.Fatal("a bad API is accepted")
	}
	taken := must(net.Listen("tcp", "127.0.0.1:0"))
	defer taken.Close()
	if _, err := web.Listen(taken.Addr().String(), m, &o); err == nil || !strings.HasPrefix(err.Error(), "web: Listen: ") {
		t.Fatalf("a port that is taken: %v", err)
	}
	s, err := web.Listen("127.0.0.1:0", m, &o)
	if err != nil {
		t.Fatalf("another port: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// U+009B begins a command to a terminal as the two characters ESC [ do, and U+202E turns the
// direction of what follows.
func TestHealthSendsTerminalsNoCommands(t *testing.T) {
	m := &reconcile.Manager{Logger: quiet}
	h := must(web.New(m, nil))
	if err := m.Register(named("a\u009b31m\u202e\x1b\xff")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = m.Run(ctx)
	_, body := ask(h, "/healthz")
	for _, r := range strings.ReplaceAll(body, "\n", "") {
		if !unicode.IsPrint(r) {
			t.Errorf("/healthz sends %q in %q", r, body)
		}
	}
}

type named string

func (n named) Name() string              { return string(n) }
func (n named) Run(context.Context) error { return errors.New(string(n)) }

// A check that fails for several reasons has them on its line, one after the other.
//
// Negative control: mutant "the reasons of a check run together".
func TestHealthSeparatesTheReasonsOfACheck(t *testing.T) {
	m := &reconcile.Manager{Logger: quiet}
	h := must(web.New(m, nil))
	if err := m.Register(sick{errors.New("the list fails"), errors.New("a run is stuck")}); err != nil {
		t.Fatal(err)
	}
	if _, body := ask(h, "/healthz"); !strings.HasSuffix(body, ": the list fails; a run is stuck\n") {
		t.Errorf("/healthz says %q, want the reasons separated", body)
	}
}

// sick is a runner whose health is several errors.
type sick [2]error

func (s sick) Run(context.Context) error { return nil }
func (s sick) Health() error             { return errors.Join(s[:]...) }

// A web site may have given its own name our address: a request by a name that the operator has not allowed gets
// nothing, and a probe by such a name the status alone.
func TestHostsCountOnEachPath(t *testing.T) {
	m := newManager(newRemote())
	if err := m.Register(named("exe\u202egpj")); err != nil { // its answer is for a terminal too
		t.Fatal(err)
	}
	h := must(web.New(m, &web.Options{Hosts: []string{"web.example"}}))
	for _, path := range []string{"/livez", "/readyz", "/healthz", "/healthz?format=json", "/metrics", "/debug"} {
		want, _ := ask(h, path)
		probe := path == "/livez" || path == "/readyz"
		for _, host := range []string{"web.example", "WEB.example.:80", "localhost:8080", "127.0.0.1", "[::1]:80", "10.0.0.7:80"} {
			if got, body := ask(h, path, "Host", host); got != want || probe && !strings.Contains(body, "checks") || strings.Contains(body, "\u202e") {
				t.Errorf("%s answers %d to %s, which is allowed, want %d:\n%s", path, got, host, want, body)
			}
		}
		if !probe {
			want = http.StatusForbidden
		}
		for _, host := range []string{"evil.example", "localhost.evil.example", ""} {
			if got, body := ask(h, path, "Host", host); got != want || strings.Contains(body, "checks") || strings.Contains(body, "not running") {
				t.Errorf("%s answers %d %q to %q, want %d", path, got, body, host, want)
			}
		}
	}
}
