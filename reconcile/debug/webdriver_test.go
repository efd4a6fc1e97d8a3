package debug_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"
)

// browser is a headless Chromium, spoken to in the WebDriver protocol through its
// chromedriver: plain HTTP, so that no module is needed for it.
type browser struct {
	t       *testing.T
	client  *http.Client
	session string // its address
}

// patience turns a hang into a failure. It is no measure of anything: a browser
// starts within a second, and on a machine that does much else within many.
const patience = 4 * time.Minute

// newBrowser starts one, or skips the test where there is none and TEND_BROWSER
// does not say that there must be.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	chromium, err1 := exec.LookPath("chromium")
	driver, err2 := exec.LookPath("chromedriver")
	if err1 != nil || err2 != nil {
		if os.Getenv("TEND_BROWSER") == "required" {
			t.Fatalf("a browser is required: %v, %v", err1, err2)
		}
		t.Skip("no chromium and chromedriver here (Debian's packages chromium and chromium-driver): the page is not tested in a browser")
	}
	dir, err := os.MkdirTemp("", "tend-browser-") //nolint:usetesting // t.TempDir fails when an ending browser writes there once more
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	port := startDriver(t, driver, dir)
	b := &browser{t: t, client: &http.Client{Timeout: patience, Transport: &http.Transport{}}}
	t.Cleanup(b.client.CloseIdleConnections)
	base := "http://127.0.0.1:" + port + "/session"
	args := []string{
		"--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--user-data-dir=" + dir,
	}
	if os.Geteuid() == 0 {
		args = append(args, "--no-sandbox")
	}
	var made struct{ SessionID string }
	wanted := map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{
		"browserName":             "chrome",
		"goog:chromeOptions":      map[string]any{"binary": chromium, "args": args},
		"unhandledPromptBehavior": "ignore", // an alert would be a finding
	}}}
	// The driver gives the browser a minute to start, on any machine.
	for tries := 1; ; tries++ {
		if err = b.try(http.MethodPost, base, wanted, &made); err == nil {
			break
		}
		if tries == 3 {
			t.Fatal(err)
		}
	}
	b.session = base + "/" + made.SessionID
	t.Cleanup(func() { _ = b.try(http.MethodDelete, b.session, nil, nil) })                                  // its driver is killed anyway
	b.call(http.MethodPost, b.session+"/timeouts", map[string]any{"implicit": patience.Milliseconds()}, nil) // to find elements
	return b
}

var startedOn = regexp.MustCompile(`started successfully on port (\d+)`)

// startDriver starts chromedriver on a free port. It is killed at the end.
func startDriver(t *testing.T, path, dir string) (port string) {
	t.Helper()
	ctx, kill := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, path, "--port=0")
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	found, drained := make(chan string, 1), make(chan struct{})
	go func() { // ends with the process
		defer close(drained)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if m := startedOn.FindStringSubmatch(lines.Text()); m != nil {
				found <- m[1]
			}
		}
	}()
	t.Cleanup(func() {
		kill()
		<-drained
		_ = cmd.Wait() // it was killed
	})
	select {
	case port = <-found:
	case <-drained:
		t.Fatal("chromedriver ended at once")
	case <-time.After(patience):
		t.Fatal("chromedriver did not start")
	}
	return port
}

// call makes one call of the protocol; into gets the answer's value.
func (b *browser) call(method, url string, body, into any) {
	b.t.Helper()
	if err := b.try(method, url, body, into); err != nil {
		b.t.Fatal(err)
	}
}

func (b *browser) try(method, url string, body, into any) error {
	var send io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		send = bytes.NewReader(text)
	}
	r, err := http.NewRequest(method, url, send)
	if err != nil {
		return err
	}
	resp, err := b.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer := struct{ Value json.RawMessage }{}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", method, url, answer.Value)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer.Value, into)
}

func (b *browser) open(url string) {
	b.t.Helper()
	b.call(http.MethodPost, b.session+"/url", map[string]any{"url": url}, nil)
}

func (b *browser) url() (url string) {
	b.t.Helper()
	b.call(http.MethodGet, b.session+"/url", nil, &url)
	return url
}

// eval evaluates a script's expression; the page's policy does not apply to it.
func (b *browser) eval(expression string, into any) {
	b.t.Helper()
	if err := b.tryEval(expression, into); err != nil {
		b.t.Fatal(err)
	}
}

func (b *browser) tryEval(expression string, into any) error {
	return b.try(http.MethodPost, b.session+"/execute/sync", map[string]any{"script": "return " + expression, "args": []any{}}, into)
}

// find gives the address of the first element of a CSS selector or an XPath.
func (b *browser) find(using, value string) string {
	b.t.Helper()
	element, err := b.tryFind(using, value)
	if err != nil {
		b.t.Fatalf("%s: %v", value, err)
	}
	return element
}

func (b *browser) tryFind(using, value string) (string, error) {
	var element map[string]string
	if err := b.try(http.MethodPost, b.session+"/element", map[string]any{"using": using, "value": value}, &element); err != nil {
		return "", err
	}
	for _, id := range element {
		return b.session + "/element/" + id, nil
	}
	return "", errors.New("no element")
}

// click clicks. The page that it leads to may come later: await what it shows.
func (b *browser) click(using, value string) {
	b.t.Helper()
	b.call(http.MethodPost, b.find(using, value)+"/click", map[string]any{}, nil)
}

func (b *browser) write(css, text string) {
	b.t.Helper()
	b.call(http.MethodPost, b.find("css selector", css)+"/value", map[string]any{"text": text}, nil)
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

// awaitText waits until an element has a text. The element that is there at first
// may be that of the page before, and vanish while it is asked.
func (b *browser) awaitText(css, want string) {
	b.t.Helper()
	b.await(css+" is "+want, func() bool {
		text := ""
		element, err := b.tryFind("css selector", css)
		if err == nil {
			err = b.try(http.MethodGet, element+"/text", nil, &text)
		}
		return err == nil && text == want
	})
}

func (b *browser) screenshot() []byte {
	b.t.Helper()
	var text string
	b.call(http.MethodGet, b.session+"/screenshot", nil, &text)
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		b.t.Fatal(err)
	}
	return data
}

// devtools gives a command of Chromium's own protocol.
func (b *browser) devtools(command string, params map[string]any) {
	b.t.Helper()
	b.call(http.MethodPost, b.session+"/goog/cdp/execute", map[string]any{"cmd": command, "params": params}, nil)
}

// look is a screen.
type look struct {
	name          string
	width, height int
	scale         float64
	phone, dark   bool
}

func (b *browser) wear(l look) {
	b.t.Helper()
	b.devtools("Emulation.setDeviceMetricsOverride", map[string]any{
		"width": l.width, "height": l.height, "deviceScaleFactor": l.scale, "mobile": l.phone,
	})
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	b.devtools("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}})
}

// dialog is the text of an open alert; not ok: there is none.
func (b *browser) dialog() (text string, open bool) {
	return text, b.try(http.MethodGet, b.session+"/alert/text", nil, &text) == nil
}
