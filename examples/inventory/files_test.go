package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/go-cmp/cmp"

	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/store"
)

// withFiles is an inventory of one bucket and these files, of which each holds its key.
func withFiles(keys ...string) string {
	var b strings.Builder
	b.WriteString("      - name: acme-a\n")
	if len(keys) > 0 {
		b.WriteString("        files:\n")
	}
	for _, k := range keys {
		fmt.Fprintf(&b, "          - {key: %s, text: text of %s}\n", k, k)
	}
	return inventoryOf(b.String())
}

func fileKeys(n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprintf("f%03d.txt", i))
	}
	return keys
}

// theBucket is the name of the only bucket at the endpoint.
func theBucket(t *testing.T, server *testS3) string {
	t.Helper()
	names := bucketNames(t, server.URL)
	if len(names) != 1 {
		t.Fatalf("buckets %v, want one", names)
	}
	return names[0]
}

// filesAt is what a bucket holds: key → text.
func filesAt(t *testing.T, server *testS3, bucket string) map[string]string {
	t.Helper()
	c, all := plainClient(server.URL), map[string]string{}
	out, err := c.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &bucket})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range out.Contents {
		got, err := c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &bucket, Key: o.Key})
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(got.Body)
		got.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		all[aws.ToString(o.Key)] = string(text)
	}
	return all
}

// overwrite replaces a file as another program would.
func overwrite(t *testing.T, server *testS3, bucket, key string) {
	t.Helper()
	if _, err := plainClient(server.URL).PutObject(t.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: strings.NewReader("theirs")}); err != nil {
		t.Error(err)
	}
}

var deleteCalls = regexp.MustCompile(`DeleteObjects (\d+)[,)]`)

// 301 files are taken out of the inventory, of which others have replaced one: 300 go by
// few calls, each file is in one of them, that which the answers name as failed is in the
// next ones alone, and that of others stays. The summary counts the same calls.
//
// Negative control: with a client that is not given to external.Gather there are 302 calls.
//
// promise E2
func TestFilesAreDeletedByFewCalls(t *testing.T) {
	server := newTestS3(t, false)
	const n = 301
	keys := fileKeys(n)
	failing, theirs := keys[7], keys[n-1]
	o := options{Endpoint: server.URL, Once: true, Store: inFile(t), Removals: n}
	s := begin(t, withFiles(keys...), o)
	if err := s.Result(t); err != nil {
		t.Fatalf("run = %v; it printed:\n%s", err, s)
	}
	bucket := theBucket(t, server)
	if got := filesAt(t, server, bucket); len(got) != n || got[failing] != "text of "+failing {
		t.Fatalf("%d files, %q in %s, want %d as declared", len(got), got[failing], failing, n)
	}
	overwrite(t, server, bucket, theirs)

	file, out, notes := filepath.Join(t.TempDir(), "inventory.yaml"), newScreen(), newScreen()
	writeFile(t, file, withFiles())
	code := command(t.Context(), []string{"-plan", "-file", file, "-endpoint", server.URL, "-store", o.Store, "-confirm-removals", "301", "-rate", "100000", "-timeout", "1h"}, out, notes)
	if code != 2 || out.Count("- delete acme-a/f") != n-1 || notes.Count("300 files are deleted by 1 or more calls of DeleteObjects") != 1 {
		t.Errorf("exit code %d, want 2 and 300 deletions by a call; it printed:\n%s%s", code, out, notes)
	}

	tries := 0 // guarded by the server's mu
	server.mu.Lock()
	server.refuse = func(key string) string {
		if key == failing && tries < 2 {
			tries++
			return "InternalError"
		}
		return ""
	}
	server.mu.Unlock()
	s = begin(t, withFiles(), o)
	if err := s.Result(t); err != nil || s.Count("  deleted\n") != n-1 {
		t.Fatalf("run = %v; it printed:\n%s", err, s)
	}
	calls, times := server.Deletes(), map[string]int{}
	for _, keys := range calls {
		for _, key := range keys {
			times[key]++
		}
	}
	for _, key := range keys {
		want := 1
		switch key {
		case failing:
			want = 3
		case theirs:
			want = 0
		}
		if times[key] != want {
			t.Errorf("%s is in %d calls, want %d", key, times[key], want)
		}
	}
	// How many share a call goes by how fast the machine looks at all of them: one or two calls, and 37
	// on a loaded one with the race detector. Without sharing there are as many as files.
	if len(calls) > n/2 {
		t.Errorf("%d calls of DeleteObjects, want few", len(calls))
	}
	if told := deleteCalls.FindStringSubmatch(s.String()); told == nil || told[1] != fmt.Sprint(len(calls)) {
		t.Errorf("the summary tells of %v calls of DeleteObjects, want %d:\n%s", told, len(calls), s)
	}
	if d := cmp.Diff(map[string]string{theirs: "theirs"}, filesAt(t, server, bucket)); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
}

// A file that others replace after it was looked at and before the call arrives is left.
//
// Negative control: with a DeleteObjects without the ETags the file is gone.
//
// promise E2
func TestFileReplacedBeforeItsDeletionIsLeft(t *testing.T) {
	eachKind(t, func(t *testing.T, server *testS3, _ string) {
		o := options{Endpoint: server.URL, Once: true, Store: inFile(t)}
		if err := begin(t, withFiles("a.txt", "b.txt"), o).Result(t); err != nil {
			t.Fatal(err)
		}
		bucket := theBucket(t, server)
		var once sync.Once
		server.Fail(func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPost {
				once.Do(func() { overwrite(t, server, bucket, "a.txt") })
			}
			return false
		})
		s := begin(t, withFiles(), o)
		if err := s.Result(t); err != nil || s.Count("b.txt  deleted") != 1 || s.Count("a.txt  deleted") != 0 {
			t.Errorf("run = %v; it printed:\n%s", err, s)
		}
		if d := cmp.Diff(map[string]string{"a.txt": "theirs"}, filesAt(t, server, bucket)); d != "" {
			t.Errorf("files (-want +got):\n%s", d)
		}
	})
}

// The process dies in the middle of the call that deletes 20 of 30 files, before S3 has
// done it or after: the next process, which begins with the state as it was on the disk in
// that moment, deletes what is left of the 20, and nothing else.
//
// promise E1, E2
func TestKilledInTheMiddleOfADeletion(t *testing.T) {
	t.Parallel()
	for _, done := range []bool{false, true} {
		t.Run(fmt.Sprint("done ", done), func(t *testing.T) {
			server := newTestS3(t, true)
			keys := fileKeys(30)
			o := options{Endpoint: server.URL, Store: inFile(t), Removals: 20}
			left := options{Endpoint: server.URL, Once: true, Store: inFile(t), Removals: 20}
			s := begin(t, withFiles(keys...), o)
			s.Await(t, "31 of 31 as declared", 1)
			held, dead := make(chan struct{}), make(chan struct{})
			var once sync.Once
			server.Fail(func(_ http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodPost {
					return false
				}
				once.Do(func() {
					copyWhileWritten(t, strings.TrimPrefix(left.Store, "file:"), strings.TrimPrefix(o.Store, "file:"))
					if done {
						server.perform(r)
					}
					close(held)
				})
				<-dead
				panic(http.ErrAbortHandler) // no answer comes
			})
			s.edit(t, withFiles(keys[:10]...))
			<-held
			s.stop()
			close(dead)
			_ = s.Result(t)
			server.Fail(nil) // only now: what the dead process still calls does not happen
			next := begin(t, withFiles(keys[:10]...), left)
			if err := next.Result(t); err != nil || next.Count("11 of 11 as declared: 0 created, 0 updated") != 1 {
				t.Errorf("the next run = %v; it printed:\n%s", err, next)
			}
			want := map[string]string{}
			for _, k := range keys[:10] {
				want[k] = "text of " + k
			}
			if d := cmp.Diff(want, filesAt(t, server, "acme-a")); d != "" {
				t.Errorf("files (-want +got):\n%s", d)
			}
		})
	}
}

// copyWhileWritten copies a file that a process writes to, as it was in one moment: what two reads
// in a row find is what was there between them.
func copyWhileWritten(t *testing.T, to, from string) {
	var state []byte
	for {
		again, err := os.ReadFile(from)
		if err != nil {
			t.Error(err)
			return
		}
		if bytes.Equal(again, state) {
			break
		}
		state = again
	}
	if err := os.WriteFile(to, state, 0o600); err != nil {
		t.Error(err)
	}
}

// A file follows its declaration: another text is written, one that others delete comes
// back, one that others replace is left alone and said, and a bucket that is taken out
// with its files goes after them.
//
// promise E2
func TestFilesAreKeptAsDeclared(t *testing.T) {
	eachKind(t, func(t *testing.T, server *testS3, prefix string) {
		o := options{Endpoint: server.URL, Settings: 20 * time.Millisecond, Removals: 10}
		s := begin(t, withFiles("a.txt", "b.txt", "c.txt"), o)
		s.Await(t, "4 of 4 as declared", 1)
		s.edit(t, strings.Replace(withFiles("a.txt", "b.txt", "c.txt"), "text of a.txt", "another", 1))
		s.Await(t, "~ acme-a/a.txt  updated: the text differs", 1)
		bucket, key := prefix+"acme-a", "b.txt"
		if _, err := plainClient(server.URL).DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &bucket, Key: &key}); err != nil {
			t.Fatal(err)
		}
		s.Await(t, "+ acme-a/b.txt  created", 2)
		overwrite(t, server, bucket, "c.txt")
		s.Await(t, "x acme-a/c.txt  the resource is there, and its ownership mark names another owner", 1)
		if d := cmp.Diff(map[string]string{"a.txt": "another", "b.txt": "text of b.txt", "c.txt": "theirs"}, filesAt(t, server, bucket)); d != "" {
			t.Errorf("files (-want +got):\n%s", d)
		}
		key = "c.txt"
		if _, err := plainClient(server.URL).DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &bucket, Key: &key}); err != nil {
			t.Fatal(err)
		}
		s.edit(t, declaring("acme-b"))
		s.Await(t, "- acme-a  deleted", 1)
		if err := s.End(t); err != nil {
			t.Errorf("run = %v", err)
		}
		if s.Count("not empty") != 0 || strings.LastIndex(s.String(), "- acme-a/") > strings.Index(s.String(), "- acme-a  deleted") {
			t.Errorf("the bucket did not go after its files:\n%s", s)
		}
		checkBuckets(t, server, prefix, "acme-b")
	})
}

// Each bucket has calls of its own, of at most 1,000 objects, to its own region; outcomes
// are in the order of what was asked, and a bucket that is gone took its files along.
func TestBatchesAreSplitByBucketAndSize(t *testing.T) {
	server := newTestS3(t, true)
	e, m, _ := metered(t, server.URL)
	f := &files{cloud: &cloud{buckets: &buckets{endpoint: e, ownership: byTags{}}}}
	for _, name := range []string{"acme-a", "acme-b"} {
		makeBucket(t, server.URL, name)
	}
	server.refuse = func(key string) string {
		if key == "f1500" {
			return "AccessDenied"
		}
		return ""
	}
	var all []*File
	for i := range 1600 {
		all = append(all, &File{Meta: store.Meta{Namespace: "acme-a", Name: fmt.Sprintf("f%d", i)}, Spec: FileSpec{Region: "eu-central-1"}})
	}
	for _, bucket := range []string{"acme-b", "acme-gone"} {
		all = append(all, &File{Meta: store.Meta{Namespace: bucket, Name: "f"}, Spec: FileSpec{Region: "us-east-1"}})
	}
	for i, err := range f.DeleteBatch(t.Context(), all) {
		if refused := i == 1500; refused != (err != nil) || refused && !strings.Contains(err.Error(), "AccessDenied") {
			t.Errorf("%s: %v", all[i].Key(), err)
		}
	}
	var sizes []int
	for _, keys := range server.Deletes() {
		sizes = append(sizes, len(keys))
	}
	slices.Sort(sizes)
	if want := []int{1, 600, 1000}; !slices.Equal(sizes, want) || m.Calls()["DeleteObjects"] != 4 {
		t.Errorf("calls of %v objects that were answered, want %v, and %d sent, want 4 with that to the bucket that is gone", sizes, want, m.Calls()["DeleteObjects"])
	}
	server.Close()
	for _, err := range f.DeleteBatch(t.Context(), all[:2]) {
		if err == nil {
			t.Error("a call without an answer is no error")
		}
	}
	var _ external.BatchDeleter[FileSpec, FileStatus] = f
}
