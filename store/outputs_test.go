package store_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/objects"
)

// password has bytes that are no UTF-8, and white space at its end.
const password = "pass-word-of-outputs" + "\xff\n "

// hasPassword reports whether a text has the password, as it is or as JSON has bytes.
func hasPassword(text string) bool {
	return strings.Contains(text, password[:20]) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(password))[:20])
}

// withOutputs stores a bucket whose intent has outputs.
func withOutputs(t *testing.T, s *buckets) *bucket {
	t.Helper()
	o := must[*bucket](t)(s.Create(t.Context(), named("a")))
	o.Intent.ExternalName = "r-1" // without one the JSON of the object has no intent, and no edit compares it
	o.Intent.Outputs = store.NewOutputs(map[string]string{"password": password, "user": ""})
	return must[*bucket](t)(s.UpdateIntent(t.Context(), o))
}

// promise E3. Seen to fail without the method Format, and with one that prints the text.
func TestNothingShowsOutputs(t *testing.T) {
	s := newBuckets(t, newMemory(t, nil), nil)
	o := withOutputs(t, s)
	data := must[[]byte](t)
	shown := map[string]string{
		"json":    string(data(json.Marshal(o))),
		"outputs": string(data(json.Marshal(o.Intent.Outputs))),
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		shown[verb] = fmt.Sprintf(verb+verb+verb, o.Intent, o.Intent.Outputs, *o)
	}
	var log bytes.Buffer
	for _, h := range []slog.Handler{slog.NewJSONHandler(&log, nil), slog.NewTextHandler(&log, nil)} {
		slog.New(h).Info("x", "intent", o.Intent, "outputs", o.Intent.Outputs, "object", o)
	}
	shown["log"] = log.String()
	o.Conditions = []store.Condition{{Type: "Told", Message: "it is " + password}}
	o.Labels = map[string]string{"told": password[:20]}
	o.Intent.Outputs = store.NewOutputs(map[string]string{"password": password[:20]})
	shown["show"] = string(data(s.Show(o)))
	shown["error"] = s.RedactError(errors.New("it is "+password), o).Error()
	shown["text"] = s.Redact("it is "+password, o)
	shown["conditions"] = fmt.Sprint(s.RedactConditions(o))
	func() {
		defer func() { shown["panic"] = fmt.Sprint(recover()) }()
		defer s.RedactPanic(o)
		panic("it is " + password)
	}()
	object := must[objects.Object](t)(objects.Of(s).Get(t.Context(), o.Key()))
	shown["object"] = fmt.Sprintf("%+v", object.Meta) + string(data(object.JSON()))
	for what, text := range shown {
		if hasPassword(text) || text == "" {
			t.Errorf("%s shows the outputs: %s", what, text)
		}
	}
}

// Seen to fail with a decoder that passes over the outputs.
func TestOutputsAreStoredAndTakenOffTheRecord(t *testing.T) {
	crypt, err := store.NewEncryption([]store.EncryptionKey{{ID: "1", Secret: bytes.Repeat([]byte("k"), 32)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, crypt := range map[string]*store.Encryption{"clear": nil, "encrypted": crypt} {
		t.Run(name, func(t *testing.T) {
			s := newBuckets(t, newMemory(t, &memory.Options{Encode: true}), &store.Options[bucketSpec, bucketStatus]{Encryption: crypt})
			o := withOutputs(t, s)
			want := map[string]string{"password": password, "user": ""}
			if got := stored(t, s, o); !maps.Equal(got.Intent.Outputs.Values(), want) || got.Intent != o.Intent {
				t.Errorf("read back: %q, want %q", got.Intent.Outputs.Values(), want)
			}
			o = must[*bucket](t)(s.Mutate(t.Context(), o.Key(), func(o *bucket) error { o.Spec.Region = "eu-2"; return nil }))
			if !maps.Equal(stored(t, s, o).Intent.Outputs.Values(), want) {
				t.Error("another write lost the outputs")
			}
			record := must[store.Record](t)(s.Backend().Get(t.Context(), "Bucket", o.Key()))
			if data := must[[]byte](t)(record.Encode()); hasPassword(string(data)) != (crypt == nil) {
				t.Errorf("the record has the outputs in the clear: %t", hasPassword(string(data)))
			}
			o.Intent.Outputs = store.Outputs{}
			must[*bucket](t)(s.UpdateIntent(t.Context(), o))
			if stored(t, s, o).Intent.Outputs != (store.Outputs{}) {
				t.Error("the outputs stay on record")
			}
		})
	}
}

// A program that does not know outputs keeps them, and so does a copy. An edit leaves them as they are.
//
// Seen to fail without the outputs in the comparison of an edit, and in that of a copy.
func TestOutputsOutliveOtherWriters(t *testing.T) {
	b := newMemory(t, &memory.Options{Encode: true})
	s := newBuckets(t, b, nil)
	o := withOutputs(t, s)
	edited := bytes.Replace(must[[]byte](t)(s.Show(o)), []byte(`"meta":{`), []byte(`"meta":{"labels":{"by":"hand"},`), 1)
	if _, err := objects.Of(s).Put(t.Context(), o.Key(), o.Revision, edited); err != nil {
		t.Errorf("an edit while there are outputs: %v", err)
	}
	bare := must[objects.Kind](t)(objects.Bare(b, "Bucket", true))
	must[objects.Object](t)(bare.Edit(t.Context(), o.Key(), 0, func(m *store.Meta) error { m.Paused = true; return nil }))
	object := must[objects.Object](t)(bare.Get(t.Context(), o.Key()))
	if shown := must[[]byte](t)(object.JSON()); hasPassword(string(shown)) {
		t.Errorf("without its types the object shows %s", shown)
	}
	to := newBuckets(t, newMemory(t, &memory.Options{Encode: true}), nil)
	must[int](t)(store.Copy(t.Context(), to, s))
	for _, s := range []*buckets{s, to} {
		if got := stored(t, s, o); got.Intent.Outputs != o.Intent.Outputs || !got.Paused || got.Labels["by"] != "hand" {
			t.Errorf("outputs %q after the edits, paused %t, labels %v", got.Intent.Outputs.Values(), got.Paused, got.Labels)
		}
	}
	copied := stored(t, to, o)
	copied.Intent.Outputs = store.NewOutputs(map[string]string{"password": "another"})
	must[*bucket](t)(to.UpdateIntent(t.Context(), copied))
	_, err := store.Copy(t.Context(), to, s)
	wantErr(t, "a copy with other outputs", err, store.ErrConflict)
}
