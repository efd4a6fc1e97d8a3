package store

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Key addresses an object among those of its kind. Namespace may be empty, Name
// may not. It is comparable and used as the request of reconcilers.
type Key struct {
	Namespace, Name string
}

// The longest kind, namespace and name, in bytes.
const (
	MaxKind      = 128
	MaxNamespace = 253
	MaxName      = 512
)

// String returns "namespace/name", or only the name when there is no namespace.
// A name that itself contains a slash keeps an empty namespace visible
// ("/a/b"), so that [ParseKey] is its inverse.
func (k Key) String() string {
	if k.Namespace == "" && !strings.Contains(k.Name, "/") {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// ParseKey reads what [Key.String] wrote: what stands before the first slash is
// the namespace. The error is [ErrInvalid].
func ParseKey(s string) (Key, error) {
	k := Key{Name: s}
	if ns, name, ok := strings.Cut(s, "/"); ok {
		k = Key{Namespace: ns, Name: name}
	}
	return k, k.Check()
}

// Check returns [ErrInvalid] with the reason if no object can have this key:
// an empty or overlong name, an overlong namespace or one with a slash in it,
// invalid UTF-8 or a control character.
func (k Key) Check() error {
	if k.Name == "" {
		return fmt.Errorf("%w: empty name", ErrInvalid)
	}
	if err := checkText("name", k.Name, MaxName); err != nil {
		return err
	}
	if strings.Contains(k.Namespace, "/") {
		return fmt.Errorf("%w: namespace %q contains a slash", ErrInvalid, k.Namespace)
	}
	return checkText("namespace", k.Namespace, MaxNamespace)
}

// MarshalText returns [Key.String], so that a key is a string in JSON and can
// be the key of a map there. The zero Key is the empty string.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (k *Key) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*k = Key{}
		return nil
	}
	parsed, err := ParseKey(string(text))
	if err == nil {
		*k = parsed
	}
	return err
}

// CheckKind returns [ErrInvalid] with the reason if kind cannot be one: empty,
// overlong, with a slash, invalid UTF-8 or a control character. Kinds that
// begin with an underscore belong to tend itself; [New] refuses them, a
// [Backend] does not.
func CheckKind(kind string) error {
	if kind == "" {
		return fmt.Errorf("%w: empty kind", ErrInvalid)
	}
	if strings.Contains(kind, "/") {
		return fmt.Errorf("%w: kind %q contains a slash", ErrInvalid, kind)
	}
	return checkText("kind", kind, MaxKind)
}

// CheckAddress is [CheckKind] and [Key.Check] in one.
func CheckAddress(kind string, key Key) error {
	if err := CheckKind(kind); err != nil {
		return err
	}
	return key.Check()
}

// checkText refuses what would not survive a round trip through bytes or would
// garble a log line. The loop over plain ASCII comes first because Get is on
// the hot path.
func checkText(what, s string, limit int) error {
	if len(s) > limit {
		return fmt.Errorf("%w: %s of %d bytes, at most %d: %.32q…", ErrInvalid, what, len(s), limit, s)
	}
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f {
			return checkUnicode(what, s)
		}
	}
	return nil
}

func checkUnicode(what, s string) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("%w: %s %q is not UTF-8", ErrInvalid, what, s)
	}
	if i := strings.IndexFunc(s, unicode.IsControl); i >= 0 {
		return fmt.Errorf("%w: %s %q contains a control character", ErrInvalid, what, s)
	}
	return nil
}
