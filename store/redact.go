package store

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
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

// unknownSecrets stands for a text of which it is not known what in it is secret.
const unknownSecrets = Redacted + ": a secret panicked when it was looked for in the text"

// Redact takes the values of the fields tagged tend:"secret" of these objects, and their
// [Outputs], out of a text, as they are and as %q, %x (also with blanks), JSON, base64 and URLs
// write them, and as Go prints their bytes; of a value of several lines also each
// line. The tag counts for everything below the
// field: structs, slices, maps with their keys, pointers. Numbers of fewer than
// eight digits, and values shorter than four bytes, are taken out where they stand
// alone; booleans are not. Where the search would cost too much, each text is "(secret)"
// as a whole: with some 50,000 lines of secrets, or a thousand and texts of 130 KB together.
//
// It knows the objects' values and no others: what a cloud answered with another
// value has to be kept out of the text by the code that makes it. Kinds without such a
// field cost nothing.
func (s *Store[S, T]) Redact(text string, objects ...*Object[S, T]) string {
	if !s.hidesOf(objects) {
		return text
	}
	return s.core.redact(text, untyped(objects)...)
}

func (s *core) redact(text string, objects ...object) string {
	if text == "" || !s.hides(objects...) {
		return text
	}
	all := slices.Clone(objects) // a kind without secrets costs no allocation for the list
	clean := unknownSecrets
	_ = s.call(func() error { clean = s.secretsIn([]string{text}, all...).redact(text); return nil })
	return clean
}

// RedactConditions returns the conditions of an object without its secrets in their reasons
// and messages, as Redact takes them out.
func (s *Store[S, T]) RedactConditions(o *Object[S, T]) []Condition {
	if o == nil {
		return nil
	}
	return s.core.redactConditions(o, slices.Clone(o.Conditions))
}

func (s *core) redactConditions(o object, conditions []Condition) []Condition {
	if !s.hides(o) {
		return conditions
	}
	var texts []string
	for _, c := range conditions {
		texts = append(texts, c.Reason, c.Message)
	}
	redact := func(string) string { return unknownSecrets }
	_ = s.call(func() error { redact = s.secretsIn(texts, o).redact; return nil })
	for i := range conditions {
		c := &conditions[i]
		c.Reason, c.Message = redact(c.Reason), redact(c.Message)
	}
	return conditions
}

// RedactError is Redact for an error: what it returns reads without the secrets,
// and is for errors.Is and errors.As still what it was.
func (s *Store[S, T]) RedactError(err error, objects ...*Object[S, T]) error {
	if err == nil || !s.hidesOf(objects) {
		return err
	}
	return s.core.redactError(err, untyped(objects)...)
}

func (s *core) redactError(err error, objects ...object) error {
	if err == nil || !s.hides(objects...) {
		return err
	}
	text := fmt.Sprint(err)
	if clean := s.redact(text, objects...); clean != text {
		return &redactedError{clean, err}
	}
	return err
}

// RedactPanic is for a deferred call around user code that is given the objects:
// a panic goes on, with the secrets taken out of its value.
func (s *Store[S, T]) RedactPanic(objects ...*Object[S, T]) {
	if !s.hidesOf(objects) {
		return
	}
	if p := recover(); p != nil {
		panic(s.core.redactPanic(p, untyped(objects)...))
	}
}

func (s *core) redactPanic(p any, objects ...object) any {
	text := fmt.Sprint(p)
	if clean := s.redact(text, objects...); clean != text {
		err, _ := p.(error)
		return &redactedError{clean, err}
	}
	return p
}

// HasSecrets tells whether the kind has a field tagged tend:"secret".
func (s *Store[S, T]) HasSecrets() bool { return s.core.secret }

type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }
func (e *redactedError) Unwrap() error { return e.err }

// hideDecode takes the decoder's text out of an error about stored bytes: many decoders
// quote what they could not decode. Which values are secret is not known before they
// are decoded, so of a kind with secrets only the field's name is shown.
func (s *core) hideDecode(err error) error {
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
func (o Object[S, T]) LogValue() slog.Value { return o.Meta.logValue() }

func (o *Meta) logValue() slog.Value {
	return slog.GroupValue(
		slog.String("key", o.Key().String()), slog.String("uid", o.UID),
		slog.Uint64("revision", uint64(o.Revision)), slog.Int64("generation", o.Generation),
	)
}

// LogValue logs what kind of event it is and of which object, and nothing that is in
// the object.
func (e Event[S, T]) LogValue() slog.Value {
	return event{e.Kind, e.Revision, e.Key, e.Object, e.Deleted, e.Err}.logValue()
}

func (e event) logValue() slog.Value {
	attrs := []slog.Attr{slog.String("kind", e.kind.String()), slog.Uint64("revision", uint64(e.revision))}
	if e.key != (Key{}) {
		attrs = append(attrs, slog.String("key", e.key.String()), slog.Bool("deleted", e.deleted))
	}
	if m := e.object.meta(); m != nil {
		attrs = append(attrs, slog.Any("object", m.logValue()))
	}
	if e.err != nil {
		attrs = append(attrs, slog.Any("err", e.err))
	}
	return slog.GroupValue(attrs...)
}

// maxSearch bounds the work for the texts that are shown together, as secrets.cost counts
// it: seconds at worst, where a writer of the store has chosen both the secrets and
// the texts.
const maxSearch = 1 << 27

// secrets collects what must not be shown: each form of a secret that stands in one of
// some texts. To look for a form costs no memory, and to keep all would: each line of a
// secret has about 18.
type secrets struct {
	texts   string // joined
	longest int    // the length of the longest text
	found   map[string]bool
	seen    map[string]bool // texts whose forms were looked for: copies of an object have the same
	cost    int             // of the search so far; beyond maxSearch every text is a secret
}

// secretsIn looks for the secrets of objects in texts.
func (s *core) secretsIn(texts []string, objects ...object) *secrets {
	v := newSecrets(texts)
	for _, o := range objects {
		if o.meta() != nil && v.longest > 0 {
			p := o.parts()
			s.spec.Secrets(p.spec, v)
			s.status.Secrets(p.status, v)
			outputSecrets(o, v)
		}
	}
	return v
}

func newSecrets(texts []string) *secrets {
	v := &secrets{texts: strings.Join(texts, "\n"), found: map[string]bool{}, seen: map[string]bool{}}
	for _, text := range texts {
		v.longest = max(v.longest, len(text))
	}
	return v
}

// Enough reports whether the search was given up: then nothing of the texts is shown.
func (c *secrets) Enough() bool { return c.cost > maxSearch }

// pay counts what the search for the forms of s costs. It reports whether to search: s can be
// in a text, and the cost of all is not too much.
func (c *secrets) pay(s string) bool {
	if len(s) > c.longest || c.Enough() { // no form is shorter than s
		return false
	}
	c.cost += len(c.texts) + 4*len(s) + 1024
	return !c.Enough()
}

func (c *secrets) look(form string) {
	if strings.Contains(c.texts, form) {
		c.found[form] = true
	}
}

// Number takes a number that is secret; see [shape.Finder].
func (c *secrets) Number(n string) {
	if c.pay(n) {
		c.look(n)
	}
}

// Text takes a text that is secret.
func (c *secrets) Text(s string) {
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
	if s == "" || c.seen[s] || !c.pay(s) {
		return
	}
	c.seen[s] = true
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
		c.look(f)
	}
}

// shortSecret is how short a value must be to be taken out only where it stands
// alone: a pin of 7 is in every other number, and one of 4242 in some.
const (
	shortSecret = 4
	shortNumber = 8
)

func (c *secrets) redact(text string) string {
	if text == "" {
		return text
	}
	if c.Enough() {
		return Redacted
	}
	var pairs []string
	var short []string
	for f := range c.found {
		switch {
		case !strings.Contains(text, f):
		case len(f) < shortSecret || len(f) < shortNumber && isNumber(f):
			short = append(short, f)
		default:
			pairs = append(pairs, f)
		}
	}
	if pairs == nil && short == nil {
		return text
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

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
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
