package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service is the example with a provider that outlives it.
func service(t *testing.T) (*provider, options) {
	t.Helper()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	dns, err := newProvider()
	if err != nil {
		t.Fatal(err)
	}
	return dns, options{
		Store: "file:" + filepath.Join(t.TempDir(), "dns.db"), File: "dns.json", Listen: "localhost:0", Token: "secret",
		Poll: time.Second, Prune: time.Second, Once: true,
	}
}

// All is as declared, once: also after a restart, for which the ids that the provider chose are
// on record.
func TestNothingIsDoubleAfterARestart(t *testing.T) {
	dns, o := service(t)
	for i := range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		var out bytes.Buffer
		if err := run(ctx, o, dns, &out); err != nil {
			t.Fatalf("run %d: %v\n%s", i, err, &out)
		}
		cancel()
		seen := map[string]int{}
		for _, r := range dns.cloud.Truth() {
			seen[r.Props["kind"]+" "+r.Props["zone"]+" "+r.Name+" "+r.Props["data"]]++
		}
		if len(seen) != 8 || len(dns.cloud.Truth()) != 8 || dns.cloud.Calls("Create") != 8 {
			t.Errorf("after run %d the provider has, from %d creates: %v", i, dns.cloud.Calls("Create"), seen)
		}
	}
}

// With -q a run that makes everything logs no line for each change, and one without does.
func TestQuietRunHasNoLineForEachChange(t *testing.T) {
	for quiet, want := range map[bool]int{false: 8, true: 0} {
		dns, o := service(t)
		var log, out bytes.Buffer
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
		o.Quiet = quiet
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		if err := run(ctx, o, dns, &out); err != nil {
			t.Fatal(err)
		}
		cancel()
		if got := strings.Count(log.String(), "external change"); got != want || !strings.Contains(out.String(), "of 8 as declared") {
			t.Errorf("quiet %t: %d lines of changes, want %d, and the progress:\n%s%s", quiet, got, want, &log, &out)
		}
	}
}

// It serves what an operator needs below /ops/, and a stranger may not write.
func TestOperatorsAreServed(t *testing.T) {
	dns, o := service(t)
	o.Once, o.Store = false, "memory"
	ctx, cancel := context.WithCancel(t.Context())
	in, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { // ended by cancel, waited for below
		err := run(ctx, o, dns, out)
		_ = out.CloseWithError(io.EOF)
		ended <- err
	}()
	var said strings.Builder
	address := ""
	for line := make([]byte, 4096); address == ""; {
		n, err := in.Read(line)
		if said.Write(line[:n]); err != nil {
			t.Fatalf("%v\n%s", <-ended, said.String())
		}
		if _, rest, found := strings.Cut(said.String(), "http://"); found {
			address, _, _ = strings.Cut(rest, "\n")
		}
	}
	go func() { _, _ = io.Copy(io.Discard, in) }() // ends with the writer
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path string) (int, string) {
		answer, err := client.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, string(text)
	}
	for status := 0; status != http.StatusOK; { // until it is ready
		status, _ = get("readyz")
	}
	for path, want := range map[string]string{
		"": "debug", "healthz": "prune zone", "metrics": `tend_external_calls_total{`, "debug?format=text": "record", "objects?kind=zone": "shop.example",
	} {
		if status, text := get(path); !strings.Contains(text, want) {
			t.Errorf("/ops/%s: %d without %q:\n%s", path, status, want, text)
		}
	}
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodDelete, "http://"+address+"objects?kind=zone&key=shop.example", nil)
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if answer.Body.Close(); answer.StatusCode != http.StatusForbidden {
		t.Errorf("a stranger's delete: %s", answer.Status)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// The wiring is short, which is the point of it.
func TestServiceIsShort(t *testing.T) {
	lines := map[string]int{}
	for _, name := range []string{"main.go", "dns.go", "wire.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, body, _ := strings.Cut(string(text), "\n)\n") // without the imports
		for _, part := range []string{string(text), body} {
			n := 0
			for line := range strings.Lines(part) {
				if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
					n++
				}
			}
			if lines["all"] += n; part == body {
				lines["all"] -= n
				lines[name] = n
			}
		}
	}
	if lines["all"] > 260 || lines["wire.go"] > 60 {
		t.Errorf("the service has %v lines, want at most 260, and 60 of wiring", fmt.Sprint(lines))
	}
}
