package api_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tendhq/tend/reconcile/web/api"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/objects"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	spec struct {
		Size     int
		Password string `tend:"secret"`
	}
	status struct{ Made bool }
	disk   = store.Object[spec, status]
)

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

// world is a handler that allows everything, over a store of disks.
type world struct {
	disks  *store.Store[spec, status]
	log    bytes.Buffer
	server *httptest.Server
}

func newWorld(t *testing.T, change func(*api.Options)) *world {
	t.Helper()
	w := &world{}
	w.disks = must(store.New(must(memory.New(nil)), "disk", &store.Options[spec, status]{Validate: func(o *disk) error {
		if o.Spec.Size < 0 {
			return fmt.Errorf("a size of %d with %s", o.Spec.Size, o.Spec.Password)
		}
		return nil
	}}))
	o := &api.Options{Logger: slog.New(slog.NewTextHandler(&w.log, nil)), Allow: func(*http.Request, api.Access) error { return nil }}
	if change != nil {
		change(o)
	}
	w.server = httptest.NewServer(must(api.New([]objects.Kind{objects.Of(w.disks)}, o)))
	t.Cleanup(w.server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return w
}

// ask sends a request; headers come in pairs.
func (w *world) ask(t *testing.T, want int, method, query, body string, headers ...string) (string, http.Header) {
	t.Helper()
	r := must(http.NewRequestWithContext(t.Context(), method, w.server.URL+query, strings.NewReader(body)))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text := string(must(io.ReadAll(resp.Body)))
	if resp.StatusCode != want {
		t.Fatalf("%s %s: %s, want %d: %s", method, query, resp.Status, want, text)
	}
	if strings.Contains(text, "hunter2") {
		t.Errorf("%s %s shows a secret: %s", method, query, text)
	}
	return text, resp.Header
}

func wantAll(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q:\n%s", want, text)
		}
	}
}

func TestObjectsAreCreatedReplacedAndDeletedByTheirRevision(t *testing.T) {
	w := newWorld(t, nil)
	const one = "?kind=disk&key=prod/a"
	w.ask(t, http.StatusNotFound, "GET", one, "")
	text, h := w.ask(t, http.StatusOK, "PUT", one, `{"spec":{"Size":1,"Password":"hunter2"}}`, "If-None-Match", "*")
	wantAll(t, text, `"Size":1`, `"Password":"(secret)"`, `"namespace":"prod"`)
	w.ask(t, http.StatusConflict, "PUT", one, `{"spec":{"Size":1,"Password":"hunter2"}}`, "If-None-Match", "*")
	w.ask(t, http.StatusPreconditionRequired, "PUT", one, text)
	edited := strings.Replace(text, `"Size":1`, `"Size":2`, 1)
	w.ask(t, http.StatusPreconditionFailed, "PUT", one, edited, "If-Match", `"999"`)
	w.ask(t, http.StatusBadRequest, "PUT", one, edited, "If-Match", `"x"`)
	_, h2 := w.ask(t, http.StatusOK, "PUT", one, edited, "If-Match", h.Get("ETag"))
	w.ask(t, http.StatusPreconditionFailed, "PUT", one, strings.Replace(text, `"Size":1`, `"Size":3`, 1), "If-Match", h.Get("ETag"))
	if o := must(w.disks.Get(t.Context(), store.Key{Namespace: "prod", Name: "a"})); o.Spec != (spec{2, "hunter2"}) {
		t.Errorf("stored is %+v", o.Spec)
	}
	w.ask(t, http.StatusUnprocessableEntity, "PUT", one, `{"spec":{"Size":-1,"Password":"(secret)"}}`, "If-Match", h2.Get("ETag"))
	w.ask(t, http.StatusUnprocessableEntity, "PUT", one, `{"spec":{"Colour":1}}`, "If-Match", h2.Get("ETag"))
	w.ask(t, http.StatusRequestEntityTooLarge, "PUT", one, strings.Repeat(" ", 3<<20), "If-Match", h2.Get("ETag"))
	wantAll(t, first(w.ask(t, http.StatusOK, "GET", "", "")), `{"kinds":["disk"]}`)
	if text, _ := w.ask(t, http.StatusNotFound, "GET", "?kind=none", ""); !strings.Contains(text, `no kind \"none\"`) {
		t.Errorf("an unknown kind: %s", text)
	}
	w.ask(t, http.StatusOK, "POST", one+"&do=pause", "")
	wantAll(t, first(w.ask(t, http.StatusOK, "GET", one, "")), `"paused":true`)
	w.ask(t, http.StatusOK, "POST", one+"&do=resume", "")
	wantAll(t, first(w.ask(t, http.StatusOK, "POST", one+"&do=reconcile", "")), store.AnnotationReconcileNow)
	w.ask(t, http.StatusBadRequest, "POST", one+"&do=explode", "")
	w.ask(t, http.StatusPreconditionRequired, "DELETE", one, "")
	w.ask(t, http.StatusPreconditionFailed, "DELETE", one, "", "If-Match", h.Get("ETag"))
	wantAll(t, first(w.ask(t, http.StatusOK, "DELETE", one, "", "If-Match", "*")), `"gone":true`)
	if n := strings.Count(w.log.String(), `msg="api: written"`); n != 6 {
		t.Errorf("%d writes are in the log, want 6:\n%s", n, &w.log)
	}
	wantAll(t, w.log.String(), `msg="api: refused" action=replace kind=disk key=prod/a`, "status=412", "action=delete")
	if strings.Contains(w.log.String(), "hunter2") {
		t.Errorf("the log shows a secret:\n%s", &w.log)
	}
}

func first(text string, _ http.Header) string { return text }

// A PATCH declares fields: what others filled in stays, and what another owns is named and not written.
//
// promise S6
func TestAPatchDeclaresFields(t *testing.T) {
	w := newWorld(t, nil)
	const one = "?kind=disk&key=prod/a"
	w.ask(t, http.StatusUnprocessableEntity, "PATCH", one, `{"spec":{"Size":1}}`)
	wantAll(t, first(w.ask(t, http.StatusOK, "PATCH", one+"&owner=x", `{"spec":{"Size":1}}`)), `"Size":1`, `"fieldOwners":{`)
	key := store.Key{Namespace: "prod", Name: "a"}
	_ = must(w.disks.Mutate(t.Context(), key, func(o *disk) error { o.Spec.Password = "hunter2"; return nil }))
	wantAll(t, first(w.ask(t, http.StatusOK, "PATCH", one+"&owner=x", `{"spec":{"Size":2}}`)), `"Size":2`, `"Password":"(secret)"`)
	wantAll(t, first(w.ask(t, http.StatusPreconditionFailed, "PATCH", one+"&owner=y", `{"spec":{"Size":3}}`)), "Size: x has 2, y declares 3")
	c := must(api.NewClient(w.server.URL, nil, nil)).Kind("disk")
	if _, err := c.Apply(t.Context(), key, "y", false, []byte(`{"spec":{"Size":3}}`)); !errors.Is(err, store.ErrOwned) {
		t.Errorf("of a client: %v, want %v", err, store.ErrOwned)
	}
	if _, err := c.Apply(t.Context(), key, "y", true, []byte(`{"spec":{"Size":3}}`)); err != nil {
		t.Error(err)
	}
	stored := must(w.disks.Get(t.Context(), key))
	if stored.Spec != (spec{3, "hunter2"}) {
		t.Errorf("stored is %+v", stored.Spec)
	}
	// The object of another uid is another one, and so is that of a name under which there is none any more: its uid was dropped in silence.
	foreign, gone := []byte(`{"meta":{"uid":"other"},"spec":{"Size":4}}`), store.Key{Namespace: "prod", Name: "gone"}
	wantAll(t, first(w.ask(t, http.StatusConflict, "PATCH", one+"&owner=y", string(foreign))), "has another uid")
	if _, err := c.Apply(t.Context(), key, "y", true, foreign); !errors.Is(err, store.ErrExists) {
		t.Errorf("of a client, with another uid: %v, want %v", err, store.ErrExists)
	}
	if _, err := c.Apply(t.Context(), gone, "y", true, foreign); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of a client, where none is: %v, want %v", err, store.ErrNotFound)
	}
	if o := must(w.disks.Get(t.Context(), key)); o.Revision != stored.Revision {
		t.Errorf("written by a refused PATCH: %+v", o)
	}
	if _, err := c.Apply(t.Context(), key, "y", true, fmt.Appendf(nil, `{"meta":{"uid":%q},"spec":{"Size":4}}`, stored.UID)); err != nil {
		t.Error(err)
	}
}

func TestListIsFilteredAndPaged(t *testing.T) {
	w := newWorld(t, nil)
	for i := range 25 {
		_ = must(w.disks.Create(t.Context(), &disk{Meta: store.Meta{Name: fmt.Sprintf("d-%02d", i), Labels: map[string]string{"odd": fmt.Sprint(i % 2)}}}))
	}
	var names []string
	for query, pages := "?kind=disk&limit=5&labels=odd%3D1", 0; query != ""; pages++ {
		var page struct {
			Objects []struct{ Meta struct{ Name string } }
			Next    string
		}
		if err := json.Unmarshal([]byte(first(w.ask(t, http.StatusOK, "GET", query, ""))), &page); err != nil || pages > 5 {
			t.Fatal(err, pages)
		}
		for _, o := range page.Objects {
			names = append(names, o.Meta.Name)
		}
		if query = ""; page.Next != "" {
			query = "?kind=disk&limit=5&labels=odd%3D1&after=" + page.Next
		}
	}
	if len(names) != 12 || names[0] != "d-01" || names[11] != "d-23" {
		t.Errorf("listed %v", names)
	}
	w.ask(t, http.StatusBadRequest, "GET", "?kind=disk&limit=0", "")
	w.ask(t, http.StatusBadRequest, "GET", "?kind=disk&labels=%3D%3D", "")
}

// follower reads the events of a watch.
type follower struct {
	t     *testing.T
	lines *bufio.Scanner
	id    string
}

func (w *world) follow(t *testing.T, query string, headers ...string) *follower {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := must(http.NewRequestWithContext(ctx, http.MethodGet, w.server.URL+query, nil))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(err, resp)
	}
	t.Cleanup(func() { cancel(); resp.Body.Close() })
	return &follower{t: t, lines: bufio.NewScanner(resp.Body)}
}

// next is the type and the key of the next event.
func (f *follower) next() string {
	f.t.Helper()
	for f.lines.Scan() {
		if id, ok := strings.CutPrefix(f.lines.Text(), "id: "); ok {
			f.id = id
		}
		data, ok := strings.CutPrefix(f.lines.Text(), "data: ")
		if !ok {
			continue
		}
		if strings.Contains(data, "hunter2") {
			f.t.Errorf("an event shows a secret: %s", data)
		}
		var e struct{ Type, Key string }
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			f.t.Fatal(err)
		}
		return strings.TrimSpace(e.Type + " " + e.Key)
	}
	f.t.Fatalf("the watch ended: %v", f.lines.Err())
	return ""
}

func (f *follower) want(all ...string) {
	f.t.Helper()
	for _, want := range all {
		if got := f.next(); got != want {
			f.t.Fatalf("event %q, want %q", got, want)
		}
	}
}

func TestWatchSendsChangesAndGoesOnWhereItBroke(t *testing.T) {
	w := newWorld(t, func(o *api.Options) { o.SetHeartbeat(time.Millisecond); o.SetWatches(2) })
	ctx := t.Context()
	a := must(w.disks.Create(ctx, &disk{Meta: store.Meta{Name: "a"}, Spec: spec{1, "hunter2"}}))
	f := w.follow(t, "?kind=disk&watch=true")
	f.want("snapshot a", "synced")
	b := must(w.disks.Create(ctx, &disk{Meta: store.Meta{Name: "b"}}))
	a.Spec.Size = 2
	a = must(w.disks.Update(ctx, a))
	if err := w.disks.Delete(ctx, b); err != nil {
		t.Fatal(err)
	}
	f.want("put b", "put a", "deleted b")
	if f.id != a.Revision.String() {
		t.Fatalf("the last id is %s, want the revision %d before the last event's, of which all is known", f.id, a.Revision)
	}
	again := w.follow(t, "?kind=disk&watch=true", "Last-Event-ID", f.id)
	again.want("deleted b")
	_ = must(w.disks.Create(ctx, &disk{Meta: store.Meta{Name: "c"}}))
	f.want("put c")
	again.want("put c")
	w.ask(t, http.StatusServiceUnavailable, "GET", "?kind=disk&watch=true", "")
	w.ask(t, http.StatusNotFound, "GET", "?kind=none&watch=true", "")
}

func TestNothingIsAllowedByDefault(t *testing.T) {
	requests := []struct{ method, query string }{
		{"GET", ""},
		{"GET", "?kind=disk"},
		{"GET", "?kind=disk&key=a"},
		{"GET", "?kind=disk&watch=true"},
		{"PUT", "?kind=disk&key=a"},
		{"DELETE", "?kind=disk&key=a"},
		{"POST", "?kind=disk&key=a&do=pause"},
		{"POST", "?kind=disk&key=a&do=remove-finalizer&finalizer=f"},
		{"POST", "?kind=disk&key=a&do=not-created"},
	}
	w := newWorld(t, func(o *api.Options) { o.Allow = nil })
	o := must(w.disks.Create(t.Context(), &disk{Meta: store.Meta{Name: "a", Finalizers: []string{"f"}}}))
	for _, r := range requests {
		w.ask(t, http.StatusForbidden, r.method, r.query, `{"spec":{}}`, "If-Match", "*")
	}
	var asked []api.Access
	w2 := newWorld(t, func(o *api.Options) {
		o.Allow = func(_ *http.Request, a api.Access) error {
			asked = append(asked, a)
			return errors.New("only on weekdays")
		}
	})
	for _, r := range requests {
		wantAll(t, first(w2.ask(t, http.StatusForbidden, r.method, r.query, "", "If-Match", `"1"`)), "only on weekdays")
	}
	for i, want := range []string{api.List, api.List, api.Get, api.Watch, api.Replace, api.Delete, api.Pause, api.RemoveFinalizer, api.AnswerNotCreated} {
		if asked[i].Do != want || i > 0 && asked[i].Kind != "disk" {
			t.Errorf("request %d asked for %+v, want %s", i, asked[i], want)
		}
	}
	if now := must(w.disks.Get(t.Context(), o.Key())); now.Revision != o.Revision {
		t.Errorf("it was written: %+v", now)
	}
	wantAll(t, w.log.String(), "nothing is allowed here")
}

func TestOtherSitesAreRefused(t *testing.T) {
	w := newWorld(t, nil)
	_ = must(w.disks.Create(t.Context(), &disk{Meta: store.Meta{Name: "a"}}))
	const one = "?kind=disk&key=a&do=pause"
	w.ask(t, http.StatusForbidden, "GET", "", "", "Host", "evil.example")
	w.ask(t, http.StatusForbidden, "POST", one, "", "Sec-Fetch-Site", "cross-site")
	w.ask(t, http.StatusForbidden, "POST", one, "", "Origin", "http://evil.example")
	w.ask(t, http.StatusMethodNotAllowed, "OPTIONS", one, "")
	w.ask(t, http.StatusBadRequest, "PUT", "?kind=disk", "")
	if o := must(w.disks.Get(t.Context(), store.Key{Name: "a"})); o.Paused {
		t.Error("another site paused it")
	}
}

func TestNewRefusesWhatMakesNoSense(t *testing.T) {
	k := objects.Of(newWorld(t, nil).disks)
	for name, build := range map[string]func() (http.Handler, error){
		"a nil kind":          func() (http.Handler, error) { return api.New([]objects.Kind{nil}, nil) },
		"two kinds of a name": func() (http.Handler, error) { return api.New([]objects.Kind{k, k}, nil) },
		"a negative timeout":  func() (http.Handler, error) { return api.New(nil, &api.Options{Timeout: -1}) },
	} {
		if _, err := build(); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func Example() {
	disks := must(store.New[spec, status](must(memory.New(nil)), "disk", nil))
	h, err := api.New([]objects.Kind{objects.Of(disks)}, &api.Options{
		Allow: func(r *http.Request, a api.Access) error {
			if _, password, _ := r.BasicAuth(); a.Writes() && password != "let me in" {
				return errors.New("writing is for operators")
			}
			return nil
		},
		Logger: slog.New(slog.DiscardHandler),
	})
	fmt.Println(err)
	mux := http.NewServeMux()
	mux.Handle("/objects", h)
	r := httptest.NewRequest("PUT", "http://localhost/objects?kind=disk&key=data", strings.NewReader(`{"spec": {"Size": 10}}`))
	r.Header.Set("If-None-Match", "*")
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, r)
	fmt.Print(answer.Code, " ", answer.Body)
	// Output:
	// <nil>
	// 403 {"error":"writing is for operators"}
}

// Negative control: mutant "what a newer version wrote exists already".
func TestClientIsToldThatANewerVersionWroteTheObject(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		fmt.Fprint(w, `{"error":"refused"}`)
	}))
	defer server.Close()
	k := must(api.NewClient(server.URL, nil, nil)).Kind("disk")
	key := store.Key{Name: "a"}
	if _, err := k.Put(t.Context(), key, 7, []byte(`{}`)); !errors.Is(err, store.ErrNewer) || errors.Is(err, store.ErrExists) {
		t.Errorf("an update: %v, want %v", err, store.ErrNewer)
	}
	if _, err := k.Put(t.Context(), key, 0, []byte(`{}`)); !errors.Is(err, store.ErrExists) {
		t.Errorf("a create: %v, want %v", err, store.ErrExists)
	}
}

func TestClientSeesAndEditsWhatTheServerHas(t *testing.T) {
	w := newWorld(t, nil)
	c := must(api.NewClient(w.server.URL, nil, nil))
	if names := must(c.Kinds(t.Context())); len(names) != 1 || names[0] != "disk" {
		t.Errorf("kinds %v", names)
	}
	k, key := c.Kind("disk"), store.Key{Namespace: "prod", Name: "a / b?"}
	o := must(k.Put(t.Context(), key, 0, []byte(`{"spec":{"Size":1,"Password":"hunter2"}}`)))
	if o.Revision == 0 || o.Key() != key {
		t.Errorf("created %+v", o.Meta)
	}
	edited := must(k.Edit(t.Context(), key, o.Revision, func(m *store.Meta) error { m.AddFinalizer("f"); return nil }))
	_ = must(objects.Do(t.Context(), k, key, "pause"))
	if o := must(w.disks.Get(t.Context(), key)); !o.Paused || !o.HasFinalizer("f") || o.Spec != (spec{1, "hunter2"}) {
		t.Errorf("edited %+v", o)
	}
	for name, c := range map[string]struct{ err, want error }{
		"Get":         {second(k.Get(t.Context(), store.Key{Name: "none"})), store.ErrNotFound},
		"Edit":        {second(k.Edit(t.Context(), key, o.Revision, func(*store.Meta) error { return nil })), store.ErrConflict},
		"Put, again":  {second(k.Put(t.Context(), key, 0, []byte(`{"spec":{"Password":"x"}}`))), store.ErrExists},
		"Put, stale":  {second(k.Put(t.Context(), key, edited.Revision, []byte(`{"spec":{"Password":"x"}}`))), store.ErrConflict},
		"Put, no":     {second(k.Put(t.Context(), store.Key{Name: "b"}, 0, []byte(`{"spec":{"Colour":"x"}}`))), store.ErrInvalid},
		"Delete":      {k.Delete(t.Context(), key, o.Revision), store.ErrConflict},
		"unreachable": {second(must(api.NewClient("http://127.0.0.1:1", nil, nil)).Kinds(t.Context())), api.ErrUnreachable},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", name, c.err, c.want)
		}
	}
	for i := range 600 { // more than a page
		_ = must(w.disks.Create(t.Context(), &disk{Meta: store.Meta{Name: fmt.Sprint("d", i)}}))
	}
	n := 0
	for o, err := range k.All(t.Context(), store.Selector{}) {
		if err != nil || o.Err != nil {
			t.Fatal(err, o.Err)
		}
		n++
	}
	if n != 601 {
		t.Errorf("%d objects, want 601", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen, synced := 0, false
	for e, err := range k.Watch(ctx, 0) {
		switch {
		case synced:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("after the end of its context: %+v, %v", e, err)
			}
		case err != nil:
			t.Fatal(err)
		case e.Kind == store.BatchSnapshotEnd:
			synced = true
			cancel()
		case e.HasObject:
			seen++
		}
	}
	if seen != 601 || !synced {
		t.Errorf("%d objects watched, want 601", seen)
	}
	denied := newWorld(t, func(o *api.Options) { o.Allow = nil })
	if _, err := must(api.NewClient(denied.server.URL, nil, nil)).Kinds(t.Context()); !errors.Is(err, api.ErrNotAllowed) {
		t.Errorf("what is not allowed: %v", err)
	}
	for _, address := range []string{"", "localhost:80", "ftp://x", "http://", "http://x/?a=b"} {
		if _, err := api.NewClient(address, nil, nil); err == nil {
			t.Errorf("%q is an address", address)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// Another service's JSON at the address looked as if there were no objects, and as an object
// without a name.
func TestAnswerOfSomethingElseIsAnError(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"ok":true}`) }))
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	c := must(api.NewClient(server.URL, nil, nil))
	k := c.Kind("disk")
	_, _, listed := objects.List(t.Context(), k, objects.Query{})
	for what, err := range map[string]error{
		"the kinds": second(c.Kinds(t.Context())), "the objects": listed, "an object": second(k.Get(t.Context(), store.Key{Name: "a"})),
	} {
		if err == nil || !strings.Contains(err.Error(), "not package api's") {
			t.Errorf("%s: %v, want an error", what, err)
		}
	}
	if _, _, err := objects.List(t.Context(), must(api.NewClient(newWorld(t, nil).server.URL, nil, nil)).Kind(""), objects.Query{}); err == nil {
		t.Error("a kind without a name has no objects")
	}
}

// A server behind a redirect from http to https, or to a page that asks for a password.
func TestWriteThatIsRedirectedIsNoSuccess(t *testing.T) {
	w := newWorld(t, nil)
	o := must(w.disks.Create(t.Context(), &disk{Meta: store.Meta{Name: "a"}}))
	for _, code := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther} {
		before := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			http.Redirect(out, r, w.server.URL+"?"+r.URL.RawQuery, code)
		}))
		t.Cleanup(before.Close)
		k := must(api.NewClient(before.URL, nil, nil)).Kind("disk")
		if _, err := k.Get(t.Context(), o.Key()); err != nil {
			t.Errorf("%d: a read: %v", code, err)
		}
		for name, err := range map[string]error{
			"Put":             second(k.Put(t.Context(), o.Key(), o.Revision, []byte(`{"spec":{"Size":1}}`))),
			"Delete":          k.Delete(t.Context(), o.Key(), o.Revision),
			"pause":           second(objects.Do(t.Context(), k, o.Key(), "pause")),
			"RemoveFinalizer": second(k.RemoveFinalizer(t.Context(), o.Key(), "f")),
		} {
			if err == nil {
				t.Errorf("%d: %s did nothing, and returned no error", code, name)
			}
		}
	}
}

// What is refused is logged: a caller that nothing is allowed to could fill the disk with it.
//
// Negative controls: mutants "a query of any length is logged" and "a refusal is logged whole".
func TestRefusalsFillNoLog(t *testing.T) {
	w := newWorld(t, func(o *api.Options) {
		o.Allow = func(*http.Request, api.Access) error { return errors.New(strings.Repeat("no", 4<<10)) }
	})
	long := strings.Repeat("a", 7<<10)
	w.ask(t, http.StatusRequestURITooLong, "GET", "?kind="+long+long, "")
	if w.log.Len() > 0 {
		t.Errorf("a query that is too long leaves %d bytes in the log", w.log.Len())
	}
	for _, query := range []string{"?kind=" + long, "?kind=disk&key=a&do=remove-finalizer&finalizer=" + long} {
		w.log.Reset()
		w.ask(t, http.StatusForbidden, "POST", query+"&key=a&do=pause", "")
		if n := w.log.Len(); n == 0 || n > 3<<10 {
			t.Errorf("a refusal leaves %d bytes in the log", n)
		}
	}
}

// The answer to an action was the whole object: a caller that may reconcile it read its spec.
//
// Negative control: mutant "the answer to an action shows the spec".
func TestActionsShowNoMoreThanMetadata(t *testing.T) {
	w := newWorld(t, func(o *api.Options) {
		o.Allow = func(_ *http.Request, a api.Access) error {
			if a.Do == api.Get || a.Do == api.List || a.Do == api.Watch {
				return errors.New("no reading")
			}
			return nil
		}
	})
	o := &disk{Meta: store.Meta{Name: "a", Finalizers: []string{"a.example/f", "b.example/f"}}, Spec: spec{Size: 4711}}
	o.SetProgressing("Refused", "a message")
	_ = must(w.disks.Create(t.Context(), o))
	for _, action := range []string{"do=reconcile", "do=pause", "do=resume", "do=remove-finalizer&finalizer=a.example/f", ""} {
		method, header := "POST", []string(nil)
		if action == "" {
			method, header = "DELETE", []string{"If-Match", "*"}
		}
		text, h := w.ask(t, http.StatusOK, method, "?kind=disk&key=a&"+action, "", header...)
		if !strings.Contains(text, `"finalizers"`) || strings.Contains(text, "4711") || strings.Contains(text, "a message") || h.Get("ETag") == "" {
			t.Errorf("%s %s is answered %s", method, action, text)
		}
	}
}

// A body that does not come in, and an answer that is not read, end with the timeout.
func TestSlowCallersAreNotWaitedFor(t *testing.T) {
	w := newWorld(t, func(o *api.Options) { o.Timeout = 50 * time.Millisecond })
	conn := must(new(net.Dialer).DialContext(t.Context(), "tcp", w.server.Listener.Addr().String()))
	defer conn.Close()
	_ = must(fmt.Fprintf(conn, "PUT /?kind=disk&key=a HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: *\r\nContent-Length: 100\r\n\r\n{"))
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second)) // without the timeout it would never answer
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal("no answer to half a body:", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("the answer to half a body is %s", resp.Status)
	}
}

// panicking is a kind whose watch panics.
type (
	anyKind   = objects.Kind // an embedded field Kind would hide the method
	panicking struct{ anyKind }
)

func (panicking) Watch(context.Context, store.Revision) iter.Seq2[objects.Event, error] {
	return func(func(objects.Event, error) bool) { panic("boom") }
}

func TestPanicInAWatchEndsOnlyTheWatch(t *testing.T) {
	w := newWorld(t, nil)
	h := must(api.New([]objects.Kind{panicking{objects.Of(w.disks)}}, &api.Options{Allow: func(*http.Request, api.Access) error { return nil }}))
	defer func() {
		if p := recover(); p == nil {
			t.Error("the panic did not reach the server")
		}
	}()
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "http://localhost/?kind=disk&watch=true", nil))
}

// A replacement names the revision that it replaces. One that does not makes nothing, also
// where there is nothing to replace: a create is asked for by If-None-Match.
//
// Negative controls: mutants "a replacement of any revision creates" and "a replacement
// of revision 0 creates".
func TestReplacementThatNamesNoRevisionCreatesNothing(t *testing.T) {
	w := newWorld(t, nil)
	const one = "?kind=disk&key=prod/a"
	body := `{"spec":{"Size":1,"Password":"hunter2"}}`
	w.ask(t, http.StatusPreconditionRequired, "PUT", one, body, "If-Match", "*")
	for _, at := range []string{`"0"`, "0"} {
		w.ask(t, http.StatusBadRequest, "PUT", one, body, "If-Match", at)
	}
	w.ask(t, http.StatusNotFound, "GET", one, "")
}

// A watch that has ended makes room for the next one.
//
// Negative control: mutant "a watch that ended keeps its place".
func TestWatchThatEndedMakesRoom(t *testing.T) {
	w := newWorld(t, func(o *api.Options) { o.SetWatches(1) })
	left, leave := context.WithCancel(t.Context())
	leave()
	for range 3 {
		r := httptest.NewRequestWithContext(left, http.MethodGet, w.server.URL+"?kind=disk&watch=true", nil)
		answer := httptest.NewRecorder()
		w.server.Config.Handler.ServeHTTP(timed{answer}, r)
		if answer.Code != http.StatusOK {
			t.Errorf("a watch is answered %d %s", answer.Code, answer.Body)
		}
	}
}

// timed is a recorder that can be given a deadline, as a connection can.
type timed struct{ *httptest.ResponseRecorder }

func (timed) SetWriteDeadline(time.Time) error { return nil }

// unread is a kind whose objects cannot be read once one was deleted.
type unread struct {
	disksKind
	deleted bool
}

type disksKind = objects.Kind // its method Kind is not hidden by the field

func (k *unread) Delete(ctx context.Context, key store.Key, at store.Revision) error {
	err := k.disksKind.Delete(ctx, key, at)
	k.deleted = err == nil
	return err
}

func (k *unread) Get(ctx context.Context, key store.Key) (objects.Object, error) {
	if k.deleted {
		return objects.Object{}, errors.New("the store is away")
	}
	return k.disksKind.Get(ctx, key)
}

// A deletion that took effect was answered with 503, and logged as refused, when what is left of
// the object could not be read afterwards.
func TestDeletionThatTookEffectIsASuccess(t *testing.T) {
	w := newWorld(t, nil)
	k := &unread{disksKind: objects.Of(w.disks)}
	var log bytes.Buffer
	h := must(api.New([]objects.Kind{k}, &api.Options{
		Logger: slog.New(slog.NewTextHandler(&log, nil)), Allow: func(*http.Request, api.Access) error { return nil },
	}))
	server := httptest.NewServer(h)
	defer server.Close()
	w.server = server
	o := must(w.disks.Create(t.Context(), &disk{Meta: store.Meta{Name: "a", Finalizers: []string{"cloud.example/disk"}}}))
	wantAll(t, first(w.ask(t, http.StatusOK, "DELETE", "?kind=disk&key=a", "", "If-Match", "*")), `{"requested":true}`)
	if o = must(w.disks.Get(t.Context(), o.Key())); !o.Deleting() {
		t.Errorf("it is not in deletion: %+v", o)
	}
	wantAll(t, log.String(), "api: written", "action=delete")
}

// An object that was given up until a person has looked waited for Go code that said so.
//
// Negative control: mutant "an answer is allowed without its name".
func TestAnswersAreActionsOfTheirOwn(t *testing.T) {
	var asked []api.Access
	w := newWorld(t, func(o *api.Options) {
		o.Allow = func(_ *http.Request, a api.Access) error {
			if asked = append(asked, a); a.ExternalName == "r-refused" {
				return errors.New("that one is another's")
			}
			return nil
		}
	})
	pending := func(name string) {
		o := must(w.disks.Create(t.Context(), &disk{Meta: store.Meta{Name: name}, Spec: spec{1, "hunter2"}}))
		o.Intent = store.Intent{Pending: time.Now(), Location: "eu"}
		_ = must(w.disks.UpdateIntent(t.Context(), o))
	}
	intent := func(name string) store.Intent { return must(w.disks.Get(t.Context(), store.Key{Name: name})).Intent }
	pending("a")
	const a = "?kind=disk&key=a&do="
	w.ask(t, http.StatusForbidden, "POST", a+"created&externalName=r-refused", "")
	w.ask(t, http.StatusUnprocessableEntity, "POST", a+"created", "")
	if is := intent("a"); !is.Unresolved() {
		t.Errorf("it was answered: %+v", is)
	}
	text, _ := w.ask(t, http.StatusOK, "POST", a+"created&externalName=r-7", "")
	if wantAll(t, text, `"externalName":"r-7"`); strings.Contains(text, "spec") {
		t.Errorf("the answer shows more than metadata: %s", text)
	}
	wantAll(t, first(w.ask(t, http.StatusPreconditionFailed, "POST", a+"created&externalName=r-7", "")), "there is nothing to answer", "no create of it is of unknown outcome")
	w.ask(t, http.StatusOK, "POST", a+"forget-location", "")
	wantAll(t, first(w.ask(t, http.StatusPreconditionFailed, "POST", a+"forget-location", "")), "no location on record")
	wantAll(t, first(w.ask(t, http.StatusPreconditionFailed, "POST", a+"outputs-restored", "")), "it has lost no outputs")
	wantAll(t, first(w.ask(t, http.StatusBadRequest, "POST", a+"maybe", "")), "not-created", "forget-location", "outputs-restored")
	if is := intent("a"); is.ExternalName != "r-7" || is.Location != "" || is.Succeeded.IsZero() {
		t.Errorf("the record is %+v", is)
	}
	if got := asked[0]; got.Do != api.AnswerCreated || got.Kind != "disk" || got.Key.Name != "a" || got.ExternalName != "r-refused" || !got.Writes() {
		t.Errorf("asked about %+v", got)
	}
	wantAll(t, w.log.String(), "action=created", "externalName=r-7", "action=forget-location", "api: refused")

	k := must(api.NewClient(w.server.URL, nil, nil)).Kind("disk")
	pending("b")
	key := store.Key{Name: "b"}
	if o, err := k.Answer(t.Context(), key, objects.NotCreated, ""); err != nil || o.Intent.Failed.IsZero() || intent("b").Unresolved() {
		t.Errorf("by the client: %+v, %v", o.Intent, err)
	}
	for name, err := range map[string]error{
		"again":               second(k.Answer(t.Context(), key, objects.NotCreated, "")),
		"no location is left": second(k.Answer(t.Context(), key, objects.ForgetLocation, "")),
	} {
		if !errors.Is(err, objects.ErrNotPending) || errors.Is(err, store.ErrConflict) {
			t.Errorf("%s: %v, want %v", name, err, objects.ErrNotPending)
		}
	}
	if err := second(k.Answer(t.Context(), store.Key{Name: "none"}, objects.NotCreated, "")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of no object: %v", err)
	}
}
