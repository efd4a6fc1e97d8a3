package main

import (
	"bytes"
	"context"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// versityEnv names the program versitygw: an S3 server of other people's making,
// with versioning and bucket tags. CI builds it, and there these tests are not
// skipped:
//
//	go install github.com/versity/versitygw/cmd/versitygw@v1.8.0
//	TEND_VERSITYGW=~/go/bin/versitygw go test ./examples/inventory -run Versity
const versityEnv = "TEND_VERSITYGW"

// newVersity serves from a directory until the test ends. In front of it is a
// testS3 that passes everything on, so that tests see what was written.
func newVersity(t *testing.T) *testS3 {
	t.Helper()
	program := os.Getenv(versityEnv)
	if program == "" {
		t.Skipf("%s does not name the program", versityEnv)
	}
	dir, err := os.MkdirTemp("", "vgw") //nolint:usetesting // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	var args []string
	for _, sub := range []string{"sidecar", "versions", "data"} {
		args = append(args, filepath.Join(dir, sub))
		if err := os.Mkdir(args[len(args)-1], 0o700); err != nil {
			t.Fatal(err)
		}
	}
	socket := filepath.Join(dir, "s") // no port that another process could have
	cmd := exec.Command(program, "--port", socket, "--access", "tend", "--secret", "tend", "--quiet",
		"posix", "--sidecar", args[0], "--versioning-dir", args[1], args[2])
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { // ends with the program
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		conn, err := dial(t.Context(), "", "")
		if err == nil {
			conn.Close()
			break
		}
		select {
		case <-ended:
			t.Fatalf("versitygw ended:\n%s", &said)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("versitygw does not answer: %v", err)
		}
	}
	target, _ := url.Parse("http://versitygw")
	transport := &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 16}
	t.Cleanup(transport.CloseIdleConnections)
	s := &testS3{next: &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // it is part of what is signed
		},
	}}
	front := httptest.NewServer(s)
	t.Cleanup(front.Close)
	s.URL, s.Close = front.URL, front.Close
	return s
}

// onVersity are the options for it: it has one region.
func onVersity(server *testS3, o options) options {
	o.Endpoint, o.Region = server.URL, "us-east-1"
	return o
}

// One run makes the buckets, each with one create, tagged with our mark from its
// first moment; a second one, which remembers nothing, only reads; edits and
// removals are carried out.
func TestVersityIsKeptAsDeclared(t *testing.T) {
	server := newVersity(t)
	names := append(numbered(25), "acme-a+", "acme-b+")
	first := begin(t, declaring(names...), onVersity(server, options{Once: true, Poll: time.Minute}))
	if err := first.Result(t); err != nil {
		t.Fatalf("run = %v; it printed:\n%s", err, first)
	}
	if first.Count("buckets are marked by tags") != 1 {
		t.Errorf("it did not find the tags; it printed:\n%s", first)
	}
	checkBuckets(t, server, "", names...)
	for name, n := range creations(server.Writes()) {
		if n != 1 {
			t.Errorf("%d creates of %s", n, name)
		}
	}
	tags, err := readTags(t.Context(), plainClient(server.URL), "acme-a")
	if l := labelsOf(tags); err != nil || !l.Marked || l.Mark != markOf("demo", "acme-a") || l.Tenant != "acme" {
		t.Errorf("tags %v, %v; want our mark", tags, err)
	}

	second := begin(t, declaring(names...), onVersity(server, options{Once: true, Poll: time.Minute}))
	if err := second.Result(t); err != nil || second.Count("0 created, 0 updated, 0 deleted") != 1 {
		t.Errorf("second run = %v; it printed:\n%s", err, second)
	}
	for _, w := range server.Writes() {
		if !strings.Contains(w, "tend-probe-") {
			t.Errorf("the second run sent %s", w)
		}
	}

	third := begin(t, declaring(names...), onVersity(server, options{}))
	third.Await(t, "27 of 27 as declared", 1)
	edited := append(numbered(25), "acme-b", "acme-c+")
	third.edit(t, declaring(edited...))
	for _, line := range []string{"- acme-a  deleted", "~ acme-b  updated: versioning is on, declared off", "+ acme-c  created"} {
		third.Await(t, line, 1)
	}
	third.Await(t, "27 of 27 as declared", 1)
	if err := third.End(t); err != nil {
		t.Errorf("run = %v", err)
	}
	checkBuckets(t, server, "", edited...)
}

// Alterations behind its back are put back: buckets, versioning and tags.
func TestVersityChaosIsPutBack(t *testing.T) {
	server := newVersity(t)
	names := append(numbered(10), "acme-a+", "acme-b+")
	s := begin(t, declaring(names...), onVersity(server, options{Once: true, Chaos: 30, Poll: 300 * time.Millisecond}))
	if err := s.Result(t); err != nil || s.Count("30 put back") != 1 {
		t.Fatalf("run = %v; it printed:\n%s", err, s)
	}
	checkBuckets(t, server, "", names...)
}

// Another's bucket is left alone although it is declared, and one with an
// object in it although it is not.
//
// promise E2
func TestVersityForeignAndFullBucketsAreLeftAlone(t *testing.T) {
	server := newVersity(t)
	c := plainClient(server.URL)
	for _, name := range []string{"acme-theirs"} {
		if _, err := c.CreateBucket(t.Context(), createInput(name, "", nil)); err != nil {
			t.Fatal(err)
		}
	}
	theirs := markOf("elsewhere", "acme-theirs").SetTags(nil)
	if err := writeTags(t.Context(), c, "acme-theirs", theirs); err != nil {
		t.Fatal(err)
	}
	server.Writes()
	all := append(numbered(20), "acme-theirs+", "acme-full")
	s := begin(t, declaring(all...), onVersity(server, options{}))
	s.Await(t, "x acme-theirs  the resource is there, and its ownership mark names another owner", 1)
	s.Await(t, "+ acme-full  created", 1)
	for _, name := range numbered(20) {
		s.Await(t, "+ "+name+"  created", 1)
	}
	bucket, key := "acme-full", "a/b"
	if _, err := c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: strings.NewReader("x")}); err != nil {
		t.Fatal(err)
	}
	s.edit(t, declaring(numbered(20)...))
	s.Await(t, "x acme-full  delete: the bucket is not empty", 1)
	if err := s.End(t); err != nil {
		t.Errorf("run = %v", err)
	}
	for _, w := range server.Writes() {
		if strings.Contains(w, "acme-theirs") {
			t.Errorf("sent %s to another's bucket", w)
		}
	}
	if tags, err := readTags(t.Context(), c, "acme-theirs"); err != nil || !maps.Equal(tags, theirs) {
		t.Errorf("its tags are %v, %v", tags, err)
	}
	out, err := c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &bucket, Key: &key})
	if err != nil || aws.ToInt64(out.ContentLength) != 1 {
		t.Errorf("the object in acme-full: %v", err)
	}
	if err == nil {
		out.Body.Close()
	}
	if got := sorted(bucketNames(t, server.URL)); !slices.Equal(got, sorted(append(numbered(20), "acme-theirs", "acme-full"))) {
		t.Errorf("buckets %v", got)
	}
}

// A plan tells what a run would do, by its exit code too, and touches nothing.
func TestVersityPlanTouchesNothing(t *testing.T) {
	server := newVersity(t)
	at := "-region us-east-1 -endpoint " + server.URL
	if code, out, _ := planned(t, declaring("acme-a", "acme-b+"), at); code != 2 || !strings.Contains(out, "+ create acme-b\n") {
		t.Errorf("exit code %d, want 2; it printed:\n%s", code, out)
	}
	if err := begin(t, declaring("acme-a", "acme-b+"), onVersity(server, options{Once: true})).Result(t); err != nil {
		t.Fatal(err)
	}
	server.Writes()
	if code, out, _ := planned(t, declaring("acme-a", "acme-b+"), at); code != 0 {
		t.Errorf("of what is there: exit code %d, want 0; it printed:\n%s", code, out)
	}
	if code, out, _ := planned(t, declaring("acme-a+", "acme-b+"), at); code != 2 || !strings.Contains(out, "~ update acme-a") {
		t.Errorf("of an edit: exit code %d, want 2; it printed:\n%s", code, out)
	}
	for _, w := range server.Writes() {
		if !strings.Contains(w, "tend-probe-") {
			t.Errorf("a plan sent %s", w)
		}
	}
}

// What carries our mark in its tags, is not declared and is empty is pruned; what
// is not empty stays, and what is another's.
//
// promise E2
func TestVersityPruneDeletesEmptyOrphansOfOurs(t *testing.T) {
	server := newVersity(t)
	c := plainClient(server.URL)
	all := append(numbered(20), "acme-left", "acme-full")
	if err := begin(t, declaring(all...), onVersity(server, options{Once: true, Poll: time.Minute})).Result(t); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateBucket(t.Context(), createInput("acme-theirs", "", nil)); err != nil {
		t.Fatal(err)
	}
	theirs := markOf("elsewhere", "acme-theirs").SetTags(nil)
	if err := writeTags(t.Context(), c, "acme-theirs", theirs); err != nil {
		t.Fatal(err)
	}
	bucket, key := "acme-full", "a/b"
	if _, err := c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: strings.NewReader("x")}); err != nil {
		t.Fatal(err)
	}
	s := begin(t, declaring(numbered(20)...), onVersity(server, options{Once: true, Prune: true, Poll: time.Minute}))
	if err := s.Result(t); err == nil || s.Count("- acme-left  pruned") != 1 || s.Count("the bucket is not empty") != 1 {
		t.Errorf("run = %v; it printed:\n%s", err, s)
	}
	if got := sorted(bucketNames(t, server.URL)); !slices.Equal(got, sorted(append(numbered(20), "acme-full", "acme-theirs"))) {
		t.Errorf("buckets %v", got)
	}
}
