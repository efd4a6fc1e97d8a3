package debug

import (
	"fmt"
	"net/url"
	"strconv"

	"github.com/tendhq/tend/queue"
)

// filter is which keys of a controller are wanted, as it stands in a link.
type filter struct {
	controller, state, search, order, limit, from string
	query                                         queue.PageOptions
}

// failed is the one filter that is no state.
const failed = "failing"

// states are those that a key can be seen in.
func states() []queue.State {
	var all []queue.State
	for s := queue.StateIdle; s <= queue.StateParked; s++ {
		all = append(all, s)
	}
	return all
}

var ordersByName = []struct {
	name, title string
	order       queue.Order
}{
	{"", "in no order", queue.ByPlace},
	{"next", "soonest first", queue.ByNext},
	{"age", "longest in its state first", queue.ByAge},
	{"failures", "most failures first", queue.ByFailures},
}

func readFilter(q url.Values) (filter, error) {
	f := filter{
		controller: q.Get("c"), state: q.Get("state"), search: q.Get("q"),
		order: q.Get("order"), limit: q.Get("limit"), from: q.Get("from"),
	}
	f.query = queue.PageOptions{Limit: pageRows}
	if err := f.readState(); err != nil {
		return f, err
	}
	if err := f.readOrder(); err != nil {
		return f, err
	}
	if f.limit != "" {
		n, err := strconv.Atoi(f.limit)
		if err != nil || n < 1 || n > 1000 {
			return f, fmt.Errorf("%w: limit is 1 to 1000", errBadQuery)
		}
		f.query.Limit = n
	}
	if f.from != "" {
		c := &f.query.From
		if _, err := fmt.Sscanf(f.from, "%d.%d", &c.Rank, &c.Place); err != nil {
			return f, fmt.Errorf("%w: from", errBadQuery)
		}
	}
	return f, nil
}

func (f *filter) readState() error {
	switch f.state {
	case "":
		return nil
	case failed:
		f.query.Failed = true
		return nil
	}
	for _, s := range states() {
		if s.String() == f.state {
			f.query.States = []queue.State{s}
			return nil
		}
	}
	return fmt.Errorf("%w: no state of that name", errBadQuery)
}

func (f *filter) readOrder() error {
	for _, o := range ordersByName {
		if o.name == f.order {
			f.query.Order = o.order
			return nil
		}
	}
	return fmt.Errorf("%w: no order of that name", errBadQuery)
}

// at is the filter of the page that begins at a cursor.
func (f filter) at(c queue.Cursor) filter {
	f.from = fmt.Sprintf("%d.%d", c.Rank, c.Place)
	return f
}

// first is the filter's first page.
func (f filter) first() filter {
	f.from = ""
	return f
}

// plain says that nothing in particular is asked for.
func (f filter) plain() bool {
	return f.state == "" && f.search == "" && f.order == "" && f.from == ""
}

func (f filter) link() string {
	return link("c", f.controller, "state", f.state, "q", f.search, "order", f.order, "limit", f.limit, "from", f.from)
}
