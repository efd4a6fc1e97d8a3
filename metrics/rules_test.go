package metrics_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

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

// A row of the runbook's first table: what is seen of a fault.
type faultRow struct{ fault, log, health, verdict, alert, behind, action string }

func faultRows(t *testing.T) (rows []faultRow) {
	t.Helper()
	for line := range strings.Lines(read(t, "RUNBOOK.md")) {
		c := strings.Split(strings.TrimSpace(line), " | ")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| fault |") {
			continue
		}
		if len(c) != 7 {
			t.Fatalf("%d columns: %s", len(c), line)
		}
		rows = append(rows, faultRow{strings.TrimPrefix(c[0], "| "), c[1], c[2], c[3], c[4], c[5], strings.TrimSuffix(c[6], " |")})
	}
	return rows
}

var alertName = regexp.MustCompile(`\bTend[A-Z]\w+`)

// The runbook's table names alerts that there are and log lines that the code writes. Package
// inspect tests its verdicts.
func TestRunbookTableNamesAlertsAndLogLinesThatThereAre(t *testing.T) {
	rules := read(t, "alerts.yaml")
	source := sources(t, "..")
	rows := faultRows(t)
	if len(rows) != 23 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, r := range rows {
		for _, name := range alertName.FindAllString(r.alert+" "+r.behind, -1) {
			if !strings.Contains(rules, "- alert: "+name+"\n") {
				t.Errorf("%s: there is no alert %s", r.fault, name)
			}
		}
		said := regexp.MustCompile("`([^`]+)`").FindStringSubmatch(r.log)
		if said == nil && !strings.HasPrefix(r.log, "none") {
			t.Errorf("%s: no log line, and it does not say none", r.fault)
		} else if said != nil && !strings.Contains(source, `"`+said[1]) {
			t.Errorf("%s: no code logs %q", r.fault, said[1])
		}
		if r.action == "" || r.alert == "" {
			t.Errorf("%s: no action, or no alert", r.fault)
		}
	}
}

// sources is all the code of the module that is no test.
func sources(t *testing.T, root string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root {
			return filepath.SkipDir
		}
		if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			all.WriteString(read(t, path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// inhibitRule is one of inhibit.yaml.
type inhibitRule struct{ source, target, equal []string }

// mutes reports whether an alert that fires keeps another one quiet, as Alertmanager decides it: the
// labels of equal are the same in both, and one that both lack is.
func (r inhibitRule) mutes(firing, other firingAlert) bool {
	return slices.Contains(r.source, firing.name) && slices.Contains(r.target, other.name) &&
		!slices.ContainsFunc(r.equal, func(label string) bool { return firing.labels[label] != other.labels[label] })
}

type firingAlert struct {
	name   string
	labels map[string]string
}

// alertLabels are the names of the labels that each alert has, as promtool finds them in alerts_test.yaml.
func alertLabels(t *testing.T) map[string][]string {
	t.Helper()
	form := regexp.MustCompile(`(?m)alertname: (\w+)\n\s+exp_alerts:\n\s+- exp_labels:\s*(\{[^}]*\}|(?:\n\s+\w+: \S+)+)`)
	all := map[string][]string{}
	for _, m := range form.FindAllStringSubmatch(read(t, "alerts_test.yaml"), -1) {
		if all[m[1]] == nil {
			for _, label := range regexp.MustCompile(`(\w+):`).FindAllStringSubmatch(m[2], -1) {
				all[m[1]] = append(all[m[1]], label[1])
			}
		}
	}
	if n := strings.Count(read(t, "alerts.yaml"), "- alert: "); n != len(all) {
		t.Fatalf("the labels of %d of %d alerts can be read", len(all), n)
	}
	return all
}

// firings are the alerts of those names about one thing: their labels have the same values, but for
// what is theirs alone.
func firings(labels map[string][]string, thing string, names ...string) (all []firingAlert) {
	for _, name := range names {
		a := firingAlert{name, map[string]string{}}
		for _, label := range labels[name] {
			a.labels[label] = thing
		}
		a.labels["job"] = "shop"
		all = append(all, a)
	}
	return all
}

func inhibitRules(t *testing.T) (rules []inhibitRule) {
	t.Helper()
	form := regexp.MustCompile(`(?m)^  - source_matchers: \['alertname =~? "(\S+)"'\]\n    target_matchers: \['alertname =~? "(\S+)"'\]\n    equal: \[(job(?:, \w+)?)\]$`)
	text := read(t, "inhibit.yaml")
	for _, m := range form.FindAllStringSubmatch(text, -1) {
		rules = append(rules, inhibitRule{strings.Split(m[1], "|"), strings.Split(m[2], "|"), strings.Split(m[3], ", ")})
	}
	if n := strings.Count(text, "source_matchers:"); n == 0 || n != len(rules) {
		t.Fatalf("%d of %d rules can be read", len(rules), n)
	}
	return rules
}

// With the shipped inhibit rules a fault is one page: of the alerts that were seen of a fault, the
// first keeps all others quiet, and nothing keeps the first one quiet.
//
// Negative control: without the rule of TendStoreDown the faults of the store are several pages; with a
// label in equal that the cause does not have, nothing is kept quiet.
func TestInhibitRulesLeaveOnePageOfAFault(t *testing.T) {
	alerts, rules, labels := read(t, "alerts.yaml"), inhibitRules(t), alertLabels(t)
	for _, r := range rules {
		for _, name := range slices.Concat(r.source, r.target) {
			if !strings.Contains(alerts, "- alert: "+name+"\n") {
				t.Errorf("there is no alert %s", name)
			}
		}
		for _, name := range r.source {
			if slices.Contains(r.target, name) {
				t.Errorf("%s keeps itself quiet", name)
			}
		}
		for _, name := range slices.Concat(r.source, r.target) {
			for _, label := range r.equal {
				if label != "job" && !slices.Contains(labels[name], label) {
					t.Errorf("%s has no label %s, and so no alert of a rule over that is kept quiet", name, label)
				}
			}
		}
	}
	for _, row := range faultRows(t) {
		seen := firings(labels, "dbs", alertName.FindAllString(row.alert+" "+row.behind, -1)...)
		var pages []string
		for _, a := range seen {
			if !slices.ContainsFunc(rules, func(r inhibitRule) bool {
				return slices.ContainsFunc(seen, func(s firingAlert) bool { return r.mutes(s, a) })
			}) {
				pages = append(pages, a.name)
			}
		}
		if first := alertName.FindString(row.alert); first != strings.Join(pages, ", ") {
			t.Errorf("%s: the pages are %s, want the first alert alone: %s", row.fault, pages, row.alert)
		}
	}
}

// What keeps alerts of one controller quiet hides no fault of another controller, nor of another service.
func TestInhibitRulesHideNoOtherFault(t *testing.T) {
	rules, labels := inhibitRules(t), alertLabels(t)
	mutes := func(firing, other firingAlert) bool {
		return slices.ContainsFunc(rules, func(r inhibitRule) bool { return r.mutes(firing, other) })
	}
	panics, fails := firings(labels, "dbs", "TendRunsPanic")[0], firings(labels, "dns", "TendKeysFail")[0]
	if mutes(panics, fails) {
		t.Error("a panic of dbs hides that keys of dns fail")
	}
	if same := firings(labels, "dbs", "TendKeysFail")[0]; !mutes(panics, same) {
		t.Error("a panic of dbs leaves two pages of dbs")
	}
	down := firings(labels, "etcd", "TendStoreDown")[0]
	if !mutes(down, fails) {
		t.Error("a store that is down leaves a page that keys fail")
	}
	if fails.labels["job"] = "another"; mutes(down, fails) {
		t.Error("a store of shop hides the faults of another service")
	}
}

// No rate looks back further than half of what its alert waits, or the alert could begin after the cure.
func TestRatesLookBackLessThanTheirAlertWaits(t *testing.T) {
	rates := 0
	for _, alert := range strings.Split(read(t, "alerts.yaml"), "- alert: ")[1:] {
		name, _, _ := strings.Cut(alert, "\n")
		for _, window := range regexp.MustCompile(`\brate\([^\[]*\[(\w+)\]`).FindAllStringSubmatch(alert, -1) {
			rates++
			back, err := time.ParseDuration(window[1])
			if err != nil {
				t.Fatal(err)
			}
			waits := regexp.MustCompile(`(?m)^ +for: (\w+)$`).FindStringSubmatch(alert)
			if waits == nil {
				t.Errorf("%s does not wait, and looks back for %v", name, back)
				continue
			}
			if d, err := time.ParseDuration(waits[1]); err != nil || 2*back > d {
				t.Errorf("%s waits for %s, and looks back for %v", name, waits[1], back)
			}
		}
	}
	if rates < 4 {
		t.Errorf("%d rates: are they read right?", rates)
	}
}
