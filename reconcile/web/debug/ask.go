package debug

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/tendhq/tend/reconcile"
)

// ask gives the question that comes before an action.
func (h *handler) ask(ctx context.Context, q url.Values) (*askView, error) {
	a := Action{Do: reconcile.Action(q.Get("ask")), Controller: q.Get("c"), Key: q.Get("key"), Kind: q.Get("kind"), Finalizer: q.Get("finalizer")}.fields()
	says, known := actionTexts[a.Do]
	c, ok := h.controller(a.Controller)
	switch {
	case !known:
		return nil, fmt.Errorf("%w: %w", errBadQuery, errNoAction)
	case h.o.Authorise == nil:
		return nil, fmt.Errorf("%w: no action is allowed", errNoView)
	case onObjects(a.Do):
		return &askView{a, says.question, a}, ctx.Err()
	case !ok:
		return nil, fmt.Errorf("%w: no controller of that name", errNoView)
	}
	a.Workers = c.Snapshot().Workers
	return &askView{a, says.question, a}, ctx.Err()
}

// ask is the page with the question before an action.
func (p *printer) ask(v *askView) {
	says, of := actionTexts[v.Do], v.exact
	p.here(strings.TrimSpace(fmt.Sprintf("%s: %s %s", cmp.Or(v.Key, v.Controller, v.Kind), says.button, v.Finalizer)) + "?")
	if v.Controller != "" {
		p.Trail = append(p.Trail, cell{Text: clean(v.Controller), Link: link("c", of.Controller)})
	}
	if v.Key != "" {
		p.Trail = append(p.Trail, cell{Text: clean(v.Key), Link: of.page()})
	}
	form := &actionForm{Title: says.button, Do: of.Do, Controller: of.Controller, Key: of.Key, Kind: of.Kind, Finalizer: of.Finalizer, Back: of.page()}
	if v.Do == actionWorkers {
		form.Workers = strconv.Itoa(v.Workers)
	}
	p.add(section{Note: v.Question, Ask: form})
}
