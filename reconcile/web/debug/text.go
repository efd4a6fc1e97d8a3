package debug

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// writeText prints a layout for a terminal: a table's short columns side by side,
// its long ones in lines below.
func writeText(b *bytes.Buffer, l *layout) {
	title := l.Title
	if l.Here != "" {
		title += " / " + l.Here
	}
	fmt.Fprintf(b, "%s, %s\n", oneLine(title), l.At)
	if l.Says != "" {
		fmt.Fprintf(b, "%s\n", oneLine(l.Says))
	}
	if l.Done != "" {
		fmt.Fprintf(b, "%s\n", l.Done)
	}
	for _, s := range l.Sections {
		b.WriteByte('\n')
		if s.Title != "" {
			fmt.Fprintf(b, "== %s\n", oneLine(s.Title))
		}
		for i, t := range s.Tiles {
			b.WriteString(map[bool]string{true: "", false: " · "}[i == 0] + t.Lead + " " + t.Text)
		}
		if len(s.Tiles) > 0 {
			b.WriteByte('\n')
		}
		if s.Note != "" {
			fmt.Fprintf(b, "%s\n", oneLine(s.Note))
		}
		if len(s.Rows) == 0 && s.Empty != "" {
			fmt.Fprintf(b, "(%s)\n", s.Empty)
		}
		for _, c := range s.Charts {
			for _, x := range c.All {
				fmt.Fprintf(b, "%s: %s: %s\n", oneLine(c.Of.Text), x.Title, x.Says)
			}
		}
		writeTable(b, s)
		if s.Pre != "" {
			b.WriteString(s.Pre)
		}
		for _, x := range s.Links {
			fmt.Fprintf(b, "%s: %s\n", x.Text, x.Link)
		}
	}
}

// oneLine keeps a text from looking like rows of the table.
func oneLine(s string) string { return strings.ReplaceAll(s, "\n", `\n`) }

func writeTable(b *bytes.Buffer, s section) {
	rows := make([][]string, 0, len(s.Rows)+1)
	if len(s.Rows) == 0 {
		return
	}
	below := make([]bool, len(s.Rows[0]))
	if len(s.Columns) > 0 { // else they are pairs of a name and a value
		rows = append(rows, s.Columns)
		for i := range below {
			below[i] = longColumn(s.Rows, i)
		}
	}
	for _, r := range s.Rows {
		line := make([]string, len(r))
		for i, c := range r {
			line[i] = oneLine(c.Text)
			if c.Lead != "" {
				line[i] = oneLine(c.Lead + ": " + c.Text)
			}
			if len(c.Bar) > 0 {
				line[i] = "" // the columns say it
			}
		}
		rows = append(rows, line)
	}
	wide := widths(rows, below)
	for n, r := range rows {
		head := n == 0 && len(s.Columns) > 0
		writeRow(b, r, wide, below, head, s.Columns)
	}
}

func longColumn(rows [][]cell, i int) bool {
	for _, r := range rows {
		if strings.Contains(r[i].Look, "long") {
			return true
		}
	}
	return false
}

func widths(rows [][]string, below []bool) []int {
	var wide []int
	for _, r := range rows {
		for i, text := range r {
			if i == len(wide) {
				wide = append(wide, 0)
			}
			if !below[i] {
				wide[i] = max(wide[i], min(utf8.RuneCountInString(text), 60))
			}
		}
	}
	return wide
}

func writeRow(b *bytes.Buffer, r []string, wide []int, below []bool, head bool, columns []string) {
	var line strings.Builder
	for i, text := range r {
		if !below[i] {
			fmt.Fprintf(&line, "%-*s  ", wide[i], text)
		}
	}
	fmt.Fprintf(b, "%s\n", strings.TrimRight(line.String(), " "))
	for i, text := range r {
		if below[i] && text != "" && !head {
			fmt.Fprintf(b, "    %s: %s\n", columns[i], text)
		}
	}
}
