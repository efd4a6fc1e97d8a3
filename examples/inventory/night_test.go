//go:build linux

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tendhq/tend/examples/pgserver"
	"github.com/tendhq/tend/reconcile/inspect"
)

// A nightFault is done to a service of its own, and undone again.
type nightFault struct {
	name  string
	store string // "etcd", "postgres", "file" or "memory"
	do    func(*night)
	undo  func(*night)

	verdict, alert string // that name it, and are asserted
}

var nightFaults = []nightFault{
	{"panic", "memory", answers(nightPanic), answers(""), "not well: panics", "TendRunsPanic"},
	{"store killed", "etcd", func(n *night) { n.stop(n.etcd, syscall.SIGKILL) }, (*night).startEtcd, "not well: store", "TendStoreDown"},
	{"store frozen", "etcd", func(n *night) { n.signal(n.etcd, syscall.SIGSTOP) }, func(n *night) { n.signal(n.etcd, syscall.SIGCONT) }, "not well: store", "TendStoreDown"},
	{"store full", "etcd", (*night).fillEtcd, (*night).emptyEtcd, "not well: store", "TendStoreDown"},
	{"store read-only", "postgres", func(n *night) { n.readOnly("on") }, func(n *night) { n.readOnly("off") }, "", ""},
	{"disk full", "file", func(n *night) { n.limitFiles("4096") }, func(n *night) { n.limitFiles("unlimited") }, "not well: store", "TendStoreDown"},
	{"cloud 500", "memory", answers("500"), answers(""), "not well: is not well", "TendQuotaCircuitOpen"},
	{"cloud 429", "memory", answers("429"), answers(""), "", ""},
	{"cloud hanging", "memory", answers("hang"), answers(""), "not well: is not well", "TendQuotaCircuitOpen"},
	{"cloud credentials", "memory", answers("401"), answers(""), "not well: fails", "TendKeysFail"},
	{"cloud listing empty", "memory", answers("empty"), answers(""), "not well: source fails", "TendSourceFails"},
	{"stuck", "memory", answers(nightStuck), (*night).restart, "not well: stuck", "TendRunStuck"},
	{"source silent", "memory", func(n *night) { answers("silent")(n); n.restart() }, answers(""), "", ""},
	{"server dead", "etcd", func(n *night) { n.stop(n.service, syscall.SIGKILL) }, (*night).startService, "no answer", "TendAbsent"},
	{"server frozen", "etcd", func(n *night) { n.signal(n.service, syscall.SIGSTOP) }, func(n *night) { n.signal(n.service, syscall.SIGCONT) }, "no answer", "TendAbsent"},
}

func answers(mode string) func(*night) { return func(n *night) { n.mode.Store(&mode) } }

// night is one service with its store and its cloud, and what was seen of it.
type night struct {
	*testing.T
	fault   nightFault
	config  nightConfig
	mode    atomic.Pointer[string]
	log     *screen
	causes  []string // that were told since the cure, each once
	service *exec.Cmd
	etcd    *exec.Cmd
	etcdAt  string // of its client
	dir     string
	dsn     string
}

var (
	nightLength = flag.Duration("campaign", 0, "how long the night of faults goes on; 0: its small size")
	nightOnly   = flag.String("faults", "", "a regular expression: the faults of the night that are tried; empty: all")
)

// A night of faults, each with a service of its own, which is a process, and a Prometheus that
// has the shipped rules. It logs what an operator sees and after how long: the times of the table in
// metrics/RUNBOOK.md. They are not asserted. In its small size it is the first fault alone.
//
// Negative control: TestNightRejectsAFaultThatIsNotNamed.
func TestNightOfFaults(t *testing.T) {
	faults, each, objects, again := nightFaults[:1], time.Duration(0), 20, time.Second
	scrape := time.Second
	if most := *nightLength; most > 0 {
		only := regexp.MustCompile(*nightOnly)
		nightFaults = slices.DeleteFunc(nightFaults, func(f nightFault) bool { return !only.MatchString(f.name) })
		faults, each, objects, scrape = nightFaults, max(most/3, 90*time.Second), 300, 15*time.Second
	}
	var nights []*night
	var targets []string
	for _, f := range faults {
		n := newNight(t, f, objects, again)
		nights, targets = append(nights, n), append(targets, n.config.Listen)
	}
	p := startNightPrometheus(t, nights, scrape)
	var rows []string
	var mu sync.Mutex // guards rows
	var all sync.WaitGroup
	for _, n := range nights {
		all.Go(func() {
			row := n.run(p, each)
			mu.Lock()
			defer mu.Unlock()
			rows = append(rows, row)
		})
	}
	all.Wait()
	slices.Sort(rows)
	t.Logf("scraped every %v: %s\n| fault | first log line | health | verdict | first alert | alerts | well again | alerts that began after the cure |\n|---|---|---|---|---|---|---|---|\n%s",
		scrape, strings.Join(targets, ", "), strings.Join(rows, "\n"))
	t.Logf("campaign: %d faults", len(rows))
}

func newNight(t *testing.T, f nightFault, objects int, again time.Duration) *night {
	t.Helper()
	n := &night{T: t, fault: f, log: newScreen(), dir: t.TempDir()}
	answers("")(n)
	ended := make(chan struct{})
	cloud := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { n.answer(w, r, ended) }))
	t.Cleanup(func() { close(ended); cloud.Close() })
	n.config = nightConfig{Store: "memory", Cloud: cloud.URL, Listen: freeAddress(t), Objects: objects, Again: again}
	switch f.store {
	case "etcd":
		n.etcdAt = freeAddress(t)
		n.config.Store = "etcd:" + n.etcdAt + "/night"
		n.startEtcd()
		n.awaitEtcd() // a service that cannot store what it declares ends
	case "file":
		n.config.Store = "file:" + filepath.Join(n.dir, "store")
	case "postgres":
		server, err := pgserver.Start()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Stop() })
		n.dsn = server.DSN
		n.config.Store = "postgres:" + server.DSN
	}
	n.startService()
	t.Cleanup(func() { n.stop(n.service, syscall.SIGKILL) })
	return n
}

// answer is the cloud.
func (n *night) answer(w http.ResponseWriter, r *http.Request, ended <-chan struct{}) {
	list := r.URL.Path == "/list"
	for now := n.mode.Load(); *now == "hang" || list && *now == "silent"; now = n.mode.Load() {
		select {
		case <-ended:
		case <-r.Context().Done():
		case <-time.After(100 * time.Millisecond):
		}
		if r.Context().Err() != nil {
			return
		}
	}
	switch mode := *n.mode.Load(); {
	case list && mode == "empty":
		return
	case list && mode != "401": // the credentials are those of both
		for i := range 50 {
			fmt.Fprintf(w, "item-%d\n", i)
		}
	case mode == nightPanic, mode == nightStuck:
		fmt.Fprint(w, mode)
	default:
		if status, err := strconv.Atoi(mode); err == nil {
			if status == http.StatusTooManyRequests {
				w.Header().Set("Retry-After", "30")
			}
			w.WriteHeader(status)
		}
	}
}

func (n *night) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	// A group of its own: a stopped process goes on when the shell ends that began its group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	return cmd
}

func (n *night) startService() {
	config, err := json.Marshal(n.config)
	if err != nil {
		n.Error(err)
	}
	cmd := n.command(os.Args[0])
	cmd.Env = append(os.Environ(), nightEnv+"="+string(config))
	cmd.Stderr = n.log
	if err := cmd.Start(); err != nil {
		n.Error(err)
	}
	n.service = cmd
}

func (n *night) startEtcd() {
	peer, quota := "http://127.0.0.1:0", 1<<30
	if n.fault.name == "store full" {
		quota = 16 << 20
	}
	client := "http://" + n.etcdAt
	cmd := n.command(needs(n.T, "etcd"), "--data-dir", filepath.Join(n.dir, "etcd"), "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--quota-backend-bytes", strconv.Itoa(quota), "--log-level", "error")
	if err := cmd.Start(); err != nil {
		n.Error(err)
	}
	n.etcd = cmd
	n.Cleanup(func() { n.stop(cmd, syscall.SIGKILL) })
}

// stop ends a process by a signal, and waits for its end.
func (n *night) stop(cmd *exec.Cmd, by syscall.Signal) {
	if cmd.ProcessState == nil {
		_ = cmd.Process.Signal(by)
		_ = cmd.Wait()
	}
}

func (n *night) signal(cmd *exec.Cmd, s syscall.Signal) {
	if err := cmd.Process.Signal(s); err != nil {
		n.Error(err)
	}
}

// restart is what an operator does about a stuck run, once the cloud answers again.
func (n *night) restart() {
	if *n.mode.Load() == nightStuck {
		answers("")(n)
	}
	n.stop(n.service, syscall.SIGKILL)
	n.startService()
}

func (n *night) client() *clientv3.Client {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{n.etcdAt}, DialTimeout: 10 * time.Second})
	if err != nil {
		n.Error(err)
	}
	return c
}

// awaitEtcd returns when etcd answers.
func (n *night) awaitEtcd() {
	c := n.client()
	defer c.Close()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(n.Context(), time.Second)
		_, err = c.Get(ctx, "any")
		cancel()
		if err == nil {
			return
		}
	}
	n.Fatal(err)
}

// fillEtcd writes until the quota is used up.
func (n *night) fillEtcd() {
	c := n.client()
	defer c.Close()
	for i := range 100 {
		if _, err := c.Put(n.Context(), fmt.Sprint("fill/", i), strings.Repeat("x", 1<<20)); err != nil {
			return
		}
	}
	n.Error("etcd took 100 MB")
}

// emptyEtcd is what an operator does about it.
func (n *night) emptyEtcd() {
	c := n.client()
	defer c.Close()
	ctx, cancel := context.WithTimeout(n.Context(), time.Minute)
	defer cancel()
	gone, err := c.Delete(ctx, "fill/", clientv3.WithPrefix())
	if err == nil {
		_, err = c.Compact(ctx, gone.Header.Revision, clientv3.WithCompactPhysical())
	}
	if err == nil {
		_, err = c.Defragment(ctx, n.etcdAt)
	}
	if err == nil {
		_, err = c.AlarmDisarm(ctx, &clientv3.AlarmMember{})
	}
	if err != nil {
		n.Error(err)
	}
}

func (n *night) readOnly(is string) {
	c, err := pgx.Connect(n.Context(), n.dsn)
	if err != nil {
		n.Error(err)
		return
	}
	defer c.Close(n.Context())
	for _, do := range []string{
		"SET default_transaction_read_only = off", "ALTER DATABASE postgres SET default_transaction_read_only = " + is,
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'",
	} {
		if _, err := c.Exec(n.Context(), do); err != nil {
			n.Error(err)
		}
	}
}

// limitFiles bounds the files of the service, as a disk that is full does.
func (n *night) limitFiles(size string) {
	if out, err := exec.Command("prlimit", "--pid", strconv.Itoa(n.service.Process.Pid), "--fsize="+size+":unlimited").CombinedOutput(); err != nil {
		n.Errorf("%v: %s", err, out)
	}
}

func (n *night) job() string { return strings.ReplaceAll(n.fault.name, " ", "-") }

// status gets the verdict and the status of health; ok is whether the service answers.
func (n *night) status() (verdict inspect.Verdict, health int, ok bool) {
	client := http.Client{Timeout: 2 * time.Second}
	if r, err := client.Get("http://" + n.config.Listen + "/healthz"); err == nil {
		health = r.StatusCode
		r.Body.Close()
	}
	r, err := client.Get("http://" + n.config.Listen + "/debug?view=status&format=json")
	if err != nil {
		return verdict, health, false
	}
	defer r.Body.Close()
	var page struct{ Verdict *inspect.Verdict }
	if err := json.NewDecoder(r.Body).Decode(&page); err != nil || page.Verdict == nil {
		return verdict, health, false
	}
	return *page.Verdict, health, true
}

// well waits until all is well.
func (n *night) well(p *promServer) (after time.Duration) {
	began := time.Now()
	for ; time.Since(began) < 2*patience; time.Sleep(250 * time.Millisecond) {
		v, health, ok := n.status()
		if ok && v.Level == inspect.Well && health == http.StatusOK {
			return time.Since(began)
		}
		for i := range v.Causes {
			if says := v.Causes[i].What + ": " + v.Causes[i].Why; !slices.Contains(n.causes, says) {
				n.causes = append(n.causes, says)
			}
		}
	}
	v, health, ok := n.status()
	n.Errorf("%s: not well in the end: health %d, %t: %s\n%s\n%s", n.fault.name, health, ok, v.Says, n.log, p.log)
	return time.Since(began)
}

// told is what the page says, as text.
func (n *night) told() string {
	client := http.Client{Timeout: 2 * time.Second}
	r, err := client.Get("http://" + n.config.Listen + "/debug?view=status&format=text")
	if err != nil {
		return err.Error()
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return cmp.Or(string(text), fmt.Sprint(err))
}

// nightLine is the message of a log line that warns.
var nightLine = regexp.MustCompile(`level=(?:WARN|ERROR) msg="?(.*)`)

// seen is what was seen of a fault, and when.
type nightSeen struct {
	log, health, verdict, alert string
	since                       map[string]string // when a verdict was first seen
	alerts                      []string          // in the order in which they fired
}

// run does the fault, watches, undoes it, and watches. It goes on for each at least, and as
// long as it takes until there is an alert, or three times as long.
func (n *night) run(p *promServer, each time.Duration) string {
	n.well(p)
	p.eventually(n.T, `up{job="`+n.job()+`"}`, func(v []float64) bool { return len(v) == 1 && v[0] == 1 })
	before := len(n.log.String())
	began := time.Now()
	n.fault.do(n)
	s := nightSeen{since: map[string]string{}}
	for time.Since(began) < each || s.alert == "" && time.Since(began) < max(3*each, 30*time.Second) {
		n.look(p, &s, began, before)
		time.Sleep(250 * time.Millisecond)
	}
	if err := s.check(n.fault); err != nil {
		n.Errorf("%v\n%s\n%s", err, n.log, p.log)
	}
	fired, verdict := slices.Clone(s.alerts), s.verdict
	n.Logf("%s, as it is told:\n%s\n%s", n.fault.name, n.told(), p.told(n.T, n.job()))
	cured := time.Now()
	n.causes = nil
	n.fault.undo(n)
	well := n.well(p)
	n.Logf("%s, after the cure, until all was well %.0f s later: %q", n.fault.name, well.Seconds(), n.causes)
	for time.Since(cured) < each {
		n.look(p, &s, began, before)
		time.Sleep(250 * time.Millisecond)
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %.0f s | %s |", n.fault.name, cmp.Or(s.log, "none"), cmp.Or(s.health, "200"), verdict,
		cmp.Or(s.alert, "none"), strings.Join(fired, " "), well.Seconds(), cmp.Or(strings.Join(s.alerts[len(fired):], " "), "none"))
}

// check wants that the verdict and an alert name the fault, where it is known which.
func (s nightSeen) check(f nightFault) error {
	if f.verdict != "" && (!strings.HasSuffix(s.verdict, f.verdict) || !strings.HasSuffix(s.alert, f.alert)) {
		return fmt.Errorf("%s: the verdict is %q and the first alert %q, want %q and %q", f.name, s.verdict, s.alert, f.verdict, f.alert)
	}
	return nil
}

func TestNightRejectsAFaultThatIsNotNamed(t *testing.T) {
	named := nightSeen{verdict: "1 s: not well: panics", alert: "9 s: TendRunsPanic"}
	for want, s := range map[string]nightSeen{"": named, "no alert": {verdict: named.verdict}, "another alert": {verdict: named.verdict, alert: "9 s: TendKeysFail"}, "well": {verdict: "1 s: well", alert: named.alert}} {
		if err := s.check(nightFaults[0]); (err == nil) != (want == "") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func (n *night) look(p *promServer, s *nightSeen, began time.Time, before int) {
	after := func(what string) string { return fmt.Sprintf("%.0f s: %s", time.Since(began).Seconds(), what) }
	if s.log == "" {
		if m := nightLine.FindStringSubmatch(n.log.String()[before:]); m != nil {
			s.log = after("`" + strings.Trim(strings.SplitN(m[1], `" `, 2)[0], `"`) + "`")
		}
	}
	v, health, ok := n.status()
	if s.health == "" && health != http.StatusOK {
		s.health = after(cmp.Or(strings.TrimPrefix(strconv.Itoa(health), "0"), "no answer"))
	}
	says := v.Level
	if !ok {
		says = "no answer"
	} else if len(v.Causes) > 0 {
		says += ": " + v.Causes[0].What
	}
	if s.since[says] == "" {
		s.since[says] = after(says)
	}
	s.verdict = s.since[says]
	for _, name := range p.firing(n.T, n.job()) {
		if slices.Contains(s.alerts, name) {
			continue
		}
		s.alerts = append(s.alerts, name)
		s.alert = cmp.Or(s.alert, after(name))
	}
}

// promAlert is an alert as Prometheus gives it.
type promAlert struct {
	Labels, Annotations map[string]string
	State               string
}

// alerts are those of a job that fire.
func (p *promServer) alerts(t *testing.T, job string) []promAlert {
	var answer struct{ Data struct{ Alerts []promAlert } }
	if err := p.get(t.Context(), "/api/v1/alerts", &answer); err != nil {
		t.Error(err)
	}
	return slices.DeleteFunc(answer.Data.Alerts, func(a promAlert) bool { return a.State != "firing" || a.Labels["job"] != job })
}

// firing are the names of the alerts of a job.
func (p *promServer) firing(t *testing.T, job string) (names []string) {
	for _, a := range p.alerts(t, job) {
		names = append(names, a.Labels["alertname"])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// told is what the alerts of a job say, a line each.
func (p *promServer) told(t *testing.T, job string) string {
	var lines []string
	for _, a := range p.alerts(t, job) {
		lines = append(lines, a.Labels["alertname"]+": "+a.Annotations["summary"])
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// startNightPrometheus starts one with the shipped rules that scrapes each night as a job.
func startNightPrometheus(t *testing.T, nights []*night, scrape time.Duration) *promServer {
	t.Helper()
	var jobs strings.Builder
	for _, n := range nights {
		fmt.Fprintf(&jobs, "- {job_name: %s, static_configs: [{targets: [%s]}]}\n", n.job(), n.config.Listen)
	}
	return startPrometheusOn(t, jobs.String(), scrape, shipped(t, "alerts.yaml"))
}
