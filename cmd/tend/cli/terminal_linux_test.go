package cli_test

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"
	"unsafe"

	"github.com/tendhq/tend/cmd/tend/cli"
	"github.com/tendhq/tend/store"
)

// pty is a terminal: what is written to it comes out of the other end.
func pty(t *testing.T) (out, terminal *os.File) {
	t.Helper()
	out = must(os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0))
	t.Cleanup(func() { _ = out.Close() })
	var number, unlocked int32
	for request, at := range map[uintptr]*int32{syscall.TIOCSPTLCK: &unlocked, syscall.TIOCGPTN: &number} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, out.Fd(), request, uintptr(unsafe.Pointer(at))); errno != 0 {
			t.Fatal(errno)
		}
	}
	terminal = must(os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0))
	t.Cleanup(func() { _ = terminal.Close() })
	return out, terminal
}

// onTerminal runs the command with a terminal to write to.
func (c *tend) onTerminal(env map[string]string, args ...string) string {
	c.t.Helper()
	out, terminal := pty(c.t)
	done := make(chan string, 1)
	go func() { // ends with the terminal
		text, _ := io.ReadAll(out) // an error of input and output is its end
		done <- string(text)
	}()
	cli.Run(c.t.Context(), args, cli.Config{Stdout: terminal, Stderr: io.Discard, Getenv: func(name string) string {
		if value, ok := env[name]; ok {
			return value
		}
		return c.env[name]
	}})
	if err := terminal.Close(); err != nil {
		c.t.Fatal(err)
	}
	return strings.ReplaceAll(<-done, "\r\n", "\n")
}

func TestTerminalGetsColoursAnd80Columns(t *testing.T) {
	d, c := service(t)
	o := must(d.Create(t.Context(), &disk{Meta: store.Meta{Name: "bad-a"}}))
	o.SetProgressing("CreateFailed", strings.Repeat("the cloud says no ", 8))
	_ = must(d.UpdateStatus(t.Context(), o))
	c.when(cli.Failed, "1 given up", "status")
	status := c.onTerminal(nil, "status")
	wantAll(t, status, "\x1b[31mNot well.", "\x1b[31mgiven up\x1b[0m: ", "\x1b[32mmemory answers\x1b[0m")
	table := c.onTerminal(nil, "get", "disk")
	wantAll(t, table, "\x1b[", "CreateFailed")
	for _, text := range []string{status, table} {
		for line := range strings.Lines(text) {
			plain := strings.NewReplacer("\x1b[31m", "", "\x1b[32m", "", "\x1b[33m", "", "\x1b[0m", "", "\n", "").Replace(line)
			if n := utf8.RuneCountInString(plain); n > 80 {
				t.Errorf("%d columns: %q", n, line)
			}
		}
	}
	for _, env := range []map[string]string{{"NO_COLOR": "1"}, {"TERM": "dumb"}} {
		if text := c.onTerminal(env, "status"); strings.Contains(text, "\x1b") || !strings.Contains(text, "Not well.") {
			t.Errorf("with %v: %q", env, text)
		}
	}
	if wide := c.onTerminal(map[string]string{"COLUMNS": "300", "NO_COLOR": "1"}, "get", "disk"); strings.Count(wide, "\n") != 2 {
		t.Errorf("300 columns are not used: %q", wide)
	}
}
