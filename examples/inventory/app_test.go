package main

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// declaring is an inventory of these names; one with a + is versioned.
func declaring(names ...string) string {
	var b strings.Builder
	for _, n := range names {
		fmt.Fprintf(&b, "      - name: %s\n", strings.TrimSuffix(n, "+"))
		if strings.HasSuffix(n, "+") {
			b.WriteString("        versioning: true\n")
		}
	}
	return inventoryOf(b.String())
}

func numbered(n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("acme-%02d", i))
	}
	return names
}

// eachKind runs a test on an endpoint with tags and on one without.
func eachKind(t *testing.T, test func(t *testing.T, server *testS3, prefix string)) {
	t.Parallel() // they wait most of their time
	t.Run("tags", func(t *testing.T) {
		t.Parallel()
		test(t, newTestS3(t, true), "")
	})
	t.Run("prefix", func(t *testing.T) {
		t.Parallel()
		test(t, newTestS3(t, false), "tend-demo-")
	})
}

func sorted(names []string) []string { slices.Sort(names); return names }

// checkBuckets compares what is at the endpoint with what should be.
func checkBuckets(t *testing.T, server *testS3, prefix string, want ...string) {
	t.Helper()
	var names []string
	for _, n := range want {
		name := prefix + strings.TrimSuffix(n, "+")
		names = append(names, name)
		if got := versioned(t, server.URL, name); got != strings.HasSuffix(n, "+") {
			t.Errorf("%s: versioned %t, want %t", name, got, !got)
		}
	}
	if got := sorted(bucketNames(t, server.URL)); !slices.Equal(got, sorted(names)) {
		t.Errorf("buckets %v, want %v", got, names)
	}
}

// creations counts the calls of CreateBucket, per bucket, as the server saw them.
func creations(writes []string) map[string]int {
	count := map[string]int{}
	for _, w := range writes {
		if name, ok := strings.CutPrefix(w, "PUT "); ok && !strings.Contains(name, "?") {
			count[name]++
		}
	}
	return count
}

// The whole inventory, as it is committed: one run makes it so, with one create
// per bucket on the wire; a second run, which remembers nothing, changes nothing.
func TestOnceConvergesAndASecondRunChangesNothing(t *testing.T) {
	eachKind(t, func(t *testing.T, server *testS3, prefix string) {
		o := options{File: "inventory.yaml", Endpoint: server.URL, Once: true, Poll: time.Minute}
		first := begin(t, "", o)
		if err := first.Result(t); err != nil {
			t.Fatalf("run = %v; it printed:\n%s", err, first)
		}
		entries := committed(t)
		want := map[string]int{}
		for _, e := range entries {
			want[prefix+e.Name] = 1
			if got := versioned(t, server.URL, prefix+e.Name); got != e.Versioning {
				t.Errorf("%s: versioned %t, want %t", e.Name, got, e.Versioning)
			}
		}
		if got := creations(server.Writes()); !maps.Equal(got, want) {
			t.Errorf("CreateBucket calls differ from one per bucket: %v", got)
		}
		second := begin(t, "", o)
		if err := second.Result(t); err != nil {
			t.Fatalf("second run = %v; it printed:\n%s", err, second)
		}
		if second.Count("0 created, 0 updated, 0 deleted") != 1 {
			t.Errorf("the second run printed:\n%s", second)
		}
		for _, w := range server.Writes() {
			if !strings.Contains(w, "tend-probe-") {
				t.Errorf("the second run sent %s, want nothing but reads and the probe", w)
			}
		}
	})
}

// With -q a run over hundreds of buckets prints what came of it and no line for each.
func TestQuietRunPrintsNoLineForEachBucket(t *testing.T) {
	eachKind(t, func(t *testing.T, server *testS3, _ string) {
		s := begin(t, declaring(numbered(30)...), options{Endpoint: server.URL, Once: true, Quiet: true})
		if err := s.Result(t); err != nil {
			t.Fatalf("run = %v; it printed:\n%s", err, s)
		}
		if s.Count("30 of 30 as declared: 30 created, 0 updated, 0 deleted") != 1 || s.Count("  created") != 0 {
			t.Errorf("it printed:\n%s", s)
		}
	})
}

func committed(t *testing.T) []Entry {
	t.Helper()
	data, err := os.ReadFile("inventory.yaml")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := parseInventory(data)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// 60 random alterations: of the whole inventory on the server that the program starts by
// default, and of a part, but of its tags too, where there are tags. CI has the program
// itself make 200.
func TestChaosIsPutBack(t *testing.T) {
	eachKind(t, func(t *testing.T, server *testS3, prefix string) {
		data, err := os.ReadFile("inventory.yaml")
		if err != nil {
			t.Fatal(err)
		}
		const alterations = 60
		content, entries := string(data), committed(t)
		if server.tagged {
			content = declaring(append(numbered(30), "acme-a+", "acme-b+")...)
			if entries, err = parseInventory([]byte(content)); err != nil {
				t.Fatal(err)
			}
		}
		s := begin(t, content, options{Endpoint: server.URL, Once: true, Chaos: alterations, Poll: 700 * time.Millisecond})
		if err := s.Result(t); err != nil {
			t.Fatalf("run = %v; it printed:\n%s", err, s)
		}
		if s.Count(fmt.Sprintf("chaos: %d alterations", alterations)) != 2 || s.Count(fmt.Sprint(alterations, " put back")) != 1 {
			t.Errorf("it printed:\n%s", s)
		}
		for _, e := range entries {
			if got := versioned(t, server.URL, prefix+e.Name); got != e.Versioning {
				t.Errorf("%s: versioned %t after all, want %t", e.Name, got, e.Versioning)
			}
			if server.tagged && server.tags[e.Name]["owner"] != e.Owner {
				t.Errorf("%s: owner %q after all, want %q", e.Name, server.tags[e.Name]["owner"], e.Owner)
			}
		}
	})
}

func TestEditsArePickedUpWhileRunning(t *testing.T) {
	eachKind(t, func(t *testing.T, server *testS3, prefix string) {
		s := begin(t, declaring(append(numbered(20), "acme-a", "acme-b+")...), options{Endpoint: server.URL})
		s.Await(t, "22 of 22 as declared", 1)
		s.edit(t, declaring(append(numbered(20), "acme-a+", "acme-c")...))
		s.Await(t, "+ acme-c  created", 1)
		s.Await(t, "~ acme-a  updated: versioning is off, declared on", 1)
		s.Await(t, "- acme-b  deleted", 1)
		if err := s.End(t); err != nil {
			t.Errorf("run = %v", err)
		}
		checkBuckets(t, server, prefix, append(numbered(20), "acme-a+", "acme-c")...)
	})
}

func TestBrokenEditLeavesTheLastGoodInventoryInForce(t *testing.T) {
	eachKind(t, func(t *testing.T, server *testS3, prefix string) {
		s := begin(t, declaring("acme-a", "acme-b+"), options{Endpoint: server.URL})
		s.Await(t, "2 of 2 as declared", 1)
		s.edit(t, declaring("acme-a")+"        versionning: true\n")
		s.Await(t, "line 7: field versionning is unknown", 1)
		name := prefix + "acme-b"
		if _, err := plainClient(server.URL).DeleteBucket(t.Context(), &s3.DeleteBucketInput{Bucket: &name}); err != nil {
			t.Fatal(err)
		}
		s.Await(t, "+ acme-b  created", 2) // it is still declared: what vanished comes back
		s.edit(t, declaring("acme-a+", "acme-b+"))
		s.Await(t, "~ acme-a  updated", 1)
		// Before the end, which lists what is left: the files' part may not have read the edit yet.
		reported := s.Count("is broken")
		if err := s.End(t); err != nil {
			t.Errorf("run = %v", err)
		}
		checkBuckets(t, server, prefix, "acme-a+", "acme-b+")
		if reported != 1 {
			t.Errorf("the broken edit was reported %d times, want once; it printed:\n%s", reported, s)
		}
	})
}

func TestBrokenFileAtStartReconcilesNothing(t *testing.T) {
	server := newTestS3(t, true)
	s := begin(t, declaring("acme-a", "acme-a"), options{Endpoint: server.URL, Once: true})
	err := s.Result(t)
	if err == nil || !strings.Contains(err.Error(), `line 7: bucket "acme-a" is declared already`) {
		t.Errorf("run = %v, want the duplicate's line", err)
	}
	if w := server.Writes(); len(w) > 0 {
		t.Errorf("the endpoint got %v, want nothing", w)
	}
}

// A careless edit must not empty an account.
//
// Negative control: with a cap of everything in Load, the refusal was awaited in
// vain, and the five buckets were gone.
//
// promise E2
func TestEditThatRemovesTooMuchIsRefusedUntilConfirmed(t *testing.T) {
	eachKind(t, func(t *testing.T, server *testS3, prefix string) {
		all := numbered(40)
		s := begin(t, declaring(all...), options{Endpoint: server.URL})
		s.Await(t, "40 of 40 as declared", 1)
		s.edit(t, declaring(all[:35]...)) // five are more than a tenth
		s.Await(t, "-confirm-removals 5", 1)
		s.edit(t, declaring(all[:36]...)) // four are not
		for _, gone := range all[36:] {
			s.Await(t, "- "+gone+"  deleted", 1)
		}
		if err := s.End(t); err != nil {
			t.Errorf("run = %v", err)
		}
		checkBuckets(t, server, prefix, all[:36]...)

		s = begin(t, declaring(all[:36]...), options{Endpoint: server.URL, Removals: 20})
		s.Await(t, "36 of 36 as declared", 1)
		s.edit(t, declaring(all[:16]...))
		for _, gone := range all[16:36] {
			s.Await(t, "- "+gone+"  deleted", 1)
		}
		if err := s.End(t); err != nil {
			t.Errorf("run = %v", err)
		}
		checkBuckets(t, server, prefix, all[:16]...)
	})
}

// A bucket that isn't marked as ours is neither altered nor deleted, also when it
// is declared, and also when the declaration goes.
//
// Negative control: with an Observe that doesn't report whose the bucket is, it
// was versioned and tagged, and the test failed.
//
// promise E2
func TestForeignBucketIsLeftAlone(t *testing.T) {
	server := newTestS3(t, true)
	makeBucket(t, server.URL, "acme-theirs")
	server.Writes()
	s := begin(t, declaring(append(numbered(20), "acme-theirs+")...), options{Endpoint: server.URL, Once: true})
	if err := s.Result(t); err == nil || !strings.Contains(err.Error(), "bucket acme-theirs: ") {
		t.Errorf("run = %v, want a failure that names the bucket; it printed:\n%s", err, s)
	}
	s = begin(t, declaring(append(numbered(20), "acme-theirs+")...), options{Endpoint: server.URL})
	s.Await(t, "x acme-theirs  the resource is there, and it carries no ownership mark", 1)
	s.edit(t, declaring(append(numbered(20), "acme-new")...))
	s.Await(t, "21 of 21 as declared", 1)
	if err := s.End(t); err != nil {
		t.Errorf("run = %v", err)
	}
	for _, w := range server.Writes() {
		if strings.Contains(w, "acme-theirs") {
			t.Errorf("sent %s to another's bucket", w)
		}
	}
	checkBuckets(t, server, "", append(numbered(20), "acme-theirs", "acme-new")...)
}

// S3 cannot move a bucket; nothing else can be done about it, so -once says so
// and does not wait.
func TestBucketInAnotherRegionIsSaidAndLeft(t *testing.T) {
	server := newTestS3(t, true)
	s := begin(t, declaring(numbered(20)...), options{Endpoint: server.URL, Once: true})
	if err := s.Result(t); err != nil {
		t.Fatal(err)
	}
	moved := strings.Replace(declaring(numbered(20)...), "region: eu-central-1", "region: us-east-1", 1)
	s = begin(t, moved, options{Endpoint: server.URL, Once: true, Timeout: time.Hour})
	if err := s.Result(t); err == nil || strings.Count(err.Error(), "is in eu-central-1 and declared for us-east-1") < 20 {
		t.Errorf("run = %v, want 20 buckets named; it printed:\n%s", err, s)
	}
	checkBuckets(t, server, "", numbered(20)...)
}

// Negative control: with BucketNotEmpty taken for a success the bucket's object
// went without a word, and the test failed.
//
// promise E2
func TestBucketWithAnObjectInItIsNotDeleted(t *testing.T) {
	eachKind(t, func(t *testing.T, server *testS3, prefix string) {
		s := begin(t, declaring(append(numbered(20), "acme-full")...), options{Endpoint: server.URL})
		s.Await(t, "21 of 21 as declared", 1)
		c, bucket, key := plainClient(server.URL), prefix+"acme-full", "a/b"
		if _, err := c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: strings.NewReader("x")}); err != nil {
			t.Fatal(err)
		}
		s.edit(t, declaring(numbered(20)...))
		s.Await(t, "x acme-full  delete: the bucket is not empty", 1)
		if _, err := c.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &bucket, Key: &key}); err != nil {
			t.Fatal(err)
		}
		s.Await(t, "- acme-full  deleted", 1)
		if err := s.End(t); err != nil {
			t.Errorf("run = %v", err)
		}
	})
}

// The answer to a create gets lost after the bucket was made: it is not known how
// it ended. It must be found out, not tried again.
//
// Negative control: with the SDK's own retries left on, CreateBucket left twice
// for each bucket, and the test failed.
//
// promise E1
func TestLostAnswerToACreateMakesNoSecondOne(t *testing.T) {
	eachKind(t, func(t *testing.T, server *testS3, prefix string) {
		names := numbered(30)
		var lost sync.Map
		var creates atomic.Int32
		server.Fail(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPut || r.URL.RawQuery != "" {
				return false
			}
			// Every second one: if none came through, the endpoint were down.
			if _, again := lost.LoadOrStore(r.URL.Path, true); again || creates.Add(1)%2 == 0 {
				return false
			}
			server.perform(r)
			panic(http.ErrAbortHandler) // cuts the connection
		})
		s := begin(t, declaring(names...), options{Endpoint: server.URL, Once: true})
		if err := s.Result(t); err != nil {
			t.Fatalf("run = %v; it printed:\n%s", err, s)
		}
		for name, n := range creations(server.Writes()) {
			if n != 1 {
				t.Errorf("CreateBucket of %s left %d times, want once", name, n)
			}
		}
		checkBuckets(t, server, prefix, names...)
	})
}

func TestEndpointThatIsAwayIsWaitedForWithoutAFlood(t *testing.T) {
	eachKind(t, func(t *testing.T, server *testS3, _ string) {
		s := begin(t, declaring(numbered(40)...), options{Endpoint: server.URL})
		s.Await(t, "40 of 40 as declared", 1)
		var refused atomic.Int32
		many := make(chan struct{})
		server.Fail(func(w http.ResponseWriter, _ *http.Request) bool {
			if refused.Add(1) == 300 {
				close(many)
			}
			w.WriteHeader(http.StatusForbidden)
			return true
		})
		<-many
		// The progress line comes once a second, however long that takes.
		told := s.String()
		before := strings.Count(told, "\n") - strings.Count(told, " as declared")
		server.Fail(nil)
		s.Await(t, "endpoint answers again", 1)
		s.edit(t, declaring(append(numbered(40), "acme-new")...))
		s.Await(t, "+ acme-new  created", 1)
		if err := s.End(t); err != nil {
			t.Errorf("run = %v", err)
		}
		if s.Count("endpoint is no use") != 1 || before > 40+40 {
			t.Errorf("300 refusals made %d lines; it printed:\n%s", before, s)
		}
	})
}

func TestUnreachableEndpointFailsOnceWithTheReason(t *testing.T) {
	// A run that is over before it was refused once says nothing: try longer.
	var s *session
	var err error
	for timeout := 500 * time.Millisecond; timeout < patience; timeout *= 2 {
		s = begin(t, declaring("acme-a"), options{Endpoint: deaf, Once: true, Timeout: timeout})
		if err = s.Result(t); s.String() != "" {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "refused") || !strings.Contains(err.Error(), "-timeout") {
		t.Errorf("run = %v, want the timeout and its reason", err)
	}
	if n := s.Count("\n"); n != 1 {
		t.Errorf("it printed %d lines, want the one about the endpoint:\n%s", n, s)
	}
}

// The endpoint asks for patience: all wait, none fails.
func TestThrottlingPausesEverybodyAndIsNoFailure(t *testing.T) {
	eachKind(t, func(t *testing.T, server *testS3, prefix string) {
		var asked atomic.Int32
		server.Fail(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodHead && asked.Add(1) <= 2 {
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(http.StatusServiceUnavailable)
				return true
			}
			return false
		})
		s := begin(t, declaring(numbered(30)...), options{Endpoint: server.URL, Once: true})
		if err := s.Result(t); err != nil {
			t.Fatalf("run = %v; it printed:\n%s", err, s)
		}
		if s.Count("x acme") != 0 {
			t.Errorf("throttling was told as failures:\n%s", s)
		}
		checkBuckets(t, server, prefix, numbered(30)...)
	})
}

func TestInterruptSaysWhatWasLeft(t *testing.T) {
	server := newTestS3(t, true)
	server.Fail(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "acme-1") && r.Method == http.MethodPut && r.URL.RawQuery == "" {
			answer(w, http.StatusConflict, "OperationAborted")
			return true
		}
		return false
	})
	s := begin(t, declaring(numbered(20)...), options{Endpoint: server.URL, Listen: "localhost:0"})
	s.Await(t, "x acme-1", 10)
	// A bucket is created a moment before its run ends and the cache shows what that wrote.
	awaitPage(t, "http://"+serving(t, s)+"/debug?format=text", "10 of 20 as declared, 10 failing")
	if err := s.End(t); err != nil {
		t.Errorf("run = %v, want nil for an interrupt", err)
	}
	if s.Count("10 of 20 as declared, 10 failing; left:") != 1 || s.Count("\n  bucket acme-1") != 10 {
		t.Errorf("it printed:\n%s", s)
	}
}

func TestNameThatAPrefixMakesTooLongIsRefused(t *testing.T) {
	server := newTestS3(t, false)
	long := strings.Repeat("a", 60)
	s := begin(t, declaring("acme-a", long), options{Endpoint: server.URL, Once: true})
	if err := s.Result(t); err == nil || !strings.Contains(err.Error(), "line 7: ") || !strings.Contains(err.Error(), "70 characters") {
		t.Errorf("run = %v, want the line and the length", err)
	}
	checkBuckets(t, server, "")
}

// The default: everything inside the process.
func TestRunsOnItsOwnServer(t *testing.T) {
	t.Parallel()
	out, errs := newScreen(), newScreen()
	code := command(t.Context(), strings.Fields("-file inventory.yaml -once -timeout 1h -rate 100000 -writes 100000"), out, errs)
	if code != 0 || out.Count("318 of 318 as declared: 318 created, 0 updated, 0 deleted") != 1 {
		t.Errorf("exit code %d, want 0; it printed:\n%s%s", code, out, errs)
	}
	if code := command(t.Context(), strings.Fields("-file absent.yaml -once"), out, errs); code != 1 || errs.Count("absent.yaml") != 1 {
		t.Errorf("exit code %d, want 1 and the file's name; it printed:\n%s", code, errs)
	}
}
