package store_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/tendhq/tend/store"
)

type certificate struct {
	Size int    `json:"size"`
	Key  string `json:"key" tend:"secret"`
}

func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line-%07d-of-a-secret\n", i)
	}
	return b.String()
}

func manyNotes(n int) map[string]string {
	notes := map[string]string{}
	for i := range n {
		notes[fmt.Sprintf("example.com/note-%d", i)] = "of no importance, and longer than a line of the secret"
	}
	return notes
}

// allocations of f, which stand for its work: to make one form of a secret allocates.
func allocations(f func()) float64 { return testing.AllocsPerRun(1, f) }

// The work was lines times texts: one object of many lines and annotations stalled each
// program that showed it, for hours.
//
// Seen to fail: twice the lines cost twice the work, with 400 of them.
func TestWorkToShowAnObjectIsBounded(t *testing.T) {
	s := secretStore[certificate](t)
	work := func(n int) float64 {
		o := &store.Object[certificate, struct{}]{Meta: store.Meta{Name: "a", Annotations: manyNotes(1000)}, Spec: certificate{1, lines(n)}}
		return allocations(func() {
			if text := string(must[[]byte](t)(s.Show(o))); strings.Contains(text, "line-") || strings.Contains(text, "importance") {
				t.Errorf("of %d lines some are shown, or texts that were not searched", n)
			}
		})
	}
	if few, many := work(5_000), work(10_000); many > few*1.1 {
		t.Errorf("5,000 lines cost %v allocations and 10,000 lines %v: the work is not bounded", few, many)
	}
}

// What would cost too much to search is a secret as a whole, in each text, and can be
// written back.
func TestTextsThatCannotBeSearchedAreHidden(t *testing.T) {
	type made struct {
		Plain bool `json:"plain"`
	}
	s := must[*store.Store[certificate, made]](t)(store.New[certificate, made](newMemory(t, nil), "certificate", nil))
	o := &store.Object[certificate, made]{Meta: store.Meta{Name: "a", Annotations: manyNotes(1000), Labels: map[string]string{"plain": "plain"}}, Spec: certificate{1, lines(5_000)}}
	o.Status.Plain = true
	o.SetProgressing("Plain", "a plain text")
	text := must[[]byte](t)(s.Show(o))
	if !strings.Contains(string(text), `"name":"a"`) || !strings.Contains(string(text), `"status":{"(secret)":"(secret)"}`) || strings.Contains(strings.ReplaceAll(string(text), `"name"`, ""), "lain") {
		t.Errorf("shown is %s", text)
	}
	got := must[*store.Object[certificate, made]](t)(s.Parse(text, o))
	if !reflect.DeepEqual(got.Spec, o.Spec) || !reflect.DeepEqual(got.Annotations, o.Annotations) || !reflect.DeepEqual(got.Labels, o.Labels) {
		t.Errorf("read back are %d bytes, %v and %v", len(got.Spec.Key), got.Annotations, got.Labels)
	}
	long := strings.Repeat("a plain text ", 4000)
	if got := s.Redact(long, o); got != store.Redacted {
		t.Errorf("a text that cannot be searched is %q", got)
	}
	if got := s.Redact("", o); got != "" {
		t.Errorf("no text is %q", got)
	}
}

// A secret is looked for in all its forms also where another has its digits.
func TestNumberAndTextOfOneSecretAreBothLookedFor(t *testing.T) {
	type pins struct {
		Pin  int    `tend:"secret"`
		Code string `tend:"secret"`
	}
	s := secretStore[pins](t)
	text := fmt.Sprintf("%x", "48151623")
	if got := s.Redact(text, &store.Object[pins, struct{}]{Spec: pins{48151623, "48151623"}}); got != store.Redacted {
		t.Errorf("%s reads %s", text, got)
	}
	conditions := []store.Condition{{Type: "A", Reason: "Not48151623", Message: "a pin, 48151623"}}
	o := &store.Object[pins, struct{}]{Spec: pins{Pin: 48151623}, Conditions: conditions}
	if got := s.RedactConditions(o); got[0].Reason != "Not(secret)" || got[0].Message != "a pin, (secret)" || o.Conditions[0].Reason != "Not48151623" {
		t.Errorf("conditions read %+v, those of the object %+v", got, o.Conditions)
	}
	if got := s.RedactConditions(nil); got != nil {
		t.Errorf("no object has the conditions %v", got)
	}
}

// The bound is far from what certificates have.
func TestCertificatesAreSearched(t *testing.T) {
	s := secretStore[certificate](t)
	o := &store.Object[certificate, struct{}]{Meta: store.Meta{Name: "a", Annotations: manyNotes(1000)}, Spec: certificate{1, lines(400)}}
	o.Annotations["leaked"] = "it has line-0000399-of-a-secret in it"
	var got struct{ Meta store.Meta }
	if err := json.Unmarshal(must[[]byte](t)(s.Show(o)), &got); err != nil {
		t.Fatal(err)
	}
	want := manyNotes(1000)
	want["leaked"] = "it has (secret) in it"
	if !reflect.DeepEqual(got.Meta.Annotations, want) {
		t.Errorf("annotations are %v", got.Meta.Annotations)
	}
}

// Each element was compared with every other.
//
// Seen to fail: 800 elements cost 3.8 times the 400.
func TestWorkToReadAListBackIsLinear(t *testing.T) {
	type spec struct {
		Logins []showLogin `json:"logins"`
	}
	s := secretStore[spec](t)
	work := func(n int) float64 {
		o := &store.Object[spec, struct{}]{Meta: store.Meta{Name: "a"}}
		for i := range n {
			o.Spec.Logins = append(o.Spec.Logins, showLogin{fmt.Sprint("user", i), "hunter22"})
		}
		text := strings.Replace(string(must[[]byte](t)(s.Show(o))), `"logins":[`, `"logins":[{"user":"more","password":"x"},`, 1)
		return allocations(func() {
			got := must[*store.Object[spec, struct{}]](t)(s.Parse([]byte(text), o))
			if len(got.Spec.Logins) != n+1 || got.Spec.Logins[n] != o.Spec.Logins[n-1] {
				t.Errorf("%d elements are read back", len(got.Spec.Logins))
			}
		})
	}
	if few, many := work(400), work(800); many > few*3 {
		t.Errorf("400 elements cost %v allocations and 800 elements %v", few, many)
	}
}
