package cli_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/tendhq/tend/cmd/tend/cli"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/file"
	"github.com/tendhq/tend/store/objects"
)

// fails runs the command, and returns what it says on standard error.
func (c *tend) fails(want int, args ...string) string {
	c.t.Helper()
	var problems bytes.Buffer
	config := c.config
	config.Stdin, config.Stdout, config.Stderr = strings.NewReader(""), &problems, &problems
	config.Getenv = func(name string) string { return c.env[name] }
	if got := cli.Run(c.t.Context(), args, config); got != want {
		c.t.Fatalf("tend %s: exit code %d, want %d\n%s", strings.Join(args, " "), got, want, &problems)
	}
	return problems.String()
}

// What a user has typed into an editor is kept if it cannot be stored.
func TestEditsThatCannotBeStoredAreKept(t *testing.T) {
	d, c := service(t)
	c.run(cli.Done, declared, "apply", "-f", "-")
	data := store.Key{Namespace: "prod", Name: "data"}
	_ = must(d.WaitReady(t.Context(), data))
	type edit struct {
		code int
		text func(was string) string
	}
	for what, e := range map[string]edit{
		"conflict": {cli.Conflict, func(was string) string {
			o := must(d.Get(t.Context(), data))
			o.Spec.Size++
			_ = must(d.Update(t.Context(), o))
			return strings.Replace(was, "size: 1", "size: 4", 1)
		}},
		"refused":          {cli.Invalid, func(was string) string { return strings.Replace(was, "size: 1", "size: -1", 1) }},
		"no YAML":          {cli.Invalid, func(was string) string { return was + "}\n" }},
		"no spec":          {cli.Invalid, func(string) string { return "meta: {name: data}\n" }},
		"only the store's": {cli.Invalid, func(was string) string { return strings.Replace(was, "generation: ", "generation: 9", 1) }},
		"only a run's":     {cli.Invalid, func(was string) string { return was + "phase: Ready\n" }},
		"no right":         {cli.NotAllowed, func(was string) string { return was + "# mine\n" }},
	} {
		t.Run(what, func(t *testing.T) {
			c.t = t
			c.env["TEND_TOKEN"] = token
			if e.code == cli.NotAllowed {
				delete(c.env, "TEND_TOKEN")
			}
			var typed string
			c.config.Edit = func(_ context.Context, path string) error {
				typed = e.text(string(must(os.ReadFile(path))))
				return os.WriteFile(path, []byte(typed), 0o600)
			}
			says := c.fails(e.code, "edit", "disk", "prod/data")
			path := regexp.MustCompile(`your edit is in (\S+)`).FindStringSubmatch(says)
			if path == nil {
				t.Fatalf("it does not say where the edit is: %s", says)
			}
			defer os.RemoveAll(path[1][:strings.LastIndex(path[1], string(os.PathSeparator))])
			if kept := string(must(os.ReadFile(path[1]))); kept != typed {
				t.Errorf("kept is %q, typed was %q", kept, typed)
			}
		})
	}
}

func TestListThatIsPrintedCanBeApplied(t *testing.T) {
	for _, output := range []string{"yaml", "json"} {
		d, c := service(t)
		c.run(cli.Done, declared, "apply", "-f", "-")
		all := c.run(cli.Done, "", "get", "disk", "-o", output)
		for _, name := range []string{"data", "logs"} {
			namespace := map[string]string{"data": "prod"}[name]
			o := must(d.Get(t.Context(), store.Key{Namespace: namespace, Name: name}))
			if err := d.Delete(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		all = strings.ReplaceAll(all, "(secret)", "another")
		wantAll(t, c.run(cli.Done, all, "apply", "-f", "-"), "disk prod/data: created", "disk logs: created")
		if o := must(d.Get(t.Context(), store.Key{Namespace: "prod", Name: "data"})); o.Spec != (spec{10, "another"}) || o.Labels["tier"] != "gold" {
			t.Errorf("%s: applied is %+v", output, o)
		}
		c.run(cli.Invalid, "- kind: disk\n- 7\n", "apply", "-f", "-")
	}
}

func TestPasswordOfAnAddressIsInNoError(t *testing.T) {
	_, c := service(t)
	c.run(cli.Done, declared, "apply", "-f", "-")
	server := strings.TrimPrefix(c.env["TEND_SERVER"], "http://")
	for _, debug := range []string{"http://me:hunter2@" + server, "http://me:hunter2@127.0.0.1:1/debug", "http://me:hunter2@x:port/", "me:hunter2@x", "http://me:hunter2@%zz/"} {
		c.run(cli.Done, "", "why", "disk", "logs", "-debug", debug) // run looks for the password
	}
	for _, address := range []string{"ftp://me:hunter2@x/", "http://me:hunter2@x:port/", "http://me:hunter2@x/?a=b", "http://me:hunter2@%zz/"} {
		c.run(cli.Usage, "", "-server", address, "get", "disk")
	}
	c.run(cli.Unreachable, "", "-server", "http://me:hunter2@127.0.0.1:1/objects", "get", "disk")
	delete(c.env, "TEND_SERVER")
	for _, address := range []string{"postgres://me:hunter2@%zz/", "postgres:host=127.0.0.1 port=x password=hunter2"} {
		c.run(cli.Unreachable, "", "-store", address, "get", "disk")
	}
}

// A store that cannot be reached has the exit code for that, whatever store it is.
func TestUnreachableEtcdHasItsExitCode(t *testing.T) {
	c := &tend{t: t}
	c.run(cli.Unreachable, "", "-store", "etcd:127.0.0.1:1", "get", "disk")
}

// A service that takes the connection and says nothing is given up: on the old code the command
// waited for ever.
func TestServiceThatNeverAnswersIsGivenUp(t *testing.T) {
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	defer server.Close()
	defer close(over)
	c := &tend{t: t}
	for _, args := range [][]string{{"get", "disk"}, {"watch", "disk"}, {"kick", "disk", "logs"}} {
		c.run(cli.Unreachable, "", append(args, "-server", server.URL, "-timeout", "10ms")...)
	}
	c.run(cli.Usage, "", "-server", server.URL, "-timeout", "-1s", "get", "disk")
	path, _ := fileStore(t)
	wantAll(t, c.run(cli.Done, "", "-store", "file:"+path, "-debug", server.URL, "-timeout", "10ms", "why", "disk", "data"), "awaiting response")
}

func TestStoreIsClosedIfItsKindsCannotBeMade(t *testing.T) {
	path, _ := fileStore(t)
	c := &tend{t: t, env: map[string]string{"TEND_STORE": "file:" + path}}
	c.config.Kinds = func(store.Backend) ([]objects.Kind, error) { return nil, errors.New("no kinds today") }
	c.run(cli.Failed, "", "get", "disk")
	b, err := file.Open(path) // refused while the store is open
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
}

// "/data" is the key of an object without a namespace, as "namespace: ”" is in a file.
func TestEmptyNamespaceThatIsNamedIsKept(t *testing.T) {
	d, c := service(t)
	apply := func(meta string) string {
		return c.run(cli.Done, "kind: disk\nmeta: {"+meta+"}\nspec: {size: 1}\n", "-n", "prod", "apply", "-f", "-")
	}
	wantAll(t, apply("name: data, namespace: ''"), "disk data: created")
	wantAll(t, apply("name: data"), "disk prod/data: created")
	wantAll(t, c.run(cli.Done, "", "-n", "prod", "delete", "disk", "/data"), "disk data: gone")
	if _, err := d.Get(t.Context(), store.Key{Namespace: "prod", Name: "data"}); err != nil {
		t.Error(err)
	}
	wantAll(t, c.run(cli.Done, "", "-n", "prod", "delete", "disk", "data"), "disk prod/data: gone")
}
