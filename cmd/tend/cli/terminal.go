package cli

import (
	"cmp"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"
)

// screen is what a terminal shows: how wide it is, and whether in colour. Zero is no terminal.
type screen struct {
	width  int // 0: lines are not broken
	colour bool
}

// screenOf is the screen that w is. The colours are left out as no-color.org says.
func screenOf(w io.Writer, getenv func(string) string) screen {
	f, ok := w.(*os.File)
	if !ok {
		return screen{}
	}
	if i, err := f.Stat(); err != nil || i.Mode()&os.ModeCharDevice == 0 {
		return screen{}
	}
	width, _ := strconv.Atoi(getenv("COLUMNS"))
	return screen{max(cmp.Or(width, 80), 40), getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"}
}

// What colours are for.
const (
	bad  = "31"
	warn = "33"
	good = "32"
)

// paint gives a text its colour. "" is none.
func (s screen) paint(look, text string) string {
	if !s.colour || look == "" || text == "" {
		return text
	}
	return "\x1b[" + look + "m" + text + "\x1b[0m"
}

// table prints rows in columns. The last column is broken where the screen ends.
type table struct {
	screen
	width int // of the lines; 0: the screen's
	rows  [][]string
	looks []string // of each row: the colour of its column that is coloured
	at    int      // which column has a colour
}

// add adds a row, whose look is the colour of the column at.
func (t *table) add(look string, row ...string) {
	t.rows, t.looks = append(t.rows, row), append(t.looks, look)
}

func (t *table) write(w io.Writer) {
	var wide []int
	for _, r := range t.rows {
		for i, text := range r {
			if i == len(wide) {
				wide = append(wide, 0)
			}
			wide[i] = max(wide[i], utf8.RuneCountInString(text))
		}
	}
	var b strings.Builder
	for n, r := range t.rows {
		indent, last := 0, len(r)-1
		var line strings.Builder
		for i, text := range r[:last] {
			pad := strings.Repeat(" ", wide[i]-utf8.RuneCountInString(text)+2)
			if i == t.at {
				text = t.paint(t.looks[n], text)
			}
			line.WriteString(text + pad)
			indent += wide[i] + 2
		}
		text := r[last]
		if width := cmp.Or(t.width, t.screen.width); width > 0 {
			if width-indent < 20 && utf8.RuneCountInString(text) > width-indent { // there is no room beside the others
				line.WriteString("\n")
				indent = 4
				line.WriteString("    ")
			}
			text = wrapped(text, width-indent, strings.Repeat(" ", indent))
		}
		if last == t.at {
			text = t.paint(t.looks[n], text)
		}
		b.WriteString(strings.TrimRight(line.String()+text, " ") + "\n")
	}
	_, _ = io.WriteString(w, b.String()) // output remembers an error
}

// wrapped breaks a text after width characters, at blanks. The lines after the first begin with
// indent. A width of 0 breaks nothing.
func wrapped(text string, width int, indent string) string {
	if width <= 0 {
		return text
	}
	var lines []string
	for paragraph := range strings.SplitSeq(text, "\n") {
		line := ""
		for word := range strings.SplitSeq(paragraph, " ") {
			if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
				lines, line = append(lines, line), word
				continue
			}
			if line != "" {
				line += " "
			}
			line += word
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n"+indent)
}
