// Package promises has the table of what must hold, with the tests and the controls of each row.
// go run ./bench/mutants -promises prints it, and -controls checks its controls.
package promises

import (
	_ "embed"
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
	Of        string // one promise or some, "Q1, Q2"; trap and a number; or "-"
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
	n := 0
	for line := range strings.Lines(text) {
		n++
		if line = strings.TrimRight(line, "\n"); line == "" || line[0] == '#' {
			continue
		}
		if line[0] != '\t' {
			of, what, ok := strings.Cut(line, "  ")
			if !ok {
				return nil, fmt.Errorf("%s:%d: want two blanks after what it is of: %s", File, n, line)
			}
			rows = append(rows, Row{Of: of, What: what})
			continue
		}
		if len(rows) == 0 {
			return nil, fmt.Errorf("%s:%d: it is below no row: %s", File, n, line)
		}
		if err := rows[len(rows)-1].add(strings.Fields(line)); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", File, n, err)
		}
	}
	return rows, nil
}

func (r *Row) add(words []string) error {
	switch kind := words[0]; {
	case kind == "test" && len(words) == 3:
		r.Tests = append(r.Tests, Test{words[1], words[2]})
	case kind == "judge" && len(words) == 3:
		r.Judges = append(r.Judges, Test{words[1], words[2]})
	case kind == "campaign" && len(words) > 1:
		r.Campaigns = append(r.Campaigns, strings.Join(words[1:], " "))
	case kind == "control" && len(words) > 4 && strings.HasSuffix(words[2], ":"):
		r.Controls = append(r.Controls, Control{
			Test: Test{words[1], strings.TrimSuffix(words[2], ":")},
			Func: strings.Join(words[3:len(words)-1], " "), Op: words[len(words)-1],
		})
	default:
		return fmt.Errorf("want test PACKAGE TEST, judge PACKAGE TEST, campaign NAME, or control PACKAGE TEST: FUNCTION OPERATOR, not %q", strings.Join(words, " "))
	}
	return nil
}

var (
	promise  = regexp.MustCompile(`(?m)^\| ([A-Z]\d) \| (.*) \|$`)
	mark     = regexp.MustCompile(`//.*?[Pp]romises? ((?:[A-Z]\d(?:, | and | to )?)+)`)
	id       = regexp.MustCompile(`[A-Z]\d`)
	testLine = regexp.MustCompile(`^func ((?:Test|Fuzz)\w+)\(`)
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
	all := len(ids) == 0
	if all {
		ids = known
	}
	for _, id := range ids {
		if texts[id] == "" {
			return fmt.Errorf("there is no promise %q; there are %s", id, strings.Join(known, ", "))
		}
		fmt.Fprintf(out, "%s  %s\n\n", id, texts[id])
		printRows(out, rows, func(r Row) bool { return r.IsOf(id) })
		fmt.Fprintf(out, "  named by %d tests: %s\n\n", len(tests[id]), strings.Join(tests[id], ", "))
	}
	if all {
		fmt.Fprint(out, "Of no promise, and traps that controllers of this kind fall into\n\n")
		printRows(out, rows, func(r Row) bool { return r.Of == "-" || strings.HasPrefix(r.Of, "trap ") })
	}
	return nil
}

func printRows(out io.Writer, rows []Row, want func(r Row) bool) {
	for _, r := range rows {
		if !want(r) {
			continue
		}
		fmt.Fprintf(out, "  %s  %s\n", r.Of, r.What)
		for _, t := range r.Tests {
			fmt.Fprintf(out, "    test     %s\n", t)
		}
		for _, c := range r.Campaigns {
			fmt.Fprintf(out, "    campaign %s\n", c)
		}
		for _, t := range r.Judges {
			fmt.Fprintf(out, "    judge    %s\n", t)
		}
		for _, c := range r.Controls {
			fmt.Fprintf(out, "    control  %s\n", c)
		}
		fmt.Fprintln(out)
	}
}

// marked maps each promise to the tests whose comment, or whose body's, names it.
func marked(repository fs.FS) (map[string][]string, error) {
	tests := map[string][]string{}
	err := fs.WalkDir(repository, ".", func(name string, d fs.DirEntry, err error) error {
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
		if err != nil {
			return err
		}
		if !strings.Contains(string(text), "romise") {
			return nil // most files name none, and looking at each line takes its time
		}
		var above []string // marks since the last test, which may be those of the next
		test := ""
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "func ") {
				// no test begins
			} else if m := testLine.FindStringSubmatch(line); m != nil {
				test = path.Dir(name) + " " + m[1]
				for _, p := range above {
					note(tests, p, test)
				}
			}
			if !strings.HasPrefix(line, "\t") && !strings.HasPrefix(line, "//") {
				above = nil
			}
			if !strings.Contains(line, "romise") {
				continue
			}
			m := mark.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			for _, p := range expand(m[1]) {
				if strings.HasPrefix(line, "//") {
					above = append(above, p)
				} else if test != "" {
					note(tests, p, test)
				}
			}
		}
		return nil
	})
	return tests, err
}

func note(tests map[string][]string, promise, test string) {
	if !slices.Contains(tests[promise], test) {
		tests[promise] = append(tests[promise], test)
	}
}

// expand reads "Q1, Q3 and Q5" and "Q1 to Q5".
func expand(marks string) []string {
	ids := id.FindAllString(marks, -1)
	if !strings.Contains(marks, " to ") || len(ids) != 2 || ids[0][0] != ids[1][0] {
		return ids
	}
	var all []string
	for n := ids[0][1]; n <= ids[1][1]; n++ {
		all = append(all, ids[0][:1]+string(n))
	}
	return all
}
