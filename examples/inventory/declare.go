package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v4"
)

// maxInventoryBytes bounds what is read of the file. 300 buckets are 22 KB.
const maxInventoryBytes = 4 << 20

// An Entry is one bucket as the file declares it, its tenant's defaults filled
// in.
type Entry struct {
	Name       string
	Tenant     string
	Region     string
	Owner      string
	Versioning bool
	Files      []DeclaredFile
	Line       int // in the file
}

// A DeclaredFile is an object that the bucket holds.
type DeclaredFile struct {
	Key, Text string
}

// A Problem is one thing wrong with the file.
type Problem struct {
	Line int
	Text string // what was found and what was expected
}

func (p Problem) String() string { return fmt.Sprintf("line %d: %s", p.Line, p.Text) }

// FileErrors is everything wrong with one file, in the order of its lines.
type FileErrors []Problem

func (ps FileErrors) Error() string {
	const shown = 20 // a file that is not an inventory is wrong on every line
	lines := make([]string, 0, shown+1)
	for _, p := range ps[:min(len(ps), shown)] {
		lines = append(lines, p.String())
	}
	if len(ps) > shown {
		lines = append(lines, fmt.Sprintf("and %d more", len(ps)-shown))
	}
	return strings.Join(lines, "\n")
}

// The structure of the file. Each text has a type that checks it.
type (
	inventoryFile struct {
		Tenants []declaredTenant `yaml:"tenants"`
	}
	declaredTenant struct {
		Name    tenantName       `yaml:"name"`
		Owner   owner            `yaml:"owner"`
		Region  region           `yaml:"region"`
		Buckets []declaredBucket `yaml:"buckets"`
		line    int
	}
	declaredBucket struct {
		Name       bucketName     `yaml:"name"`
		Owner      owner          `yaml:"owner"`  // "": the tenant's
		Region     region         `yaml:"region"` // "": the tenant's
		Versioning bool           `yaml:"versioning"`
		Files      []declaredFile `yaml:"files"`
		line       int
	}
	declaredFile struct {
		Key  fileKey  `yaml:"key"`
		Text fileText `yaml:"text"`
		line int
	}
	tenantName string
	bucketName string
	owner      string
	region     string
	fileKey    string
	fileText   string
)

// parseInventory reads a declared inventory. An error is FileErrors, with everything
// that is wrong; no entry of a broken file is returned.
func parseInventory(data []byte) ([]Entry, error) {
	if len(data) > maxInventoryBytes {
		return nil, FileErrors{{1, fmt.Sprintf("the file is larger than %d bytes", maxInventoryBytes)}}
	}
	var root yaml.Node
	if err := yaml.Load(data, &root); err != nil {
		return nil, notYAML(err)
	}
	if problems := costly(&root, nil); problems != nil {
		return nil, problems
	}
	var file inventoryFile
	problems := problemsOf(root.Load(&file, yaml.WithKnownFields()))
	if problems == nil && file.Tenants == nil {
		problems = FileErrors{{1, "tenants are missing"}}
	}
	seen := map[string]int{} // tenant, bucket or file → line of its first mention
	once := func(line int, what, name string) {
		if first, twice := seen[what+name]; twice {
			problems = append(problems, Problem{line, fmt.Sprintf("%s %q is declared already, on line %d; expected each name once", what, name, first)})
		}
		seen[what+name] = line
	}
	var entries []Entry
	for _, t := range file.Tenants {
		once(t.line, "tenant", string(t.Name))
		for _, b := range t.Buckets {
			once(b.line, "bucket", string(b.Name))
			entry := Entry{
				Name: string(b.Name), Tenant: string(t.Name), Region: string(cmp.Or(b.Region, t.Region)),
				Owner: string(cmp.Or(b.Owner, t.Owner)), Versioning: b.Versioning, Line: b.line,
			}
			for _, f := range b.Files {
				once(f.line, "file", string(b.Name)+"/"+string(f.Key))
				entry.Files = append(entry.Files, DeclaredFile{string(f.Key), string(f.Text)})
			}
			entries = append(entries, entry)
		}
	}
	if problems != nil {
		slices.SortStableFunc(problems, func(a, b Problem) int { return a.Line - b.Line })
		return nil, problems
	}
	return entries, nil
}

func (s *tenantName) UnmarshalYAML(n *yaml.Node) error { return text(n, (*string)(s), checkTenant) }
func (s *bucketName) UnmarshalYAML(n *yaml.Node) error { return text(n, (*string)(s), checkBucketName) }
func (s *owner) UnmarshalYAML(n *yaml.Node) error      { return text(n, (*string)(s), checkOwner) }
func (s *region) UnmarshalYAML(n *yaml.Node) error     { return text(n, (*string)(s), checkRegion) }
func (s *fileKey) UnmarshalYAML(n *yaml.Node) error    { return text(n, (*string)(s), checkFileKey) }

func (s *fileText) UnmarshalYAML(n *yaml.Node) error { return text(n, (*string)(s), checkFileText) }

// text reads a text that satisfies check, whose error says what is expected. The
// decoder alone takes the number 12 for the text "12".
func text(n *yaml.Node, s *string, check func(string) error) error {
	if n.ShortTag() != "!!str" {
		return fmt.Errorf("found %s `%s`; expected text", n.ShortTag(), cut(n.Value))
	}
	if err := check(n.Value); err != nil {
		return fmt.Errorf("found %q; expected %w", cut(n.Value), err)
	}
	*s = n.Value
	return nil
}

func (t *declaredTenant) UnmarshalYAML(n *yaml.Node) error {
	type tenant declaredTenant // without this method
	t.line = n.Line
	return require(n, n.Load((*tenant)(t), yaml.WithKnownFields()), "name", "owner", "region", "buckets")
}

func (b *declaredBucket) UnmarshalYAML(n *yaml.Node) error {
	type bucket declaredBucket
	b.line = n.Line
	return require(n, n.Load((*bucket)(b), yaml.WithKnownFields()), "name")
}

func (f *declaredFile) UnmarshalYAML(n *yaml.Node) error {
	type file declaredFile
	f.line = n.Line
	return require(n, n.Load((*file)(f), yaml.WithKnownFields()), "key", "text")
}

// require adds to the decoder's error what it does not look for: keys of a mapping that
// are missing, and keys without a value.
func require(n *yaml.Node, err error, keys ...string) error {
	errs := &yaml.LoadErrors{}
	if n.Kind != yaml.MappingNode || err != nil && !errors.As(err, &errs) {
		return err
	}
	wrong := func(n *yaml.Node, text string) {
		errs.Errors = append(errs.Errors, &yaml.LoadError{Message: text, Mark: yaml.Mark{Line: n.Line}})
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i].Value, n.Content[i+1]
		keys = slices.DeleteFunc(keys, func(k string) bool { return k == key })
		if value.ShortTag() == "!!null" {
			wrong(value, fmt.Sprintf("%q has no value", cut(key)))
		}
	}
	for _, key := range keys {
		wrong(n, key+" is missing")
	}
	if len(errs.Errors) == 0 {
		return nil
	}
	return errs
}

// maxKeys bounds the keys of a mapping: the decoder compares each with each.
const maxKeys = 100

// costly finds what would cost the decoder much more than its size: it follows
// aliases, with which 1 KB can stand for 1 GB, and large mappings cost it hours.
func costly(n *yaml.Node, found FileErrors) FileErrors {
	switch {
	case n.Kind == yaml.AliasNode:
		found = append(found, Problem{n.Line, "found an alias, which an inventory may not use"})
	case n.Kind == yaml.MappingNode && len(n.Content) > 2*maxKeys:
		found = append(found, Problem{n.Line, fmt.Sprintf("found a mapping of %d keys; expected up to %d", len(n.Content)/2, maxKeys)})
	}
	for _, c := range n.Content {
		found = costly(c, found)
	}
	return found
}

// inWords translates the decoder's messages, which speak of YAML's and Go's types.
var inWords = strings.NewReplacer(
	"not found in type main.inventoryFile", "is unknown; expected tenants",
	"not found in type main.tenant", "is unknown; expected name, owner, region, buckets",
	"not found in type main.bucket", "is unknown; expected name, owner, region, versioning, files",
	"not found in type main.file", "is unknown; expected key, text",
	"mapping key ", "", `" already defined at line `, `" is given already, on line `,
	"cannot construct ", "found ", " into ", "; expected ",
	"[]main.declaredTenant", "a list of tenants", "[]main.declaredBucket", "a list of buckets", "[]main.declaredFile", "a list of files",
	"main.file", "a mapping with key, text",
	"main.inventoryFile", "a mapping with tenants", "main.tenant", "a mapping with name, owner, region, buckets",
	"main.bucket", "a mapping with name, owner, region, versioning, files", "bool", "true or false",
	"!!map", "a mapping", "!!seq", "a list", "!!str", "the text", "!!int", "the number", "!!float", "the number", "!!bool", "the boolean", " ``", "",
)

// problemsOf returns the decoder's errors with their lines.
func problemsOf(err error) (found FileErrors) {
	var errs *yaml.LoadErrors
	if err == nil {
		return nil
	}
	if !errors.As(err, &errs) {
		return notYAML(err)
	}
	for _, e := range errs.Errors {
		found = append(found, Problem{max(1, e.Mark.Line), printable(inWords.Replace(e.Message))})
	}
	return found
}

// notYAML returns what is wrong with a file that has no structure.
func notYAML(err error) FileErrors {
	var at *yaml.LoadError
	switch text := err.Error(); {
	case strings.Contains(text, "no documents"):
		return FileErrors{{1, "the file is empty; expected tenants and their buckets"}}
	case strings.Contains(text, "single document"):
		return FileErrors{{1, "the file holds more than one document; expected one"}}
	case errors.As(err, &at):
		return FileErrors{{max(1, at.Mark.Line), "the file is not YAML: " + printable(at.Message)}}
	default:
		return FileErrors{{1, "the file is not YAML: " + printable(text)}}
	}
}

// printable keeps what the file holds from the terminal's control codes.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// cut keeps a message short whatever the file holds.
func cut(s string) string { return cutTo(s, 80) }

func cutTo(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
