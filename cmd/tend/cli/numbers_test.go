package cli_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tendhq/tend/cmd/tend/cli"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/objects"
)

// long is a spec with a number of any length, and one of JSON of any form.
type long struct {
	N    json.Number     `json:"n"`
	Any  json.RawMessage `json:"any,omitempty"`
	Size int64           `json:"size,omitempty"`
}

var longNumbers = []string{
	"12345678901234567890123", "-12345678901234567890123", "18446744073709551616", "0.12345678901234567890",
	"1234567890.12345678901", "1e400", "-1e-400", "1234567890123456789012345e-7", "9007199254740993", "0.1", "18446744073709551615",
}

// Numbers of more than 17 digits, and those beyond the range of a float, went through YAML as
// floats: what was edited beside them changed them.
func TestNumbersOfAnyLengthAreKeptInYAML(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	c := &tend{t: t, env: map[string]string{"TEND_STORE": "file:" + path}}
	c.config.Kinds = func(b store.Backend) ([]objects.Kind, error) {
		return []objects.Kind{objects.Of(must(store.New[long, struct{}](b, "long", nil)))}, nil
	}
	check := func(when, want string) {
		t.Helper()
		inFile(t, "file:"+path, func(b store.Backend) {
			o := must(must(store.New[long, struct{}](b, "long", nil)).Get(t.Context(), store.Key{Name: "a"}))
			if string(o.Spec.N) != want || string(o.Spec.Any) != `{"x":[`+want+`]}` {
				t.Errorf("%s: %s became %s and %s", when, want, o.Spec.N, o.Spec.Any)
			}
		})
	}
	for _, n := range longNumbers {
		inFile(t, "file:"+path, func(b store.Backend) {
			s := must(store.New[long, struct{}](b, "long", nil))
			if o, err := s.Get(t.Context(), store.Key{Name: "a"}); err == nil {
				if err := s.Delete(t.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
			must(s.Create(t.Context(), &store.Object[long, struct{}]{
				Meta: store.Meta{Name: "a"}, Spec: long{N: json.Number(n), Any: json.RawMessage(`{"x":[` + n + `]}`), Size: 1},
			}))
		})
		c.config.Edit = func(_ context.Context, path string) error {
			was := string(must(os.ReadFile(path)))
			return os.WriteFile(path, []byte(strings.Replace(was, "size: 1", "size: 2", 1)), 0o600)
		}
		c.run(cli.Done, "", "edit", "long", "a")
		check("edit", n)
		for _, output := range []string{"yaml", "json"} {
			text := strings.Replace(c.run(cli.Done, "", "get", "long", "a", "-o", output), "size: 2", "size: 3", 1)
			c.run(cli.Done, text, "apply", "-f", "-")
			check(output, n)
		}
	}
}

// Other spellings that YAML has for numbers mean what they meant.
func TestSpellingsOfNumbersInYAML(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	c := &tend{t: t, env: map[string]string{"TEND_STORE": "file:" + path}}
	c.config.Kinds = func(b store.Backend) ([]objects.Kind, error) {
		return []objects.Kind{objects.Of(must(store.New[long, struct{}](b, "long", nil)))}, nil
	}
	inFile(t, "file:"+path, func(store.Backend) {})
	for text, want := range map[string]string{
		"1_000_000": "1000000", "0x1F": "31", "+5": "5", "1e3": "1000", "2.0": "2", ".5": "0.5", "-.5": "-0.5", "5.": "5",
		"12_345_678_901_234_567_890_123": "12345678901234567890123", "+12345678901234567890123": "12345678901234567890123",
		".12345678901234567890": "0.12345678901234567890", "12345678901234567890123.": "12345678901234567890123",
		"!!float 1": "1", "&x 12345678901234567890123": "12345678901234567890123",
	} {
		spec := "{n: " + text + ", any: {x: [" + strings.TrimPrefix(text, "&x ") + "]}}"
		if strings.HasPrefix(text, "&x") {
			spec = "{n: " + text + ", any: {x: [*x]}}"
		}
		c.run(cli.Done, "kind: long\nmeta: {name: a}\nspec: "+spec+"\n", "apply", "-f", "-")
		inFile(t, "file:"+path, func(b store.Backend) {
			o := must(must(store.New[long, struct{}](b, "long", nil)).Get(t.Context(), store.Key{Name: "a"}))
			if string(o.Spec.N) != want || string(o.Spec.Any) != `{"x":[`+want+`]}` {
				t.Errorf("%s is read as %s and %s, want %s", text, o.Spec.N, o.Spec.Any, want)
			}
		})
	}
	// A text stays a text, and a whole number that is written as a float is one for a field of integers.
	c.run(cli.Done, "kind: long\nmeta: {name: b, labels: {a: '12345678901234567890123'}}\nspec: {n: 1, size: 1e3}\n", "apply", "-f", "-")
	c.run(cli.Invalid, "kind: long\nmeta: {name: c}\nspec: {n: 1, size: .inf}\n", "apply", "-f", "-")
}

// Metadata of an object whose type is not known is edited beside a spec with numbers of any form.
func TestMetadataIsEditedBesideNumbersOfAnyForm(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	c := &tend{t: t, env: map[string]string{"TEND_STORE": "file:" + path}}
	for _, n := range append(longNumbers, "1.0", "1e3", "1E5", "-0", "0.10") {
		data := `{"schema":1,"meta":{"name":"a","uid":"u","generation":1,"created":"2020-01-01T00:00:00Z"},"spec":{"n":` + n + `}}`
		key := store.Key{Name: "a"}
		inFile(t, "file:"+path, func(b store.Backend) {
			must(b.Commit(t.Context(), store.Txn{Ops: []store.Op{{Kind: "long", Key: key, Put: store.Bytes(data)}}}))
		})
		c.config.Edit = func(_ context.Context, path string) error {
			was := string(must(os.ReadFile(path)))
			return os.WriteFile(path, []byte(strings.Replace(was, "name: a\n", "name: a\n    labels: {a: b}\n", 1)), 0o600)
		}
		c.run(cli.Done, "", "-show-secrets", "edit", "long", "a")
		inFile(t, "file:"+path, func(b store.Backend) {
			if rec := must(b.Get(t.Context(), "long", key)); !strings.Contains(string(rec.Bytes), `{"n":`+n+`}`) || !strings.Contains(string(rec.Bytes), `{"a":"b"}`) {
				t.Errorf("%s: stored is %s", n, rec.Bytes)
			}
		})
	}
}
