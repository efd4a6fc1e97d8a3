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
	"time"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
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
	fmt.Sprintf("% x", "bytes-7"), fmt.Sprintf("% X", "bytes-7"), fmt.Sprintf("%# x", "bytes-7"), "0x62, 0x79, 0x74",
	fmt.Sprintf("% x", "plain-1"), fmt.Sprintf("% X", "in-a-slice-2"), "112 108 97 105 110", "0x70, 0x6c, 0x61",
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
		"spaced":    fmt.Sprintf("% x|% X|%# x|%# X|%#x|%#v", v.Key, v.Key, v.Key, v.Key, v.Key, v.Key),
		"of string": fmt.Sprintf("% x|% X|%v|%#v", v.Login.Password, v.Logins[0].Password, []byte(v.Login.Password), []byte(v.Login.Password)),
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
	for _, same := range []string{"", "nothing in here, of size 7", "anna, bert and 4242421", "the error is <nil>, {} or []"} {
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
	o.Spec.Password = "84739201" // no such number is there by chance
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

// An object is logged by value too, and inside the event of a watch.
func TestLoggedValueOfAnObjectAndEventShowNoSecret(t *testing.T) {
	var b strings.Builder
	o := &store.Object[vault, struct{}]{Meta: store.Meta{Name: "which", UID: "u"}, Spec: secretVault()}
	e := store.Event[vault, struct{}]{Kind: store.BatchChanges, Key: o.Key(), Revision: 7, Object: o}
	for _, h := range []slog.Handler{slog.NewJSONHandler(&b, nil), slog.NewTextHandler(&b, nil)} {
		slog.New(h).Info("seen", "object", *o, "event", e, "pointer", &e, "end", store.Event[vault, struct{}]{Kind: store.BatchSnapshotEnd, Revision: 8})
	}
	wantNowhere(t, "the log", b.String())
	for _, want := range []string{"which", "changes", "snapshot end", `"revision":7`, "revision=7", `"revision":8`, "revision=8"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("it does not say %q: %s", want, &b)
		}
	}
}

// A version of a program in which a secret has another type cannot read what the
// version before it wrote, and says so without the secret.
func TestSecretOfAnotherTypeIsNotInTheDecodeError(t *testing.T) {
	type before struct {
		Pass string `json:"pass" tend:"secret"`
		Pin  int64  `json:"pin" tend:"secret"`
		Size int    `json:"size"`
	}
	b := newMemory(t, &memory.Options{Encode: true})
	s := must[*store.Store[before, struct{}]](t)(store.New[before, struct{}](b, "S", nil))
	key := store.Key{Name: "x"}
	must[*store.Object[before, struct{}]](t)(s.Create(t.Context(), &store.Object[before, struct{}]{
		Meta: store.Meta{Name: "x"}, Spec: before{"hunter2-SECRET", 987654321012, 5},
	}))
	hidden := func(what string, err error) {
		t.Helper()
		var d *store.DecodeError
		if !errors.As(err, &d) || d.Key != key {
			t.Errorf("%s: got %v, want a DecodeError of %s", what, err, key)
			return
		}
		for e := err; e != nil; e = errors.Unwrap(e) {
			if text := fmt.Sprintf("%v %+v %q", e, e, e); strings.Contains(text, "hunter2") || strings.Contains(text, "987654") {
				t.Errorf("%s: the error shows the secret: %s", what, text)
			}
		}
	}
	type address struct {
		Pass netip.Addr `json:"pass" tend:"secret"`
	}
	type when struct {
		Pass time.Time `json:"pass" tend:"secret"`
	}
	type short struct {
		Pin int8 `json:"pin" tend:"secret"`
	}
	type inSlice struct {
		Pass []string `json:"pass" tend:"secret"`
	}
	hidden("netip.Addr", decodeErrorOf[address](t, b, key))
	hidden("time.Time", decodeErrorOf[when](t, b, key))
	hidden("int8", decodeErrorOf[short](t, b, key))
	hidden("[]string", decodeErrorOf[inSlice](t, b, key))
	if err := decodeErrorOf[inSlice](t, b, key); !strings.Contains(err.Error(), "pass") {
		t.Errorf("%v does not name the field", err)
	}
	type noSecret struct {
		Size string `json:"size"`
	}
	if err := decodeErrorOf[noSecret](t, b, key); !strings.Contains(err.Error(), "cannot unmarshal number into") {
		t.Errorf("%v: without secrets the error says all", err)
	}
}

func decodeErrorOf[S any](t testing.TB, b store.Backend, key store.Key) error {
	t.Helper()
	s := must[*store.Store[S, struct{}]](t)(store.New[S, struct{}](b, "S", nil))
	_, err := s.Get(t.Context(), key)
	if !errors.Is(err, store.ErrDecode) {
		t.Errorf("%T: got error %v, want %v", *new(S), err, store.ErrDecode)
	}
	return err
}

// quoting is a type whose encoder says what it cannot encode.
type quoting string

func (q quoting) MarshalText() ([]byte, error) { return nil, fmt.Errorf("cannot encode %q", string(q)) }

func TestSecretIsNotInTheErrorOfItsEncoder(t *testing.T) {
	type spec struct {
		Pass quoting `tend:"secret"`
	}
	s := must[*store.Store[spec, struct{}]](t)(store.New[spec, struct{}](newMemory(t, &memory.Options{Encode: true}), "S", nil))
	_, err := s.Create(t.Context(), &store.Object[spec, struct{}]{Meta: store.Meta{Name: "x"}, Spec: spec{"hunter22"}})
	if err == nil || strings.Contains(err.Error(), "hunter22") {
		t.Errorf("got %v, want an error without the secret", err)
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
