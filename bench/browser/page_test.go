package browser_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	neturl "net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tendhq/tend/internal/debugworld"
	"github.com/tendhq/tend/reconcile/web/debug"
)

var screenshots = flag.String("screenshots", "", "write the pictures that the browser test takes into this directory")

var looksAt = []look{
	{"desktop", 1280, 900, false, false},
	{"desktop-dark", 1280, 900, false, true},
	{"phone", 412, 844, true, false},
	{"phone-dark", 412, 844, true, true},
}

// served is a world in real time, served, and settled.
func served(t *testing.T, asked *[]debug.Action) (w *debugworld.World, url string) {
	t.Helper()
	w = debugworld.New()
	o := w.Options()
	if asked != nil {
		o.Authorise = func(_ *http.Request, a debug.Action) error { *asked = append(*asked, a); return nil }
	}
	h, err := debug.New(&w.Manager, o)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"failing-a", "parked-b", debugworld.Hostile, "logs", "data"}
	w.Declare(append(names, "slow-copy")...)
	w.Start(context.Background())
	t.Cleanup(func() { w.Stop() })
	<-w.Begun
	for range names {
		<-w.Ended
	}
	mux := http.NewServeMux()
	mux.Handle("/debug", h)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return w, server.URL + "/debug"
}

func TestPageInABrowser(t *testing.T) {
	b := newBrowser(t)
	var asked []debug.Action
	w, url := served(t, &asked)
	t.Run("fits every screen", func(t *testing.T) { b.t = t; fitsEveryScreen(t, b, url) })
	t.Run("links work", func(t *testing.T) { b.t = t; linksWork(t, b, url) })
	t.Run("a hostile name does nothing", func(t *testing.T) { b.t = t; hostileNameDoesNothing(t, b, url) })
	t.Run("keys are searched", func(t *testing.T) { b.t = t; keysAreSearched(t, b, url) })
	t.Run("a key is kicked", func(t *testing.T) { b.t = t; keyIsKicked(t, b, w, url) })
	t.Run("another site cannot act", func(t *testing.T) { b.t = t; otherSiteCannotAct(t, b, url) })
	b.t = t
	for _, a := range asked {
		if a != (debug.Action{Do: "kick", Controller: "bucket", Key: "parked-b"}) {
			t.Errorf("asked for %+v", a)
		}
	}
	if len(asked) != 1 {
		t.Errorf("%d actions were asked for, want the one that was clicked", len(asked))
	}
}

// pages are one of each sort, as queries.
var pages = map[string]string{"overview": "", "controller": "?c=bucket", "key": "?c=bucket&key=failing-a", "drift": "?view=drift&kind=bucket&list=different", "question": "?c=bucket&key=parked-b&ask=forget", "search": "?view=search&q=a", "objects": "?view=objects&kind=bucket", "object": "?view=object&kind=bucket&key=parked-b", "events": "?view=events", "running": "?c=bucket&key=slow-copy"}

func fitsEveryScreen(t *testing.T, b *browser, url string) {
	paper := map[bool]string{}
	for _, l := range looksAt {
		b.wear(l)
		for name, query := range pages {
			b.open(url + query)
			wide := eval[int64](b, `document.documentElement.scrollWidth`)
			scripts := eval[int](b, `document.scripts.length`)
			if wide > l.width {
				t.Errorf("%s, %s: %d wide on a screen of %d", name, l.name, wide, l.width)
			}
			if scripts != 0 {
				t.Errorf("%s has %d scripts", name, scripts)
			}
			background := eval[string](b, `getComputedStyle(document.body).backgroundColor`)
			paper[l.dark] = background
			b.take(name + "-" + l.name)
		}
	}
	if paper[true] == paper[false] {
		t.Errorf("the background is %s by day and by night: the style was not taken", paper[true])
	}
}

// take checks that the screen shows a picture, and keeps it with -screenshots.
func (b *browser) take(name string) {
	b.t.Helper()
	picture := b.screenshot()
	if n := colours(b.t, picture); n < 20 {
		b.t.Errorf("%s: a picture of %d colours", name, n)
	}
	if *screenshots != "" {
		if err := os.WriteFile(filepath.Join(*screenshots, name+".png"), picture, 0o644); err != nil {
			b.t.Fatal(err)
		}
	}
}

// colours counts the different colours of a picture, up to 20.
func colours(t *testing.T, data []byte) int {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[any]bool{}
	box := img.Bounds()
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			if seen[img.At(x, y)] = true; len(seen) == 20 {
				return 20
			}
		}
	}
	return len(seen)
}

// linksWork follows every link from the overview on, as far as they lead.
func linksWork(t *testing.T, b *browser, url string) {
	b.wear(looksAt[0])
	todo, seen := []string{url}, map[string]bool{url: true}
	for n := 0; len(todo) > 0 && n < 200; n++ {
		at := todo[0]
		todo = todo[1:]
		resp, err := http.Get(at)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s, %v: %.200s", at, resp.Status, err, body)
			continue
		}
		if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
			continue
		}
		b.open(at)
		links := eval[[]string](b, `Array.from(document.links, a => a.href)`)
		if len(links) == 0 {
			t.Errorf("%s has no links", at)
		}
		for _, l := range links {
			l, _, _ = strings.Cut(l, "#") // of the same page
			if !strings.HasPrefix(l, url) {
				t.Errorf("%s links to %s", at, l)
			} else if strings.Contains(l, "refresh=") && at != url {
				continue // every page has the same, loaded again
			} else if !seen[l] {
				seen[l], todo = true, append(todo, l)
			}
		}
	}
	if len(seen) < 20 {
		t.Errorf("only %d pages were found: %v", len(seen), seen)
	}
	b.open(url + "?unfold=all") // what runs now is folded
	b.click(`//a[.="slow-copy"]`)
	b.awaitText("h1", "slow-copy")
	b.click(`//nav/a[.="bucket"]`)
	b.awaitText("h1", "bucket")
	b.click(`//nav/a[.="example"]`)
	b.awaitText("h1", "example")
}

// pwned says whether the hostile name got to run.
func pwned(b *browser) bool {
	if text, open := b.dialog(); open {
		b.t.Errorf("a dialog is open: %s", text)
	}
	ran := eval[bool](b, `window.pwned !== undefined`)
	return ran
}

// A control, so that the test is known to notice: printed as it is, the name runs;
// and under our policy it does not even then.
func hostileNameDoesNothing(t *testing.T, b *browser, url string) {
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	policy := resp.Header.Get("Content-Security-Policy")
	naive := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/policy" {
			w.Header().Set("Content-Security-Policy", policy)
		}
		fmt.Fprintf(w, `<!DOCTYPE html><title>x</title><p title="%s">`, debugworld.Hostile)
	}))
	t.Cleanup(naive.Close)
	if b.open(naive.URL); !pwned(b) {
		t.Error("the control did not run: this test could not fail")
	}
	if b.open(naive.URL + "/policy"); pwned(b) {
		t.Error("the policy lets it run")
	}
	b.open(url)
	b.click(`//a[contains(., "window.pwned")]`)
	b.awaitText("h1", "/"+debugworld.Hostile)
	if pwned(b) {
		t.Error("it ran on its own page")
	}
	for _, query := range []string{"", "?c=bucket", "?c=bucket&state=failing", "?view=events", "?view=objects&kind=bucket", "?view=search&q=script", "?view=object&kind=bucket&key=" + neturl.QueryEscape("/"+debugworld.Hostile), "?view=drift&kind=bucket&list=different", "?c=bucket&q=%22%3E%3Cscript%3Ewindow.pwned%3D1%3C%2Fscript%3E"} {
		if b.open(url + query); pwned(b) {
			t.Errorf("it ran on %q", query)
		}
	}
}

func keysAreSearched(t *testing.T, b *browser, url string) {
	b.open(url + "?c=bucket")
	b.write("input[type=search]", "park")
	b.click(`//*[@class="filter"]//button`)
	b.await("the keys that were searched for, and no others", func() bool {
		keys, err := tryEval[[]string](b, `Array.from(document.querySelectorAll(".filter ~ table td[data-label=key] a"), a => a.textContent)`)
		return err == nil && slices.Equal(keys, []string{"parked-b"})
	})
	wide := eval[float64](b, `document.querySelector(".filter ~ table").offsetWidth`)
	last := eval[float64](b, `document.querySelector(".filter ~ table th:last-child").offsetWidth`)
	if wide == 0 || last == 0 {
		t.Errorf("the table is %v wide, its last column %v", wide, last)
	}
	if at := b.url(); !strings.Contains(at, "q=park") || !strings.Contains(at, "c=bucket") {
		t.Errorf("the search led to %s", at)
	}
}

func keyIsKicked(t *testing.T, b *browser, w *debugworld.World, url string) {
	b.open(url + "?c=bucket&key=parked-b")
	b.click(`//a[.="run now"]`)
	b.awaitText("h1", "parked-b: run now?")
	b.click(`//a[.="no"]`)
	b.awaitText("h2", "State")
	b.click(`//a[.="run now"]`)
	b.awaitText("h1", "parked-b: run now?")
	b.click(`//button[.="run now"]`)
	b.awaitText("[role=status]", "The key was kicked.")
	for ran := ""; ran != "parked-b"; ran = <-w.Ended { // others may be due by now
	}
}

// The form of a page elsewhere, sent by a browser: 127.0.0.1 is another site than
// localhost.
func otherSiteCannotAct(t *testing.T, b *browser, url string) {
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!DOCTYPE html><title>x</title><form method="post" action="%s">
<input name="do" value="kick"><input name="c" value="bucket"><input name="key" value="logs"><button>win a prize</button></form>`, url)
	}))
	t.Cleanup(evil.Close)
	b.open(strings.Replace(evil.URL, "127.0.0.1", "localhost", 1))
	b.click(`//button`)
	b.awaitText("[role=status]", "this came from another site's page")
}
