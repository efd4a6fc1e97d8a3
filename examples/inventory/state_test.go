package main

import (
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// What was taken out of the file while nothing ran is found out from the state,
// and deleted.
func TestStateRemembersWhatWasDeclared(t *testing.T) {
	eachKind(t, func(t *testing.T, server *testS3, _ string) {
		o := options{Endpoint: server.URL, Once: true, Store: inFile(t)}
		s := begin(t, declaring(append(numbered(20), "acme-old+")...), o)
		if err := s.Result(t); err != nil {
			t.Fatalf("run = %v; it printed:\n%s", err, s)
		}
		server.Writes()
		s = begin(t, declaring(append(numbered(20), "acme-old+")...), o)
		if err := s.Result(t); err != nil || s.Count("0 created, 0 updated, 0 deleted") != 1 {
			t.Fatalf("the second run = %v; it printed:\n%s", err, s)
		}
		s = begin(t, declaring(numbered(20)...), o)
		if err := s.Result(t); err != nil || s.Count("- acme-old  deleted") != 1 {
			t.Errorf("the third run = %v; it printed:\n%s", err, s)
		}
		if left := bucketNames(t, server.URL); len(left) != 20 {
			t.Errorf("%d buckets are left, want 20: %v", len(left), left)
		}
	})
}

// Negative control: with a cap of everything in Load, the ten buckets were
// deleted, and the test failed.
//
// promise E2
func TestTooManyRemovalsSinceTheLastRunAreRefused(t *testing.T) {
	t.Parallel()
	server := newTestS3(t, true)
	o := options{Endpoint: server.URL, Once: true, Store: inFile(t)}
	if err := begin(t, declaring(numbered(20)...), o).Result(t); err != nil {
		t.Fatal(err)
	}
	err := begin(t, declaring(numbered(10)...), o).Result(t)
	if err == nil || !strings.Contains(err.Error(), "-confirm-removals 10") {
		t.Errorf("run = %v, want a refusal that names the flag", err)
	}
	checkBuckets(t, server, "", numbered(20)...)
}

// Before it refuses, and after, it says nothing of removals under way: there are none.
//
// Negative control: with the refused file declared before the store had taken it, it
// said "10 of 10 as declared, 10 being deleted" and listed them as left.
func TestRefusedRemovalsAreNotToldAsUnderWay(t *testing.T) {
	server := newTestS3(t, true)
	o := options{Endpoint: server.URL, Once: true, Store: inFile(t)}
	if err := begin(t, declaring(numbered(20)...), o).Result(t); err != nil {
		t.Fatal(err)
	}
	s := begin(t, declaring(numbered(10)...), o)
	err := s.Result(t)
	if err == nil || !strings.Contains(err.Error(), "10 of the objects of kind bucket") {
		t.Errorf("run = %v, want a refusal that counts objects", err)
	}
	if s.Count("being deleted") != 0 || s.Count("10 of 10") != 0 || s.Count("left:") != 0 {
		t.Errorf("it printed:\n%s", s)
	}
	checkBuckets(t, server, "", numbered(20)...)
}

func TestSecondProcessOnOneStateSaysSo(t *testing.T) {
	t.Parallel()
	server := newTestS3(t, true)
	o := options{Endpoint: server.URL, Store: inFile(t)}
	s := begin(t, declaring("acme-a"), o)
	s.Await(t, "1 of 1 as declared", 1)
	if err := begin(t, declaring("acme-a"), o).Result(t); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("the second run = %v, want it to say that another process has the state", err)
	}
	if err := s.End(t); err != nil {
		t.Error(err)
	}
	o.Once = true
	if err := begin(t, declaring("acme-a"), o).Result(t); err != nil {
		t.Errorf("after the first has ended: %v", err)
	}
}

// Two installations on one account: what the first made is foreign to the second.
//
// Negative control: with an Observe that doesn't report whose the bucket is, the
// second took the bucket over, and the test failed.
//
// promise E2
func TestBucketsOfAnotherInstallationAreForeign(t *testing.T) {
	server := newTestS3(t, true)
	if err := begin(t, declaring("acme-a"), options{Endpoint: server.URL, Once: true, Store: inFile(t)}).Result(t); err != nil {
		t.Fatal(err)
	}
	server.Writes()
	s := begin(t, declaring("acme-a+"), options{Endpoint: server.URL, Once: true, Store: inFile(t)})
	if err := s.Result(t); err == nil || s.Count("acme-a  the resource is there, and its ownership mark names another owner") != 1 {
		t.Errorf("run = %v; it printed:\n%s", err, s)
	}
	for _, w := range server.Writes() {
		if strings.Contains(w, "acme-a") {
			t.Errorf("sent %s to another installation's bucket", w)
		}
	}
}

// Two installations that start at once declare the same bucket: the second finds it missing,
// and the first makes it before the second does. It is the first's.
//
// Negative control: with a Create that marks whatever the account has, the second took it over.
//
// promise E2
func TestBucketThatAnotherInstallationMadeMeanwhileIsForeign(t *testing.T) {
	server := newTestS3(t, true)
	const name = "acme-a"
	tags := markOf("others", name).SetTags(map[string]string{})
	var made atomic.Bool
	server.Fail(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut || strings.Trim(r.URL.Path, "/") != name || !made.CompareAndSwap(false, true) {
			return false
		}
		if _, err := plainClient(server.URL).CreateBucket(t.Context(), createInput(name, "eu-central-1", tagSet(tags))); err != nil {
			t.Error(err)
		}
		answer(w, http.StatusConflict, "BucketAlreadyOwnedByYou")
		return true
	})
	s := begin(t, declaring(name+"+"), options{Endpoint: server.URL, Once: true, Store: inFile(t)})
	if err := s.Result(t); err == nil || s.Count("acme-a  the resource is there, and its ownership mark names another owner") != 1 {
		t.Errorf("run = %v; it printed:\n%s", err, s)
	}
	got, err := readTags(t.Context(), plainClient(server.URL), name)
	if err != nil || !maps.Equal(got, tags) || versioned(t, server.URL, name) {
		t.Errorf("the bucket has the tags %v (%v), want %v and no versioning", got, err, tags)
	}
}
