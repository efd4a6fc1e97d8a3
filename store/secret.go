package store

import (
	"cmp"
	"encoding"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A field of a spec or status that is tagged tend:"secret" is stored and handed to
// reconcilers like any other, and is taken out of every text that the kernel logs,
// records or shows: errors of reconcilers and clients, diffs, events, conditions,
// the change log, plans, reports, the debug page.

// Redacted stands where a secret stood.
const Redacted = "(secret)"

// Redact takes the values of the fields tagged tend:"secret" of these objects out
// of a text, as they are and as %q, %x (also with blanks), JSON, base64 and URLs
// write them, and as Go prints their bytes; of a value of several lines also each
// line. The tag counts for everything below the
// field: structs, slices, maps with their keys, pointers. Numbers of fewer than
// eight digits, and values shorter than four bytes, are taken out where they stand
// alone; booleans are not.
//
// It knows the objects' values and no others: what a cloud answered with another
// value has to be kept out of the text by the code that makes it. Kinds without such a
// field cost nothing.
func (s *Store[S, T]) Redact(text string, objects ...*Object[S, T]) string {
	if !s.secret || text == "" {
		return text
	}
	v := secrets{found: map[string]bool{}}
	for _, o := range objects {
		if o != nil {
			v.walk(reflect.ValueOf(&o.Spec).Elem(), false, 0)
			v.walk(reflect.ValueOf(&o.Status).Elem(), false, 0)
		}
	}
	return v.redact(text)
}

// RedactError is Redact for an error: what it returns reads without the secrets,
// and is for errors.Is and errors.As still what it was.
func (s *Store[S, T]) RedactError(err error, objects ...*Object[S, T]) error {
	if err == nil || !s.secret {
		return err
	}
	text := fmt.Sprint(err)
	if clean := s.Redact(text, objects...); clean != text {
		return &redactedError{clean, err}
	}
	return err
}

// RedactPanic is for a deferred call around user code that is given the objects:
// a panic goes on, with the secrets taken out of its value.
func (s *Store[S, T]) RedactPanic(objects ...*Object[S, T]) {
	if !s.secret {
		return
	}
	p := recover()
	if p == nil {
		return
	}
	text := fmt.Sprint(p)
	if clean := s.Redact(text, objects...); clean != text {
		err, _ := p.(error)
		p = &redactedError{clean, err}
	}
	panic(p)
}

// HasSecrets tells whether the kind has a field tagged tend:"secret".
func (s *Store[S, T]) HasSecrets() bool { return s.secret }

type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }
func (e *redactedError) Unwrap() error { return e.err }

// hideDecode takes the codec's text out of an error about stored bytes: many decoders
// quote what they could not decode. Which values are secret is not known before they
// are decoded, so of a kind with secrets only the field's name is shown.
func (s *Store[S, T]) hideDecode(err error) error {
	if !s.secret {
		return err
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("field %q does not hold a %v (values of a kind with secrets are not shown)", e.Field, e.Type)
	}
	return errHidden
}

var errHidden = errors.New("the bytes are not an object of this kind (what is wrong is not shown of a kind with secrets)")

// LogValue logs which object it is, and nothing that is in it.
func (o Object[S, T]) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("key", o.Key().String()), slog.String("uid", o.UID),
		slog.Uint64("revision", uint64(o.Revision)), slog.Int64("generation", o.Generation),
	)
}

// LogValue logs what kind of event it is and of which object, and nothing that is in
// the object.
func (e Event[S, T]) LogValue() slog.Value {
	attrs := []slog.Attr{slog.String("kind", e.Kind.String()), slog.Uint64("revision", uint64(e.Revision))}
	if e.Key != (Key{}) {
		attrs = append(attrs, slog.String("key", e.Key.String()), slog.Bool("deleted", e.Deleted))
	}
	if e.Object != nil {
		attrs = append(attrs, slog.Any("object", *e.Object))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.Any("err", e.Err))
	}
	return slog.GroupValue(attrs...)
}

func isSecret(f reflect.StructField) bool {
	return slices.Contains(strings.Split(f.Tag.Get("tend"), ","), "secret")
}

// hasSecret tells whether a type has a tagged field somewhere.
func hasSecret(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return hasSecret(t.Elem(), seen)
	case reflect.Map:
		return hasSecret(t.Key(), seen) || hasSecret(t.Elem(), seen)
	case reflect.Struct:
		for f := range t.Fields() {
			if isSecret(f) || hasSecret(f.Type, seen) {
				return true
			}
		}
	}
	return false
}

// secrets collects what must not be shown, in every form in which it is written.
type secrets struct{ found map[string]bool }

func (c *secrets) walk(v reflect.Value, secret bool, depth int) {
	if depth > MaxDepth {
		return
	}
	if secret {
		c.addPrinted(v)
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			c.walk(v.Elem(), secret, depth+1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			c.walk(v.Field(i), secret || isSecret(v.Type().Field(i)), depth+1)
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			c.walk(it.Key(), secret, depth+1)
			c.walk(it.Value(), secret, depth+1)
		}
	case reflect.Slice, reflect.Array:
		if secret && v.Type().Elem().Kind() == reflect.Uint8 {
			c.addBytes(v)
			return
		}
		for i := range v.Len() {
			c.walk(v.Index(i), secret, depth+1)
		}
	case reflect.String:
		if secret {
			c.addText(v.String())
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		if secret && !v.IsZero() {
			c.found[fmt.Sprint(v)] = true
		}
	}
}

// addPrinted adds how a value prints itself.
func (c *secrets) addPrinted(v reflect.Value) {
	if !v.CanInterface() || v.IsZero() {
		return
	}
	if p, ok := reflect.TypeAssert[fmt.Stringer](v); ok {
		c.addText(fmt.Sprint(p)) // survives a String that panics
	}
	if p, ok := reflect.TypeAssert[encoding.TextMarshaler](v); ok {
		if text, err := p.MarshalText(); err == nil {
			c.addText(string(text))
		}
	}
}

func (c *secrets) addBytes(v reflect.Value) {
	b := make([]byte, v.Len())
	for i := range b {
		b[i] = byte(v.Index(i).Uint())
	}
	c.addText(string(b))
}

func (c *secrets) addText(s string) {
	c.addForms(s)
	if !strings.Contains(s, "\n") {
		return
	}
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); len(line) >= shortSecret {
			c.addForms(line)
		}
	}
}

func (c *secrets) addForms(s string) {
	if s == "" {
		return
	}
	quoted := func(q string) string { return q[1 : len(q)-1] }
	forms := []string{
		s, quoted(strconv.Quote(s)), quoted(strconv.QuoteToASCII(s)), url.QueryEscape(s), url.PathEscape(s),
		base64.StdEncoding.EncodeToString([]byte(s)), base64.RawStdEncoding.EncodeToString([]byte(s)),
		base64.URLEncoding.EncodeToString([]byte(s)), base64.RawURLEncoding.EncodeToString([]byte(s)),
		hex.EncodeToString([]byte(s)), strings.ToUpper(hex.EncodeToString([]byte(s))),
		fmt.Sprintf("% x", s), fmt.Sprintf("% X", s), fmt.Sprintf("%# x", s), fmt.Sprintf("%# X", s),
		fmt.Sprintf("%d", []byte(s)), strings.ReplaceAll(fmt.Sprintf("%# x", s), " ", ", "), // as %v and %#v print bytes
	}
	if text, err := json.Marshal(s); err == nil {
		forms = append(forms, quoted(string(text)))
	}
	for _, f := range forms {
		c.found[f] = true
	}
}

// shortSecret is how short a value must be to be taken out only where it stands
// alone: a pin of 7 is in every other number, and one of 4242 in some.
const (
	shortSecret = 4
	shortNumber = 8
)

func (c *secrets) redact(text string) string {
	var pairs []string
	var short []string
	for f := range c.found {
		_, err := strconv.ParseFloat(f, 64)
		switch {
		case !strings.Contains(text, f):
		case len(f) < shortSecret || err == nil && len(f) < shortNumber:
			short = append(short, f)
		default:
			pairs = append(pairs, f)
		}
	}
	longestFirst := func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) }
	slices.SortFunc(pairs, longestFirst)
	slices.SortFunc(short, longestFirst)
	var replace []string
	for _, f := range pairs {
		replace = append(replace, f, Redacted)
	}
	text = strings.NewReplacer(replace...).Replace(text)
	for _, f := range short {
		text = replaceWord(text, f)
	}
	return text
}

// replaceWord replaces word where no letter or digit is beside it.
func replaceWord(text, word string) string {
	var b strings.Builder
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			b.WriteString(text[from:])
			return b.String()
		}
		i += from
		before, _ := utf8.DecodeLastRuneInString(text[:i])
		after, _ := utf8.DecodeRuneInString(text[i+len(word):])
		b.WriteString(text[from:i])
		if isWord(before) || isWord(after) {
			b.WriteString(word)
		} else {
			b.WriteString(Redacted)
		}
		from = i + len(word)
	}
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
