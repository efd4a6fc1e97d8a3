package browser_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// browser is a tab of a headless Chromium.
type browser struct {
	t   *testing.T
	ctx context.Context // of the tab

	mu      sync.Mutex // guards dialogs
	dialogs []string   // texts of the dialogs that were opened
}

// patience turns a hang into a failure. It is no measure of anything: a browser
// starts within a second, and on a machine that does much else within many.
const patience = 4 * time.Minute

// newBrowser starts one, or skips the test where there is none and TEND_BROWSER
// does not say that there must be.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("TEND_BROWSER") == "required" {
			t.Fatalf("a browser is required: %v", err)
		}
		t.Skip("no chromium here (Debian's package chromium): the page is not tested in a browser")
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(chromium), chromedp.DisableGPU, chromedp.WSURLReadTimeout(patience),
		chromedp.Flag("hide-scrollbars", true), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(cancel)
	ctx, stop := chromedp.NewExecAllocator(ctx, options...) // ended by Cancel below
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(ctx)
	t.Cleanup(end)
	b := &browser{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, func(event any) {
		if d, ok := event.(*page.EventJavascriptDialogOpening); ok {
			b.mu.Lock()
			b.dialogs = append(b.dialogs, d.Message)
			b.mu.Unlock()
		}
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil { // waits for the process
			t.Logf("ending the browser: %v", err)
		}
	})
	return b
}

// do carries out steps of the library.
func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// open returns when the page is loaded.
func (b *browser) open(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url))
}

func (b *browser) url() string {
	b.t.Helper()
	url, err := chromedp.Run(b.ctx, chromedp.Location())
	if err != nil {
		b.t.Fatal(err)
	}
	return url
}

// eval evaluates a script's expression; the page's policy does not apply to it.
func eval[T any](b *browser, expression string) T {
	b.t.Helper()
	value, err := tryEval[T](b, expression)
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

func tryEval[T any](b *browser, expression string) (T, error) {
	return chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
}

// click clicks what an XPath finds. The page that it leads to may come later: await what
// it shows.
func (b *browser) click(xpath string) {
	b.t.Helper()
	b.do(chromedp.Click(xpath))
}

func (b *browser) write(css, text string) {
	b.t.Helper()
	b.do(chromedp.SendKeys(chromedp.CSS(css), text))
}

// await asks until the answer is yes. Each question takes a call to the browser.
func (b *browser) await(what string, yes func() bool) {
	b.t.Helper()
	for end := time.Now().Add(patience); !yes(); {
		if time.Now().After(end) {
			b.t.Fatalf("it does not come to this: %s", what)
		}
	}
}

// awaitText waits until the first element has a text. The element that is there at first
// may be that of the page before, and vanish while it is asked.
func (b *browser) awaitText(css, want string) {
	b.t.Helper()
	b.await(css+" is "+want, func() bool {
		text, err := tryEval[string](b, "(document.querySelector("+quoted(css)+") || {innerText: ''}).innerText.trim()")
		return err == nil && text == want
	})
}

// screenshot is a PNG picture of what the screen shows.
func (b *browser) screenshot() []byte {
	b.t.Helper()
	fast := *screenshots == "" // nothing keeps it
	shot, err := chromedp.Call(b.ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{OptimizeForSpeed: &fast})
	if err != nil {
		b.t.Fatal(err)
	}
	return shot.Data
}

// look is a screen.
type look struct {
	name          string
	width, height int64
	phone, dark   bool
}

func (b *browser) wear(l look) {
	b.t.Helper()
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	size := []chromedp.EmulateViewportOption{chromedp.EmulateScale(1)}
	if l.phone {
		size = append(size, chromedp.EmulateMobile)
	}
	b.do(chromedp.EmulateViewport(l.width, l.height, size...))
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	}); err != nil {
		b.t.Fatal(err)
	}
}

// dialog is the text of a dialog that was opened; not ok: there was none.
func (b *browser) dialog() (text string, opened bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.dialogs) == 0 {
		return "", false
	}
	return b.dialogs[0], true
}

// quoted is a text as a script writes it.
func quoted(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // of a string: never
	}
	return string(text)
}
