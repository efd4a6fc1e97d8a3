package cli_test

import (
	"encoding/json"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tendhq/tend/cmd/tend/cli"
	"github.com/tendhq/tend/reconcile/inspect"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/file"
)

// when runs the command until it prints what is wanted, as the service works meanwhile.
func (c *tend) when(code int, want string, args ...string) (stdout string) {
	c.t.Helper()
	limit := time.Now().Add(time.Minute) // turns a hang into a failure, and measures nothing
	for {
		var out strings.Builder
		got := cli.Run(c.t.Context(), args, cli.Config{Stdout: &out, Stderr: new(strings.Builder), Getenv: func(name string) string { return c.env[name] }})
		if got == code && strings.Contains(out.String(), want) {
			return out.String()
		}
		if time.Now().After(limit) {
			c.t.Fatalf("tend %s: exit code %d, want %d, and it never printed %q:\n%s", strings.Join(args, " "), got, code, want, out.String())
		}
	}
}

// tend status prints the verdict of the service's page, and its exit code says whether it is well.
func TestStatusSaysWhatIsWrongAndExitsWithIt(t *testing.T) {
	d, c := service(t)
	_ = must(d.Create(t.Context(), &disk{Meta: store.Meta{Name: "good"}}))
	well := c.when(cli.Done, "All is well: the 1 object is as declared.\n1 ready\n", "status")
	wantAll(t, well, "store    memory answers\n", "workers  0 of 8 are busy\n")
	for _, name := range []string{"bad-1", "bad-2"} {
		_ = must(d.Create(t.Context(), &disk{Meta: store.Meta{Name: name}}))
	}
	ill := c.when(cli.Failed, "2 of disk", "status")
	wantAll(t, ill, "Not well. 2 of 3 objects are not as declared", "1 cause; 1 needs a person.\n2 given up, 1 ready\n",
		`given up: the name is taken \u001b[31m`+"\n  2 of disk, since 20", ", for example bad-", "\n    tend edit disk bad-", "\n    tend kick disk bad-")
	var v inspect.Verdict
	if err := json.Unmarshal([]byte(c.run(cli.Failed, "", "status", "-o", "json")), &v); err != nil || v.Level != inspect.NotWell || len(v.Causes) != 1 || v.Causes[0].Count != 2 {
		t.Errorf("as JSON it is %+v, %v", v, err)
	}
	wantAll(t, c.said, "the service is not well")
	wantAll(t, c.run(cli.Done, "", "help"), "(of status: it is not well)")
}

// status asks a service; without one that answers it says so, and by another exit code.
func TestStatusOfNoService(t *testing.T) {
	_, c := service(t)
	closed := httptest.NewServer(nil)
	closed.Close()
	c.run(cli.Unreachable, "", "status", "-debug", closed.URL+"/debug")
	c.run(cli.Failed, "", "status", "-debug", c.env["TEND_SERVER"])
	wantAll(t, c.said, "-debug names something else")
	path := filepath.Join(t.TempDir(), "tend.db")
	if err := must(file.Open(path, nil)).Close(); err != nil {
		t.Fatal(err)
	}
	c.run(cli.Failed, "", "status", "-store", "file:"+path)
	wantAll(t, c.said, "the service is not asked, only its store")
}

// get -state shows the objects that the service counts in these states; of a store alone, those that
// what is stored tells of.
//
// Before: an object whose key was given up was in no list but that of all.
func TestGetByState(t *testing.T) {
	d, c := service(t)
	for _, name := range []string{"good", "bad-1", "bad-2"} {
		_ = must(d.Create(t.Context(), &disk{Meta: store.Meta{Name: name}}))
	}
	_ = must(d.Create(t.Context(), &disk{Meta: store.Meta{Name: "still", Paused: true}}))
	c.when(cli.Failed, "2 given up, 1 paused, 1 ready", "status")
	for states, want := range map[string]string{"given up": "bad-1 bad-2", "given up, paused": "bad-1 bad-2 still", "ready": "good", "stuck": ""} {
		var names []string
		for i, line := range strings.Split(strings.TrimSpace(c.run(cli.Done, "", "get", "disk", "-state", states)), "\n") {
			if i > 0 {
				names = append(names, strings.Fields(line)[0])
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("-state %q: %q, want %q", states, got, want)
		}
	}
	c.run(cli.Usage, "", "get", "disk", "-state", "good")
	wantAll(t, c.said, "a state is one of undecodable, stuck, given up")
	c.run(cli.Usage, "", "get", "disk", "good", "-state", "ready")
	path := filepath.Join(t.TempDir(), "tend.db")
	b := must(file.Open(path, nil))
	stored := newDisks(b)
	for _, o := range []*disk{{Meta: store.Meta{Name: "a"}}, {Meta: store.Meta{Name: "p", Paused: true}}} {
		_ = must(stored.Create(t.Context(), o))
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if text := c.run(cli.Done, "", "get", "disk", "-state", "paused", "-store", "file:"+path); !strings.Contains(text, "\np ") || strings.Contains(text, "\na ") {
		t.Errorf("of the store alone:\n%s", text)
	}
}
