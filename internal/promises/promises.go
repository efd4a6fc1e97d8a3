// Package promises has the table of what must hold, with the tests and the controls of each row.
// go run ./bench/mutants -promises prints it, and -controls checks its controls.
package promises

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// File has the table, from the root.
const File = "internal/promises/table.txt"

//go:embed table.txt
var table string

// A Test is one of a package, which is a folder from the root.
type Test struct{ Package, Name string }

func (t Test) String() string { return t.Package + " " + t.Name }

// A Control holds if the test fails for at least one mutant of the operator in the function.
type Control struct {
	Test     Test
	Func, Op string // as in internal/mutate: queue.(*shard).take
}

func (c Control) String() string { return fmt.Sprintf("%s: %s %s", c.Test, c.Func, c.Op) }

// Package is the folder of the function.
func (c Control) Package() string {
	pkg, _, _ := strings.Cut(c.Func, ".")
	return pkg
}

// A Row is one thing that must hold.
type Row struct {
	Of        string // one promise or some, "Q1, Q2", or "-"; and traps with their numbers
	What      string
	Tests     []Test    // that are part of no control
	Campaigns []string  // of bench/nightly; or flags that make a test large
	Judges    []Test    // tests that hand a checker something wrong
	Controls  []Control // by mutants
}

// IsOf tells whether the row is about a promise.
func (r Row) IsOf(promise string) bool { return slices.Contains(strings.Split(r.Of, ", "), promise) }

// Rows are those of the table.
func Rows() ([]Row, error) { return Parse(table) }

// Parse reads a table: a line for each row, and below it, after a tab, what is known of it.
func Parse(text string) (rows []Row, err error) {
	for n, line := range strings.Split(text, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		known, isKnown := strings.CutPrefix(line, "\t")
		of, what, isRow := strings.Cut(line, "  ")
		switch {
		case isKnown && len(rows) > 0:
			err = rows[len(rows)-1].add(known)
		case isKnown || !isRow:
			err = errors.New("want a row, with two blanks after what it is of")
		default:
			rows = append(rows, Row{Of: of, What: what})
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w: %s", File, n+1, err, line)
		}
	}
	return rows, nil
}

func (r *Row) add(line string) error {
	campaigns, isCampaign := strings.CutPrefix(line, "campaign ")
	tests, control := testsLine.FindStringSubmatch(line), controlLine.FindStringSubmatch(line)
	switch {
	case isCampaign && strings.HasPrefix(campaigns, "go "):
		r.Campaigns = append(r.Campaigns, campaigns)
	case isCampaign:
		r.Campaigns = append(r.Campaigns, strings.Fields(campaigns)...)
	case control != nil:
		for broken := range strings.SplitSeq(control[3], ", ") {
			at := strings.LastIndex(broken, " ")
			r.Controls = append(r.Controls, Control{Test{control[1], control[2]}, broken[:at], broken[at+1:]})
		}
	case tests != nil:
		to := &r.Tests
		if tests[1] != "" {
			to = &r.Judges
		}
		for name := range strings.FieldsSeq(tests[3]) {
			*to = append(*to, Test{tests[2], name})
		}
	default:
		return errors.New("want [judge] PACKAGE TEST..., campaign NAME..., or PACKAGE TEST: FUNCTION OPERATOR, ...")
	}
	return nil
}

// Replace returns the table with another control of the same test in the place of one.
func Replace(table string, old, by Control) string {
	line := regexp.MustCompile(`(?m)^\t` + regexp.QuoteMeta(old.Test.String()+": ") + `.*`)
	one := regexp.MustCompile(`(: |, )` + regexp.QuoteMeta(old.Func+" "+old.Op) + `(,|$)`)
	return line.ReplaceAllStringFunc(table, func(line string) string {
		return one.ReplaceAllString(line, "${1}"+strings.ReplaceAll(by.Func+" "+by.Op, "$", "$$")+"${2}")
	})
}

var (
	testsLine   = regexp.MustCompile(`^(judge )?(\S+)((?: (?:Test|Fuzz)\w+)+)$`)
	controlLine = regexp.MustCompile(`^(\S+) ((?:Test|Fuzz)\w+): ([^,]+ \w+(?:, [^,]+ \w+)*)$`)
	promise     = regexp.MustCompile(`(?m)^\| ([A-Z]\d) \| (.*) \|$`)
	mark        = regexp.MustCompile(`//.*?[Pp]romises? ((?:[A-Z]\d(?:, | and | to )?)+)`)
	id          = regexp.MustCompile(`[A-Z]\d`)
	testFunc    = regexp.MustCompile(`(?m)((?:^//.*\n)*)^func ((?:Test|Fuzz)\w+)(\(.*\{\n(?:(?:[^}\n].*)?\n)*)?`)
)

// Texts are the promises of docs/PROMISES.md, with their names in order.
func Texts(repository fs.FS) (texts map[string]string, names []string, err error) {
	page, err := fs.ReadFile(repository, "docs/PROMISES.md")
	if err != nil {
		return nil, nil, fmt.Errorf("run it in the root of the repository: %w", err)
	}
	texts = map[string]string{}
	for _, m := range promise.FindAllStringSubmatch(string(page), -1) {
		texts[m[1]] = m[2]
		names = append(names, m[1])
	}
	return texts, names, nil
}

// Print writes what is known of the promises of these ids; none: of all, and the other rows.
func Print(out io.Writer, repository fs.FS, ids []string) error {
	texts, known, err := Texts(repository)
	if err != nil {
		return err
	}
	rows, err := Rows()
	if err != nil {
		return err
	}
	tests, err := marked(repository)
	if err != nil {
		return err
	}
	texts["-"] = "Of no promise"
	if len(ids) == 0 {
		ids = append(slices.Clone(known), "-")
	}
	for _, id := range ids {
		if texts[id] == "" {
			return fmt.Errorf("there is no promise %q; there are %s", id, strings.Join(known, ", "))
		}
		fmt.Fprintf(out, "%s  %s\n\n", id, texts[id])
		for _, r := range rows {
			if r.IsOf(id) {
				fmt.Fprintf(out, "  %s  %s\n", r.Of, r.What)
				printAll(out, "test", r.Tests)
				printAll(out, "campaign", r.Campaigns)
				printAll(out, "judge", r.Judges)
				printAll(out, "control", r.Controls)
				fmt.Fprintln(out)
			}
		}
		if id != "-" {
			fmt.Fprintf(out, "  named by %d tests: %s\n\n", len(tests[id]), strings.Join(tests[id], ", "))
		}
	}
	return nil
}

func printAll[T any](out io.Writer, what string, all []T) {
	for _, x := range all {
		fmt.Fprintf(out, "    %-8s %v\n", what, x)
	}
}

// marked maps each promise to the tests whose comment, or whose body's, names it.
func marked(repository fs.FS) (map[string][]string, error) {
	tests := map[string][]string{}
	return tests, fs.WalkDir(repository, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || name == "internal/promises") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := fs.ReadFile(repository, name)
		if err != nil || !strings.Contains(string(text), "romise") { // most files name none
			return err
		}
		for _, test := range testFunc.FindAllStringSubmatch(string(text), -1) {
			name := path.Dir(name) + " " + test[2]
			for _, marks := range mark.FindAllStringSubmatch(test[1]+test[3], -1) {
				for _, p := range expand(marks[1]) {
					if !slices.Contains(tests[p], name) {
						tests[p] = append(tests[p], name)
					}
				}
			}
		}
		return nil
	})
}

// expand reads "Q1, Q3 and Q5" and "Q1 to Q5".
func expand(marks string) []string {
	ids := id.FindAllString(marks, -1)
	if strings.Contains(marks, " to ") && len(ids) == 2 {
		for n := ids[0][1] + 1; n < ids[1][1]; n++ {
			ids = append(ids, ids[0][:1]+string(n))
		}
	}
	return ids
}
