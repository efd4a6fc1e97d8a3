package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// leave makes a run that declares these, and forgets them with its state.
func leave(t *testing.T, server *testS3, names ...string) {
	t.Helper()
	s := begin(t, declaring(names...), options{Endpoint: server.URL, Once: true, Poll: time.Minute})
	if err := s.Result(t); err != nil {
		t.Fatalf("run = %v; it printed:\n%s", err, s)
	}
	server.Writes()
}

// deletions are the buckets that were asked to be deleted.
func deletions(server *testS3) (names []string) {
	for _, w := range server.Writes() {
		if name, ok := strings.CutPrefix(w, "DELETE "); ok && !strings.HasPrefix(name, "tend-probe-") {
			names = append(names, name)
		}
	}
	return names
}

// Empty buckets that carry our mark and are not declared go; one that is not
// empty, one of others and one without a mark stay.
//
// Negative control: with an Owner that takes every mark for ours, acme-theirs was
// asked for; with BucketNotEmpty taken for a failure like others, acme-left stayed.
//
// promise E2
func TestPruneDeletesEmptyOrphansAndNothingElse(t *testing.T) {
	eachKind(t, func(t *testing.T, server *testS3, prefix string) {
		leave(t, server, append(numbered(12), "acme-full", "acme-left")...)
		c, bucket, key := plainClient(server.URL), prefix+"acme-full", "a/b"
		if _, err := c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: strings.NewReader("x")}); err != nil {
			t.Fatal(err)
		}
		makeBucket(t, server.URL, "nobodys")
		makeBucket(t, server.URL, "tend-there-theirs")
		if server.tagged {
			theirs := Labels{Mark: markOf("there", "theirs"), Marked: true}
			if err := writeTags(t.Context(), c, "tend-there-theirs", theirs.into(map[string]string{})); err != nil {
				t.Fatal(err)
			}
		}
		server.Writes()

		told := begin(t, declaring(numbered(12)...), options{Endpoint: server.URL, Once: true, Poll: time.Minute})
		if err := told.Result(t); err != nil || told.Count("12 declared, 16 listed, 14 of them ours: 0 missing, 0 different, 0 declared and not ours, 2 ours and not declared") != 1 ||
			told.Count("buckets that carry our mark and are not declared: 2, left alone without -prune") != 1 {
			t.Errorf("without -prune: %v; it printed:\n%s", err, told)
		}
		if gone := deletions(server); len(gone) != 0 {
			t.Errorf("without -prune it deleted %v", gone)
		}

		s := begin(t, declaring(numbered(12)...), options{Endpoint: server.URL, Once: true, Poll: time.Minute, Prune: true, PrunePercent: 50})
		if err := s.Result(t); err == nil || s.Count("- "+prefix+"acme-left  pruned") != 1 || s.Count(prefix+"acme-full") == 0 || s.Count("the bucket is not empty") != 1 {
			t.Errorf("run = %v, want acme-left pruned and a word about acme-full; it printed:\n%s", err, s)
		}
		want := []string{"nobodys", "tend-there-theirs", prefix + "acme-full"}
		for _, name := range numbered(12) {
			want = append(want, prefix+name)
		}
		if got := sorted(bucketNames(t, server.URL)); !slices.Equal(got, sorted(want)) {
			t.Errorf("buckets %v, want %v", got, want)
		}
	})
}

// The list that a first run goes by is from before it created anything. What it created
// is not told as missing.
//
// Negative control: with the findings' own rule taken out of external.Inventory.Report,
// it printed "12 missing".
func TestWhatAFirstRunCreatedIsNotToldAsMissing(t *testing.T) {
	eachKind(t, func(t *testing.T, server *testS3, _ string) {
		s := begin(t, declaring(numbered(12)...), options{Endpoint: server.URL, Once: true, Poll: time.Hour})
		if err := s.Result(t); err != nil || s.Count("all 12 that are declared were written since, and nothing else there is ours") != 1 || s.Count("0 listed") != 0 {
			t.Errorf("run = %v; it printed:\n%s", err, s)
		}
	})
}

// More orphans than the cap allows: nothing goes, and it is said what would have.
//
// promise E2
func TestPruneBeyondItsCapDeletesNothingAndSaysWhat(t *testing.T) {
	eachKind(t, func(t *testing.T, server *testS3, prefix string) {
		leave(t, server, numbered(40)...)
		o := options{Endpoint: server.URL, Once: true, Poll: time.Minute, Prune: true}
		few := begin(t, declaring(numbered(35)...), o)
		if err := few.Result(t); err == nil || few.Count("at most 4 may be deleted at once") != 1 || few.Count(prefix+"acme-3") < 5 {
			t.Errorf("five of forty: %v, want a refusal with names; it printed:\n%s", err, few)
		}
		o.PruneMost, o.PrunePercent = 3, 100
		if s := begin(t, declaring(numbered(35)...), o); s.Result(t) == nil || s.Count("at most 3 may be deleted at once") != 1 {
			t.Errorf("five where three may go: it printed:\n%s", s)
		}
		if gone := deletions(server); len(gone) != 0 {
			t.Errorf("it deleted %v", gone)
		}
		o.PruneMost = 5
		s := begin(t, declaring(numbered(35)...), o)
		if err := s.Result(t); err != nil || s.Count("  pruned") != 5 {
			t.Errorf("five where five may go: %v; it printed:\n%s", err, s)
		}
		checkBuckets(t, server, prefix, numbered(35)...)
	})
}

// Trap 14: a list that fails, wherever, or is empty, prunes nothing. The buckets
// are looked at one by one meanwhile.
//
// Negative control: with a list that ends quietly where a page fails, the run
// ended without a word about it.
//
// promise E2
func TestListThatFailsOrIsEmptyPrunesNothing(t *testing.T) {
	server := newTestS3(t, true)
	server.page = 4
	leave(t, server, append(numbered(12), "acme-left")...)
	pageOf := func(r *http.Request) (after string, isList bool) {
		return r.URL.Query().Get("continuation-token"), r.Method == http.MethodGet && strings.Trim(r.URL.Path, "/") == ""
	}
	refuse := func(w http.ResponseWriter) { answer(w, http.StatusForbidden, "AccessDenied") }
	cut := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	empty := func(w http.ResponseWriter) {
		_, _ = w.Write([]byte("<ListAllMyBucketsResult><Buckets></Buckets></ListAllMyBucketsResult>"))
	}
	half := func(w http.ResponseWriter) {
		_, _ = w.Write([]byte("<ListAllMyBucketsResult><Buckets><Bucket><Name>acme-0"))
	}
	for name, c := range map[string]struct {
		how    func(http.ResponseWriter)
		later  bool // the first page is whole
		silent bool // it cannot be told from a list that is right
	}{
		"refused":             {how: refuse},
		"refused in between":  {how: refuse, later: true},
		"cut off":             {how: cut},
		"cut off in between":  {how: cut, later: true},
		"garbled":             {how: half},
		"garbled in between":  {how: half, later: true},
		"empty":               {how: empty, silent: true},
		"empty after a while": {how: empty, later: true, silent: true},
	} {
		t.Run(name, func(t *testing.T) {
			server.Fail(func(w http.ResponseWriter, r *http.Request) bool {
				if after, isList := pageOf(r); isList && (after != "") == c.later {
					c.how(w)
					return true
				}
				return false
			})
			s := begin(t, declaring(numbered(12)...), options{
				Endpoint: server.URL, Once: true, Poll: time.Minute, Prune: true, PruneMost: 100, PrunePercent: 100,
			})
			err := s.Result(t)
			server.Fail(nil)
			if c.silent != (err == nil) || s.Count("12 of 12 as declared") != 1 {
				t.Errorf("run = %v; it printed:\n%s", err, s)
			}
			if gone := deletions(server); len(gone) != 0 {
				t.Errorf("it deleted %v", gone)
			}
		})
	}
	checkBuckets(t, server, "", append(numbered(12), "acme-left")...)
}

// -plan -prune shows what would go, and what would be refused; it touches nothing.
func TestPlanShowsWhatWouldBePruned(t *testing.T) {
	eachKind(t, func(t *testing.T, server *testS3, prefix string) {
		leave(t, server, append(numbered(12), "acme-left")...)
		at := "-endpoint " + server.URL
		code, out, notes := planned(t, declaring(numbered(12)...), at+" -prune")
		if code != 2 || !strings.Contains(out, "- prune acme-left") || !strings.Contains(notes, "1 ours and not declared") {
			t.Errorf("exit code %d, want 2 and the prune; it printed:\n%s%s", code, out, notes)
		}
		code, out, notes = planned(t, declaring(numbered(5)...), at+" -prune")
		if code != 0 || !strings.Contains(notes, "a run would refuse: nothing was pruned: 8 of 13") || !strings.Contains(notes, prefix+"acme-left") {
			t.Errorf("beyond the cap: exit code %d, want 0 and the refusal; it printed:\n%s%s", code, out, notes)
		}
		if gone := deletions(server); len(gone) != 0 {
			t.Errorf("a plan deleted %v", gone)
		}
		checkBuckets(t, server, prefix, append(numbered(12), "acme-left")...)
	})
}

// The looks of an interval are served by one list and, where it shows too little,
// by two reads for each bucket; with -settings an hour, by the list alone.
func TestListServesTheLooks(t *testing.T) {
	server := newTestS3(t, true)
	server.page = 10
	leave(t, server, numbered(30)...)
	before := server.Lists()
	s := begin(t, declaring(numbered(30)...), options{Endpoint: server.URL, Once: true, Poll: time.Hour})
	if err := s.Result(t); err != nil {
		t.Fatal(err)
	}
	if pages := server.Lists() - before; pages != 3 || s.Count("(GetBucketTagging 30, GetBucketVersioning 30, ListBuckets 3, PutBucketTagging 1)") != 1 {
		t.Errorf("%d pages of a list; it printed:\n%s", pages, s)
	}

	tags, ten := atomic.Int32{}, make(chan struct{})
	lists := atomic.Int32{}
	server.Fail(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet && r.URL.Query().Has("tagging") {
			tags.Add(1)
		}
		if strings.Trim(r.URL.Path, "/") == "" && lists.Add(1) == 30 { // ten lists
			close(ten)
		}
		return false
	})
	kept := begin(t, declaring(numbered(30)...), options{Endpoint: server.URL, Settings: time.Hour})
	kept.Await(t, "30 of 30 as declared", 1)
	select {
	case <-ten:
	case <-time.After(patience):
		t.Fatal("it lists no more")
	}
	if err := kept.End(t); err != nil {
		t.Fatal(err)
	}
	if n := tags.Load(); n != 30 {
		t.Errorf("%d reads of tags in ten intervals, want one for each bucket; it printed:\n%s", n, kept)
	}
}

// What was declared after a backup of the state was made is not pruned when that is
// restored, unless an operator says that it should be.
//
// Negative control: with marks that do not tell when they were declared, acme-new was
// deleted.
//
// promise E2
func TestPruneIsHeldAfterTheStateWasRestored(t *testing.T) {
	t.Parallel()
	server := newTestS3(t, true)
	o := options{Endpoint: server.URL, Once: true, Poll: time.Minute, Store: inFile(t)}
	run := func(o options, names ...string) *session {
		s := begin(t, declaring(names...), o)
		_ = s.Result(t)
		return s
	}
	run(o, numbered(12)...)
	file := strings.TrimPrefix(o.Store, "file:")
	backup, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	run(o, append(numbered(12), "acme-new")...)
	if err := os.WriteFile(file, backup, 0o600); err != nil {
		t.Fatal(err)
	}
	server.Writes()
	o.Prune = true
	for range 2 {
		if s := run(o, numbered(12)...); s.Count("was it restored from a backup?") != 1 || s.Count("  acme-new") != 1 {
			t.Errorf("it printed:\n%s", s)
		}
	}
	plan := func(flags string) string {
		out, notes := newScreen(), newScreen()
		list := filepath.Join(t.TempDir(), "inventory.yaml")
		writeFile(t, list, declaring(numbered(12)...))
		command(t.Context(), append(strings.Fields(flags), "-plan", "-prune", "-file", list, "-store", o.Store, "-endpoint", server.URL), out, notes)
		return out.String() + notes.String()
	}
	if text := plan(""); !strings.Contains(text, "a run would refuse: nothing was pruned: acme-new (acme-new) was declared at") {
		t.Errorf("the plan says:\n%s", text)
	}
	if text := plan("-trust-state"); !strings.Contains(text, "- prune acme-new") {
		t.Errorf("the plan with -trust-state says:\n%s", text)
	}
	if gone := deletions(server); len(gone) != 0 {
		t.Errorf("deleted %v", gone)
	}
	o.TrustState = true
	if s := run(o, numbered(12)...); s.Count("- acme-new  pruned") != 1 {
		t.Errorf("with -trust-state it printed:\n%s", s)
	}
}
