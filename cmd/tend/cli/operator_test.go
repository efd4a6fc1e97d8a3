package cli_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/tendhq/tend/cmd/tend/cli"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/objects"
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
	_ = must(d.Create(t.Context(), &disk{Meta: store.Meta{Namespace: "prod", Name: "bad-z"}}))
	lines, stop := c.watching("disk", "-n", "prod")
	if line := <-lines; !strings.Contains(line, "prod/bad-z") {
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

// A revision, labels or a format that a command ignores let a user believe that they counted.
func TestFlagThatACommandWouldIgnoreIsRefused(t *testing.T) {
	d, c := service(t)
	o := must(d.Create(t.Context(), &disk{Meta: store.Meta{Name: "a"}}))
	at := must(d.WaitReady(t.Context(), o.Key())).Revision
	for _, args := range [][]string{
		{"apply", "-f", "-", "-revision", "1"},
		{"pause", "disk", "a", "-revision", "1"},
		{"kick", "disk", "a", "-revision", "1"},
		{"remove-finalizer", "disk", "a", "x", "-revision", "1"},
		{"why", "disk", "a", "-revision", "1"},
		{"get", "disk", "a", "-l", "a=b"},
		{"delete", "disk", "a", "-l", "a=b"},
		{"watch", "disk", "-l", "a=b"},
		{"apply", "-f", "-", "-o", "json"},
		{"edit", "disk", "a", "-o", "json"},
		{"delete", "disk", "a", "-f", "x"},
		{"kinds", "-n", "prod"},
		{"get", "disk", "-debug", "http://localhost"},
		{"get", "disk", "-show-secrets"},
		{"-store", "file:x", "copy", "file:a", "file:b", "disk"},
		{"-server", "http://x/", "completion", "bash"},
	} {
		c.run(cli.Usage, "", args...)
	}
	if o := must(d.Get(t.Context(), o.Key())); o.Revision != at {
		t.Errorf("a command that was refused wrote: %+v", o)
	}
}

// full is a disk that is full.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestOutputThatCannotBeWrittenIsAFailure(t *testing.T) {
	d, c := service(t)
	o := must(d.Create(t.Context(), &disk{Meta: store.Meta{Name: "a"}}))
	_ = must(d.WaitReady(t.Context(), o.Key()))
	from := fileWith(t, "a")
	for _, args := range [][]string{
		{"help"},
		{"kinds"},
		{"why", "disk", "a"},
		{"completion", "bash"},
		{"get", "disk"},
		{"get", "disk", "-o", "json"},
		{"describe", "disk", "a"},
		{"watch", "disk"},
		{"apply", "-f", "-"},
		{"pause", "disk", "a"},
		{"copy", from, from + ".new", "disk"},
		{"delete", "disk", "a"},
	} {
		var said bytes.Buffer
		code := cli.Run(t.Context(), args, cli.Config{
			Stdin: strings.NewReader(declared), Stdout: full{}, Stderr: &said, Getenv: func(name string) string { return c.env[name] },
		})
		if code != cli.Failed {
			t.Errorf("tend %s on a full disk: exit code %d", strings.Join(args, " "), code)
		}
		wantAll(t, said.String(), "no space left on device")
	}
	if _, err := d.Get(t.Context(), store.Key{Name: "logs"}); err != nil {
		t.Errorf("apply ended at its first line: %v", err)
	}
}

// One object that cannot be decoded hid all others.
func TestGetPrintsTheObjectsBesideABrokenOne(t *testing.T) {
	d, c := service(t)
	type odd struct {
		Size string `json:"size"`
	}
	others := must(store.New[odd, status](d.Backend(), "disk", nil))
	_ = must(others.Create(t.Context(), &store.Object[odd, status]{Meta: store.Meta{Name: "b"}, Spec: odd{"large"}}))
	for _, name := range []string{"a", "c"} {
		_ = must(d.Create(t.Context(), &disk{Meta: store.Meta{Name: name}}))
	}
	for _, output := range []string{"json", "yaml"} {
		text := c.run(cli.Failed, "", "get", "disk", "-o", output)
		var all []struct{ Meta store.Meta }
		if err := yaml.Unmarshal([]byte(text), &all); err != nil || len(all) != 2 || all[0].Meta.Name != "a" || all[1].Meta.Name != "c" {
			t.Errorf("as %s it prints %+v, error %v, from\n%s", output, all, err, text)
		}
		wantAll(t, c.said, "disk b: ", "does not hold a int64")
	}
}

// Ctrl-C goes to the editor, too, which may take it for a command: what is typed was lost.
func TestInterruptWhileAnEditorRunsEndsNoEdit(t *testing.T) {
	d, c := service(t)
	c.run(cli.Done, declared, "apply", "-f", "-")
	ctx, interrupt := context.WithCancel(t.Context())
	c.config.Edit = func(ctx context.Context, path string) error {
		interrupt()
		if ctx.Err() != nil {
			return ctx.Err() // as of an editor that is killed
		}
		text := strings.Replace(string(must(os.ReadFile(path))), "size: 20", "size: 21", 1)
		return os.WriteFile(path, []byte(text), 0o600)
	}
	wantAll(t, c.runIn(ctx, cli.Done, "", "edit", "disk", "logs"), "revision")
	if o := must(d.Get(t.Context(), store.Key{Name: "logs"})); o.Spec.Size != 21 {
		t.Errorf("after the edit: %+v", o.Spec)
	}
}

// A deletion that was asked for is not told as one that failed.
func TestDeletionWhoseEndCannotBeReadIsToldAsAskedFor(t *testing.T) {
	path, _ := fileStore(t)
	c := &tend{t: t, env: map[string]string{"TEND_STORE": "file:" + path}}
	ctx, away := context.WithCancel(t.Context())
	c.config.Kinds = func(b store.Backend) ([]objects.Kind, error) {
		return []objects.Kind{unread{objects.Of(newDisks(b)), away}}, nil
	}
	c.runIn(ctx, cli.Failed, "", "delete", "disk", "data")
	wantAll(t, c.said, "disk data: its deletion is asked for")
	inStore(t, path, func(d *disks) {
		if o := must(d.Get(t.Context(), store.Key{Name: "data"})); !o.Deleting() {
			t.Errorf("it is not in deletion: %+v", o)
		}
	})
}

// unread is a kind of a store that is away once an object of it was deleted.
type unread struct {
	disksKind
	away func()
}

type disksKind = objects.Kind // its method Kind is not hidden by the field

func (k unread) Delete(ctx context.Context, key store.Key, at store.Revision) error {
	defer k.away()
	return k.disksKind.Delete(ctx, key, at)
}

// "runs now", said the command of an object in the store of a service that is down.
//
// Negative control: mutant "an object in a store runs now".
func TestKickOfAStoredObjectDoesNotSayThatItRunsNow(t *testing.T) {
	path, _ := fileStore(t)
	c := &tend{t: t, env: map[string]string{"TEND_STORE": "file:" + path}}
	if got, want := c.run(cli.Done, "", "kick", "disk", "data"), "disk data: runs as soon as a service works on the store\n"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}

// "typo is removed", said the command, and done: the finalizer with another name stayed.
//
// Negative control: mutant "a finalizer that is not there is removed".
func TestFinalizerThatIsNotThereIsNotRemoved(t *testing.T) {
	d, service := service(t)
	_ = must(d.Create(t.Context(), &disk{Meta: store.Meta{Name: "data", Finalizers: []string{"cloud.example/disk"}}}))
	path, _ := fileStore(t)
	for _, c := range []*tend{service, {t: t, env: map[string]string{"TEND_STORE": "file:" + path}}} {
		c.run(cli.NotFound, "", "remove-finalizer", "disk", "data", "cloud.example/disc")
		wantAll(t, c.said, `has no finalizer "cloud.example/disc"`, `["cloud.example/disk"]`)
		wantAll(t, c.run(cli.Done, "", "remove-finalizer", "disk", "data", "cloud.example/disk"), "cloud.example/disk is removed")
	}
}

// An object that was given up until a person has looked waited for Go code that said so.
//
// Negative control: mutant "ClearPending clears what is not pending".
func TestOperatorAnswersForObjectsThatAsk(t *testing.T) {
	asks := store.Intent{Pending: time.Now(), Location: "eu"}
	check := func(runs string, c *tend, declare func(name string, i store.Intent), now func(name string) *disk) {
		for _, name := range []string{"a", "b"} {
			declare(name, asks)
		}
		declare("c", store.Intent{})
		if got, want := c.run(cli.Done, "", "created", "disk", "a", "r-7"), "disk a: recorded that its create made r-7; it "+runs+"\n"; got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
		if got, want := c.run(cli.Done, "", "forget-location", "disk", "a"), "disk a: recorded that the location of its resource is forgotten; it "+runs+"\n"; got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
		if got, want := c.run(cli.Done, "", "not-created", "disk", "b"), "disk b: recorded that its create made no resource; it "+runs+"\n"; got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
		if a := now("a"); a.Intent.Unresolved() || a.Intent.ExternalName != "r-7" || a.Intent.Location != "" || a.Annotations[store.AnnotationReconcileNow] == "" {
			t.Errorf("a is %+v", a.Meta)
		}
		if b := now("b"); b.Intent.Unresolved() || b.Intent.Failed.IsZero() || b.Annotations[store.AnnotationReconcileNow] == "" {
			t.Errorf("b is %+v", b.Meta)
		}
		declare("d", store.Intent{Succeeded: time.Now(), OutputsDue: true})
		if got, want := c.run(cli.Done, "", "outputs-restored", "disk", "d"), "disk d: recorded that its lost outputs were replaced by hand; it "+runs+"\n"; got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
		if d := now("d"); d.Intent.OutputsDue || d.Annotations[store.AnnotationReconcileNow] == "" {
			t.Errorf("d is %+v", d.Meta)
		}
		before := now("c").Revision
		for _, args := range [][]string{{"created", "disk", "c", "r-7"}, {"not-created", "disk", "c"}, {"forget-location", "disk", "c"}, {"outputs-restored", "disk", "c"}, {"not-created", "disk", "a"}} {
			if out := c.run(cli.Conflict, "", args...); out != "" {
				t.Errorf("tend %q says %q", args, out)
			}
			wantAll(t, c.said, "disk "+args[2]+": there is nothing to answer: ")
		}
		c.run(cli.NotFound, "", "not-created", "disk", "none")
		c.run(cli.Conflict, "", "adopt", "disk", "a", "r-9") // it has one
		for _, args := range [][]string{{"adopt", "disk"}, {"adopt", "disk", "c"}, {"adopt", "disk", "c", ""}, {"adopt", "disk", "c", "r-9", "-yes"}, {"adopt", "disk", "c", "-f", "-"}, {"adopt", "disk", "-f", "-"}} {
			c.run(cli.Usage, "# nothing\n", args...)
		}
		c.run(cli.Invalid, "c r-9\nb r-9\n", "adopt", "disk", "-f", "-", "-yes")
		wantAll(t, c.run(cli.Conflict, "c r-9\na r-8\n", "adopt", "disk", "-f", "-", "-yes"), "disk c: would take over r-9", "disk a: cannot take over r-8: there is nothing to answer")
		wantAll(t, c.run(cli.Done, "c r-9\n", "adopt", "disk", "-f", "-"), "disk c: would take over r-9", "nothing is written")
		if got := now("c").Revision; got != before {
			t.Errorf("c was written: revision %d, was %d", got, before)
		}
		wantAll(t, c.run(cli.Done, "a r-7\n# by hand\nc\tr-9 \n", "adopt", "disk", "-f", "-", "-yes"), "disk a: has r-7", "disk c: recorded that it is to take over r-9; it "+runs)
		if got := now("c"); got.Annotations[store.AnnotationAdopt] != "r-9" || got.Annotations[store.AnnotationReconcileNow] == "" || got.Intent != (store.Intent{}) {
			t.Errorf("c is %+v", got.Meta)
		}
		before = now("c").Revision
		c.run(cli.Usage, "", "created", "disk", "c")
		c.run(cli.Usage, "", "created", "disk", "c", "")
		if got := now("c").Revision; got != before {
			t.Errorf("c was written: revision %d, was %d", got, before)
		}
	}
	declareIn := func(d *disks, name string, i store.Intent) {
		o := &disk{Meta: store.Meta{Name: name}}
		o.SetReady()
		o = must(d.Create(t.Context(), o))
		for { // the service may write a status meanwhile
			o.Intent = i
			if _, err := d.UpdateIntent(t.Context(), o); !errors.Is(err, store.ErrConflict) {
				must(o, err)
				return
			}
			o = must(d.Get(t.Context(), o.Key()))
		}
	}
	d, c := service(t)
	check("runs now", c, func(name string, i store.Intent) {
		declareIn(d, name, i)
		_ = must(d.WaitReady(t.Context(), store.Key{Name: name}))
	}, func(name string) *disk { return must(d.Get(t.Context(), store.Key{Name: name})) })
	c.env["TEND_TOKEN"] = "another"
	c.run(cli.NotAllowed, "", "not-created", "disk", "a")

	path, _ := fileStore(t)
	c = &tend{t: t, env: map[string]string{"TEND_STORE": "file:" + path}}
	check("runs as soon as a service works on the store", c, func(name string, i store.Intent) {
		inStore(t, path, func(d *disks) { declareIn(d, name, i) })
	}, func(name string) (o *disk) {
		inStore(t, path, func(d *disks) { o = must(d.Get(t.Context(), store.Key{Name: name})) })
		return o
	})
	wantAll(t, c.run(cli.Done, "", "help"), "created KIND KEY NAME", "not-created KIND KEY", "forget-location KIND KEY")
	wantAll(t, c.run(cli.Done, "", "completion", "bash"), "not-created", "forget-location", "outputs-restored")
}
