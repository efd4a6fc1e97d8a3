package store

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Selector picks objects by namespace and labels. The zero Selector picks every
// object. Backends know nothing of it: it is evaluated on the decoded object.
type Selector struct {
	// Namespace must be equal; empty means any.
	Namespace string
	// Labels must all hold.
	Labels []Requirement
}

// Requirement is one condition on one label, as [ParseSelector] makes it.
type Requirement struct {
	Key string
	op  selectorOp
	// Values is what "in" and "notin" compare with. The others have none.
	Values []string
}

// selectorOp is the operator of a Requirement.
type selectorOp uint8

// The operators. The last and opMissing also hold for an object without the label.
const (
	opExists selectorOp = iota
	opMissing
	opIn
	opNotIn
)

// Matches reports whether the object is picked.
func (s Selector) Matches(m *Meta) bool {
	if s.Namespace != "" && s.Namespace != m.Namespace {
		return false
	}
	for i := range s.Labels {
		if !s.Labels[i].matches(m.Labels) {
			return false
		}
	}
	return true
}

func (r Requirement) matches(labels map[string]string) bool {
	v, ok := labels[r.Key]
	switch r.op {
	case opExists:
		return ok
	case opMissing:
		return !ok
	case opIn:
		return ok && slices.Contains(r.Values, v)
	default:
		return !ok || !slices.Contains(r.Values, v)
	}
}

// String returns the label part in the syntax of [ParseSelector].
func (s Selector) String() string {
	parts := make([]string, len(s.Labels))
	for i, r := range s.Labels {
		parts[i] = r.text()
	}
	return strings.Join(parts, ",")
}

// text is the requirement in the syntax of [ParseSelector], which reads it
// back as it is.
func (r Requirement) text() string {
	key := selectorWord(r.Key)
	values := make([]string, len(r.Values))
	for i, v := range r.Values {
		values[i] = selectorWord(v)
	}
	switch {
	case r.op == opExists:
		return key
	case r.op == opMissing:
		return "!" + key
	case r.op == opIn && len(values) == 1:
		return key + "=" + values[0]
	case r.op == opNotIn && len(values) == 1:
		return key + "!=" + values[0]
	case r.op == opIn:
		return key + " in (" + strings.Join(values, ",") + ")"
	}
	return key + " notin (" + strings.Join(values, ",") + ")"
}

// wordEnd is what ends a word that is not quoted.
const wordEnd = " ,=!()\""

// selectorWord quotes what would not be read as one word.
func selectorWord(s string) string {
	if s == "" || strings.ContainsAny(s, wordEnd) {
		return strconv.Quote(s)
	}
	return s
}

// ParseSelector reads requirements on labels, separated by commas, all of which
// must hold:
//
//	key            the label exists
//	!key           it does not
//	key=value      it has this value; key==value says the same
//	key!=value     it has not, or does not exist
//	key in (a,b)   it has one of these values
//	key notin (a)  it has none of them, or does not exist
//
// Keys and values hold no blanks and none of ",=!()" and quotes, unless they are
// quoted as Go strings: key="a (b)". A list of no values is "()". The empty string
// picks everything. The error is [ErrInvalid].
func ParseSelector(labels string) (Selector, error) {
	p := selectorParser{rest: labels}
	var s Selector
	for p.skip(); p.rest != ""; p.skip() {
		if len(s.Labels) > 0 && !p.take(",") {
			return Selector{}, p.fail(labels, "a comma")
		}
		r, err := p.requirement()
		if err != "" {
			return Selector{}, p.fail(labels, err)
		}
		s.Labels = append(s.Labels, r)
	}
	return s, nil
}

// selectorParser eats a selector from the left.
type selectorParser struct{ rest string }

func (p *selectorParser) fail(all, want string) error {
	return fmt.Errorf("%w: selector %.100q: expected %s at %d", ErrInvalid, all, want, len(all)-len(p.rest))
}

func (p *selectorParser) skip() { p.rest = strings.TrimLeft(p.rest, " ") }

// take eats the token if it comes next.
func (p *selectorParser) take(token string) bool {
	p.skip()
	rest, ok := strings.CutPrefix(p.rest, token)
	if ok {
		p.rest = rest
	}
	return ok
}

// word eats what may be a key or a value.
func (p *selectorParser) word() string {
	p.skip()
	if quoted, err := strconv.QuotedPrefix(p.rest); err == nil && p.rest[0] == '"' {
		p.rest = p.rest[len(quoted):]
		w, _ := strconv.Unquote(quoted) // QuotedPrefix has looked
		return w
	}
	i := strings.IndexAny(p.rest, wordEnd)
	if i < 0 {
		i = len(p.rest)
	}
	w := p.rest[:i]
	p.rest = p.rest[i:]
	return w
}

// requirement eats one; want is what it would have liked to see, empty if all is
// well.
func (p *selectorParser) requirement() (r Requirement, want string) {
	if p.take("!") {
		r.op = opMissing
	}
	r.Key = p.word()
	if checkName("label", r.Key) != nil {
		return r, "the key of a label"
	}
	if r.op == opMissing {
		return r, ""
	}
	switch {
	case p.take("!="):
		r.op = opNotIn
		return p.oneValue(r)
	case p.take("=="), p.take("="):
		r.op = opIn
		return p.oneValue(r)
	}
	p.skip()
	if p.rest == "" || p.rest[0] == ',' {
		return r, "" // the label exists
	}
	switch p.word() {
	case "in":
		r.op = opIn
	case "notin":
		r.op = opNotIn
	default:
		return r, `"=", "!=", "in" or "notin"`
	}
	return p.valueList(r)
}

func (p *selectorParser) oneValue(r Requirement) (Requirement, string) {
	v := p.word()
	r.Values = []string{v}
	if checkLabel(r.Key, v) != nil {
		return r, "the value of a label"
	}
	return r, ""
}

func (p *selectorParser) valueList(r Requirement) (Requirement, string) {
	if !p.take("(") {
		return r, `"("`
	}
	if p.take(")") {
		return r, ""
	}
	for {
		v := p.word()
		if checkLabel(r.Key, v) != nil {
			return r, "the value of a label"
		}
		r.Values = append(r.Values, v)
		if p.take(")") {
			return r, ""
		}
		if !p.take(",") {
			return r, `"," or ")"`
		}
	}
}
