//go:build unix

package etcd_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/web"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/etcd"
)

// prometheusEnv set to "required" makes a missing promtool an error instead of a skip.
const prometheusEnv = "TEND_PROMETHEUS"

// The outage runs fast times as fast as with the default Options.Silence of 10 s and the
// usual scrape every 15 s: what is scraped is told to promtool as that many times as slow,
// so that the shipped rules apply as they are.
const (
	fast    = 50
	silence = 10 * time.Second / fast
	scrape  = 15 * time.Second / fast
)

// The program's own /metrics, scraped while its etcd is killed or stopped (SIGSTOP), makes
// the shipped alerts TendWatchDisconnected and TendWatchLags fire, and they are quiet
// before the outage and after it. Health and Ready answer 503 meanwhile and say which
// endpoint does not answer, and since when.
//
// Negative control: with a cache that does not ask its backend (Snapshot without
// store.Health) tend_cache_connected stays 1 over the whole outage.
func TestAlertFiresWhileTheClusterIsKilledOrStopped(t *testing.T) {
	promtool := needs(t, "promtool")
	onVersions(t, func(t *testing.T, binary string) {
		for name, c := range map[string]struct{ away, back func(*process) }{
			"killed":  {(*process).Kill, (*process).start},
			"stopped": {(*process).Pause, (*process).Resume},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p := startAlone(t, binary)
				p.raw()
				s := serveCache(t, p)
				s.until(t, "1") // connected

				c.away(p)
				before := len(s.connected)
				s.until(t, "0")
				first := len(s.connected) - 1 // the first scrape that shows the outage
				for range 10 {                // the rules wait for eight of them, two minutes
					s.scrape(t)
				}
				for path, page := range map[string]string{"/healthz": s.get(t, "/healthz", 503), "/readyz": s.get(t, "/readyz", 503)} {
					if !strings.Contains(page, p.host()) || !strings.Contains(page, "since") {
						t.Errorf("%s says %s, want that %s does not answer, and since when", path, page, p.host())
					}
				}

				c.back(p)
				s.until(t, "1")
				for range 2 {
					s.scrape(t)
				}
				waitFor(t, func() bool { return s.status(t, "/readyz") == 200 })

				s.alerts(t, promtool, map[int]bool{
					before - 1:           false,
					first:                false, // it has to last
					first + 10:           true,
					len(s.connected) - 1: false,
				})
			})
		}
	})
}

// served is a program with one cache, and what was scraped from it.
type served struct {
	url            string
	connected, lag []string
}

func serveCache(t *testing.T, p *process) *served {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	b := openAt(t, p.cfg.Client, *(&etcd.Options{Timeout: time.Second}).SetSilence(silence).SetLogger(quiet))
	things, err := store.New[struct{}, struct{}](b, "thing", nil)
	if err != nil {
		t.Fatal(err)
	}
	cached, err := cache.New(things, &cache.Options[struct{}, struct{}]{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	m := &reconcile.Manager{Logger: quiet}
	pages, err := web.New(m, nil)
	if err := errors.Join(err, m.Register(cached)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- m.Run(t.Context()) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	server := httptest.NewServer(pages)
	t.Cleanup(server.Close)
	return &served{url: server.URL}
}

// ask gets one of the program's pages.
func (s *served) ask(t *testing.T, path string) (status int, body string) {
	t.Helper()
	r, err := http.Get(s.url + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(text)
}

func (s *served) status(t *testing.T, path string) int {
	t.Helper()
	status, _ := s.ask(t, path)
	return status
}

func (s *served) get(t *testing.T, path string, want int) string {
	t.Helper()
	status, body := s.ask(t, path)
	if status != want {
		t.Errorf("%s answers %d %s, want %d", path, status, body, want)
	}
	return body
}

// scrape waits for the time of the next scrape, and adds what the program shows.
func (s *served) scrape(t *testing.T) {
	t.Helper()
	next := time.NewTimer(scrape)
	defer next.Stop()
	<-next.C
	page := s.get(t, "/metrics", 200)
	s.connected = append(s.connected, sample(t, page, "tend_cache_connected"))
	lag, err := strconv.ParseFloat(sample(t, page, "tend_watch_lag_seconds"), 64)
	if err != nil {
		t.Fatal(err)
	}
	s.lag = append(s.lag, strconv.FormatFloat(lag*fast, 'g', -1, 64))
}

// sample is the value of the page's only series of a metric.
func sample(t *testing.T, page, metric string) string {
	t.Helper()
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, metric+"{") {
			return strings.TrimSpace(line[strings.LastIndex(line, " "):])
		}
	}
	t.Fatalf("%s is not among\n%s", metric, page)
	return ""
}

// until scrapes until the cache is connected (1), or not (0).
func (s *served) until(t *testing.T, want string) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		s.scrape(t)
		if s.connected[len(s.connected)-1] == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("tend_cache_connected was %v, want %s in the end", s.connected, want)
		}
	}
}

// alerts gives promtool what was scraped, and says after which of the scrapes the alerts
// fire.
func (s *served) alerts(t *testing.T, promtool string, firing map[int]bool) {
	t.Helper()
	rules, err := filepath.Abs(filepath.Join("..", "..", "metrics", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "rule_files: [%q]\nevaluation_interval: 15s\ntests:\n- interval: 15s\n  input_series:\n", rules)
	for metric, values := range map[string][]string{"tend_cache_connected": s.connected, "tend_watch_lag_seconds": s.lag} {
		fmt.Fprintf(&text, "  - {series: '%s{cache=\"thing\"}', values: %q}\n", metric, strings.Join(values, " "))
	}
	fmt.Fprintln(&text, "  promql_expr_test:")
	for at, fires := range firing {
		for _, alert := range []string{"TendWatchDisconnected", "TendWatchLags"} {
			fmt.Fprintf(&text, "  - expr: 'count(ALERTS{alertname=%q,alertstate=\"firing\"})'\n    eval_time: %ds\n    exp_samples: [", alert, at*15)
			if fires {
				fmt.Fprint(&text, "{labels: '{}', value: 1}")
			}
			fmt.Fprintln(&text, "]")
		}
	}
	file := filepath.Join(t.TempDir(), "outage.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(promtool, "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s\n%s", err, out, text.String())
	}
}

// needs finds a program of the distribution.
func needs(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err == nil {
		return path
	}
	if os.Getenv(prometheusEnv) == "required" {
		t.Fatalf("%v; %s says it is required", err, prometheusEnv)
	}
	t.Skipf("%v: apt-get install prometheus", err)
	return ""
}
