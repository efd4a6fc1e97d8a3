package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func fetch(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, resp.Status, err)
	}
	return string(body)
}

// awaitPage asks for a page until it holds all of wants.
func awaitPage(t *testing.T, url string, wants ...string) {
	t.Helper()
	page := ""
	for end := time.Now().Add(patience); time.Now().Before(end); {
		page = fetch(t, url)
		if !slices.ContainsFunc(wants, func(want string) bool { return !strings.Contains(page, want) }) {
			return
		}
	}
	t.Errorf("%s does not come to hold all of %q:\n%s", url, wants, page)
}

// serving waits until the program says where it serves, and is that address. The
// line may come after others: it is another goroutine that serves.
func serving(t *testing.T, s *session) (address string) {
	t.Helper()
	s.Until(t, "serving", func(printed string) bool {
		if m := servingAt.FindStringSubmatch(printed); m != nil {
			address = m[1]
		}
		return address != ""
	})
	return address
}

var servingAt = regexp.MustCompile(`serving http://([^/]+)/metrics`)

func TestDebugPageShowsKeysAndWhatIsWrong(t *testing.T) {
	server := newTestS3(t, true)
	makeBucket(t, server.URL, "acme-theirs")
	s := begin(t, declaring("acme-a", "acme-theirs"), options{Endpoint: server.URL, Listen: "localhost:0"})
	s.Await(t, "x acme-theirs", 1)
	s.Await(t, "+ acme-a  created", 1)
	url := "http://" + serving(t, s) + "/debug"
	awaitPage(t, url+"?format=text", "buckets", "s3", "demo", "1 created", "CreateBucket 1", "NotOurs")
	awaitPage(t, url+"?c=bucket&format=text", "acme-a", "acme-theirs", "it is to run in")
	awaitPage(t, url+"?c=bucket&key=acme-theirs&format=text", "the resource is there")
	resp, err := http.Post(url, "application/x-www-form-urlencoded", strings.NewReader("do=kick&c=bucket&key=acme-a"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("an action was answered with %s", resp.Status)
	}
}

// What the file does not declare and what carries our mark: after it was taken out
// while no store remembered it.
func TestDebugPageShowsDriftAndOrphans(t *testing.T) {
	server := newTestS3(t, true)
	first := begin(t, declaring("acme-a", "acme-left"), options{Endpoint: server.URL, Once: true})
	if err := first.Result(t); err != nil {
		t.Fatal(err)
	}
	s := begin(t, declaring("acme-a"), options{Endpoint: server.URL, Listen: "localhost:0"})
	s.Await(t, "buckets that carry our mark and are not declared: 1", 1)
	url := "http://" + serving(t, s) + "/debug"
	awaitPage(t, url+"?format=text", "Drift and orphans: bucket", "1 declared, 2 ours")
	awaitPage(t, url+"?view=drift&kind=bucket&list=orphans&format=text", "acme-left")
}

func TestMetricsCountWhatTheKernelDid(t *testing.T) {
	server := newTestS3(t, true)
	s := begin(t, declaring(numbered(20)...), options{Endpoint: server.URL, Listen: "localhost:0", Poll: time.Hour})
	s.Await(t, "20 of 20 as declared", 1)
	// Each bucket is looked at to be created, and once more to be confirmed. What
	// the last of these runs wrote shows before the run has ended and is counted.
	awaitPage(t, "http://"+serving(t, s)+"/metrics",
		`controller_runtime_reconcile_total{controller="bucket",result="requeue_after"} 40`+"\n",
		`controller_runtime_reconcile_errors_total{controller="bucket"} 0`+"\n")
}

// A service that is started while its endpoint does not answer says so, in place of a port that is closed.
func TestPageSaysThatTheEndpointHasNotAnsweredYet(t *testing.T) {
	var down atomic.Bool
	down.Store(true)
	server := newTestS3(t, true)
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(at); r.Out.Host = r.In.Host }}
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			http.Error(w, "maintenance", http.StatusServiceUnavailable)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	defer endpoint.Close()
	listen := freeAddress(t)
	s := begin(t, declaring("acme-a"), options{Endpoint: endpoint.URL, Listen: listen})
	get := func(path string) (status int, says string) {
		resp, err := http.Get("http://" + listen + path)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	for status, says := get("/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(says, "has not answered since") || !strings.Contains(says, "503"); status, says = get("/readyz") {
		if t.Context().Err() != nil || strings.Contains(says, `"ok":true`) {
			t.Fatalf("readyz: %d %s", status, says)
		}
	}
	if status, says := get("/livez"); status != http.StatusOK {
		t.Errorf("livez: %d %s", status, says)
	}
	down.Store(false)
	s.Await(t, "1 of 1 as declared", 1)
	if got := serving(t, s); got != listen {
		t.Errorf("it serves at %s, and before at %s", got, listen)
	}
	awaitPage(t, "http://"+listen+"/debug?format=text", "1 as declared")
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestPortThatIsTakenEndsTheRun(t *testing.T) {
	taken, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	server := newTestS3(t, true)
	s := begin(t, declaring("acme-a"), options{Endpoint: server.URL, Listen: taken.Addr().String()})
	if err := s.Result(t); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("run = %v, want the port", err)
	}
	checkBuckets(t, server, "")
}
