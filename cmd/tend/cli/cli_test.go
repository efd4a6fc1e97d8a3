package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tendhq/tend/cmd/tend/cli"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/web/api"
	"github.com/tendhq/tend/reconcile/web/debug"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/file"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/objects"
)

type (
	spec struct {
		Size     int64  `json:"size"`
		Password string `json:"password,omitempty" tend:"secret"`
	}
	status struct {
		Made bool `json:"made"`
	}
	disk  = store.Object[spec, status]
	disks = store.Store[spec, status]
)

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

func newDisks(b store.Backend) *disks {
	return must(store.New(b, "disk", &store.Options[spec, status]{Validate: func(o *disk) error {
		if o.Spec.Size < 0 {
			return errors.New("a disk has a size")
		}
		return nil
	}}))
}

// tend runs the command, and returns what it prints.
type tend struct {
	t      *testing.T
	config cli.Config
	env    map[string]string
	said   string // what the last run wrote to standard error
}

func (c *tend) run(want int, stdin string, args ...string) (stdout string) {
	c.t.Helper()
	return c.runIn(c.t.Context(), want, stdin, args...)
}

func (c *tend) runIn(ctx context.Context, want int, stdin string, args ...string) (stdout string) {
	c.t.Helper()
	var out, problems bytes.Buffer
	config := c.config
	config.Stdin, config.Stdout, config.Stderr = strings.NewReader(stdin), &out, &problems
	config.Getenv = func(name string) string { return c.env[name] }
	if got := cli.Run(ctx, args, config); got != want {
		c.t.Fatalf("tend %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, want, &out, &problems)
	}
	c.said = problems.String()
	if want != cli.Done && problems.Len() == 0 {
		c.t.Errorf("tend %s fails without a word", strings.Join(args, " "))
	}
	if text := out.String() + problems.String(); strings.Contains(text, "hunter2") {
		c.t.Errorf("tend %s shows a secret:\n%s", strings.Join(args, " "), text)
	}
	return out.String()
}

func wantAll(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q:\n%s", want, text)
		}
	}
}

const token = "only-operators"

// service is a running program with a controller, its objects and its debug page.
func service(t *testing.T) (*disks, *tend) {
	t.Helper()
	d := newDisks(must(memory.New(nil)))
	silent := slog.New(slog.DiscardHandler)
	c := must(reconcile.For(d, func(ctx context.Context, o *disk) (reconcile.Result, error) {
		if strings.HasPrefix(o.Name, "bad") {
			return reconcile.Result{}, reconcile.Terminal(errors.New("the name is taken \x1b[31m"))
		}
		if o.Phase == store.PhaseReady && o.ObservedGeneration == o.Generation {
			return reconcile.Result{}, nil
		}
		o.SetReady()
		_, err := d.UpdateStatus(ctx, o)
		return reconcile.Result{}, err
	}, &reconcile.ForOptions[spec, status]{Options: reconcile.Options[reconcile.Request]{Logger: silent}}))
	m := &reconcile.Manager{Logger: silent}
	if err := m.Register(c); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }() // ended by cancel, waited for in the cleanup
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	kinds := []objects.Kind{objects.Of(d)}
	mux := http.NewServeMux()
	mux.Handle("/debug", must(debug.New(m, &debug.Options{Objects: kinds, Logger: silent})))
	mux.Handle("/objects", must(api.New(kinds, &api.Options{Logger: silent, Allow: func(r *http.Request, a api.Access) error {
		if a.Writes() && r.Header.Get("Authorization") != "Bearer "+token {
			return errors.New("writing is for operators")
		}
		return nil
	}})))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return d, &tend{t: t, env: map[string]string{"TEND_SERVER": server.URL + "/objects", "TEND_TOKEN": token}}
}

const declared = `
kind: disk
meta: {name: data, namespace: prod, labels: {tier: gold}}
spec: {size: 10, password: hunter2}
---
{"kind": "disk", "meta": {"name": "logs"}, "spec": {"size": 20}}
---
`

// Negative control: mutant "the table does not say why an object is not Ready".
func TestTableSaysWhyAnObjectIsNotReady(t *testing.T) {
	d, c := service(t)
	ctx := t.Context()
	row := func() string {
		t.Helper()
		_, row, _ := strings.Cut(c.run(cli.Done, "", "get", "disk", "bad"), "\n")
		return strings.TrimSpace(row)
	}
	o := must(d.Create(ctx, &disk{Meta: store.Meta{Name: "bad"}}))
	o.SetProgressing("CreateFailed", "the cloud says: "+strings.Repeat("no ", 100))
	o = must(d.UpdateStatus(ctx, o))
	if says := row(); !strings.Contains(says, " False ") || !strings.Contains(says, " CreateFailed: the cloud says: no no") || len(says) > 300 {
		t.Errorf("an object that is not Ready: %s", says)
	}
	o.SetReady()
	o = must(d.UpdateStatus(ctx, o))
	if says := row(); !strings.Contains(says, " True ") || strings.Contains(says, "no no") || strings.Contains(says, "generation") {
		t.Errorf("a Ready one: %s", says)
	}
	o.Spec.Size = 5
	_ = must(d.Update(ctx, o))
	if says := row(); !strings.HasSuffix(says, "Ready is of generation 1") {
		t.Errorf("one that was Ready before its spec changed: %s", says)
	}
}

// An edit of what a file declares is named by the next apply, which does the rest; -force takes it back.
//
// promise S6
func TestApplyNamesWhatAPersonEdited(t *testing.T) {
	d, c := service(t)
	c.run(cli.Done, declared, "apply", "-f", "-")
	wantAll(t, c.run(cli.Done, "", "describe", "disk", "logs"), "fields of tend apply", "all")
	c.config.Edit = func(_ context.Context, path string) error {
		text := strings.Replace(string(must(os.ReadFile(path))), "size: 10", "size: 12", 1)
		return os.WriteFile(path, []byte(text), 0o600)
	}
	c.run(cli.Done, "", "edit", "disk", "prod/data")
	next := strings.Replace(declared, `"size": 20`, `"size": 21`, 1)
	wantAll(t, c.run(cli.Conflict, next, "apply", "-f", "-"), "disk logs: changed")
	if data, logs := must(d.Get(t.Context(), store.Key{Namespace: "prod", Name: "data"})), must(d.Get(t.Context(), store.Key{Name: "logs"})); data.Spec.Size != 12 || logs.Spec.Size != 21 {
		t.Errorf("applied are sizes %d and %d, want 12 and 21", data.Spec.Size, logs.Spec.Size)
	}
	wantAll(t, c.run(cli.Done, "", "describe", "disk", "prod/data"), "fields of edit")
	wantAll(t, c.run(cli.Done, next, "apply", "-f", "-", "-force"), "disk prod/data: changed")
	if text := c.run(cli.Done, "", "describe", "disk", "prod/data"); strings.Contains(text, "fields of edit") || !strings.Contains(text, "size: 10") {
		t.Errorf("described:\n%s", text)
	}
}

func TestCommandsOnARunningService(t *testing.T) {
	d, c := service(t)
	ctx := t.Context()
	wantAll(t, c.run(cli.Done, "", "kinds"), "\ndisk ")
	wantAll(t, c.run(cli.Done, declared, "apply", "-f", "-"), "disk prod/data: created", "disk logs: created")
	data := store.Key{Namespace: "prod", Name: "data"}
	_ = must(d.WaitReady(ctx, data))
	_ = must(d.WaitReady(ctx, store.Key{Name: "logs"}))
	if o := must(d.Get(ctx, data)); o.Spec != (spec{10, "hunter2"}) || o.Labels["tier"] != "gold" {
		t.Errorf("applied %+v", o)
	}
	wantAll(t, c.run(cli.Done, declared, "apply", "-f", "-"), "disk prod/data: unchanged")
	wantAll(t, c.run(cli.Done, "", "get", "disk"), "KEY", "prod/data", "Ready", "logs")
	if text := c.run(cli.Done, "", "get", "disk", "-l", "tier = gold"); strings.Contains(text, "logs") {
		t.Errorf("the selector selects all:\n%s", text)
	}
	wantAll(t, c.run(cli.Done, "", "-n", "prod", "get", "disk", "data"), "prod/data")
	wantAll(t, c.run(cli.Done, "", "describe", "disk", "prod/data"), "condition Ready", "True", "password: (secret)", "size: 10")
	var object struct {
		Kind string
		Spec spec
	}
	if err := json.Unmarshal([]byte(c.run(cli.Done, "", "get", "disk", "prod/data", "-o", "json")), &object); err != nil || object.Spec.Size != 10 || object.Kind != "disk" {
		t.Errorf("as JSON: %+v, %v", object, err)
	}
	yaml := c.run(cli.Done, "", "get", "disk", "prod/data", "-o", "yaml")
	wantAll(t, yaml, "size: 10", "kind: disk")
	wantAll(t, c.run(cli.Done, strings.Replace(yaml, "size: 10", "size: 11", 1), "apply", "-f", "-"), "changed") // with its secret hidden
	if o := must(d.Get(ctx, data)); o.Spec != (spec{11, "hunter2"}) {
		t.Errorf("after the second apply: %+v", o.Spec)
	}
	c.config.Edit = func(_ context.Context, path string) error {
		text := strings.Replace(string(must(os.ReadFile(path))), "size: 11", "size: 12", 1)
		return os.WriteFile(path, []byte(text), 0o600)
	}
	wantAll(t, c.run(cli.Done, "", "edit", "disk", "prod/data"), "revision")
	if o := must(d.Get(ctx, data)); o.Spec != (spec{12, "hunter2"}) {
		t.Errorf("after the edit: %+v", o.Spec)
	}
	c.config.Edit = func(context.Context, string) error { return nil }
	wantAll(t, c.run(cli.Done, "", "edit", "disk", "prod/data"), "nothing was changed")
	c.config.Edit = func(ctx context.Context, path string) error { // a controller writes a status meanwhile
		o := must(d.Get(ctx, data))
		o.Status.Made = !o.Status.Made
		_ = must(d.UpdateStatus(ctx, o))
		turned := strings.NewReplacer("tier: gold", "tier: iron", "tier: iron", "tier: gold")
		return os.WriteFile(path, []byte(turned.Replace(string(must(os.ReadFile(path))))), 0o600)
	}
	wantAll(t, c.run(cli.Done, "", "edit", "disk", "prod/data"), "revision")
	if o := must(d.Get(ctx, data)); o.Labels["tier"] != "iron" {
		t.Errorf("after an edit beside a status write: %+v", o)
	}
	c.run(cli.Conflict, "", "edit", "disk", "prod/data", "-revision", fmt.Sprint(must(d.Get(ctx, data)).Revision))
	c.config.Edit = func(ctx context.Context, path string) error { // another writer is faster
		o := must(d.Get(ctx, data))
		o.Spec.Size = 13
		_ = must(d.Update(ctx, o))
		return os.WriteFile(path, bytes.Replace(must(os.ReadFile(path)), []byte("size: 12"), []byte("size: 99"), 1), 0o600)
	}
	c.run(cli.Conflict, "", "edit", "disk", "prod/data")
	c.run(cli.Done, "", "pause", "disk", "prod/data")
	wantAll(t, c.run(cli.Done, "", "why", "disk", "prod/data"), "paused for ")
	c.run(cli.Done, "", "resume", "disk", "prod/data")
	c.run(cli.Done, "", "kick", "disk", "prod/data")
	c.run(cli.NotFound, "", "get", "disk", "nobody")
	c.run(cli.NotFound, "", "get", "none")
	c.run(cli.Invalid, `{"kind": "disk", "meta": {"name": "x"}, "spec": {"size": -1}}`, "apply", "-f", "-")
	c.run(cli.Invalid, `{"kind": "disk", "meta": {"name": "x"}, "spec": {"colour": 1}}`, "apply", "-f", "-")
	c.run(cli.Invalid, `{"meta": {"name": "x"}}`, "apply", "-f", "-")
	c.run(cli.Conflict, "", "delete", "disk", "logs", "-revision", "1")
	wantAll(t, c.run(cli.Done, "", "delete", "disk", "logs"), "gone")
	delete(c.env, "TEND_TOKEN")
	c.run(cli.NotAllowed, "", "pause", "disk", "prod/data")
	c.env["TEND_SERVER"] = "http://127.0.0.1:1/objects"
	c.run(cli.Unreachable, "", "get", "disk")
}

// problems returns what a run that fails says.
func (c *tend) problems(want int, args ...string) string {
	c.t.Helper()
	var said bytes.Buffer
	getenv := func(name string) string { return c.env[name] }
	if got := cli.Run(c.t.Context(), args, cli.Config{Stdout: io.Discard, Stderr: &said, Getenv: getenv}); got != want {
		c.t.Errorf("tend %s: exit code %d, want %d\n%s", strings.Join(args, " "), got, want, &said)
	}
	return said.String()
}

// A first user asks the wrong address, or a store for its kinds, and looks at an object that
// is well.
func TestAnswersLeadAFirstUserOn(t *testing.T) {
	d, c := service(t)
	logs := must(d.Create(t.Context(), &disk{Meta: store.Meta{Name: "logs"}}))
	_ = must(d.WaitReady(t.Context(), logs.Key()))
	wantAll(t, c.run(cli.Done, "", "why", "disk", "logs"), "it is Ready in generation 1")
	right := c.env["TEND_SERVER"]
	c.env["TEND_SERVER"] += "/none"
	// Not as exit code 3, by which a script would take the object for deleted.
	wantAll(t, c.problems(cli.Failed, "get", "disk", "logs"), "404 Not Found", "there are no objects at "+right+"/none")
}

func TestWhyNamesWhatIsInTheWay(t *testing.T) {
	d, c := service(t)
	_ = must(d.Create(t.Context(), &disk{Meta: store.Meta{Name: "bad-a", Finalizers: []string{"cloud.example/disk"}}}))
	ended := func() string { return c.run(cli.Done, "", "why", "disk", "bad-a") }
	for !strings.Contains(ended(), "parked") && t.Context().Err() == nil { // until its run has ended
	}
	wantAll(t, ended(), "generation 1 is not reconciled yet", "controller disk: parked", "the name is taken")
	c.run(cli.Done, "", "delete", "disk", "bad-a")
	text := ended()
	wantAll(t, text, "in deletion", "waits for cloud.example/disk")
	for _, args := range [][]string{{"get", "disk"}, {"describe", "disk", "bad-a"}, {"get", "disk", "-o", "yaml"}} {
		text += c.run(cli.Done, "", args...)
	}
	if strings.Contains(text, "\x1b") {
		t.Errorf("the terminal is sent commands: %q", text)
	}
	c.run(cli.Done, "", "remove-finalizer", "disk", "bad-a", "cloud.example/disk")
	c.run(cli.NotFound, "", "get", "disk", "bad-a")
}

// lineWriter sends each line on.
type lineWriter chan string

func (w lineWriter) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}

func TestWatchPrintsChangesAsTheyCome(t *testing.T) {
	d, c := service(t)
	o := must(d.Create(t.Context(), &disk{Meta: store.Meta{Name: "bad-a"}, Spec: spec{1, "hunter2"}}))
	ctx, cancel := context.WithCancel(t.Context())
	lines, code := make(lineWriter), make(chan int, 1)
	go func() { // ended by cancel
		code <- cli.Run(ctx, []string{"watch", "disk", "-o", "json"}, cli.Config{Stdout: lines, Stderr: io.Discard, Getenv: func(name string) string { return c.env[name] }})
	}()
	wantAll(t, <-lines, `"key":"bad-a"`, `"type":"is"`, `(secret)`)
	if err := d.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	wantAll(t, <-lines, `"type":"deleted"`)
	cancel()
	if got := <-code; got != cli.Done {
		t.Errorf("exit code %d after an interrupt", got)
	}
}

// fileStore makes a store with one object, which its service has closed.
func fileStore(t *testing.T) (path string, stored *disk) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "tend.db")
	b := must(file.Open(path))
	defer b.Close()
	d := newDisks(b)
	o := must(d.Create(t.Context(), &disk{Meta: store.Meta{Name: "data", Finalizers: []string{"cloud.example/disk"}}, Spec: spec{10, "hunter2"}}))
	o.Status.Made = true
	return path, must(d.UpdateStatus(t.Context(), o))
}

func inStore(t *testing.T, path string, f func(d *disks)) {
	t.Helper()
	b := must(file.Open(path))
	defer b.Close()
	f(newDisks(b))
}

func TestPlainCommandChangesMetadataOfAStoreWhoseServiceIsDown(t *testing.T) {
	path, stored := fileStore(t)
	c := &tend{t: t, env: map[string]string{"TEND_STORE": "file:" + path}}
	wantAll(t, c.run(cli.Done, "", "get", "disk"), "data")
	if text := c.run(cli.Done, "", "get", "disk", "data", "-o", "yaml"); strings.Contains(text, "spec") || !strings.Contains(text, "cloud.example/disk") {
		t.Errorf("without -show-secrets it shows:\n%s", text)
	}
	var seen bytes.Buffer
	if code := cli.Run(t.Context(), []string{"get", "disk", "data", "-o", "json", "-show-secrets"}, cli.Config{Stdout: &seen, Getenv: func(name string) string { return c.env[name] }}); code != cli.Done {
		t.Errorf("exit code %d", code)
	}
	wantAll(t, seen.String(), "hunter2", `"size": 10`)
	c.run(cli.Done, "", "pause", "disk", "data")
	c.config.Edit = func(_ context.Context, path string) error {
		return os.WriteFile(path, append(must(os.ReadFile(path)), "\n"...), 0o600)
	}
	c.run(cli.Done, "", "edit", "disk", "data")
	c.config.Edit = func(_ context.Context, path string) error {
		return os.WriteFile(path, append(must(os.ReadFile(path)), "spec: {size: 99}\n"...), 0o600)
	}
	c.run(cli.NeedsType, "", "edit", "disk", "data")
	c.run(cli.NeedsType, `{"kind": "disk", "meta": {"name": "data"}, "spec": {"size": 99}}`, "apply", "-f", "-")
	wantAll(t, c.run(cli.Done, "", "kinds"), "\ndisk  1        -\n")
	wantAll(t, c.run(cli.Done, "", "why", "disk", "data"), "paused for ", "the service is not asked")
	inStore(t, path, func(d *disks) {
		o := must(d.Get(t.Context(), stored.Key()))
		if !o.Paused || o.Spec != stored.Spec || o.Status != stored.Status {
			t.Errorf("stored is %+v", o)
		}
		c.run(cli.Unreachable, "", "get", "disk") // the service has it open
	})
	wantAll(t, c.run(cli.Done, "", "delete", "disk", "data"), "in deletion, waits for cloud.example/disk")
	c.run(cli.Done, "", "remove-finalizer", "disk", "data", "cloud.example/disk")
	c.run(cli.NotFound, "", "get", "disk", "data")
	c.env["TEND_STORE"] = "file:" + path + ".no"
	c.run(cli.Unreachable, "", "get", "disk")
	if _, err := os.Stat(path + ".no"); err == nil {
		t.Error("it made a store that is not there")
	}
}

func TestCommandOfAHostWritesSpecsOfAStore(t *testing.T) {
	path, stored := fileStore(t)
	c := &tend{t: t, env: map[string]string{"TEND_STORE": "file:" + path}}
	c.config = cli.Config{Name: "diskctl", Kinds: func(b store.Backend) ([]objects.Kind, error) {
		return []objects.Kind{objects.Of(newDisks(b))}, nil
	}}
	wantAll(t, c.run(cli.Done, "", "kinds"), "disk")
	wantAll(t, c.run(cli.Done, "", "describe", "disk", "data"), "password: (secret)", "size: 10")
	wantAll(t, c.run(cli.Done, "kind: disk\nmeta: {name: data}\nspec: {size: 11, password: (secret)}\n", "apply", "-f", "-"), "changed")
	c.run(cli.Invalid, "kind: disk\nmeta: {name: data}\nspec: {size: -11}\n", "apply", "-f", "-")
	c.run(cli.NotFound, "", "get", "none")
	inStore(t, path, func(d *disks) {
		if o := must(d.Get(t.Context(), stored.Key())); o.Spec != (spec{11, "hunter2"}) || !o.HasFinalizer("cloud.example/disk") || !o.Status.Made {
			t.Errorf("stored is %+v", o)
		}
	})
}

func TestWhatCannotBeUnderstoodIsAUsageError(t *testing.T) {
	c := &tend{t: t, env: map[string]string{}}
	for _, args := range [][]string{
		{}, // was the help, and done
		{"-server", "http://x/"},
		{"get", "disk"}, // neither a server nor a store
		{"-server", "http://x/", "-store", "file:x", "get", "disk"},
		{"-server", "x", "get", "disk"},
		{"-store", "sqlite:x", "get", "disk"},
		{"-server", "http://x/", "explode"},
		{"-server", "http://x/", "get"},
		{"-server", "http://x/", "get", "a", "b", "c"},
		{"-server", "http://x/", "get", "-o", "xml", "a"},
		{"-server", "http://x/", "apply"},
		{"-colour", "get"},
		{"completion", "tcsh"},
	} {
		c.run(cli.Usage, "", args...)
	}
	wantAll(t, c.run(cli.Done, "", "help"), "remove-finalizer KIND KEY NAME", "Exit codes: 0 done", "-show-secrets")
	wantAll(t, c.run(cli.Done, "", "-h"), "describe KIND KEY")
	for _, shell := range []string{"bash", "zsh", "fish"} {
		wantAll(t, c.run(cli.Done, "", "completion", shell), "tend", "describe", "kinds")
	}
}

func Example() {
	d := newDisks(must(memory.New(nil)))
	_ = must(d.Create(context.Background(), &disk{Meta: store.Meta{Name: "data", Created: time.Now()}, Spec: spec{10, "hunter2"}}))
	server := httptest.NewServer(must(api.New([]objects.Kind{objects.Of(d)}, &api.Options{Allow: func(*http.Request, api.Access) error { return nil }})))
	defer server.Close()
	code := cli.Run(context.Background(), []string{"-server", server.URL, "why", "disk", "data", "-debug", server.URL + "/none"}, cli.Config{Stderr: io.Discard, Stdout: io.Discard})
	fmt.Println(code)
	// Output: 0
}

// An emptied file is how many editors are left without a change.
func TestNothingIsReplacedByAnObjectWithoutItsSpec(t *testing.T) {
	d, c := service(t)
	key := store.Key{Namespace: "prod", Name: "data"}
	c.run(cli.Done, declared, "apply", "-f", "-")
	for what, text := range map[string]string{"emptied": "", "a comment": "# nothing\n", "no spec": "meta: {name: data}\n", "no meta": "spec: {size: 12}\n", "null": "meta:\nspec:\n"} {
		c.config.Edit = func(_ context.Context, path string) error { return os.WriteFile(path, []byte(text), 0o600) }
		c.run(cli.Invalid, "", "edit", "disk", "prod/data")
		if o := must(d.Get(t.Context(), key)); o.Spec != (spec{10, "hunter2"}) || o.Labels["tier"] != "gold" {
			t.Fatalf("%s: it is %+v", what, o)
		}
	}
	for _, text := range []string{
		"kind: disk\nmeta: {name: data, namespace: prod}\n", "kind: disk\nmeta: {name: data, namespace: prod}\nspec:\n",
		"kind: disk\nmeta: {name: data, namespace: prod}\nsepc: {size: 12}\n",
	} {
		c.run(cli.Invalid, text, "apply", "-f", "-")
		if o := must(d.Get(t.Context(), key)); o.Spec != (spec{10, "hunter2"}) {
			t.Fatalf("%s: it is %+v", text, o)
		}
	}
}

func TestWhatDoesNotPrintIsReadAgainAsItWas(t *testing.T) {
	d, c := service(t)
	key := store.Key{Name: "data"}
	want := "a\u00a0b\u200dc\u202ed\U000e0001e\x1b[31mf\u009bg\nh: \\u00a0"
	for _, output := range []string{"yaml", "json"} {
		_ = must(d.Create(t.Context(), &disk{Meta: store.Meta{Name: key.Name, Annotations: map[string]string{"text": want, "na\u00a0me": "a\u00a0b"}}}))
		text := c.run(cli.Done, "", "get", "disk", "data", "-o", output)
		if strings.ContainsAny(text, "\u00a0\u200d\u202e\U000e0001\x1b\u009b") {
			t.Errorf("%s: it prints %q", output, text)
		}
		if output == "json" && !json.Valid([]byte(text)) {
			t.Errorf("it is not JSON: %s", text)
		}
		c.run(cli.Done, "", "delete", "disk", "data")
		c.run(cli.Done, text, "apply", "-f", "-")
		got := must(d.Get(t.Context(), key))
		if got.Annotations["text"] != want || got.Annotations["na\u00a0me"] != "a\u00a0b" {
			t.Errorf("%s: %q comes back from\n%s", output, got.Annotations, text)
		}
		c.run(cli.Done, "", "delete", "disk", "data")
	}
}

func TestNumbersOfMoreThan53BitsAreKept(t *testing.T) {
	d, c := service(t)
	key := store.Key{Name: "data"}
	c.run(cli.Done, "kind: disk\nmeta: {name: data}\nspec: {size: 9007199254740993}\n", "apply", "-f", "-")
	if o := must(d.Get(t.Context(), key)); o.Spec.Size != 9007199254740993 {
		t.Errorf("applied: size %d", o.Spec.Size)
	}
	for _, output := range []string{"yaml", "json"} {
		c.run(cli.Done, strings.ReplaceAll(c.run(cli.Done, "", "get", "disk", "data", "-o", output), "0993", "0995"), "apply", "-f", "-")
		if o := must(d.Get(t.Context(), key)); o.Spec.Size != 9007199254740995 {
			t.Errorf("%s: size %d", output, o.Spec.Size)
		}
	}
}

// A server chooses the names of its kinds, and a shell completes them.
func TestCompletionRunsNothingThatAServerNames(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash here")
	}
	c := &tend{t: t, env: map[string]string{}}
	file := filepath.Join(t.TempDir(), "made")
	script := "tend() { echo disk; echo dock; echo '$(echo>" + file + ")'; echo 'd`echo>" + file + "`'; }\n" + c.run(cli.Done, "", "completion", "bash") +
		"\nCOMP_WORDS=(tend get di); COMP_CWORD=2; _tend; echo \"<${COMPREPLY[*]}>\"" +
		"\nCOMP_WORDS=(tend get ''); COMP_CWORD=2; _tend; echo \"${#COMPREPLY[@]}\"; echo \"${COMPREPLY[3]}\"; eval \": ${COMPREPLY[*]}\""
	out, err := exec.CommandContext(t.Context(), bash, "-c", script).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "<disk>\n4\n") {
		t.Errorf("bash says %q, %v", out, err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("completion ran what a server named")
	}
}

// A declaration with the uid of another object means that one. It was written into the object that has the name now.
func TestApplyOfAnotherUidIsRefused(t *testing.T) {
	d, c := service(t)
	c.run(cli.Done, declared, "apply", "-f", "-")
	data := store.Key{Namespace: "prod", Name: "data"}
	stored := must(d.Get(t.Context(), data))
	with := func(uid string) string {
		return fmt.Sprintf(`{"kind": "disk", "meta": {"namespace": "prod", "name": "data", "uid": %q}, "spec": {"size": 30}}`, uid)
	}
	c.run(cli.Conflict, with("other"), "apply", "-f", "-")
	if o := must(d.Get(t.Context(), data)); o.Spec != stored.Spec {
		t.Errorf("stored is %+v", o.Spec)
	}
	wantAll(t, c.run(cli.Done, with(stored.UID), "apply", "-f", "-"), "disk prod/data: changed")
}
