package browser_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tendhq/tend/internal/debugworld"
)

// The look at the whole fits both screens in both colour schemes. With -screenshots the
// pictures are written; README's is look-desktop.png:
//
//	go test ./bench/browser -run Look -screenshots DIR
func TestLookInABrowser(t *testing.T) {
	b := newBrowser(t)
	pages := debugworld.Pages(t)
	for page, wants := range map[string][]string{
		"look":        {"Not well. ", "<h2>What is wrong</h2>", "<h2>The last hour</h2>", "<h2>What needs what</h2>"},
		"look-object": {"<h2>What needs what</h2>", "subnet net-3-4", "machine vm-3-4-00"},
	} {
		for _, want := range wants {
			if !strings.Contains(pages[page], want) {
				t.Errorf("%s lacks %q", page, want)
			}
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(pages[strings.TrimPrefix(r.URL.Path, "/")]))
	}))
	t.Cleanup(server.Close)
	for _, l := range looksAt {
		l.height = 1500 // the most of a page
		b.wear(l)
		for name := range pages {
			b.open(server.URL + "/" + name)
			wide := eval[int64](b, `document.documentElement.scrollWidth`)
			if wide > l.width {
				t.Errorf("%s, %s: %d wide on a screen of %d", name, l.name, wide, l.width)
			}
			if name == "look" {
				cellHeight := eval[int](b, `Math.round(document.querySelector(".field a").getBoundingClientRect().height)`)
				if cellHeight < 8 {
					t.Errorf("%s: a cell is %d pixels high", l.name, cellHeight)
				}
			}
			b.take(name + "-" + l.name)
		}
	}
}
