package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
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

func TestDebugPageShowsKeysAndWhatIsWrong(t *testing.T) {
	server := newTestS3(t, true)
	makeBucket(t, server.URL, "acme-theirs")
	s := begin(t, declaring("acme-a", "acme-theirs"), options{Endpoint: server.URL, Listen: "localhost:0"})
	s.Await(t, "x acme-theirs", 1)
	s.Await(t, "+ acme-a  created", 1)
	url := regexp.MustCompile(`http://[^/]+/metrics`).FindString(s.String())
	var page struct {
		Installation string
		Inventory    struct{ Declared, Failing int }
		Left         []string
		Calls        map[string]int
		Controller   struct{ Name string }
		Keys         []struct{ Name, State string }
	}
	body := fetch(t, strings.TrimSuffix(url, "/metrics")+"/debug")
	if err := json.Unmarshal([]byte(body), &page); err != nil {
		t.Fatalf("%v in\n%s", err, body)
	}
	if page.Installation != "demo" || page.Inventory.Declared != 2 || page.Inventory.Failing != 1 ||
		page.Calls["CreateBucket"] != 1 || page.Controller.Name != "buckets" || len(page.Keys) != 2 ||
		!strings.Contains(strings.Join(page.Left, "\n"), "acme-theirs: the resource is there") {
		t.Errorf("the debug page shows\n%s", body)
	}
}

func TestMetricsCountWhatTheKernelDid(t *testing.T) {
	server := newTestS3(t, true)
	s := begin(t, declaring(numbered(20)...), options{Endpoint: server.URL, Listen: "localhost:0", Poll: time.Hour})
	s.Await(t, "20 of 20 as declared", 1)
	body := fetch(t, regexp.MustCompile(`http://[^/]+/metrics`).FindString(s.String()))
	// Each bucket is looked at to be created, and once more to be confirmed.
	for _, line := range []string{
		`controller_runtime_reconcile_total{controller="buckets",result="requeue_after"} 40`,
		`controller_runtime_reconcile_errors_total{controller="buckets"} 0`,
	} {
		if !strings.Contains(body, line+"\n") {
			t.Errorf("/metrics lacks %s:\n%s", line, body)
		}
	}
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
