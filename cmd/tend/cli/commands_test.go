package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tendhq/tend/cmd/tend/cli"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/event"
	"github.com/tendhq/tend/reconcile/web/api"
	"github.com/tendhq/tend/reconcile/web/debug"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/objects"
)

// Each command says how it is used and which flags it takes, and no more than fits a terminal.
func TestHelpOfEachCommandNamesItsFlagsAndFits80Columns(t *testing.T) {
	c := &tend{t: t, env: map[string]string{}}
	all := c.run(cli.Done, "", "help")
	pages := []string{all}
	commands, _, _ := strings.Cut(all, "\nFlags")
	_, commands, _ = strings.Cut(commands, "Commands:\n")
	seen := 0
	for line := range strings.Lines(commands) {
		if strings.HasPrefix(line, " ") {
			continue // the rest of the line before
		}
		seen++
		name := strings.Fields(line)[0]
		page := c.run(cli.Done, "", "help", name)
		if other := c.run(cli.Done, "", name, "-h"); other != page {
			t.Errorf("%s -h says\n%s, and help %s\n%s", name, other, name, page)
		}
		pages = append(pages, page)
	}
	if seen < 20 {
		t.Errorf("%d commands were found in\n%s", seen, all)
	}
	for _, page := range pages {
		for line := range strings.Lines(page) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
				t.Errorf("%d columns: %s", n, line)
			}
		}
	}
	wantAll(t, all, "-server URL", "-state STATES", "-revision REVISION")
	help := c.run(cli.Done, "", "delete", "-h")
	wantAll(t, help, "tend delete [KIND] [KEY] ...", "-l LABELS", "-f FILE", "-timeout LONG")
	if strings.Contains(help, "-state") {
		t.Errorf("it names a flag that delete does not take:\n%s", help)
	}
	wantAll(t, c.problems(cli.Usage, "get", "disk", "-f", "x"), "-f is not for get", "tend help get shows how it is used")
}

func TestMistypedCommandOrKindIsAnsweredByTheNearest(t *testing.T) {
	d, c := service(t)
	_ = must(d.Create(t.Context(), &disk{Meta: store.Meta{Name: "a"}}))
	wantAll(t, c.problems(cli.Usage, "statsu"), "did you mean status?")
	wantAll(t, c.problems(cli.Usage, "help", "delet"), "did you mean delete?")
	if says := c.problems(cli.Usage, "xylophone"); strings.Contains(says, "mean") {
		t.Errorf("of a word that is near none: %s", says)
	}
	wantAll(t, c.problems(cli.NotFound, "get", "disks", "a"), "did you mean disk?")
	wantAll(t, c.problems(cli.NotFound, "get", "volume"), "the kinds are disk")
	if says := c.problems(cli.NotFound, "get", "disk", "b"); strings.Contains(says, "mean") || strings.Contains(says, "kinds") {
		t.Errorf("of a kind that there is: %s", says)
	}
}

func TestWrongAddressGetsAHint(t *testing.T) {
	_, c := service(t)
	right := c.env["TEND_SERVER"]
	root := strings.TrimSuffix(right, "/objects")
	for _, wrong := range []string{root, root + "/", root + "/debug", right + "/none"} {
		wantAll(t, c.problems(cli.Failed, "get", "disk", "-server", wrong), "did you mean -server "+right+"?")
	}
	wantAll(t, c.problems(cli.Unreachable, "get", "disk", "-server", strings.Replace(right, "http:", "https:", 1)), "it speaks http, not https")
	closed := httptest.NewServer(nil)
	closed.Close()
	wantAll(t, c.problems(cli.Unreachable, "get", "disk", "-server", closed.URL+"/objects"), "nothing listens there", "-store")
	secret := httptest.NewTLSServer(nil)
	defer secret.Close()
	wantAll(t, c.problems(cli.Invalid, "get", "disk", "-server", strings.Replace(secret.URL, "https:", "http:", 1)), "does it speak https")
	wantAll(t, c.problems(cli.Usage, "get", "disk", "-store", "/var/lib/tend.db"), "did you mean file:/var/lib/tend.db?")
	wantAll(t, c.problems(cli.Usage, "get", "disk", "-store", "http://localhost:2379"), "did you mean etcd:http://localhost:2379")
}

// A server whose store does not answer is told from one that refuses, and the hints are of the server's address only.
func TestStoreOfTheServerThatDoesNotAnswerIsUnreachable(t *testing.T) {
	d := newDisks(downStore{must(memory.New(nil))})
	server := httptest.NewServer(must(api.New([]objects.Kind{objects.Of(d)}, &api.Options{
		Logger: slog.New(slog.DiscardHandler), Allow: func(*http.Request, api.Access) error { return nil },
	})))
	defer server.Close()
	c := &tend{t: t, env: map[string]string{"TEND_SERVER": server.URL}}
	for _, args := range [][]string{{"get", "disk", "a"}, {"get", "disk"}, {"kick", "disk", "a"}, {"delete", "disk", "a"}} {
		says := c.problems(cli.Unreachable, args...)
		if wantAll(t, says, errDown.Error(), "tend status"); strings.Contains(says, "nothing listens there") {
			t.Errorf("%v: the server that answered listens: %s", args, says)
		}
	}
}

// downStore is a store of which no call succeeds.
type downStore struct{ store.Backend }

var errDown = errors.New("store: dial tcp 10.0.0.1:5432: connect: connection refused")

func (downStore) Get(context.Context, string, store.Key) (store.Record, error) {
	return store.Record{}, errDown
}

func (downStore) List(context.Context, string, store.ListOptions) (store.Page, error) {
	return store.Page{}, errDown
}

func (downStore) Commit(context.Context, store.Txn) (store.Revision, error) { return 0, errDown }

// delete, pause, resume and kick take several keys, labels, or a file.
func TestSeveralObjectsAreChangedAtOnce(t *testing.T) {
	d, c := service(t)
	for _, name := range []string{"a", "b", "c", "d"} {
		_ = must(d.Create(t.Context(), &disk{Meta: store.Meta{Name: name, Labels: map[string]string{"tier": map[bool]string{true: "gold", false: "tin"}[name < "c"]}}}))
	}
	paused := func() (all []string) {
		for _, name := range []string{"a", "b", "c", "d"} {
			if must(d.Get(t.Context(), store.Key{Name: name})).Paused {
				all = append(all, name)
			}
		}
		return all
	}
	wantPaused := func(want ...string) {
		t.Helper()
		if got := paused(); !slices.Equal(got, want) {
			t.Errorf("paused are %v, want %v", got, want)
		}
	}
	wantAll(t, c.run(cli.Done, "", "pause", "disk", "a", "c"), "disk a: is paused\n", "disk c: is paused\n")
	wantPaused("a", "c")
	c.run(cli.Done, "", "resume", "disk", "-l", "tier=gold")
	wantPaused("c")
	c.run(cli.Done, "kind: disk\nmeta: {name: b}\n---\nkind: disk\nmeta: {name: d}\nspec: {size: 1}\n", "pause", "-f", "-")
	wantPaused("b", "c", "d")
	// One that is not there does not keep the others from it.
	says := c.problems(cli.NotFound, "resume", "disk", "b", "none", "d")
	wantAll(t, says, "disk none: ")
	wantPaused("c")
	wantAll(t, c.run(cli.Done, "", "kick", "disk", "-l", "tier=lead"), "no object matches")
	for _, args := range [][]string{
		{"delete", "disk"},
		{"delete"},
		{"delete", "disk", "-l", ""},
		{"delete", "disk", "a", "-l", "tier=gold"},
		{"delete", "disk", "-f", "x"},
		{"delete", "disk", "a", ""},
		{"delete", "disk", "a", "b", "-revision", "1"},
	} {
		c.run(cli.Usage, "", args...)
	}
	if n := len(must(d.List(t.Context(), store.Selector{}))); n != 4 {
		t.Errorf("%d objects are left of 4 after what was no command", n)
	}
	wantAll(t, c.run(cli.Done, "", "delete", "disk", "a", "b", "c"), "disk a: gone", "disk c: gone")
}

func TestKindsAreCounted(t *testing.T) {
	d, c := service(t)
	for _, name := range []string{"a", "b", "bad-c"} {
		_ = must(d.Create(t.Context(), &disk{Meta: store.Meta{Name: name}}))
	}
	c.when(cli.Failed, "1 given up, 2 ready", "status")
	wantAll(t, c.run(cli.Done, "", "kinds"), "KIND  OBJECTS  AS DECLARED\n", "disk  3        2\n")
	var lines []struct {
		Kind       string
		Objects    int
		AsDeclared int
	}
	if err := json.Unmarshal([]byte(c.run(cli.Done, "", "kinds", "-o", "json")), &lines); err != nil || len(lines) != 1 || lines[0].Kind != "disk" || lines[0].Objects != 3 || lines[0].AsDeclared != 2 {
		t.Errorf("as JSON they are %+v, %v", lines, err)
	}
	// Without the page the kinds are known, and how many there are is not.
	wantAll(t, c.run(cli.Done, "", "kinds", "-debug", c.env["TEND_SERVER"]+"/none"), "disk  -")
	wantAll(t, c.said, "how many there are is not known")
	path, _ := fileStore(t)
	wantAll(t, c.run(cli.Done, "", "kinds", "-store", "file:"+path), "\ndisk  1        -\n")
}

func TestAllKindsAreShownAtOnce(t *testing.T) {
	d, c := service(t)
	_ = must(d.Create(t.Context(), &disk{Meta: store.Meta{Name: "a"}}))
	wantAll(t, c.run(cli.Done, "", "get", "all"), "KIND  KEY  PHASE", "\ndisk  a ")
}

// eventful is a service whose page has events.
func eventful(t *testing.T) *tend {
	events := event.NewLog(nil)
	for i, name := range []string{"a", "b"} {
		if err := events.Record(t.Context(), event.Event{Warning: i == 1, Reason: "Made", Message: "of " + name, Kind: "disk", Key: store.Key{Namespace: "prod", Name: name}, Time: time.Now(), Count: 1}); err != nil {
			t.Fatal(err)
		}
	}
	kinds := []objects.Kind{objects.Of(newDisks(must(memory.New(nil))))}
	mux := http.NewServeMux()
	mux.Handle("/debug", must(debug.New(&reconcile.Manager{}, &debug.Options{Events: events})))
	mux.Handle("/objects", must(api.New(kinds, &api.Options{Allow: func(*http.Request, api.Access) error { return nil }})))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return &tend{t: t, env: map[string]string{"TEND_SERVER": server.URL + "/objects"}}
}

func TestEventsOfTheServiceAreShown(t *testing.T) {
	c := eventful(t)
	wantAll(t, c.run(cli.Done, "", "events"), "AGE  KIND  KEY     REASON  TIMES  MESSAGE\n", "disk  prod/a  Made    1      of a\n", "of b\n")
	for _, args := range [][]string{{"events", "disk", "prod/a"}, {"events", "disk", "a", "-n", "prod"}} {
		if text := c.run(cli.Done, "", args...); !strings.Contains(text, "of a\n") || strings.Contains(text, "of b\n") {
			t.Errorf("of one object:\n%s", text)
		}
	}
	page := &tend{t: t, env: map[string]string{}} // the page alone is asked
	wantAll(t, page.run(cli.Done, "", "events", "disk", "prod/a", "-debug", strings.TrimSuffix(c.env["TEND_SERVER"], "objects")+"debug"), "of a\n")
	page.run(cli.Usage, "", "kinds", "-debug", "http://localhost:1/debug")
	if text := c.run(cli.Done, "", "events", "-n", "test"); strings.Contains(text, "of a") {
		t.Errorf("of another namespace:\n%s", text)
	}
	_, other := service(t)
	wantAll(t, other.problems(cli.Failed, "events"), "no events are kept")
}

func TestVersionNeedsNoService(t *testing.T) {
	c := &tend{t: t, env: map[string]string{}}
	wantAll(t, c.run(cli.Done, "", "version"), "tend ", " go1.")
}

// What is well is not what a watch is begun for: of 5,000 objects it printed 5,000 lines first.
func TestWatchBeginsWithWhatIsNotAsDeclared(t *testing.T) {
	d, c := service(t)
	_ = must(d.Create(t.Context(), &disk{Meta: store.Meta{Name: "bad-a"}}))
	well := must(d.Create(t.Context(), &disk{Meta: store.Meta{Name: "well"}}))
	_ = must(d.WaitReady(t.Context(), well.Key()))
	lines, stop := c.watching("disk")
	wantAll(t, <-lines, "is  bad-a")
	wantAll(t, <-lines, "1 of 2 are not as declared; changes follow")
	_ = must(d.Create(t.Context(), &disk{Meta: store.Meta{Name: "new"}}))
	wantAll(t, <-lines, "put  new")
	stop()
	whole, stop := c.watching("disk", "-o", "json") // programs get it whole
	wantAll(t, <-whole+<-whole+<-whole, "bad-a", "well", "new")
	stop()
}

func TestCompletionKnowsKindsKeysAndFlags(t *testing.T) {
	d, c := service(t)
	for _, name := range []string{"logs", "lobby", "data", "odd:one"} {
		_ = must(d.Create(t.Context(), &disk{Meta: store.Meta{Name: name}}))
	}
	_ = must(d.Create(t.Context(), &disk{Meta: store.Meta{Namespace: "prod", Name: "lobster"}}))
	server := strings.SplitAfter(c.env["TEND_SERVER"], ":")
	for _, x := range []struct {
		words []string
		want  string
	}{
		{[]string{"st"}, "status"},
		{[]string{"help", "remo"}, "remove-finalizer"},
		{[]string{"get", ""}, "disk"},
		{[]string{"get", "disk", "lo"}, "lobby logs"},
		{[]string{"get", "disk", "prod/"}, "prod/lobster"},
		{[]string{"get", "disk", "-n", "prod", ""}, "lobster"},
		{[]string{"get", "disk", "logs", ""}, ""},
		{[]string{"pause", "disk", "logs", "da"}, "data"},
		{[]string{"get", "disk", "odd", ":", "o"}, "one"}, // as bash breaks it
		{[]string{"get", "disk", "-s"}, "-server -show-secrets -state -store"},
		{[]string{"get", "disk", "-o", ""}, "table json yaml"},
		{[]string{"get", "disk", "-state", "fa"}, "failing"},
		{[]string{"apply", "-f", ""}, ""},
		{[]string{"copy", ""}, ""},
		{[]string{"get", "-bogus", ""}, ""},
		{[]string{"-server", server[0][:4], ":", server[1][:len(server[1])-1], ":", server[2], "get", "d"}, "disk"},
	} {
		if got := strings.Join(strings.Fields(c.run(cli.Done, "", append([]string{"__complete"}, x.words...)...)), " "); got != x.want {
			t.Errorf("%q is completed by %q, want %q", x.words, got, x.want)
		}
	}
	c.env["TEND_SERVER"] = "http://127.0.0.1:1/objects"
	if got := c.run(cli.Done, "", "__complete", "get", ""); got != "" {
		t.Errorf("without a service: %q", got)
	}
}

// A pipe gets whole lines without colours.
func TestOutputToAProgramHasNoColoursAndWholeLines(t *testing.T) {
	d, c := service(t)
	_ = must(d.Create(t.Context(), &disk{Meta: store.Meta{Name: "bad-a"}}))
	c.when(cli.Failed, "1 given up", "status")
	file := must(os.Create(filepath.Join(t.TempDir(), "out")))
	defer file.Close()
	var said bytes.Buffer
	if code := cli.Run(t.Context(), []string{"status"}, cli.Config{Stdout: file, Stderr: &said, Getenv: func(name string) string { return c.env[name] }}); code != cli.Failed {
		t.Errorf("exit code %d: %s", code, &said)
	}
	text := string(must(os.ReadFile(file.Name())))
	if strings.Contains(text, "\x1b") || !strings.Contains(text, "1 of 1 object is not as declared") {
		t.Errorf("it prints %q", text)
	}
}
