package store_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/tendhq/tend/store"
)

type login struct {
	User     string
	Password string `tend:"secret" json:"password"`
}

type vault struct {
	Size   int
	Login  login
	Logins []login
	ByName map[string]*login
	Tokens map[string]string `tend:"secret"`
	Key    []byte            `json:"key" tend:"secret"`
	Pin    *int              `tend:"secret"`
	Host   netip.Addr        `tend:"secret"`
	Deep   *struct{ Inner [1]login }
}

func secretVault() vault {
	pin := 424242
	v := vault{
		Size: 7, Login: login{"anna", `plain-1"<&>`}, Logins: []login{{"bert", "in-a-slice-2"}}, ByName: map[string]*login{"c": {"carl", "in-a-map-3\nsecond-line-4"}},
		Tokens: map[string]string{"key-is-secret-5": "value-6"}, Key: []byte("bytes-7"), Pin: &pin, Host: netip.MustParseAddr("10.20.30.40"),
		Deep: &struct{ Inner [1]login }{[1]login{{"dora", "deep-8"}}},
	}
	return v
}

// nowhere is what must not be in any text: each secret, or a part that gives it away.
var nowhere = []string{
	"plain-1", "in-a-slice-2", "in-a-map-3", "second-line-4", "key-is-secret-5", "value-6", "bytes-7", "424242", "10.20.30.40", "deep-8",
	base64.StdEncoding.EncodeToString([]byte("bytes-7")), fmt.Sprintf("%x", "bytes-7"), fmt.Sprintf("%d", []byte("bytes-7")),
}

func wantNowhere(t *testing.T, what, text string) {
	t.Helper()
	for _, s := range nowhere {
		if strings.Contains(text, s) {
			t.Errorf("%s holds %q:\n%s", what, s, text)
		}
	}
}

func secretStore[S any](t testing.TB) *store.Store[S, struct{}] {
	t.Helper()
	s, err := store.New[S, struct{}](newMemory(t, nil), "Vault", nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Negative control: with the tag ignored in walk every form was there; without
// addForms the quoted ones.
func TestSecretsAreTakenOutOfTexts(t *testing.T) {
	s := secretStore[vault](t)
	if !s.HasSecrets() {
		t.Fatal("the tag is not seen")
	}
	o := &store.Object[vault, struct{}]{Meta: store.Meta{Name: "a"}, Spec: secretVault()}
	asJSON, err := json.Marshal(o.Spec)
	if err != nil {
		t.Fatal(err)
	}
	v := o.Spec
	for what, text := range map[string]string{
		"JSON":      string(asJSON),
		"%+v":       fmt.Sprintf("%+v %+v %+v %+v %v", v.Login, v.Logins, *v.ByName["c"], *v.Deep, v.Tokens),
		"%q":        fmt.Sprintf("%q %q %q", v.Login, *v.ByName["c"], v.Tokens),
		"%#v":       fmt.Sprintf("%#v", v.Login),
		"bytes":     fmt.Sprintf("%s %v %x %X", v.Key, v.Key, v.Key, v.Key),
		"numbers":   fmt.Sprintf("pin=%d at %v:443", *v.Pin, v.Host),
		"an URL":    "https://h/?p=" + url.QueryEscape(v.Login.Password) + "&q=" + url.PathEscape(v.Login.Password),
		"an escape": fmt.Sprintf("%+q", v.ByName["c"].Password),
		"a line":    "diff:\n-\tsecond-line-4\n+\tx",
	} {
		got := s.Redact(text, o)
		wantNowhere(t, what, got)
		if !strings.Contains(got, store.Redacted) {
			t.Errorf("%s: nothing was taken out of %s", what, got)
		}
	}
	for _, same := range []string{"", "nothing in here, of size 7", "anna, bert and 4242421"} {
		if got := s.Redact(same, o); got != same {
			t.Errorf("%q became %q", same, got)
		}
	}
}

func TestShortSecretsAreTakenOutWhereTheyStandAlone(t *testing.T) {
	s := secretStore[login](t)
	o := &store.Object[login, struct{}]{Spec: login{"anna", "7"}}
	if got, want := s.Redact("pin 7, port 1777, v7 (7)", o), "pin (secret), port 1777, v7 ((secret))"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	o.Spec.Password = "4242"
	if got, want := s.Redact("pin 4242, port 42424, v4242", o), "pin (secret), port 42424, v4242"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	o.Spec.Password = "84739201" // nobody has such a number by chance
	if got, want := s.Redact("pw84739201x", o), "pw(secret)x"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestRedactedErrorIsStillWhatItWas(t *testing.T) {
	s := secretStore[login](t)
	o := &store.Object[login, struct{}]{Spec: login{"anna", "hunter22"}}
	err := s.RedactError(fmt.Errorf("login with hunter22: %w", io.ErrUnexpectedEOF), o)
	if !errors.Is(err, io.ErrUnexpectedEOF) || err.Error() != "login with (secret): unexpected EOF" {
		t.Errorf("%v", err)
	}
	if plain := errors.New("nothing in here"); s.RedactError(plain, o).Error() != plain.Error() || s.RedactError(nil, o) != nil {
		t.Error("an error without a secret was changed")
	}
	func() {
		defer func() {
			if p := fmt.Sprint(recover()); p != "with (secret)" {
				t.Errorf("the panic says %s", p)
			}
		}()
		defer s.RedactPanic(o)
		panic("with hunter22")
	}()
}

func TestKindWithoutSecretsCostsNothing(t *testing.T) {
	type plain struct {
		Name string
		Next *plain2
	}
	s := secretStore[plain](t)
	o, err := &store.Object[plain, struct{}]{Spec: plain{Name: "x"}}, errors.New("x")
	if n := testing.AllocsPerRun(100, func() { _, _ = s.Redact("x", o), s.RedactError(err, o) }); n != 0 || s.HasSecrets() {
		t.Errorf("%v allocations", n)
	}
}

type plain2 struct{ Text string }

func TestLoggedObjectSaysWhichAndNotWhat(t *testing.T) {
	var b strings.Builder
	o := &store.Object[vault, struct{}]{Meta: store.Meta{Name: "which", UID: "u"}, Spec: secretVault()}
	slog.New(slog.NewJSONHandler(&b, nil)).Info("seen", "object", o)
	slog.New(slog.NewTextHandler(&b, nil)).Info("seen", "object", o)
	wantNowhere(t, "the log", b.String())
	if !strings.Contains(b.String(), "which") {
		t.Errorf("it does not say which: %s", &b)
	}
}

func TestInvalidSpecIsToldWithoutItsSecret(t *testing.T) {
	s, err := store.New(newMemory(t, nil), "login", &store.Options[login, struct{}]{Validate: func(o *store.Object[login, struct{}]) error {
		return fmt.Errorf("%+v is too weak", o.Spec)
	}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Create(t.Context(), &store.Object[login, struct{}]{Meta: store.Meta{Name: "a"}, Spec: login{"anna", "hunter22"}})
	if !errors.Is(err, store.ErrInvalid) || strings.Contains(err.Error(), "hunter22") {
		t.Errorf("%v", err)
	}
}
