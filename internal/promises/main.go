// Command promises prints how each promise is tested: the rows of table.md that are about
// it, and every test whose comment names it.
//
//	go run ./internal/promises          # all of them, and the traps
//	go run ./internal/promises Q4 E1    # these
//
// The promises are those of docs/PROMISES.md. A test of the root module compares table.md
// with the code: every test, mutant and campaign that it names is there, and every row has
// a control, which is the same test made to fail.
package main

import (
	"cmp"
	_ "embed"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

//go:embed table.md
var table string

func main() {
	flag.Parse()
	if err := list(os.Stdout, os.DirFS("."), flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var (
	promise  = regexp.MustCompile(`(?m)^\| ([A-Z]\d) \| (.*) \|$`)
	row      = regexp.MustCompile(`(?m)^\| ([A-Z]\d|\d+|) ?\| (.*) \|$`)
	mark     = regexp.MustCompile(`//.*?[Pp]romises? ((?:[A-Z]\d(?:, | and | to )?)+)`)
	id       = regexp.MustCompile(`[A-Z]\d`)
	testLine = regexp.MustCompile(`^func ((?:Test|Fuzz)\w+)\(`)
)

// list writes what is known of the promises of these ids; none: of all.
func list(out io.Writer, repository fs.FS, ids []string) error {
	page, err := fs.ReadFile(repository, "docs/PROMISES.md")
	if err != nil {
		return fmt.Errorf("run it in the root of the repository: %w", err)
	}
	texts, known := map[string]string{}, []string{}
	for _, m := range promise.FindAllStringSubmatch(string(page), -1) {
		texts[m[1]] = m[2]
		known = append(known, m[1])
	}
	tests, err := marked(repository)
	if err != nil {
		return err
	}
	traps := len(ids) == 0
	if traps {
		ids = known
	}
	for _, id := range ids {
		if texts[id] == "" {
			return fmt.Errorf("there is no promise %q; there are %s", id, strings.Join(known, ", "))
		}
		fmt.Fprintf(out, "%s  %s\n\n", id, texts[id])
		printRows(out, func(of string) bool { return of == id })
		fmt.Fprintf(out, "  named by %d tests: %s\n\n", len(tests[id]), strings.Join(tests[id], ", "))
	}
	if traps {
		fmt.Fprint(out, "Of no promise, and traps that controllers of this kind fall into\n\n")
		printRows(out, func(of string) bool { return texts[of] == "" })
	}
	return nil
}

func printRows(out io.Writer, want func(of string) bool) {
	for _, m := range row.FindAllStringSubmatch(table, -1) {
		cells := strings.Split(m[2], " | ")
		if len(cells) != 4 || strings.HasPrefix(cells[0], "what must") || !want(m[1]) {
			continue
		}
		fmt.Fprintf(out, "  %s\n", strings.TrimSpace(m[1]+" "+cells[0]))
		for i, what := range []string{"in CI", "large", "control"} {
			fmt.Fprintf(out, "    %-8s %s\n", what, cmp.Or(cells[i+1], "–"))
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
