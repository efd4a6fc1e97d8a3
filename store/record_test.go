package store_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// The stored form of an object that has everything. Servers of other versions read it and write it, so what
// is written here is changed by a new Options.Version or by a key that they keep, and by nothing else;
// docs/BACKENDS.md has a line for each key of it.
func TestFormOfARecord(t *testing.T) {
	b := newMemory(t, &memory.Options{Encode: true})
	s := newBuckets(t, b, nil)
	o := named("a")
	o.Labels, o.Annotations = map[string]string{store.LabelOwner: "me"}, map[string]string{"note": "<b>"}
	o.Finalizers, o.Owners = []string{"f"}, []store.Owner{{Kind: "Site", Key: store.Key{Name: "s"}, UID: "u"}}
	o.Spec.Tags = map[string]string{"k": "v"}
	must[store.Applied](t)(s.Apply(t.Context(), []*bucket{o}, "me", 0))
	o = stored(t, s, o)
	o.Intent = store.Intent{
		ExternalName: "x", Location: "l", Attempt: 2, Pending: o.Created, Succeeded: o.Created, Failed: o.Created,
		Outputs: store.NewOutputs(map[string]string{"password": "\xff"}), OutputsDue: true, Replacing: true,
	}
	o = must[*bucket](t)(s.UpdateIntent(t.Context(), o))
	o.Status.ARN, o.Phase, o.ObservedGeneration = "arn", store.PhaseReady, 1
	o.SetCondition(store.Condition{Type: "Odd", Status: store.True, Reason: "R", Message: "M", ObservedGeneration: 1})
	o = must[*bucket](t)(s.UpdateStatus(t.Context(), o))
	o.Paused = true
	o = must[*bucket](t)(s.Update(t.Context(), o))
	if err := s.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	r := must[store.Record](t)(b.Get(t.Context(), s.Kind(), o.Key()))
	got := strings.ReplaceAll(string(r.Bytes), o.UID, "UID")
	got = regexp.MustCompile(`"[0-9T:.-]+Z"`).ReplaceAllString(got, `"TIME"`)
	const want = `{"schema":1,"meta":{"namespace":"prod","name":"a","uid":"UID","generation":2,"labels":{"tend/declared-by":"me"},` +
		`"annotations":{"note":"\u003cb\u003e"},"finalizers":["f"],"owners":[{"kind":"Site","key":"s","uid":"u"}],` +
		`"created":"TIME","deleted":"TIME","paused":true,"pausedSince":"TIME","intent":{"externalName":"x","location":"l","attempt":2,` +
		`"pending":"TIME","succeeded":"TIME","failed":"TIME","outputsDue":true,"replacing":true}},` +
		`"spec":{"region":"eu-1","tags":{"k":"v"}},"status":{"arn":"arn"},` +
		`"conditions":[{"type":"Odd","status":"True","reason":"R","message":"M","observedGeneration":1,"since":"TIME"}],` +
		`"phase":"Ready","observedGeneration":1,"fieldOwners":{"at":1,"by":{"me":{}}},"outputs":{"password":"/w=="}}`
	if got != want {
		t.Errorf("stored is\n%s\nwant\n%s", got, want)
	}

	page := must[[]byte](t)(os.ReadFile("../docs/BACKENDS.md"))
	_, table, _ := strings.Cut(string(page), "## The record's form")
	table, _, _ = strings.Cut(table, "\n## ")
	for name := range object(t, r.Bytes) {
		if !regexp.MustCompile("(?m)^\\|.*`" + name + "`.*\\|").MatchString(table) {
			t.Errorf("docs/BACKENDS.md says nothing of the key %q", name)
		}
	}
	if back := stored(t, s, o); back.Intent.Outputs.Values()["password"] != "\xff" || !back.Deleting() || back.Conditions[0].Message != "M" {
		t.Errorf("read back as %+v", back)
	}
}

// object is decoded JSON.
func object(t *testing.T, data []byte) (o map[string]any) {
	t.Helper()
	if err := json.Unmarshal(data, &o); err != nil {
		t.Fatal(err)
	}
	return o
}
