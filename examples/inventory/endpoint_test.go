package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/go-cmp/cmp"

	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/store"
)

// A lines collects what would have been printed.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) say(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, s)
}

func (l *lines) get() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

func metered(t *testing.T, url string) (*endpoint, *meter, *lines) {
	t.Helper()
	said := &lines{}
	var m *meter
	e, err := newEndpoint(t.Context(), url, 4, func(c aws.HTTPClient) aws.HTTPClient {
		m = newMeter(c, said.say)
		return m
	})
	if err != nil {
		t.Fatal(err)
	}
	return e, m, said
}

func markOf(installation, name string) external.Mark {
	return external.Mark{Installation: installation, Kind: kind, Key: store.Key{Name: name}}
}

// The in-process server takes a request to tag for one to create. The probe must
// see through that, and leave nothing behind.
func TestProbeSeesThroughAServerThatOnlySeemsToTag(t *testing.T) {
	server, err := startS3()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	e, _, _ := metered(t, server.URL)
	got, err := probeOwnership(t.Context(), e.In("us-east-1"), probeName(), "demo")
	if err != nil || got != (byPrefix{"demo"}) {
		t.Errorf("probe = %v, %v; want the name prefix", got, err)
	}
	if left := bucketNames(t, server.URL); len(left) != 0 {
		t.Errorf("the probe left %v behind", left)
	}
}

// The bucket that such a server makes of a probe is removed also where that is refused at
// first, where the answer to the request to tag it was lost, and where the program is told to
// end in between.
//
// Negative control: with a name of its own for each probe two of three stayed.
func TestProbeLeavesNoBucketBehind(t *testing.T) {
	for what, fault := range map[string]func(n int, s *testS3, stop func(), w http.ResponseWriter, r *http.Request) bool{
		"its removal is refused twice": func(n int, _ *testS3, _ func(), w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodDelete && n <= 4 { // a request to tag, a removal, and both again
				answer(w, http.StatusServiceUnavailable, "ServiceUnavailable")
				return true
			}
			return false
		},
		"the answer is lost": func(n int, s *testS3, _ func(), _ http.ResponseWriter, r *http.Request) bool {
			if n == 1 {
				s.perform(r)
				panic(http.ErrAbortHandler)
			}
			return false
		},
		"the program ends": func(n int, s *testS3, stop func(), w http.ResponseWriter, r *http.Request) bool {
			if n == 1 {
				s.serve(w, r)
				stop()
				return true
			}
			return false
		},
	} {
		server := newTestS3(t, false)
		o := quick(options{Endpoint: server.URL})
		a := newApp(o, newScreen())
		a.o.Installation = "demo"
		ctx, stop := context.WithCancel(t.Context())
		var n atomic.Int32
		server.Fail(func(w http.ResponseWriter, r *http.Request) bool { return fault(int(n.Add(1)), server, stop, w, r) })
		err := a.connect(ctx, server.URL, nil)
		if err != nil && ctx.Err() == nil {
			t.Errorf("%s: %v", what, err)
		}
		stop()
		server.Fail(nil)
		if left := bucketNames(t, server.URL); len(left) != 0 {
			t.Errorf("%s: the probe left %v behind", what, left)
		}
	}
}

func TestProbeTouchesNothingWhereTagsWork(t *testing.T) {
	server := newTestS3(t, true)
	e, m, _ := metered(t, server.URL)
	got, err := probeOwnership(t.Context(), e.In("us-east-1"), probeName(), "demo")
	if err != nil || got != (byTags{}) {
		t.Errorf("probe = %v, %v; want tags", got, err)
	}
	if d := cmp.Diff(map[string]int{"PutBucketTagging": 1}, m.Calls()); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
}

func TestProbeDoesNotGuessWhenItIsRefused(t *testing.T) {
	server := newTestS3(t, true)
	e, _, _ := metered(t, server.URL)
	for _, code := range []string{"AccessDenied", "InternalError"} {
		server.Fail(func(w http.ResponseWriter, _ *http.Request) bool {
			answer(w, http.StatusForbidden, code)
			return true
		})
		if got, err := probeOwnership(t.Context(), e.In("us-east-1"), probeName(), "demo"); err == nil {
			t.Errorf("%s: probe = %v, want an error: nothing is known of this endpoint", code, got)
		}
	}
	server.Fail(func(w http.ResponseWriter, _ *http.Request) bool {
		answer(w, http.StatusNotImplemented, "NotImplemented")
		return true
	})
	if got, err := probeOwnership(t.Context(), e.In("us-east-1"), probeName(), "demo"); err != nil || got != (byPrefix{"demo"}) {
		t.Errorf("NotImplemented: probe = %v, %v; want the name prefix", got, err)
	}
}

func TestTagsOfOthersStayWhenTheMarkIsWritten(t *testing.T) {
	server := newTestS3(t, true)
	e, _, _ := metered(t, server.URL)
	makeBucket(t, server.URL, "acme-logs")
	c := e.In("us-east-1")
	if err := writeTags(t.Context(), c, "acme-logs", map[string]string{"cost-centre": "4711"}); err != nil {
		t.Fatal(err)
	}
	want := Labels{Mark: markOf("demo", "acme-logs"), Marked: true, Tenant: "acme", Owner: "ops@acme.example"}
	want.Mark.UID = "u1"
	if err := (byTags{}).Write(t.Context(), c, "acme-logs", want); err != nil {
		t.Fatal(err)
	}
	got, err := byTags{}.Read(t.Context(), c, "acme-logs")
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("labels (-want +got), %v:\n%s", err, d)
	}
	if tags, err := readTags(t.Context(), c, "acme-logs"); err != nil || tags["cost-centre"] != "4711" {
		t.Errorf("tags = %v, %v; want the cost centre kept", tags, err)
	}
}

func TestPrefixMarksOnlyWhatCarriesIt(t *testing.T) {
	p := byPrefix{"demo"}
	for bucket, want := range map[string]Labels{
		p.BucketName("acme-logs"):  {Mark: markOf("demo", "acme-logs"), Marked: true},
		"acme-logs":                {},
		"tend-demo2-acme-logs":     {},
		"old-tend-demo-acme-logs":  {},
		"tend-probe-abcdefghijklm": {},
	} {
		if got, err := p.Read(t.Context(), nil, bucket); err != nil || got != want {
			t.Errorf("Read(%s) = %+v, %v; want %+v", bucket, got, err, want)
		}
	}
}

func TestMeterCountsCallsByOperation(t *testing.T) {
	server := newTestS3(t, false)
	e, m, said := metered(t, server.URL)
	c := e.In("us-east-1")
	for range 3 {
		_, _ = c.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("acme-a")})
	}
	_, _ = c.HeadBucket(t.Context(), &s3.HeadBucketInput{Bucket: aws.String("acme-b")})
	_ = writeTags(t.Context(), c, "acme-c", map[string]string{"a": "b"})
	if d := cmp.Diff(map[string]int{"CreateBucket": 3, "HeadBucket": 1, "PutBucketTagging": 1}, m.Calls()); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
	if got := said.get(); len(got) != 0 {
		t.Errorf("said %q of an endpoint that answers", got)
	}
}

func TestOutageIsSaidOnceAndItsEndToo(t *testing.T) {
	server := newTestS3(t, false)
	e, m, said := metered(t, server.URL)
	head := func() {
		_, _ = e.In("us-east-1").HeadBucket(t.Context(), &s3.HeadBucketInput{Bucket: aws.String("acme-a")})
	}
	refuse := func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusForbidden)
		return true
	}
	server.Fail(refuse)
	head()
	server.Fail(nil)
	head()
	if got := said.get(); len(got) != 0 {
		t.Errorf("said %q after one refusal, which may be about one bucket", got)
	}
	server.Fail(refuse)
	for range 300 {
		head()
	}
	if m.Down() == "" {
		t.Error("300 refusals in a row are no outage, want one")
	}
	server.Fail(nil)
	for range 300 {
		head()
	}
	got := said.get()
	if len(got) != 2 || !strings.Contains(got[0], "403") || !strings.Contains(got[1], "300 failed calls") {
		t.Errorf("said %q; want one line for the outage and one for its end", got)
	}
}

// Answers overtake each other on their way: those to requests that left before an
// outage began do not end it, and failures from before its end begin no other.
//
// Negative control: with judge blind to the time of leaving, the outage ended at
// the fifth late answer and a second one began.
func TestAnswersFromBeforeAnOutageDoNotEndIt(t *testing.T) {
	m := newMeter(nil, nil)
	ok := &http.Response{StatusCode: http.StatusOK}
	refused := &http.Response{StatusCode: http.StatusForbidden, Status: "403 Forbidden"}
	var said []string
	judge := func(n int, left time.Time, resp *http.Response) {
		for range n {
			if line := m.judge(left, resp, nil); line != "" {
				said = append(said, line)
			}
		}
	}
	early := time.Now()
	judge(downAfter, early, refused)
	during := time.Now()
	judge(3*backAfter, early, ok)
	if m.Down() == "" {
		t.Error("answers to requests from before the outage ended it")
	}
	judge(backAfter, during, ok)
	judge(3*downAfter, during, refused)
	if m.Down() != "" || len(said) != 2 {
		t.Errorf("said %q; want one outage and its end", said)
	}
	judge(downAfter, time.Now(), refused)
	if m.Down() == "" || len(said) != 3 {
		t.Errorf("said %q; want the second outage", said)
	}
}

// deaf is where no server listens, nor is the port ever given to a server that asks for any.
const deaf = "http://127.0.0.1:1"

func TestUnreachableEndpointIsSaidAtOnce(t *testing.T) {
	e, m, said := metered(t, deaf)
	for range 5 {
		if _, err := probeOwnership(t.Context(), e.In("us-east-1"), probeName(), "demo"); err == nil {
			t.Error("the probe of a closed port succeeded")
		}
	}
	if got := said.get(); len(got) != 1 || !strings.Contains(got[0], "unreachable: dial tcp") || !strings.Contains(got[0], "connection refused") || m.Down() == "" {
		t.Errorf("said %q, want one line that it is unreachable, and why", got)
	}
}

func TestEndpointFlagIsChecked(t *testing.T) {
	for _, bad := range []string{"", "s3.example.com", "ftp://s3.example.com", "http://", "http://a/b", "http://u:p@a", "http://u:p@a/b", "http://u:p@a?x=1", "ftp://u:p@a", "http://u:p@[", "http://u:p@a:b", "http://a?x=1", ":"} {
		if _, err := newEndpoint(t.Context(), bad, 1, func(c aws.HTTPClient) aws.HTTPClient { return c }); err == nil {
			t.Errorf("endpoint %q was accepted", bad)
		} else if strings.Contains(err.Error(), "u:p") {
			t.Errorf("the error repeats the credentials: %v", err)
		}
	}
}

func TestInProcessServerTakesEveryRegion(t *testing.T) {
	server, err := startS3()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	e, _, _ := metered(t, server.URL)
	want := map[string]bool{}
	for i, region := range []string{"us-east-1", "eu-central-1", "ap-southeast-2"} {
		name := fmt.Sprint("acme-", i)
		want[name] = true
		if _, err := e.In(region).CreateBucket(t.Context(), createInput(name, region, nil)); err != nil {
			t.Errorf("%s: %v", region, err)
		}
	}
	got := map[string]bool{}
	for _, name := range bucketNames(t, server.URL) {
		got[name] = true
	}
	if !maps.Equal(want, got) {
		t.Errorf("buckets %v, want %v", got, want)
	}
}
