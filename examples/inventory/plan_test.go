package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// planned runs -plan over a file with this content.
func planned(t *testing.T, content, flags string) (code int, out, notes string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "inventory.yaml")
	writeFile(t, file, content)
	o, n := newScreen(), newScreen()
	code = command(t.Context(), append(strings.Fields(flags), "-plan", "-installation", "demo", "-file", file), o, n)
	return code, o.String(), n.String()
}

func TestPlanShowsWhatARunWouldDoAndTouchesNothing(t *testing.T) {
	eachKind(t, func(t *testing.T, server *testS3, prefix string) {
		at := "-endpoint " + server.URL
		if code, out, _ := planned(t, declaring("acme-a", "acme-b+"), at); code != 2 ||
			!strings.Contains(out, "+ create acme-a\n") || !strings.Contains(out, "+ create acme-b\n") {
			t.Errorf("plan of two new buckets: exit code %d, want 2; it printed:\n%s", code, out)
		}
		if _, _, notes := planned(t, declaring("acme-a", "acme-b+"), at+" -poll 1m -writes 1"); !strings.Contains(notes, "2 writes every 1m0s") || !strings.Contains(notes, "3.33 % of -writes") ||
			!strings.Contains(notes, "2 resources by a list with pages of 1000") {
			t.Errorf("the plan does not tell what it costs:\n%s", notes)
		}
		for _, w := range server.Writes() {
			if !strings.Contains(w, "tend-probe-") {
				t.Errorf("the plan sent %s", w)
			}
		}
		checkBuckets(t, server, prefix)

		s := begin(t, declaring("acme-a", "acme-b+"), options{Endpoint: server.URL, Once: true})
		if err := s.Result(t); err != nil {
			t.Fatal(err)
		}
		if code, out, _ := planned(t, declaring("acme-a", "acme-b+"), at); code != 0 || !strings.Contains(out, "2 as declared") {
			t.Errorf("plan of what is there: exit code %d, want 0; it printed:\n%s", code, out)
		}
		code, out, notes := planned(t, declaring("acme-a+"), at)
		if code != 2 || !strings.Contains(out, "~ update acme-a") || !strings.Contains(out, "versioning is off, declared on") {
			t.Errorf("plan of an edit: exit code %d, want 2; it printed:\n%s", code, out)
		}
		if !strings.Contains(notes, "buckets that carry our mark and are not declared: 1, left alone without -prune") || !strings.Contains(notes, prefix+"acme-b") {
			t.Errorf("the plan does not tell of acme-b, which is not declared:\n%s", notes)
		}
		checkBuckets(t, server, prefix, "acme-a", "acme-b+")
	})
}

func TestPlanSaysWhatARunWouldRefuse(t *testing.T) {
	server := newTestS3(t, true)
	o := options{Endpoint: server.URL, Once: true, Store: inFile(t)}
	if err := begin(t, declaring(numbered(20)...), o).Result(t); err != nil {
		t.Fatal(err)
	}
	server.Writes()
	file := filepath.Join(t.TempDir(), "inventory.yaml")
	writeFile(t, file, declaring(numbered(10)...))
	out, notes := newScreen(), newScreen()
	code := command(t.Context(), []string{"-plan", "-file", file, "-endpoint", server.URL, "-store", o.Store}, out, notes)
	if code != 2 || out.Count("- delete acme-1") != 10 || notes.Count("a run would refuse") != 1 || notes.Count("-confirm-removals 10") != 1 {
		t.Errorf("exit code %d, want 2, ten deletions and the refusal; it printed:\n%s%s", code, out, notes)
	}
	// The state was not touched: a run with the whole file finds it as it was.
	s := begin(t, declaring(numbered(20)...), o)
	if err := s.Result(t); err != nil || s.Count("0 created, 0 updated, 0 deleted") != 1 {
		t.Errorf("the run after the plan = %v; it printed:\n%s", err, s)
	}
}

func TestPlanAsJSONIsReadable(t *testing.T) {
	server := newTestS3(t, true)
	code, out, _ := planned(t, declaring("acme-a"), "-json -endpoint "+server.URL)
	var p struct {
		Kind  string
		Steps []struct{ Action, Key string }
	}
	if err := json.Unmarshal([]byte(out), &p); err != nil || code != 2 {
		t.Fatalf("exit code %d, %v; it printed:\n%s", code, err, out)
	}
	if len(p.Steps) != 1 || p.Steps[0].Action != "create" || p.Steps[0].Key != "acme-a" || p.Kind != kind {
		t.Errorf("plan %+v, want the creation of acme-a", p)
	}
}

func TestPlanOfABrokenFileFails(t *testing.T) {
	code, out, notes := planned(t, declaring("acme-a", "acme-a"), "")
	if code != 1 || out != "" || !strings.Contains(notes, "declared already") {
		t.Errorf("exit code %d, want 1 and the reason; it printed:\n%s%s", code, out, notes)
	}
}
