package browser_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tendhq/tend/internal/debugworld"
	"github.com/tendhq/tend/reconcile/web/debug"
)

// axe is the script of axe-core, whose file TEND_AXE names (axe.min.js of the npm package axe-core).
func axe(t *testing.T) string {
	t.Helper()
	file := os.Getenv("TEND_AXE")
	if file == "" {
		if os.Getenv("TEND_BROWSER") == "required" {
			t.Fatal("axe-core is required: TEND_AXE names no file")
		}
		t.Skip("TEND_AXE does not name the file axe.min.js of axe-core: that the pages are accessible is not tested")
	}
	script, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(script)
}

// A breach is a rule of axe-core's that a page breaks, and where.
type breach struct {
	ID    string   // the rule
	Where []string // elements
}

// breaches says what axe-core finds wrong with the page that is open. It is evaluated as
// the page's policy allows no script to be.
func (b *browser) breaches(axe string) []breach {
	b.t.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](axe))
	found, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]breach](`axe.run().then(r => r.violations.map(v => ({ID: v.id, Where: v.nodes.map(n => n.html.slice(0, 160) + ' ' + n.failureSummary)})))`, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatal(err)
	}
	return found
}

// axe-core finds nothing on any page, in either colour scheme and on either screen.
func TestPagesAreAccessible(t *testing.T) {
	script, b := axe(t), newBrowser(t)
	var asked []debug.Action
	_, live := served(t, &asked) // with its buttons
	urls := map[string]string{}
	for name, query := range pages {
		if query == "" {
			query = "?unfold=all"
		}
		urls[name] = live + query
	}
	urls["no page"] = live + "?view=nothing"
	kept := debugworld.Pages(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(kept[strings.TrimPrefix(r.URL.Path, "/")]))
	}))
	t.Cleanup(server.Close)
	for name := range kept {
		urls[name+" (kept)"] = server.URL + "/" + name
	}
	for _, l := range []look{looksAt[0], looksAt[3]} {
		b.wear(l)
		for name, url := range urls {
			b.open(url)
			for _, broken := range b.breaches(script) {
				t.Errorf("%s, %s: %s: %s", name, l.name, broken.ID, strings.Join(broken.Where, "\n\t"))
			}
		}
	}
	// A page that breaks rules is noticed: else this test could not fail.
	bad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<!DOCTYPE html><p style="color: #bbb; background: #fff">pale</p><a href="/"></a><input name="q">`)
	}))
	t.Cleanup(bad.Close)
	b.open(bad.URL)
	noticed := map[string]bool{}
	for _, broken := range b.breaches(script) {
		noticed[broken.ID] = true
	}
	for _, rule := range []string{"html-has-lang", "document-title", "landmark-one-main", "page-has-heading-one", "link-name", "label", "color-contrast"} {
		if !noticed[rule] {
			t.Errorf("the rule %s notices nothing", rule)
		}
	}
}
