//go:build unix

package etcd_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/etcd"
	"github.com/tendhq/tend/store/storetest"
	"github.com/tendhq/tend/store/storetest/campaign"
)

// etcdEnv set to "required" makes a missing etcd program an error instead of a skip.
const etcdEnv = "TEND_ETCD"

// onVersions runs a test on each version of etcd that there is: the module's own,
// and the one that the distribution has installed, Debian's 3.4.23 for example.
func onVersions(t *testing.T, test func(t *testing.T, binary string)) {
	t.Run("module", func(t *testing.T) { test(t, "") })
	t.Run("installed", func(t *testing.T) { test(t, installed(t)) })
}

// installed is the program of the version that the distribution has installed.
func installed(t *testing.T) string {
	t.Helper()
	binary, err := exec.LookPath("etcd")
	if err != nil {
		if os.Getenv(etcdEnv) == "required" {
			t.Fatal(err)
		}
		t.Skip("no etcd is installed")
	}
	version, err := exec.Command(binary, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(version), "\n")
	t.Log(first)
	return binary
}

// command runs the program as the member says. It ends with the test's process.
func (m member) command() *exec.Cmd {
	if m.Binary == "" {
		cfg, err := json.Marshal(m)
		if err != nil {
			panic(err) // a struct of strings
		}
		cmd := exec.Command(cmp.Or(os.Getenv(membersEnv), os.Args[0]))
		cmd.Env = append(os.Environ(), memberEnv+"="+string(cfg))
		cmd.Stderr = os.Stderr
		return cmd
	}
	election := 500
	if m.Calm {
		election *= 10
	}
	cmd := exec.Command(m.Binary, "--name", m.Name, "--data-dir", filepath.Join(m.Dir, m.Name),
		"--listen-client-urls", m.Client, "--advertise-client-urls", m.Client,
		"--listen-peer-urls", m.Peer, "--initial-advertise-peer-urls", m.Peer,
		"--initial-cluster", m.Cluster, "--heartbeat-interval", "50", "--election-timeout", fmt.Sprint(election),
		"--logger", "zap", "--log-level", "fatal", "--log-outputs", "/dev/null", "--unsafe-no-fsync")
	cmd.Args = append(cmd.Args, m.Flags...)
	cmd.SysProcAttr = dieWithParent()
	return cmd
}

// startAlone starts a cluster of one member in a process of its own.
func startAlone(t *testing.T, binary string, flags ...string) *process {
	t.Helper()
	m := member{Name: "alone", Dir: t.TempDir(), Client: loopback(), Peer: loopback(), Binary: binary, Flags: flags}
	m.Cluster = m.Name + "=" + m.Peer
	return newProcess(t, m)
}

func (p *process) host() string {
	p.t.Helper()
	u, err := url.Parse(p.cfg.Client)
	if err != nil {
		p.t.Fatal(err)
	}
	return u.Host
}

func (p *process) data() string { return filepath.Join(p.cfg.Dir, p.cfg.Name) }

// raw gives etcd's own client of a member, once the member answers.
func (p *process) raw() *clientv3.Client {
	p.t.Helper()
	c := raw(p.t, clientv3.Config{Endpoints: []string{p.cfg.Client}})
	if _, err := c.Get(p.t.Context(), "ready"); err != nil {
		p.t.Fatal(err)
	}
	return c
}

// An etcd that is started as docs/ETCD.md says has that quota, and compacts. An hour of it is a second here.
//
// Negative control: without its flags, or with a retention of 0.
func TestSettingsOfTheDocumentCompactAndSetTheQuota(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/ETCD.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^etcd (--.*)$`).FindSubmatch(page)
	if line == nil {
		t.Fatal("the page has no command that starts etcd")
	}
	flags := string(line[1])
	short := strings.Replace(flags, "retention=1h", "retention=1s", 1)
	if short == flags {
		t.Fatalf("no retention of an hour in %s", flags)
	}
	p := startAlone(t, installed(t), strings.Fields(short)...)
	c := p.raw()
	b := openAt(t, p.cfg.Client, etcd.Options{})
	waitFor(t, func() bool {
		if err := putBytes(t, b, "one", []byte("x")); err != nil { // a status, again and again
			t.Fatal(err)
		}
		_, err := c.Get(t.Context(), "/", clientv3.WithRev(1))
		return errors.Is(err, rpctypes.ErrCompacted)
	})
	resp, err := http.Get(p.cfg.Client + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	metrics, err := io.ReadAll(resp.Body)
	_, quota, _ := strings.Cut(flags, "quota-backend-bytes=")
	want, parsed := strconv.ParseFloat(quota, 64)
	if got := regexp.MustCompile(`(?m)^etcd_server_quota_backend_bytes (.*)$`).FindSubmatch(metrics); err != nil || parsed != nil || got == nil || string(got[1]) != strconv.FormatFloat(want, 'e', -1, 64) {
		t.Errorf("the quota is %q, want %v (%v, %v)", got, want, err, parsed)
	}
}

// The contract without shared requests, on the version that is installed; TestContractOnOneMember has the
// module's version and shared requests.
func TestContractOnInstalledVersion(t *testing.T) {
	t.Parallel()
	p := startAlone(t, installed(t))
	p.raw()
	storetest.Run(t, func(t testing.TB) store.Backend {
		return openAt(t, p.cfg.Client, *(&etcd.Options{Prefix: newPrefix()}).SetBatch(1).SetInFlight(1))
	}, forget(t, p.cfg.Client))
}

// endsCompacted reads until the watch ends because its history is gone.
func (r *reader) endsCompacted() {
	r.t.Helper()
	for {
		_, err, ok := r.next()
		if errors.Is(err, store.ErrCompacted) {
			return
		}
		if err != nil || !ok {
			r.t.Fatalf("watch ended with %v, want ErrCompacted", err)
		}
	}
}

// A cluster that is wiped and started empty at the same address has the same cluster
// id as before, and its first revisions are below what was seen.
//
// promise S2. Negative control: with etcd's client left to resume the stream by itself,
// and an answer of a smaller revision taken for progress, 3.4.23 was never noticed.
func TestWipedStoreRestartsWatchersWithASnapshot(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, binary string) {
		p := startAlone(t, binary)
		p.raw()
		b := openAt(t, p.cfg.Client, *(&etcd.Options{}).SetSilence(time.Second))
		r := watch(t, b, 0)
		for i := range 20 {
			write(t, b, fmt.Sprint("lost", i))
		}
		r.upTo("lost19")
		p.Kill()
		if err := os.RemoveAll(p.data()); err != nil {
			t.Fatal(err)
		}
		p.start()
		r.endsCompacted()
		r = watch(t, b, 0)
		write(t, b, "new")
		if seen := r.upTo("new"); len(seen) != 1 {
			t.Errorf("after the wipe the watch shows %v, want only what was written since", seen)
		}
	})
}

// An old copy of the data, under the same cluster id, that others have written beyond
// what this watch had seen.
//
// promise S2. Negative control: with rewritten always false, the watch goes on after a
// revision of another history.
func TestOvertakenCopyRestartsWatchersWithASnapshot(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, binary string) {
		p := startAlone(t, binary)
		c := p.raw()
		through := campaign.NewProxy(t, p.host())
		b := openAt(t, through.Addr(), *(&etcd.Options{}).SetSilence(time.Second))
		write(t, b, "kept")
		p.Kill()
		saved := filepath.Join(t.TempDir(), "copy")
		if err := os.CopyFS(saved, os.DirFS(p.data())); err != nil {
			t.Fatal(err)
		}
		p.start()
		r := watch(t, b, 0)
		write(t, b, "lost")
		r.upTo("lost")

		through.Set(campaign.Reset)
		p.Kill()
		if err := errors.Join(os.RemoveAll(p.data()), os.CopyFS(p.data(), os.DirFS(saved)), private(p.data())); err != nil {
			t.Fatal(err)
		}
		p.start()
		for i := range 20 {
			if _, err := c.Put(t.Context(), fmt.Sprintf("/tend/thing/ns/other%d", i), "v"); err != nil {
				t.Fatal(err)
			}
		}
		through.Set(campaign.Pass)
		r.endsCompacted()
		for _, change := range watch(t, b, 0).upTo("other19") {
			if change.Key == key("lost") {
				t.Error("the new snapshot holds what the copy does not have")
			}
		}
	})
}

// private gives a copied data directory the permissions that etcd asks for.
func private(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(path, 0o700)
		}
		return err
	})
}

// Before 3.5.8 an answer to a progress request may overtake changes that it says were
// delivered: of 1,378 changes 8 came after such an answer on 3.4.23, with a request
// every 100 µs; none on 3.7.3. A watch that believed it would leave them out.
//
// promise S2. Negative control: with takesAnswers always true, the answer is delivered.
func TestAnswerThatMayOvertakeChangesIsNoProgress(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, binary string) {
		p := startAlone(t, binary)
		ordered := etcd.ProgressIsOrdered(t.Context(), p.raw())
		if binary == "" && !ordered {
			t.Error("the answers of the module's version are not believed")
		}
		changes := func(at int64) *pb.WatchResponse {
			kv := &mvccpb.KeyValue{Key: []byte("/tend/thing/ns/a"), ModRevision: at}
			return &pb.WatchResponse{Header: &pb.ResponseHeader{Revision: at}, Events: []*mvccpb.Event{{Kv: kv}}}
		}
		progress := func(id, at int64) *pb.WatchResponse {
			return &pb.WatchResponse{WatchId: id, Header: &pb.ResponseHeader{Revision: at}}
		}
		got := etcd.Deliver(ordered, progress(-1, 9), changes(9), progress(0, 9), changes(10), progress(-1, 12))
		want := 3 // without the answers
		if ordered {
			want = 5
		}
		if len(got) != want {
			t.Errorf("delivered %v, want %d responses: answers are ordered %v", got, want, ordered)
		}
	})
}

func TestVersionsAreCompared(t *testing.T) {
	for version, want := range map[string]bool{
		"3.4.23": false, "3.4.99": false, "3.5.7": false, "3.5": false, "2.9.9": false, "": false, "x": false,
		"3.5.8": true, "3.5.21": true, "3.6.0": true, "3.6.0-rc.1": true, "3.7.3": true, "4.0.0": true, "4": true,
	} {
		if got := etcd.AtLeast(version, 3, 5, 8); got != want {
			t.Errorf("version %q is at least 3.5.8: %v, want %v", version, got, want)
		}
	}
}

// lines collects what is logged.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

func (l lines) next(t *testing.T) string {
	t.Helper()
	select {
	case s := <-l:
		return s
	case <-time.After(patience):
		t.Fatal("nothing was logged")
		return ""
	}
}

// A cluster that was killed or stopped is not available, with its address, since when
// it was last heard, and one line in the log, however many kinds are watched.
//
// Negative control: without the alarm Health stayed nil.
func TestClusterThatDoesNotAnswerIsUnhealthy(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, binary string) {
		for name, c := range map[string]struct{ away, back func(*process) }{
			"killed":  {(*process).Kill, (*process).start},
			"stopped": {func(p *process) { p.Pause() }, func(p *process) { p.Resume() }},
		} {
			t.Run(name, func(t *testing.T) {
				p := startAlone(t, binary)
				p.raw()
				log := make(lines, 100)
				b := openAt(t, p.cfg.Client, *(&etcd.Options{
					Timeout: time.Second,
				}).SetSilence(time.Second).SetLogger(slog.New(slog.NewTextHandler(log, nil))))
				for _, kind := range []string{"thing", "other", "_lease"} {
					nextOf(t, b, kind)
				}
				if err := b.Health(); err != nil {
					t.Fatalf("Health is %v while the cluster answers", err)
				}
				before := time.Now()
				c.away(p)
				if line := log.next(t); !strings.Contains(line, "does not answer") || !strings.Contains(line, p.host()) {
					t.Errorf("logged %q, want that %s does not answer", line, p.host())
				}
				waitFor(t, func() bool { return b.Unhealthy() == 3 })
				err := b.Health()
				u, ok := errors.AsType[*store.UnavailableError](err)
				if !ok || !strings.Contains(err.Error(), p.host()) {
					t.Fatalf("Health is %v, want an UnavailableError that names %s", err, p.host())
				}
				if u.Since.After(time.Now()) || u.Since.Before(before.Add(-patience)) {
					t.Errorf("unavailable since %v, want about %v", u.Since, before)
				}
				c.back(p)
				waitFor(t, func() bool { return b.Health() == nil })
				if line := log.next(t); !strings.Contains(line, "answers again") {
					t.Errorf("logged %q, want that the cluster answers again", line)
				}
				if len(log) > 0 {
					t.Errorf("logged besides: %q", <-log)
				}
			})
		}
	})
}

// nextOf watches a kind until its snapshot has ended, and keeps the watch open.
func nextOf(t *testing.T, b *etcd.Backend, kind string) {
	t.Helper()
	r := watchKind(t, b, kind, 0)
	for {
		batch, err, _ := r.next()
		if err != nil {
			t.Fatal(err)
		}
		if batch.Kind == store.BatchSnapshotEnd {
			return
		}
	}
}
