package debug_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/event"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/inspect"
	"github.com/tendhq/tend/reconcile/web/debug"
	"github.com/tendhq/tend/store"
)

func TestOverviewSaysWhatRunsWhatFailsAndWhy(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world, h http.Handler) {
		text := get(t, h, http.StatusOK, "format", "text")
		wantAll(t, text,
			"== Controllers", "bucket", "audit", "1 of 4",
			"== Running now", "slow-copy", "3 s",
			"Not well. 4 of 6 objects are not as declared, for 3 s. 3 causes; 1 needs a person.", "1 given up · 2 failing · 1 waiting · 2 as declared",
			"== What is wrong", "failing-a", "fails: PUT https://s3/failing: 503 Slow Down", "00:00:00 (3 s), next in 57 s",
			"parked-b", "given up: the name is taken", "change the declaration",
			"== Underneath", "memory answers",
			"== Rate limits", "s3 calls",
			"== Caches", "connected",
			"== Drift and orphans: bucket", "orphans", "4 declared, 3 ours, 1 of others",
			"== Events", "Created", "CannotCreate",
			"== Program", "http://s3",
			"a change of the kind wakes the controller",
		)
		html := get(t, h, http.StatusOK)
		wantAll(t, html, `<a href="?c=bucket">bucket</a>`, `<a href="?c=bucket&amp;key=slow-copy">slow-copy</a>`, "503 Slow Down", "s3 calls", "left-behind"[:0])
	})
}

func TestFormsOfAPageSayTheSame(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world, h http.Handler) {
		var page struct {
			Overview struct {
				Controllers []struct {
					Name           string
					Parked, Active int
				}
				Running []struct{ Keys []string }
			}
			Verdict struct {
				Level, Says string
				Causes      []struct{ What, Why, Example string }
			}
		}
		ask := func(accept string) (string, string) {
			r := httptest.NewRequest(http.MethodGet, "http://localhost/debug", nil)
			r.Header.Set("Accept", accept)
			answer := send(t, h, http.StatusOK, r)
			return answer.Body.String(), answer.Header().Get("Content-Type")
		}
		body, kind := ask("application/json")
		if err := json.Unmarshal([]byte(body), &page); err != nil || kind != "application/json" {
			t.Fatalf("%v, %s", err, kind)
		}
		o := page.Overview
		if len(o.Controllers) != 2 || o.Controllers[1].Name != "bucket" || o.Controllers[1].Parked != 1 || o.Controllers[1].Active != 1 ||
			len(o.Running) != 1 || o.Running[0].Keys[0] != "slow-copy" || len(page.Verdict.Causes) != 3 || page.Verdict.Level != inspect.NotWell {
			t.Errorf("JSON: %+v", page)
		}
		for accept, want := range map[string]string{
			"text/html,application/xhtml+xml,*/*;q=0.8": "text/html; charset=utf-8",
			"*/*":        "text/html; charset=utf-8",
			"text/plain": "text/plain; charset=utf-8",
		} {
			body, kind := ask(accept)
			if kind != want {
				t.Errorf("Accept %s: %s, want %s", accept, kind, want)
			}
			if !strings.Contains(body, page.Verdict.Says) {
				t.Errorf("%s lacks %q", kind, page.Verdict.Says)
			}
			for _, c := range page.Verdict.Causes {
				if c.Example != "/"+hostile && (!strings.Contains(body, c.Example) || !strings.Contains(body, c.Why)) {
					t.Errorf("%s lacks %+v", kind, c)
				}
			}
		}
		get(t, h, http.StatusBadRequest, "format", "yaml")
	})
}

func TestEveryKeySaysWhyItIsNotRunning(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world, h http.Handler) {
		q := w.Buckets.Queue()
		q.Hold(q.OfKey(store.Key{Name: "data"}), queue.Hold{Reason: "maintenance until noon"})
		_ = w.Buckets.Kick(store.Key{Name: "data"})
		synctest.Wait()
		for key, why := range map[string]string{
			"slow-copy": "it is running",
			"failing-a": "it failed once, and is tried again in 57 s",
			"parked-b":  "it is given up until it is changed or kicked",
			"logs":      "it is to run in 9 min 57 s",
			"data":      "held: maintenance until noon",
			"nobody":    "The queue does not know this key",
		} {
			wantAll(t, get(t, h, http.StatusOK, "c", "bucket", "key", key, "format", "text"), why)
		}
		// With all workers gone, and with the queue paused.
		if err := w.Buckets.SetWorkers(0); err != nil {
			t.Fatal(err)
		}
		w.Declare("new")
		synctest.Wait()
		wantAll(t, get(t, h, http.StatusOK, "c", "bucket", "key", "new", "format", "text"), "there are no workers")
		q.Hold(q.Whole(), queue.Hold{Reason: "an incident"})
		wantAll(t, get(t, h, http.StatusOK, "c", "bucket", "key", "new", "format", "text"), "queue held: an incident")
		wantAll(t, get(t, h, http.StatusOK, "format", "text"), "paused: an incident")
	})
}

// Quotas are made when they are first used, which is mostly after the page.
func TestBucketsThatComeLaterAreShown(t *testing.T) {
	var all []*ratelimit.Bucket
	bubble(t, func(o *debug.Options) { o.Buckets = func() []*ratelimit.Bucket { return all } }, func(t *testing.T, _ *world, h http.Handler) {
		if text := get(t, h, http.StatusOK, "format", "text"); strings.Contains(text, "dns/write") {
			t.Error("a bucket is shown that there is not yet")
		}
		all = append(all, must(ratelimit.NewBucket("dns/write", 20, 1)))
		wantAll(t, get(t, h, http.StatusOK, "format", "text"), "dns/write")
	})
}

func TestKeysAreFilteredSearchedSortedAndPaged(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world, h http.Handler) {
		for i := range 25 {
			if err := w.Audit.Queue().AddAfter(fmt.Sprintf("item-%02d", i), time.Duration(100-i)*time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		type page struct {
			Controller struct {
				Keys struct {
					Keys []struct{ Key, State string }
					Next string
				}
			}
		}
		ask := func(query string) (keys []string, next string) {
			r := httptest.NewRequest(http.MethodGet, "http://localhost/debug"+query+"&format=json", nil)
			var p page
			if err := json.Unmarshal(send(t, h, http.StatusOK, r).Body.Bytes(), &p); err != nil {
				t.Fatal(err)
			}
			for _, k := range p.Controller.Keys.Keys {
				keys = append(keys, k.Key)
			}
			return keys, p.Controller.Keys.Next
		}
		var all []string
		pages := 0
		for query := "?c=audit&order=next&limit=10&q=item"; query != ""; pages++ {
			var keys []string
			keys, query = ask(query)
			all = append(all, keys...)
		}
		if len(all) != 25 || all[0] != "item-24" || all[24] != "item-00" || pages != 3 {
			t.Errorf("%d pages of %d keys: %v", pages, len(all), all)
		}
		if keys, _ := ask("?c=bucket&state=parked"); len(keys) != 1 || keys[0] != "parked-b" {
			t.Errorf("parked: %v", keys)
		}
		if keys, _ := ask("?c=bucket&state=failing&order=failures"); len(keys) != 3 {
			t.Errorf("failing: %v", keys)
		}
		if keys, next := ask("?c=audit&q=item-07&limit=1"); len(keys) != 1 || keys[0] != "item-07" || next != "" {
			t.Errorf("item-07: %v, %q", keys, next)
		}
		html := get(t, h, http.StatusOK, "c", "audit", "order", "next", "limit", "10")
		wantAll(t, html, "next page", `<option value="next" selected>`)
	})
}

func TestWhatIsAskedForWronglyIsRefused(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world, h http.Handler) {
		for _, c := range []struct {
			want  int
			pairs []string
		}{
			{http.StatusNotFound, []string{"c", "nobody"}},
			{http.StatusNotFound, []string{"c", "nobody", "key", "x"}},
			{http.StatusNotFound, []string{"view", "else"}},
			{http.StatusNotFound, []string{"view", "drift", "kind", "else"}},
			{http.StatusNotFound, []string{"view", "drift", "kind", "bucket", "list", "else"}},
			{http.StatusBadRequest, []string{"view", "drift", "kind", "bucket", "list", "orphans", "skip", "-1"}},
			{http.StatusBadRequest, []string{"view", "events", "key", "\x00"}},
			{http.StatusBadRequest, []string{"c", "bucket", "state", "happy"}},
			{http.StatusBadRequest, []string{"c", "bucket", "order", "random"}},
			{http.StatusBadRequest, []string{"c", "bucket", "limit", "1001"}},
			{http.StatusBadRequest, []string{"c", "bucket", "from", "x"}},
			{http.StatusOK, []string{"c", "bucket", "from", "9223372036854775807.18446744073709551615"}},
			{http.StatusRequestURITooLong, []string{"c", strings.Repeat("x", 9000)}},
		} {
			get(t, h, c.want, c.pairs...)
		}
		// A browser gets a page with a way back, with what it sent escaped; others get a line.
		r := httptest.NewRequest(http.MethodGet, "http://localhost/debug?"+query("c", "<b>none").Encode(), nil)
		if line := send(t, h, http.StatusNotFound, r).Body.String(); strings.Contains(line, "</html>") || strings.Count(line, "\n") != 1 {
			t.Errorf("what is no browser got %q", line)
		}
		r.Header.Set("Accept", "text/html,*/*;q=0.8")
		wantAll(t, send(t, h, http.StatusNotFound, r).Body.String(), `<html lang="en">`, "<h1>Not Found</h1>", `<a href="?">`, `role="status">`, "</main>")
		send(t, h, http.StatusMethodNotAllowed, httptest.NewRequest(http.MethodDelete, "http://localhost/debug", nil))
		if b := send(t, h, http.StatusOK, httptest.NewRequest(http.MethodHead, "http://localhost/debug", nil)).Body; b.Len() > 0 {
			t.Errorf("HEAD gave %d bytes", b.Len())
		}
	})
	if _, err := debug.New(nil, nil); err == nil {
		t.Error("a nil Manager was taken")
	}
	for _, o := range []debug.Options{
		{Timeout: -1}, {Inventories: []debug.Inventory{nil}}, {Sections: []debug.Section{{}}},
	} {
		if _, err := debug.New(&reconcile.Manager{}, &o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

// What anybody may have chosen is shown, and does nothing: not as markup, not as a
// link, not as a line of its own, not to a terminal.
//
// Negative control: with text/template in place of html/template the script was
// there; without printable in plain, the escape sequence was.
func TestHostileTextIsShownAndDoesNothing(t *testing.T) {
	long := strings.Repeat("k", 100_000)
	bubble(t, nil, func(t *testing.T, w *world, h http.Handler) {
		if err := w.Audit.Queue().AddAfter("a\nfake-row parked\r\x1b[2J\u202etxt.exe\u2066"+hostile+"\xff", time.Hour); err != nil {
			t.Fatal(err)
		}
		if err := w.Audit.Queue().AddAfter(long, time.Hour); err != nil {
			t.Fatal(err)
		}
		_ = w.Events.Record(t.Context(), event.Event{Reason: "\x1b]0;title\x07", Message: "\u200b" + hostile, Kind: "bucket", Key: store.Key{Name: hostile}, Time: time.Now()})
		for _, pairs := range [][]string{
			nil,
			{"c", "bucket"},
			{"c", "audit"},
			{"c", "bucket", "key", hostile},
			{"c", "audit", "key", long[:7000]},
			{"view", "events"},
			{"view", "events", "kind", hostile},
			{"view", "drift", "kind", "bucket", "list", "different"},
			{"c", "bucket", "q", hostile},
			{"done", hostile},
		} {
			for _, format := range []string{"html", "text", "json"} {
				body := get(t, h, http.StatusOK, append(pairs, "format", format)...)
				for _, never := range []string{"<script", "<img", "\x1b", "\x07", "\u202e", "\u2066", "\u200b", "\nfake-row", "\r", "\xff", `href="javascript`, strings.Repeat("k", 1001)} {
					if format == "text" && strings.HasPrefix(never, "<") || format == "json" && never == "\xff" {
						continue // there it is only text
					}
					if strings.Contains(body, never) && !(format == "html" && never == "\nfake-row") {
						t.Errorf("%v as %s holds %q", pairs, format, never)
					}
				}
			}
		}
		if body := get(t, h, http.StatusOK, "c", "audit", "q", "kkkk", "format", "text"); !strings.Contains(body, "bytes more)") {
			t.Error("a long key is not cut, or does not say so")
		}
	})
}

func TestBrowserIsToldToRunNothing(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world, h http.Handler) {
		header := send(t, h, http.StatusOK, httptest.NewRequest(http.MethodGet, "http://localhost/debug", nil)).Header()
		policy := header.Get("Content-Security-Policy")
		wantAll(t, policy, "default-src 'none'", "style-src 'sha256-", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'")
		if strings.Contains(policy, "unsafe") || strings.Contains(policy, "script-src") {
			t.Errorf("policy %s", policy)
		}
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Cache-Control": "no-store", "Referrer-Policy": "same-origin",
		} {
			if got := header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	})
}

// A web site that gave its name the address of this server reads nothing, on any
// interface.
func TestOnlyNamesThatAreAllowedAreServed(t *testing.T) {
	bubble(t, func(o *debug.Options) { o.Hosts = []string{"debug.example.com"} }, func(t *testing.T, w *world, h http.Handler) {
		for _, c := range []struct {
			local, host string
			want        int
		}{
			{"127.0.0.1", "localhost:8080", http.StatusOK},
			{"127.0.0.1", "127.0.0.1:8080", http.StatusOK},
			{"::1", "[::1]:8080", http.StatusOK},
			{"127.0.0.1", "Debug.example.com", http.StatusOK},
			{"127.0.0.1", "evil.example:8080", http.StatusForbidden},
			{"::1", "localhost.evil.example", http.StatusForbidden},
			{"10.0.0.7", "10.0.0.7:8080", http.StatusOK},
			{"10.0.0.7", "[2001:db8::7]", http.StatusOK},
			{"10.0.0.7", "debug.example.com.:8080", http.StatusOK},
			{"10.0.0.7", "tend.internal:8080", http.StatusForbidden},
			{"10.0.0.7", "10.0.0.7.nip.io", http.StatusForbidden},
			{"10.0.0.7", "", http.StatusForbidden},
		} {
			r := httptest.NewRequest(http.MethodGet, "http://localhost/debug", nil)
			r.Host = c.host
			local := &net.TCPAddr{IP: net.ParseIP(c.local), Port: 8080}
			send(t, h, c.want, r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local)))
		}
	})
}

func TestPageOnlyShowsUnlessActionsAreEnabled(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world, h http.Handler) {
		post(t, h, http.StatusMethodNotAllowed, nil, "do", "kick", "c", "bucket", "key", "failing-a")
		get(t, h, http.StatusOK, "do", "kick", "c", "bucket", "key", "failing-a") // a GET is never an action
		for _, pairs := range [][]string{nil, {"c", "bucket"}, {"c", "bucket", "key", "failing-a"}} {
			if strings.Contains(get(t, h, http.StatusOK, pairs...), `method="post"`) {
				t.Errorf("%v offers actions", pairs)
			}
		}
		if k, _ := inspected(w.Buckets).Key(t.Context(), "failing-a"); k.Attempts != 1 {
			t.Errorf("it ran: %+v", k)
		}
	})
}

// allow is an authoriser that lets all through and remembers what.
func allow(asked *[]debug.Action) func(*debug.Options) {
	return func(o *debug.Options) {
		o.Authorise = func(_ *http.Request, a debug.Action) error {
			*asked = append(*asked, a)
			return nil
		}
	}
}

func TestActionsDoWhatTheySay(t *testing.T) {
	var asked []debug.Action
	bubble(t, allow(&asked), func(t *testing.T, w *world, h http.Handler) {
		key := func(name string) reconcile.KeySnapshot {
			synctest.Wait()
			k, _ := inspected(w.Buckets).Key(t.Context(), name)
			return k
		}
		do := func(action, name string) {
			t.Helper()
			answer := post(t, h, http.StatusSeeOther, nil, "do", action, "c", "bucket", "key", name)
			to := answer.Header().Get("Location")
			if !strings.HasPrefix(to, "?c=bucket") || !strings.Contains(to, "done="+action) {
				t.Errorf("%s goes on to %q", action, to)
			}
			wantAll(t, send(t, h, http.StatusOK, httptest.NewRequest(http.MethodGet, "http://localhost/debug"+to, nil)).Body.String(), `role="status"`)
		}
		began := key("parked-b").Since
		time.Sleep(time.Second)
		do("kick", "parked-b")
		if k := key("parked-b"); k.State != "parked" || !k.Since.After(began) {
			t.Errorf("after a kick: %+v, want it parked again", k)
		}
		do("pause", "logs")
		do("kick", "logs")
		if k := key("logs"); k.State != "held" || !strings.Contains(k.Why, "by the debug page") {
			t.Errorf("paused: %+v", k)
		}
		do("resume", "logs")
		if k := key("logs"); k.State != "delayed" {
			t.Errorf("resumed: %+v", k)
		}
		do("forget", "failing-a")
		if k := key("failing-a"); k.State != "" {
			t.Errorf("forgotten: %+v", k)
		}
		do("kick", hostile)
		do("pause", "")
		if p := w.Buckets.Queue().Stats().HeldBy; p == "" {
			t.Error("the controller is not paused")
		}
		do("resume", "")
		post(t, h, http.StatusSeeOther, nil, "do", "workers", "c", "bucket", "workers", "9")
		if n := w.Buckets.Snapshot().Workers; n != 9 {
			t.Errorf("%d workers, want 9", n)
		}
		if len(asked) != 9 || asked[0] != (debug.Action{Do: "kick", Controller: "bucket", Key: "parked-b"}) || asked[8].Workers != 9 {
			t.Errorf("asked %+v", asked)
		}
		// The same for a program.
		answer := post(t, h, http.StatusOK, func(r *http.Request) { r.Header.Set("Accept", "application/json") }, "do", "kick", "c", "bucket", "key", "data")
		wantAll(t, answer.Body.String(), `{"done":{"do":"kick","controller":"bucket","key":"data"}}`)
	})
}

func TestActionsThatCannotBeAreRefused(t *testing.T) {
	var asked []debug.Action
	bubble(t, allow(&asked), func(t *testing.T, w *world, h http.Handler) {
		for _, c := range []struct {
			want  int
			pairs []string
		}{
			{http.StatusBadRequest, []string{"c", "bucket", "key", "logs"}},
			{http.StatusBadRequest, []string{"do", "explode", "c", "bucket", "key", "logs"}},
			{http.StatusBadRequest, []string{"do", "workers", "c", "bucket", "workers", "-1"}},
			{http.StatusBadRequest, []string{"do", "workers", "c", "bucket", "workers", "1000000"}},
			{http.StatusNotFound, []string{"do", "kick", "c", "nobody", "key", "logs"}},
			{http.StatusConflict, []string{"do", "forget", "c", "bucket", "key", "nobody"}},
			{http.StatusConflict, []string{"do", "kick", "c", "bucket"}},
			{http.StatusConflict, []string{"do", "resume", "c", "bucket", "key", "logs"}},
			{http.StatusConflict, []string{"do", "resume", "c", "bucket"}},
			{http.StatusConflict, []string{"do", "kick", "c", "bucket", "key", "\x00"}},
			{http.StatusRequestEntityTooLarge, []string{"do", "kick", "c", "bucket", "key", strings.Repeat("x", 70_000)}},
		} {
			post(t, h, c.want, nil, c.pairs...)
		}
	})
	no := errors.New("only on weekdays")
	bubble(t, func(o *debug.Options) { o.Authorise = func(*http.Request, debug.Action) error { return no } }, func(t *testing.T, w *world, h http.Handler) {
		wantAll(t, post(t, h, http.StatusForbidden, nil, "do", "kick", "c", "bucket", "key", "failing-a").Body.String(), no.Error())
		if k, _ := inspected(w.Buckets).Key(t.Context(), "failing-a"); k.Attempts != 1 {
			t.Errorf("it ran: %+v", k)
		}
	})
}

// A page of another site can make a browser post here, with the cookies and the
// address of its reader.
//
// Negative control: without the check of the origin, "cross-site" and the foreign
// Origin were carried out.
func TestAnotherSitesPageCannotAct(t *testing.T) {
	var asked []debug.Action
	bubble(t, allow(&asked), func(t *testing.T, w *world, h http.Handler) {
		for _, c := range []struct {
			header, value string
			want          int
		}{
			{"Sec-Fetch-Site", "cross-site", http.StatusForbidden},
			{"Sec-Fetch-Site", "same-site", http.StatusForbidden},
			{"Origin", "http://evil.example", http.StatusForbidden},
			{"Origin", "null", http.StatusForbidden},
			{"Sec-Fetch-Site", "same-origin", http.StatusSeeOther},
			{"Origin", "http://localhost", http.StatusSeeOther},
			{"User-Agent", "curl", http.StatusSeeOther},
		} {
			post(t, h, c.want, func(r *http.Request) { r.Header.Set(c.header, c.value) }, "do", "kick", "c", "bucket", "key", "logs")
		}
	})
	if len(asked) != 3 {
		t.Errorf("%d were asked about, want the 3 of our own", len(asked))
	}
}

// A proxy may rewrite the Host of what it passes on: a page under a name of Hosts is our own.
// Before: 403, although Hosts allowed the name.
func TestPageBehindAProxyThatRewritesHostCanAct(t *testing.T) {
	var asked []debug.Action
	hosts := func(o *debug.Options) { allow(&asked)(o); o.Hosts = []string{"tend.example", "*"} }
	bubble(t, hosts, func(t *testing.T, w *world, h http.Handler) {
		for _, c := range []struct {
			origin, site string
			want         int
		}{
			{"https://tend.example", "", http.StatusSeeOther},
			{"https://TEND.example:8443", "", http.StatusSeeOther},
			{"https://tend.example", "cross-site", http.StatusForbidden},
			{"https://tend.example.evil.example", "", http.StatusForbidden},
			{"null", "", http.StatusForbidden},
		} {
			post(t, h, c.want, func(r *http.Request) {
				r.Host = "10.0.0.3:8080"
				r.Header.Set("Origin", c.origin)
				if c.site != "" {
					r.Header.Set("Sec-Fetch-Site", c.site)
				}
			}, "do", "kick", "c", "bucket", "key", "logs")
		}
	})
	if len(asked) != 2 {
		t.Errorf("%d were asked about, want the 2 of our own", len(asked))
	}
}

func TestKeyShowsItsEventsAndOthersDoNot(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world, h http.Handler) {
		for range 3 {
			_ = w.Events.Record(t.Context(), event.Event{Reason: "Updated", Message: "versioning on", Kind: "bucket", Key: store.Key{Name: "data"}, Time: time.Now(), Count: 1})
		}
		wantAll(t, get(t, h, http.StatusOK, "c", "bucket", "key", "data", "format", "text"), "Created", "Updated", "versioning on", "  3")
		if text := get(t, h, http.StatusOK, "c", "bucket", "key", "logs", "format", "text"); strings.Contains(text, "Updated") {
			t.Errorf("logs shows the events of data:\n%s", text)
		}
		wantAll(t, get(t, h, http.StatusOK, "view", "events", "kind", "bucket", "key", "data", "format", "text"), "Updated")
		wantAll(t, get(t, h, http.StatusOK, "view", "drift", "kind", "bucket", "list", "orphans", "format", "text"), "left-behind", "demo/bucket")
	})
}

func TestFindingsArePaged(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world, h http.Handler) {
		w.Report.Missing = make([]external.Finding, 250)
		for i := range w.Report.Missing {
			w.Report.Missing[i].Key = store.Key{Name: fmt.Sprintf("missing-%03d", i)}
		}
		total := 0
		for query, pages := "?view=drift&kind=bucket&list=missing", 0; query != ""; pages++ {
			var page struct {
				Drift struct {
					Total    int
					Findings []struct{ Key string }
					Next     string
				}
			}
			r := httptest.NewRequest(http.MethodGet, "http://localhost/debug"+query+"&format=json", nil)
			if err := json.Unmarshal(send(t, h, http.StatusOK, r).Body.Bytes(), &page); err != nil {
				t.Fatal(err)
			}
			total += len(page.Drift.Findings)
			if query = page.Drift.Next; page.Drift.Total != 250 || pages > 3 {
				t.Fatalf("page %d: %+v", pages, page.Drift)
			}
		}
		if total != 250 {
			t.Errorf("%d findings over all pages, want 250", total)
		}
	})
}

// A page that takes too long ends, says so, and lets the next one in.
func TestPageThatTakesTooLongEnds(t *testing.T) {
	bubble(t, func(o *debug.Options) {
		o.Timeout = 2 * time.Second
	}, func(t *testing.T, w *world, h http.Handler) {
		release := make(chan struct{})
		slow := must(debug.New(&w.Manager, &debug.Options{
			Timeout:  2 * time.Second,
			Sections: []debug.Section{{Title: "slow", Rows: func() [][2]string { <-release; return nil }}},
		}))
		answers := make(chan int, 6)
		for range 6 { // four are at work, two wait for one of them
			go func() { // ends at release at the latest
				a := httptest.NewRecorder()
				slow.ServeHTTP(a, httptest.NewRequest(http.MethodGet, "http://localhost/", nil))
				answers <- a.Code
			}()
		}
		for range 2 {
			if code := <-answers; code != http.StatusServiceUnavailable {
				t.Errorf("a page beyond the fourth: %d", code)
			}
		}
		close(release)
		for range 4 {
			if code := <-answers; code != http.StatusOK {
				t.Errorf("a page that was being made: %d", code)
			}
		}
	})
}

// Pages that look at all keys of a controller lock out each other only.
func TestBusyFindsDoNotLockOutTheOverview(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world, h http.Handler) {
		release := make(chan struct{})
		slow := must(debug.New(&w.Manager, &debug.Options{Events: blockedEvents(release)}))
		answers := make(chan int, 4)
		for range 4 {
			go func() { // ends at release
				a := httptest.NewRecorder()
				slow.ServeHTTP(a, httptest.NewRequest(http.MethodGet, "http://localhost/?c=bucket&key=k&format=text", nil))
				answers <- a.Code
			}()
		}
		synctest.Wait()
		send(t, slow, http.StatusNotFound, httptest.NewRequest(http.MethodGet, "http://localhost/?view=drift&kind=none", nil)) // answered all the same
		close(release)
		for range 4 {
			if code := <-answers; code != http.StatusOK {
				t.Errorf("a page about a key: %d", code)
			}
		}
	})
}

// blockedEvents answers when it is closed.
type blockedEvents chan struct{}

func (b blockedEvents) Events(string, store.Key, int) []event.Event { <-b; return nil }

func TestShownRunsAreTheLongest(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world, h http.Handler) {
		if err := w.Buckets.SetWorkers(100); err != nil {
			t.Fatal(err)
		}
		for i := range 30 {
			w.Declare(fmt.Sprintf("slow-%02d", i))
			time.Sleep(time.Second)
		}
		text := get(t, h, http.StatusOK, "format", "text")
		wantAll(t, text, "the longest 20 of 31", "slow-copy", "slow-18")
		if strings.Contains(text, "slow-29") {
			t.Errorf("it shows the shortest:\n%s", text)
		}
		if n := strings.Count(get(t, h, http.StatusOK, "c", "bucket", "state", "running", "format", "json"), `"because": "it is running for`); n != 31 {
			t.Errorf("%d running keys, want 31", n)
		}
	})
}

// Nothing that is worked out for a page is kept by it or shared with it.
func TestPageChangesNothing(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world, h http.Handler) {
		long := strings.Repeat("x", 5000)
		w.Report.Orphans[0].Mark.UID = long
		before := w.Buckets.Snapshot()
		get(t, h, http.StatusOK)
		get(t, h, http.StatusOK, "view", "drift", "kind", "bucket", "list", "orphans")
		if w.Report.Orphans[0].Mark.UID != long {
			t.Error("the page cut what it showed")
		}
		if after := w.Buckets.Snapshot(); !reflect.DeepEqual(before, after) {
			t.Errorf("the controller was\n%+v, and is\n%+v", before, after)
		}
	})
}
