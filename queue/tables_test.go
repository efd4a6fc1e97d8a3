package queue

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// The times of the tables: what the key waits for already, and what is added.
const (
	atNow     = 1000
	laterTime = 5000 // of the key itself, or of the run's result
	sooner    = 3000
	evenLater = 9000
)

// TestTablesAreTheCode reads the two tables out of the package comment and compares
// every cell with the functions of state.go.
// promise Q3
//
// Negative control: each row is compared with the cells of the other rows too, and must differ
// from nearly all.
func TestTablesAreTheCode(t *testing.T) {
	adds, results := tables(t)
	seen := 0
	for row, cells := range adds {
		for col, cell := range cells {
			if bad := checkAdd(row, col, cell); bad != "" {
				t.Errorf("%s, %s: %q, but %s", row, col, cell, bad)
			}
			seen++
		}
	}
	for row, cells := range results {
		for col, cell := range cells {
			if bad := checkResult(row, col, cell); bad != "" {
				t.Errorf("%s, %s: %q, but %s", row, col, cell, bad)
			}
			seen++
		}
	}
	if want := 7*4 + 1 + 6*4; seen != want {
		t.Errorf("%d cells were compared, want %d", seen, want)
	}
	told := 0
	for name, rows := range map[string]map[string]map[string]string{"adds": adds, "results": results} {
		for row, cells := range rows {
			for other := range rows {
				if other == row || len(cells) < 4 || len(rows[other]) < 4 || sameCells(cells, rows[other]) {
					continue
				}
				differs := false
				for col, cell := range rows[other] {
					if name == "adds" {
						differs = differs || checkAdd(row, col, cell) != ""
					} else {
						differs = differs || checkResult(row, col, cell) != ""
					}
				}
				if differs {
					told++
				}
			}
		}
	}
	if told < 60 { // of 72; ready, throttled and held say the same in other words, and so do two results
		t.Errorf("the check tells %d pairs of rows apart, want 60", told)
	}
}

func sameCells(a, b map[string]string) bool {
	for col := range a {
		if a[col] != b[col] {
			return false
		}
	}
	return true
}

// tables are the cells of the package comment, by row and column.
func tables(t *testing.T) (adds, results map[string]map[string]string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	text := f.Doc.Text()
	return readTable(t, text, "state "), readTable(t, text, "result ")
}

// readTable reads a table whose columns begin where their titles do. A line without a
// title of its own goes on with the one before; the row of running keys is one
// sentence.
func readTable(t *testing.T, text, head string) map[string]map[string]string {
	t.Helper()
	_, text, ok := strings.Cut(text, "\t"+head)
	if !ok {
		t.Fatalf("there is no table that begins with %q", head)
	}
	lines := strings.Split("\t"+head+text, "\n")
	var titles []string
	var starts []int
	for at, word := range cellsOf(lines[0]) {
		titles, starts = append(titles, word), append(starts, at)
	}
	sortByStart(titles, starts)
	rows := map[string]map[string]string{}
	last := ""
	for _, line := range lines[1:] {
		if !strings.HasPrefix(line, "\t") {
			break
		}
		if name := strings.TrimSpace(slice(line, 0, starts[1])); name != "" && name != "Remove" {
			last = name
			rows[last] = map[string]string{}
		}
		if last == "running" {
			rows[last][""] += " " + strings.TrimSpace(slice(line, starts[1], len(line)))
			continue
		}
		for k := 1; k < len(titles); k++ {
			end := len(line)
			if k+1 < len(starts) {
				end = starts[k+1]
			}
			if cell := strings.TrimSpace(slice(line, starts[k], end)); cell != "" {
				rows[last][titles[k]] = strings.TrimSpace(rows[last][titles[k]] + " " + cell)
			}
		}
	}
	return rows
}

// cellsOf are the words of a head line that two blanks or more part, by where they
// begin.
func cellsOf(line string) map[int]string {
	found := map[int]string{}
	for at := 0; at < len(line); {
		if line[at] == ' ' || line[at] == '\t' {
			at++
			continue
		}
		end := strings.Index(line[at:], "  ")
		if end < 0 {
			end = len(line) - at
		}
		found[at] = line[at : at+end]
		at += end
	}
	return found
}

func sortByStart(titles []string, starts []int) {
	for range starts {
		for k := 1; k < len(starts); k++ {
			if starts[k] < starts[k-1] {
				starts[k], starts[k-1] = starts[k-1], starts[k]
				titles[k], titles[k-1] = titles[k-1], titles[k]
			}
		}
	}
}

func slice(line string, from, to int) string {
	return line[min(from, len(line)):min(to, len(line))]
}

// before is a key in the state of a row, with failures behind it.
func before(row string) status {
	x := status{attempts: 3}
	for s, name := range stateNames {
		if name == row {
			x.state = State(s)
		}
	}
	switch x.state {
	case absent, StateReady, StateHeld:
	case StateThrottled:
		x.due = 7 // the number of its line
	default:
		x.due = laterTime
	}
	if x.state == StateParked {
		x.due = 0
	}
	if x.state == absent {
		x.attempts = 0
	}
	return x
}

// checkAdd says how a cell of the first table differs from onAdd.
func checkAdd(row, col, cell string) string {
	x := before(row)
	if row == "running" {
		return checkDuringRun(strings.TrimSpace(cell))
	}
	for _, due := range []int64{0, sooner, evenLater} {
		var r request
		switch col {
		case "now":
			if due != 0 {
				continue
			}
		case "after d":
			if due == 0 {
				continue
			}
		case "urgent":
			r.flags = urgent | restart
		case "Replace":
			r.flags |= replaces
		default:
			return "there is no such column"
		}
		r.due = due
		if bad := compareAdd(x, r, onAdd(x, r), cell); bad != "" {
			return bad
		}
	}
	if col == "Replace" && strings.Contains(cell, "urgent") {
		for _, due := range []int64{0, sooner, evenLater} {
			r := request{due: due, flags: urgent | restart | replaces}
			want := x.start(due)
			want.attempts = 0
			if got := onAdd(x, r); got != want {
				return describe(got)
			}
		}
	}
	return ""
}

func compareAdd(x status, r request, got status, cell string) string {
	want := x
	if strings.Contains(cell, "attempts from 0") {
		want.attempts = 0
		cell = strings.TrimSpace(strings.TrimSuffix(strings.TrimSuffix(cell, "attempts from 0"), ", "))
		cell = strings.TrimSuffix(cell, ",")
	} else if r.is(urgent) {
		want.attempts = 0 // of a key that has not failed: nothing to see
	}
	switch cell {
	case "nothing", "noted", "noted, unless urgent", "":
	case "ready", "delayed", "ready or delayed", "the new time":
		want = want.start(r.due)
	case "like now, after d": // the two columns before this one
		want = onAdd(want, request{due: r.due})
	case "delayed, if after d":
		if r.due > 0 {
			want = want.start(r.due)
		}
	case "the earlier time":
		want = want.start(min(x.due, r.due))
	case "the earlier of its time and the retry":
		want = want.start(min(x.due, r.due))
	case "the later time; if urgent the new time":
		want.due = max(x.due, r.due)
	default:
		return "the check does not know this cell"
	}
	if cell == "ready" && r.due != 0 || cell == "delayed" && r.due == 0 {
		return "the column does not fit"
	}
	if got != want {
		return describe(got)
	}
	return ""
}

func describe(x status) string {
	return "the code gives " + x.state.String() + " at " + time64(x.due) + " with attempts " + time64(int64(x.attempts))
}

func time64(n int64) string {
	return map[int64]string{0: "0", 3: "3", 4: "4", 7: "its line", sooner: "the sooner time", laterTime: "its own time", evenLater: "the later time"}[n]
}

// checkDuringRun compares the sentence about running keys with onAdd.
func checkDuringRun(sentence string) string {
	if sentence != "what came during the run is kept as one add, the earliest and highest, urgent if one was; Replace replaces it" {
		return "the check does not know this sentence"
	}
	x := status{state: StateRunning, attempts: 3}
	for _, c := range []struct {
		adds []request
		due  int64
		flag flag
	}{
		{[]request{{due: 0}}, 0, added},
		{[]request{{due: sooner}}, sooner, added},
		{[]request{{due: evenLater}, {due: sooner}}, sooner, added},
		{[]request{{due: sooner}, {due: evenLater}}, sooner, added},
		{[]request{{due: sooner}, {due: 0}}, 0, added},
		{[]request{{due: 0, flags: urgent | restart}, {due: sooner}}, 0, added | urgent | restart},
		{[]request{{due: sooner}, {due: evenLater, flags: urgent | restart}}, sooner, added | urgent | restart},
		{[]request{{due: sooner, flags: urgent | restart}, {due: evenLater, flags: replaces}}, evenLater, added},
		{[]request{{due: sooner, flags: raised}, {due: evenLater}}, sooner, added | raised},
		{[]request{{due: 0, flags: urgent}}, 0, added | urgent},
		{[]request{{due: 0, flags: urgent}, {due: 0}}, 0, added | urgent},
		{[]request{{due: 0, flags: urgent}, {due: 0, flags: urgent | restart}}, 0, added | urgent | restart},
		{[]request{{due: 0, flags: urgent | restart}, {due: 0, flags: urgent}}, 0, added | urgent | restart},
		{[]request{{due: 0, flags: urgent | restart}, {due: 0, flags: urgent | replaces}}, 0, added | urgent},
		{[]request{{due: 0, flags: urgent}, {due: sooner, flags: replaces}}, sooner, added},
	} {
		got := x
		for _, r := range c.adds {
			got = onAdd(got, r)
		}
		if want := (status{due: c.due, attempts: 3, state: StateRunning, flags: c.flag}); got != want {
			return describe(got)
		}
	}
	for _, c := range []struct {
		band   uint8
		r      request
		raises bool
	}{
		{100, request{band: 101}, true},
		{100, request{band: 99}, false},
		{100, request{band: -1}, false},
		{100, request{band: 99, flags: replaces}, true},
		{100, request{band: -1, flags: replaces}, false},
	} {
		if raises(x, c.band, c.r) != c.raises {
			return "the higher priority does not win"
		}
	}
	return ""
}

// checkResult says how a cell of the second table differs from onSettle.
func checkResult(row, col, cell string) string {
	for _, due := range []int64{0, sooner, evenLater} {
		x := status{state: StateRunning, attempts: 3}
		switch col {
		case "nothing came":
			if due != 0 {
				continue
			}
		case "now":
			if due != 0 {
				continue
			}
			x.flags = added
		case "after d":
			if due == 0 {
				continue
			}
			x.flags, x.due = added, due
		case "urgent":
			x.flags, x.due = added|urgent|restart, due
		default:
			return "there is no such column"
		}
		kinds := map[string][]outcomeKind{
			"Done": {done}, "After(r)": {later}, "Retry": {retry}, "throttled": {again}, "Park": {park, exhausted},
			"any, after": {done, later, retry, again, park, exhausted},
		}[row]
		if kinds == nil {
			return "there is no such row"
		}
		for _, kind := range kinds {
			o := outcome{kind: kind}
			if kind != done {
				o.due = laterTime
			}
			y := x
			if row == "any, after" {
				y.flags |= removed
			}
			if bad := compareResult(y, o, onSettle(y, o, atNow), cell); bad != "" {
				return bad
			}
		}
	}
	return ""
}

func compareResult(x status, o outcome, got status, cell string) string {
	want := status{attempts: x.attempts}
	switch {
	case x.flags&removed != 0 || o.kind <= later || x.flags&urgent != 0:
		want.attempts = 0
	case o.kind != again:
		want.attempts++
	}
	switch strings.TrimSuffix(cell, ", attempts from 0") {
	case "gone":
		want.state = StateIdle
	case "ready", "delayed", "ready or delayed", "like absent":
		want = want.start(x.due)
	case "delayed by r":
		want = want.start(o.due)
	case "the earlier":
		want = want.start(min(x.due, o.due))
	case "backing off", "backing off once":
		want.state, want.due = StateBackingOff, o.due
	case "parked":
		want.state = StateParked
	default:
		return "the check does not know this cell"
	}
	if got != want {
		return describe(got)
	}
	return ""
}

// The table of what the queue as a whole may do is the code, cell by cell.
func TestTableOfTheQueueIsTheCode(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "state.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var text string
	for _, c := range f.Comments {
		if strings.Contains(c.Text(), "no ready key") {
			text = c.Text()
		}
	}
	rows := map[string]map[string]string{}
	lines := strings.Split(text, "\n")
	for k, line := range lines {
		if strings.Contains(line, "no ready key") {
			rows = wordTable(lines[k:])
		}
	}
	words := map[string]word{"open": open, "open, paused": open | paused, "draining": draining, "draining, paused": draining | paused, "stopped": stopped}
	if len(rows) != len(words) {
		t.Fatalf("%d rows, want %d", len(rows), len(words))
	}
	get := func(w word, ready bool) string {
		switch {
		case ready && w.gives():
			return "given"
		case w.phase() != open && w.ends(ready):
			return "Get fails"
		}
		return "Get waits"
	}
	for name, w := range words {
		got := map[string]string{
			"add":          map[bool]string{true: "taken", false: "refused"}[w.takesAdds()],
			"ready key":    get(w, true),
			"no ready key": get(w, false),
		}
		for col, cell := range got {
			if rows[name][col] != cell {
				t.Errorf("%s, %s: the table says %q, the code %q", name, col, rows[name][col], cell)
			}
		}
	}
}

func wordTable(lines []string) map[string]map[string]string {
	var titles []string
	var starts []int
	for at, title := range cellsOf(lines[0]) {
		titles, starts = append(titles, title), append(starts, at)
	}
	sortByStart(titles, starts)
	rows := map[string]map[string]string{}
	for _, line := range lines[1:] {
		if !strings.HasPrefix(line, "\t") {
			break
		}
		name := strings.TrimSpace(slice(line, 0, starts[0]))
		rows[name] = map[string]string{}
		for k, title := range titles {
			end := len(line)
			if k+1 < len(starts) {
				end = starts[k+1]
			}
			rows[name][title] = strings.TrimSpace(slice(line, starts[k], end))
		}
	}
	return rows
}
