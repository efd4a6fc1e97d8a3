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
		http.Error(w, errBadQuery.Error(), http.StatusBadRequest)
		return
	}
	f, ok := formatOf(r, q)
	if !ok {
		http.Error(w, "format is html, json or text", http.StatusBadRequest)
		return
	}
	v, err := h.makeView(ctx, q)
	if err != nil {
		http.Error(w, clean(err.Error()), status(err))
		return
	}
	body, kind, err := render(f, v, q)
	if err != nil {
		http.Error(w, "the page could not be printed", http.StatusInternalServerError)
		h.log().Error("debug: page", "err", err)
		return
	}
	w.Header().Set("Content-Type", kind)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // a reader that went away is no news
	}
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
