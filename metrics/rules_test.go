package metrics_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tendhq/tend/metrics"
)

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var fqName = regexp.MustCompile(`fqName: "([^"]+)"`)

// families are the names of everything that a Collector describes.
func families(t *testing.T) []string {
	t.Helper()
	descs := make(chan *prometheus.Desc, 200)
	metrics.New(nil).Describe(descs)
	close(descs)
	var all []string
	for d := range descs {
		all = append(all, fqName.FindStringSubmatch(d.String())[1])
	}
	return all
}

var metricName = regexp.MustCompile(`\b(tend|workqueue|controller_runtime|leader_election)_[a-z0-9_]+`)

// names checks that every metric in an expression exists, and returns them.
func names(t *testing.T, where, expr string, known []string) (found []string) {
	t.Helper()
	for _, name := range metricName.FindAllString(expr, -1) {
		base := strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count")
		if !slices.Contains(known, base) {
			t.Errorf("%s asks for %s, which does not exist", where, name)
		}
		found = append(found, base)
	}
	if len(found) == 0 {
		t.Errorf("%s: no metric in %q", where, expr)
	}
	return found
}

// The dashboard asks for nothing that does not exist, and leaves out no metric.
func TestDashboardShowsEveryMetric(t *testing.T) {
	known := families(t)
	var dashboard struct {
		Panels []struct {
			Title, Type, Description string
			GridPos                  struct{ X, W int }
			Targets                  []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "dashboard.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, p := range dashboard.Panels {
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || len(p.Targets) == 0 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %q: no description, nothing to show, or too wide", p.Title)
		}
		for _, target := range p.Targets {
			for _, name := range names(t, "panel "+p.Title, target.Expr, known) {
				shown[name] = true
			}
		}
	}
	// A curve of these says nothing. But for one, which a bucket's throttled time tells, an alert does.
	rules := read(t, "alerts.yaml")
	for _, name := range []string{"tend_queue_paused", "tend_cache_synced", "tend_inventory_prune_held", "tend_bucket_paused"} {
		if shown[name] = true; !strings.Contains(rules, "expr: "+name+" ") && name != "tend_bucket_paused" {
			t.Errorf("no alert and no panel tells %s", name)
		}
	}
	for _, name := range known {
		if !shown[name] {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
}

// Every alert asks for what exists, has tests in which it fires and in which it
// does not, and leads to a section of the runbook. promtool runs the tests; see
// examples/inventory.
func TestEveryAlertHasTestsAndARunbookSection(t *testing.T) {
	known := families(t)
	rules, tests, runbook := read(t, "alerts.yaml"), read(t, "alerts_test.yaml"), read(t, "RUNBOOK.md")
	alerts := strings.Split(rules, "- alert: ")[1:]
	if len(alerts) < 20 {
		t.Fatalf("%d alerts in alerts.yaml: is it read right?", len(alerts))
	}
	for _, alert := range alerts {
		name, body, _ := strings.Cut(alert, "\n")
		expr := regexp.MustCompile(`expr: (.*)`).FindStringSubmatch(body)
		if expr == nil {
			t.Errorf("%s has no expression on one line", name)
			continue
		}
		names(t, name, expr[1], known)
		if !strings.Contains(body, "/metrics/RUNBOOK.md#"+strings.ToLower(name)+"\n") || !strings.Contains(runbook, "\n### "+name+"\n") {
			t.Errorf("%s does not lead to a section of the runbook", name)
		}
		_, test, _ := strings.Cut(tests, "- name: "+name+"\n")
		test, _, _ = strings.Cut(test, "- name: ")
		if !strings.Contains(test, "exp_alerts: []") || !strings.Contains(test, "exp_labels:") || !strings.Contains(test, "# Quiet:\n      - series:") {
			t.Errorf("%s: no case in which it fires, or none in which it does not", name)
		}
	}
	if n := strings.Count(runbook, "\n### "); n != len(alerts) {
		t.Errorf("%d sections in the runbook, %d alerts", n, len(alerts))
	}
}
