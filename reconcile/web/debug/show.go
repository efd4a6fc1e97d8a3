package debug

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/tendhq/tend/internal/ascii"
)

type format uint8

const (
	formatHTML format = iota
	formatJSON
	formatText
)

// formatOf is what ?format or else Accept asks for.
func formatOf(r *http.Request, q url.Values) (format, bool) {
	switch q.Get("format") {
	case "html":
		return formatHTML, true
	case "json":
		return formatJSON, true
	case "text":
		return formatText, true
	case "":
	default:
		return 0, false
	}
	accept := r.Header.Get("Accept")
	switch {
	case strings.Contains(accept, "text/html"):
		return formatHTML, true
	case strings.Contains(accept, "application/json"):
		return formatJSON, true
	case strings.Contains(accept, "text/plain"):
		return formatText, true
	}
	return formatHTML, true
}

// show answers GET. The page is made as a whole before anything is sent, so that
// what fails has a code, and a slow reader holds nothing up.
func (h *handler) show(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		h.refuse(w, r, http.StatusBadRequest, errBadQuery.Error())
		return
	}
	f, ok := formatOf(r, q)
	if !ok {
		h.refuse(w, r, http.StatusBadRequest, "format is html, json or text")
		return
	}
	v, err := h.makeView(ctx, q)
	if err != nil {
		h.refuse(w, r, status(err), err.Error())
		return
	}
	body, kind, err := render(f, v, q)
	if err != nil {
		h.refuse(w, r, http.StatusInternalServerError, "the page could not be printed")
		h.log().Error("debug: page", "err", err)
		return
	}
	w.Header().Set("Content-Type", kind)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // a reader that went away is no news
	}
}

// refuse answers with an error: to a browser with a page, to all others with a line.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, code int, why string) {
	why = clean(why)
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		http.Error(w, why, code)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_ = page.Execute(w, &layout{
		Title: clean(h.o.Title), Here: http.StatusText(code), Trail: []cell{{Text: clean(h.o.Title), Link: "?"}},
		Says: why, Tone: "bad",
	}) // a reader that went away is no news
}

func render(f format, v *view, q url.Values) (body []byte, kind string, err error) {
	var b bytes.Buffer
	if f == formatJSON {
		err := ascii.EncodeJSON(&b, v, "  ")
		return b.Bytes(), "application/json", err
	}
	q.Del("format")
	q.Del("done")
	q.Del("refresh")
	self := "?" + q.Encode()
	if f == formatText {
		writeText(&b, layOut(v, self))
		return b.Bytes(), "text/plain; charset=utf-8", nil
	}
	err = page.Execute(&b, layOut(v, self))
	return b.Bytes(), "text/html; charset=utf-8", err
}
