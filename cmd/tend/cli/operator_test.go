package cli_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/tendhq/tend/cmd/tend/cli"
	"github.com/tendhq/tend/store"
)

// watching starts tend watch with the arguments; what it prints comes line by line.
func (c *tend) watching(args ...string) (lines lineWriter, stop func() int) {
	ctx, cancel := context.WithCancel(c.t.Context())
	lines, code := make(lineWriter), make(chan int, 1)
	go func() { // ended by cancel, in stop
		code <- cli.Run(ctx, append([]string{"watch"}, args...), cli.Config{Stdout: lines, Stderr: io.Discard, Getenv: func(name string) string { return c.env[name] }})
	}()
	return lines, func() int {
		cancel()
		for {
			select {
			case <-lines:
			case got := <-code:
				return got
			}
		}
	}
}

// -n was for get only: watch showed the objects of all namespaces.
func TestWatchKeepsToTheNamespace(t *testing.T) {
	d, c := service(t)
	for _, name := range []string{"a", "b", "c"} {
		_ = must(d.Create(t.Context(), &disk{Meta: store.Meta{Namespace: "test", Name: name}}))
	}
	_ = must(d.Create(t.Context(), &disk{Meta: store.Meta{Namespace: "prod", Name: "z"}}))
	lines, stop := c.watching("disk", "-n", "prod")
	if line := <-lines; !strings.Contains(line, "prod/z") {
		t.Errorf("of namespace prod it shows %q", line)
	}
	_ = must(d.Create(t.Context(), &disk{Meta: store.Meta{Namespace: "test", Name: "d"}}))
	_ = must(d.Create(t.Context(), &disk{Meta: store.Meta{Namespace: "prod", Name: "y"}}))
	for line := ""; !strings.Contains(line, "prod/y"); {
		if line = <-lines; strings.Contains(line, "test/") {
			t.Fatalf("of namespace prod it shows %q", line)
		}
	}
	if got := stop(); got != cli.Done {
		t.Errorf("exit code %d after an interrupt", got)
	}
	c.run(cli.Usage, "", "watch", "disk", "-l", "tier=gold")
}

// A store sends all namespaces.
func TestWatchOfAStoreKeepsToTheNamespace(t *testing.T) {
	path, _ := fileStore(t) // with an object of no namespace
	inStore(t, path, func(d *disks) {
		_ = must(d.Create(t.Context(), &disk{Meta: store.Meta{Namespace: "prod", Name: "z"}}))
	})
	c := &tend{t: t, env: map[string]string{"TEND_STORE": "file:" + path}}
	lines, stop := c.watching("disk", "-n", "prod")
	if line := <-lines; !strings.Contains(line, "prod/z") {
		t.Errorf("of namespace prod it shows %q", line)
	}
	if got := stop(); got != cli.Done {
		t.Errorf("exit code %d after an interrupt", got)
	}
}

// A kind that is empty, as that of an unset variable of a script, asked for the kinds and
// got no objects: an empty table, and done.
func TestEmptyKindIsNoKindWithoutObjects(t *testing.T) {
	d, c := service(t)
	_ = must(d.Create(t.Context(), &disk{Meta: store.Meta{Name: "a"}}))
	for _, args := range [][]string{{"get", ""}, {"get", "", "-o", "json"}, {"watch", ""}, {"get", "", "a"}} {
		if out := c.run(cli.Usage, "", args...); out != "" {
			t.Errorf("tend %q prints %q", args, out)
		}
	}
}

// YAML has dates; a spec has texts.
func TestDateOfADeclarationStaysAsItIsWritten(t *testing.T) {
	d, c := service(t)
	c.run(cli.Done, "kind: disk\nmeta: {name: a, labels: {since: 2020-01-01}}\nspec: {size: 1, password: 2020-01-01}\n", "apply", "-f", "-")
	if o := must(d.Get(t.Context(), store.Key{Name: "a"})); o.Spec.Password != "2020-01-01" || o.Labels["since"] != "2020-01-01" {
		t.Errorf("applied %+v %v", o.Spec, o.Labels)
	}
}

// Of an object that cannot be decoded the table said why, and JSON did not.
func TestWatchSaysWhyAnObjectIsBroken(t *testing.T) {
	d, c := service(t)
	type odd struct {
		Size string `json:"size"`
	}
	others := must(store.New[odd, status](d.Backend(), "disk", nil))
	_ = must(others.Create(t.Context(), &store.Object[odd, status]{Meta: store.Meta{Name: "a"}, Spec: odd{"large"}}))
	for _, output := range []string{"table", "json"} {
		lines, stop := c.watching("disk", "-o", output)
		wantAll(t, <-lines, "broken", "does not hold a int64")
		if got := stop(); got != cli.Done {
			t.Errorf("exit code %d after an interrupt", got)
		}
	}
}

// "runs now" is not all there is to say of an object that its reconciler leaves alone.
func TestKickOfAPausedObjectSaysThatItIsPaused(t *testing.T) {
	d, c := service(t)
	o := must(d.Create(t.Context(), &disk{Meta: store.Meta{Name: "a"}}))
	_ = must(d.WaitReady(t.Context(), o.Key()))
	wantAll(t, c.run(cli.Done, "", "kick", "disk", "a"), "disk a: runs now")
	c.run(cli.Done, "", "pause", "disk", "a")
	wantAll(t, c.run(cli.Done, "", "kick", "disk", "a"), "disk a: runs now, but it is paused")
}
