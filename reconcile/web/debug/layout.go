package debug

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tendhq/tend/reconcile"
)

// layout is a view as HTML and text show it: sections of tables.
type layout struct {
	Title    string
	Here     string // of this page; empty: the overview
	Trail    []cell // the way back
	At       string
	Done     string
	Formats  []cell // the same otherwise
	Refresh  int    // seconds; 0: the browser does not ask again
	Sections []section
	Says     string // the verdict, in a sentence or two
	Level    string // the same in a word or two, for the title of a tab
	Tone     string // of it: "good", "warn" or "bad"
	Jumps    []cell // to the sections of a long page
	Unfold   bool   // all sections
	folded   []section
}

type section struct {
	Title   string
	ID      string // for links to it; empty: none
	Of      string // what its table is of, for how it looks on a small screen: "causes", "kinds"
	Fold    bool   // it is shown when it is asked for
	Open    bool   // … and it was
	Toggle  string // a link that folds and unfolds it on a page that loads itself again; empty: the browser does
	Tiles   []cell // counts, each a link
	Note    string
	Bad     bool // the note is bad news
	Columns []string
	Rows    [][]cell
	Empty   string // shown in place of a table without rows
	Links   []cell
	Pre     string // shown as it is
	Filter  *filterForm
	Actions []cell // links to the questions before them
	Ask     *actionForm
	Picture *picture // of what the rows say
	Wide    bool     // the last column has long texts
	Field   []fieldRow
	Legend  []cell // of Field
	Charts  []charts
	Strip   []bar
}

// cell is a text that has been cleaned.
type cell struct {
	Text  string
	Link  string
	Look  string    // how it looks: "bad", "warn", "good", "dim", "num", "name", "long"
	Lead  string    // before Text, in the colour that Look says
	Parts []cell    // in place of Text, each with a link of its own
	Bar   []barPart // in place of Text, which says the same
}

type filterForm struct {
	Hidden         [][2]string
	Search, Hint   string
	States, Orders []choice
}

type choice struct {
	Value, Title string
	Selected     bool
}

type actionForm struct {
	Title           string
	Do              reconcile.Action
	Controller, Key string // exact
	Workers         string // for a number to be asked; empty: none is
	Back            string // where "no" leads
	Kind, Finalizer string // exact
}

// plain is long if it may have no place to be broken.
func plain(s string) cell {
	c := cell{Text: clean(s)}
	if len(c.Text) > 40 {
		c.Look = "long"
	}
	return c
}

func linked(s, link string) cell { return cell{Text: clean(s), Link: link, Look: "name"} }
func looks(look, s string) cell  { return cell{Text: clean(s), Look: look} }
func long(s string) cell         { return looks("long", s) }
func number[N ~int | ~int64 | ~uint64](n N) cell {
	return cell{Text: grouped(fmt.Sprint(n)), Look: "num"}
}

// grouped writes 1000000 as 1,000,000.
func grouped(digits string) string {
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// some is a number that is only of interest if it is not zero.
func some(n int, look string) cell {
	c := number(n)
	if n == 0 {
		c.Look += " dim"
	} else if look != "" {
		c.Look += " " + look
	}
	return c
}

func bad(s string) cell {
	if s == "" {
		return cell{}
	}
	return looks("long bad", s)
}

// moment is a time as people read it, with the exact one beside it.
func moment(t, now time.Time) cell {
	if t.IsZero() {
		return cell{Text: "–", Look: "dim"}
	}
	exact := t.UTC().Format("2006-01-02 15:04:05Z")
	if t.UTC().Format(time.DateOnly) == now.UTC().Format(time.DateOnly) {
		exact = t.UTC().Format("15:04:05Z")
	}
	if d := t.Sub(now); d > 0 {
		return plain("in " + short(d) + " (" + exact + ")")
	}
	return plain(short(now.Sub(t)) + " ago (" + exact + ")")
}

// layOut makes a layout of a view; self is the query that the view came from.
func layOut(v *view, self string) *layout {
	l := &layout{Title: clean(v.Title), At: v.At.UTC().Format("2006-01-02 15:04:05 UTC"), Done: v.Done}
	if len(self) <= 2*linkBytes {
		l.Formats = []cell{{Text: "JSON", Link: with(self, "format=json")}, {Text: "text", Link: with(self, "format=text")}}
		switch {
		case v.Ask != nil:
		case v.Refresh > 0:
			l.Refresh = v.Refresh
			l.Formats = append(l.Formats, cell{Text: fmt.Sprintf("stop loading every %d s", v.Refresh), Link: self})
		default:
			l.Formats = append(l.Formats, cell{Text: "load every 5 s", Link: with(self, "refresh=5")})
		}
		if v.Overview != nil && !v.Unfold && len(v.Open) == 0 {
			l.Formats = append(l.Formats, cell{Text: "unfold all", Link: with(self, "unfold=all")})
		}
	}
	p := printer{layout: l, now: v.At, may: v.Actions, pages: map[string]string{}}
	for _, s := range v.Servers {
		p.pages[s.Name] = string(s.Page)
	}
	l.Unfold = v.Unfold
	switch {
	case v.Overview != nil:
		p.overview(v.Overview, v.Verdict, v.Seen)
	case v.Verdict != nil:
		p.here("Status")
		p.verdict(v.Verdict, v.Seen)
	case v.Controller != nil:
		p.one(v.Controller)
	case v.Key != nil:
		p.key(v.Key)
	case v.Events != nil:
		p.eventsPage(v.Events)
	case v.Drift != nil:
		p.drift(v.Drift)
	case v.Objects != nil:
		p.objectsPage(v.Objects)
	case v.Object != nil:
		p.object(v.Object)
	case v.Search != nil:
		p.search(v.Search)
	case v.Ask != nil:
		p.ask(v.Ask)
	}
	p.jumps(v)
	return l
}

// jumps gives each section with a title an address, links to it from the top of a long page, and
// keeps open what was opened, also when the page loads itself again.
func (p *printer) jumps(v *view) {
	for i := range p.Sections {
		s := &p.Sections[i]
		if s.Title == "" {
			continue
		}
		if s.ID == "" {
			s.ID = idOf(s.Title)
		}
		p.Jumps = append(p.Jumps, cell{Text: s.Title, Link: "#" + s.ID})
		if s.Open = s.Fold && (v.Unfold || slices.Contains(v.Open, s.ID)); !s.Fold || v.Refresh == 0 {
			continue
		}
		open := slices.DeleteFunc(slices.Clone(v.Open), func(id string) bool { return id == s.ID })
		if !s.Open {
			open = append(open, s.ID)
		}
		q := url.Values{"refresh": {strconv.Itoa(v.Refresh)}, "open": open}
		s.Toggle = "?" + q.Encode() + "#" + s.ID
	}
	if len(p.Jumps) < 4 {
		p.Jumps = nil
	}
}

// idOf is a title as an address in the page.
func idOf(title string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(title))
}

// with adds a pair to a query.
func with(self, pair string) string {
	if self == "?" {
		return "?" + pair
	}
	return self + "&" + pair
}

// printer adds sections to a layout.
type printer struct {
	*layout
	now time.Time
	may bool // actions are offered
	// pages are the addresses of this page on other servers, by their names.
	pages map[string]string
}

// add adds a section, without the columns of its table that have no value.
func (p *printer) add(s section) {
	for i := len(s.Columns) - 1; i >= 0 && len(s.Rows) > 0; i-- {
		if !slices.ContainsFunc(s.Rows, func(r []cell) bool { return r[i].Text != "" }) {
			s.Columns = slices.Delete(slices.Clone(s.Columns), i, i+1)
			for j, r := range s.Rows {
				s.Rows[j] = slices.Delete(r, i, i+1)
			}
		}
	}
	s.Wide = len(s.Columns) > 0 && slices.ContainsFunc(s.Rows, func(r []cell) bool { return len(r[len(r)-1].Text) > 40 })
	p.Sections = append(p.Sections, s)
}

func (p *printer) here(title string, trail ...cell) {
	p.Here = clean(title)
	p.Trail = append([]cell{{Text: p.Title, Link: "?"}}, trail...)
}
