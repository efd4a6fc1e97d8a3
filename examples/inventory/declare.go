package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxInventoryBytes bounds what is read of the file. 300 buckets are 22 KB.
const maxInventoryBytes = 4 << 20

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)

// An Entry is one bucket as the file declares it, its tenant's defaults filled
// in.
type Entry struct {
	Name       string
	Tenant     string
	Region     string
	Owner      string
	Versioning bool
	Line       int // where it stands in the file, for whoever has to mend it
}

// A Problem is one thing wrong with the file.
type Problem struct {
	Line  int
	Field string // tenants[2].buckets[0].region
	Text  string // what was found and what was expected
}

func (p Problem) String() string { return fmt.Sprintf("line %d: %s: %s", p.Line, p.Field, p.Text) }

// FileErrors is everything wrong with one file, in the order of its lines.
type FileErrors []Problem

func (ps FileErrors) Error() string {
	const shown = 20 // a file that is no inventory at all is wrong on every line
	lines := make([]string, 0, shown+1)
	for _, p := range ps[:min(len(ps), shown)] {
		lines = append(lines, p.String())
	}
	if len(ps) > shown {
		lines = append(lines, fmt.Sprintf("and %d more", len(ps)-shown))
	}
	return strings.Join(lines, "\n")
}

// parseInventory reads a declared inventory. An error is FileErrors: the whole
// list, so that a broken file is mended in one go; no entry of a broken file is
// returned.
func parseInventory(data []byte) ([]Entry, error) {
	root, err := parseDocument(data)
	if err != nil {
		return nil, err
	}
	r := &reader{seen: map[string]int{}}
	r.fields(root, "", "", field{"tenants", true, func(n *yaml.Node, at string) {
		r.each(n, at, r.tenant)
	}})
	if len(r.problems) > 0 {
		slices.SortStableFunc(r.problems, func(a, b Problem) int { return a.Line - b.Line })
		return nil, r.problems
	}
	return r.entries, nil
}

// parseDocument turns the bytes into the one YAML document they should be.
func parseDocument(data []byte) (*yaml.Node, error) {
	whole := func(format string, args ...any) error {
		return FileErrors{{Line: 1, Field: "file", Text: fmt.Sprintf(format, args...)}}
	}
	if len(data) > maxInventoryBytes {
		return nil, whole("is larger than %d bytes", maxInventoryBytes)
	}
	var doc, second yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, whole("is empty; expected tenants and their buckets")
	case err != nil:
		return nil, notYAML(err)
	}
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, whole("holds more than one document; expected one")
	}
	if len(doc.Content) == 0 {
		return nil, whole("is empty; expected tenants and their buckets")
	}
	return doc.Content[0], nil
}

// notYAML finds the line in the parser's message, "yaml: line 12: …".
func notYAML(err error) error {
	text, line := strings.TrimPrefix(err.Error(), "yaml: "), 1
	if n, rest, ok := strings.Cut(strings.TrimPrefix(text, "line "), ": "); ok {
		if at, err := strconv.Atoi(n); err == nil {
			line, text = max(at, 1), rest
		}
	}
	return FileErrors{{Line: line, Field: "file", Text: "is not YAML: " + cut(text)}}
}

// A reader walks the document and notes what is wrong, with where. It works on
// nodes, not on decoded structs, because a decoder forgets the lines, takes the
// number 12 for a name, and follows aliases (a file of 1 KB can stand for one of
// 1 GB).
type reader struct {
	entries  []Entry
	problems FileErrors
	seen     map[string]int // bucket name or tenant → line of its first mention
}

// A field is one key that a mapping may have, and what reads its value.
type field struct {
	name     string
	required bool
	read     func(n *yaml.Node, at string)
}

func (r *reader) wrong(n *yaml.Node, at, format string, args ...any) {
	r.problems = append(r.problems, Problem{n.Line, at, fmt.Sprintf(format, args...)})
}

func (r *reader) tenant(n *yaml.Node, at string) {
	var name, owner, region string
	var buckets *yaml.Node
	bucketsAt := ""
	r.fields(n, at, "name",
		field{"name", true, r.into(&name, checkTenant)},
		field{"owner", true, r.into(&owner, checkOwner)},
		field{"region", true, r.into(&region, checkRegion)},
		field{"buckets", true, func(n *yaml.Node, at string) { buckets, bucketsAt = n, at }},
	)
	if name != "" {
		r.once(n, at+".name", "tenant", name)
	}
	if buckets == nil {
		return
	}
	r.each(buckets, bucketsAt, func(n *yaml.Node, at string) {
		r.bucket(n, at, Entry{Tenant: name, Owner: owner, Region: region})
	})
}

// bucket reads one entry; e brings the tenant's defaults.
func (r *reader) bucket(n *yaml.Node, at string, e Entry) {
	e.Line = n.Line
	r.fields(n, at, "name",
		field{"name", true, r.into(&e.Name, checkBucketName)},
		field{"owner", false, r.into(&e.Owner, checkOwner)},
		field{"region", false, r.into(&e.Region, checkRegion)},
		field{"versioning", false, func(n *yaml.Node, at string) { e.Versioning = r.boolean(n, at) }},
	)
	if e.Name != "" && r.once(n, at+".name", "bucket", e.Name) {
		r.entries = append(r.entries, e)
	}
}

// once notes a name that was used before; S3's names are one space over all
// tenants and regions.
func (r *reader) once(n *yaml.Node, at, what, name string) bool {
	key := what + " " + name
	if first, dup := r.seen[key]; dup {
		r.wrong(n, at, "%s %q is declared already, on line %d; expected each name once", what, name, first)
		return false
	}
	r.seen[key] = n.Line
	return true
}

// fields reads a mapping. title is the field that names the thing in messages
// about fields that are missing.
func (r *reader) fields(n *yaml.Node, at, title string, want ...field) {
	if n.Kind != yaml.MappingNode {
		r.wrong(n, orFile(at), "found %s; expected a mapping with %s", describe(n), names(want))
		return
	}
	had := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		r.field(n.Content[i], n.Content[i+1], at, had, want)
	}
	for _, f := range want {
		if f.required && !had[f.name] {
			r.wrong(n, join(at, f.name), "is missing%s", titled(n, title))
		}
	}
}

func (r *reader) field(key, value *yaml.Node, at string, had map[string]bool, want []field) {
	i := slices.IndexFunc(want, func(f field) bool { return f.name == key.Value })
	switch {
	case i < 0:
		r.wrong(key, join(at, keyText(key)), "unknown field; expected %s", names(want))
	case had[key.Value]:
		r.wrong(key, join(at, key.Value), "is given twice; expected once")
	default:
		had[key.Value] = true
		want[i].read(value, join(at, key.Value))
	}
}

// each reads a list.
func (r *reader) each(n *yaml.Node, at string, read func(n *yaml.Node, at string)) {
	if n.Kind != yaml.SequenceNode {
		r.wrong(n, at, "found %s; expected a list", describe(n))
		return
	}
	for i, item := range n.Content {
		read(item, fmt.Sprintf("%s[%d]", at, i))
	}
}

// into reads a text that satisfies check, whose error says what was expected.
func (r *reader) into(dst *string, check func(string) error) func(*yaml.Node, string) {
	return func(n *yaml.Node, at string) {
		*dst = ""
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
			r.wrong(n, at, "found %s; expected text", describe(n))
			return
		}
		if err := check(n.Value); err != nil {
			r.wrong(n, at, "found %q; expected %v", cut(n.Value), err)
			return
		}
		*dst = n.Value
	}
}

func (r *reader) boolean(n *yaml.Node, at string) bool {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!bool" {
		return strings.EqualFold(n.Value, "true")
	}
	r.wrong(n, at, "found %s; expected true or false", describe(n))
	return false
}

// describe says what a node is, in words of the file rather than of YAML's
// specification.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias, which an inventory may not use"
	}
	switch n.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!int", "!!float":
		return "the number " + cut(n.Value)
	case "!!bool":
		return "the boolean " + n.Value
	case "!!str":
		return fmt.Sprintf("the text %q", cut(n.Value))
	}
	return fmt.Sprintf("%q (%q)", cut(n.Value), cut(n.ShortTag()))
}

// keyText is a field's name as messages show it: one that is no plain word is
// quoted, for it may hold anything, escape codes of a terminal too.
func keyText(key *yaml.Node) string {
	if key.Kind != yaml.ScalarNode {
		return "(" + describe(key) + ")"
	}
	if plainKey.MatchString(key.Value) {
		return key.Value
	}
	return strconv.Quote(cut(key.Value))
}

func names(fs []field) string {
	var s []string
	for _, f := range fs {
		s = append(s, f.name)
	}
	return strings.Join(s, ", ")
}

// titled names the thing that lacks a field, if it has a name.
func titled(n *yaml.Node, title string) string {
	for i := 0; title != "" && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == title && n.Content[i+1].Value != "" {
			return fmt.Sprintf(" from %q", cut(n.Content[i+1].Value))
		}
	}
	return ""
}

func join(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

func orFile(at string) string {
	if at == "" {
		return "file"
	}
	return at
}

// cut keeps a message short whatever the file holds.
func cut(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
