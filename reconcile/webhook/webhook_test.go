package webhook_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/internal/pipes"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/webhook"
)

func newWebhook(t *testing.T, edit func(*webhook.Options[string])) *webhook.Handler[string] {
	t.Helper()
	o := webhook.Options[string]{
		Auth: func(r *http.Request, _ []byte) error {
			if r.Header.Get("Authorization") != "secret" {
				return errors.New("wrong secret: wanted secret")
			}
			return nil
		},
		Keys: func(_ *http.Request, body []byte) ([]string, error) {
			if len(body) == 0 {
				return nil, errors.New("no key in the body")
			}
			if string(body) == "empty" {
				return []string{"a", ""}, nil
			}
			return strings.Fields(string(body)), nil
		},
		MaxBody: 64,
	}
	if edit != nil {
		edit(&o)
	}
	h, err := webhook.New("hook", &o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func call(h http.Handler, method, auth, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/", strings.NewReader(body))
	r.Header.Set("Authorization", auth)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// case 158
func TestWebhookCallsCoalesceAndAnswer202(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := record(func(context.Context, string) (result, error) {
			time.Sleep(time.Second)
			return result{}, nil
		})
		c := newController(t, r, nil)
		h := newWebhook(t, nil)
		if err := c.Watch(h.Source()); err != nil {
			t.Fatal(err)
		}
		expect(t, "before Run", call(h, "POST", "secret", "k").Code, http.StatusServiceUnavailable)
		run := start(t, c)
		for range 100 {
			expect(t, "status", call(h, "POST", "secret", "k").Code, http.StatusAccepted)
		}
		pass(time.Minute)
		if n := r.count(); n < 1 || n > 2 {
			t.Errorf("got %d runs of 100 calls, want 1 or 2", n)
		}
		if err := run(); err != nil {
			t.Fatal(err)
		}
		expect(t, "after the stop", call(h, "POST", "secret", "k").Code, http.StatusServiceUnavailable)
	})
}

// case 158
func TestWebhookRefusesWhatItShould(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := record[string](nil)
		logger, lines := quiet()
		c := newController(t, r, &reconcile.Options[string]{Logger: logger})
		h := newWebhook(t, func(o *webhook.Options[string]) {
			o.Known = func(k string) bool { return k != "unknown" }
		})
		if err := c.Watch(h.Source()); err != nil {
			t.Fatal(err)
		}
		start(t, c)
		for _, test := range []struct {
			name, method, auth, body string
			want                     int
		}{
			{"wrong secret", "POST", "guess", "k", http.StatusUnauthorized},
			{"body too large", "POST", "secret", strings.Repeat("k ", 64), http.StatusRequestEntityTooLarge},
			{"unreadable", "POST", "secret", "", http.StatusBadRequest},
			{"the empty key", "POST", "secret", "empty", http.StatusBadRequest},
			{"wrong method", "GET", "secret", "k", http.StatusMethodNotAllowed},
			{"unknown key", "POST", "secret", "unknown", http.StatusAccepted},
		} {
			w := call(h, test.method, test.auth, test.body)
			expect(t, test.name, w.Code, test.want)
			for _, inside := range []string{"wanted", "no key in", `the key ""`} {
				if strings.Contains(w.Body.String(), inside) {
					t.Errorf("%s: the caller is told why: %s", test.name, w.Body)
				}
			}
		}
		pass(time.Minute)
		expect(t, "runs", r.count(), 0)
		expect(t, "refused calls that were counted", h.Refused(), 5)
		expect(t, "of them while the source ran", c.Snapshot().Sources[0].Skipped, 5)
		if n := strings.Count(lines.String(), "a call was refused"); n != 1 || !strings.Contains(lines.String(), "wrong secret: wanted secret") {
			t.Errorf("the log has %d lines about refused calls, want the first with its reason:\n%s", n, lines)
		}
	})
}

// A call whose body breaks off is refused, and the log says what broke it.
//
// Negative control: the mutant "why a body could not be read is not told".
func TestWebhookLogsWhyABodyCouldNotBeRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		logger, lines := quiet()
		c := newController(t, record[string](nil), &reconcile.Options[string]{Logger: logger})
		h := newWebhook(t, nil)
		if err := c.Watch(h.Source()); err != nil {
			t.Fatal(err)
		}
		start(t, c)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", "/", iotest.ErrReader(errBoom)))
		expect(t, "status", w.Code, http.StatusBadRequest)
		if !strings.Contains(lines.String(), errBoom.Error()) {
			t.Errorf("the log does not say why:\n%s", lines)
		}
	})
}

// A key that names nothing is refused whatever the type of the keys is.
//
// Negative control: with keys of type string looked at only, the other two got 202.
func TestWebhookRefusesAKeyThatNamesNothing(t *testing.T) {
	type host string
	bubble(t, func(t *testing.T) {
		expect(t, "string", callFor(t, "a", ""), http.StatusBadRequest)
		expect(t, "a type of strings", callFor[host](t, "a", ""), http.StatusBadRequest)
		expect(t, "Request", callFor(t, key("a"), reconcile.Request{Namespace: "n"}), http.StatusBadRequest)
		expect(t, "a number", callFor(t, 0), http.StatusAccepted)
		expect(t, "a long text", callFor(t, "a", strings.Repeat("k", 4<<10+1)), http.StatusBadRequest)
		expect(t, "a text that is not too long", callFor(t, host(strings.Repeat("k", 4<<10))), http.StatusAccepted)
	})
}

// callFor is the status of a call that names these keys.
func callFor[K comparable](t *testing.T, keys ...K) int {
	t.Helper()
	r := record[K](nil)
	c := newController(t, r, nil)
	h, err := webhook.New("hook", &webhook.Options[K]{
		Auth: func(*http.Request, []byte) error { return nil },
		Keys: func(*http.Request, []byte) ([]K, error) { return keys, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Watch(h.Source()); err != nil {
		t.Fatal(err)
	}
	start(t, c)
	status := call(h, "POST", "", "").Code
	synctest.Wait()
	if status == http.StatusBadRequest {
		expect(t, "runs", r.count(), 0)
	}
	return status
}

// sign is what GitHub sends as X-Hub-Signature-256.
func sign(body, secret string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// A signature over the body is verified over just what Keys gets, and no more of a
// body than MaxBody is ever read, whatever Auth does.
func TestWebhookVerifiesASignatureOverItsBody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := record[string](nil)
		c := newController(t, r, nil)
		h := newWebhook(t, func(o *webhook.Options[string]) {
			o.Auth = func(r *http.Request, body []byte) error {
				read, err := io.ReadAll(r.Body) // the old way to do it works too
				if err != nil || !bytes.Equal(read, body) {
					t.Errorf("the body read is %q (%v), that given %q", read, err, body)
				}
				if !hmac.Equal([]byte(r.Header.Get("X-Hub-Signature-256")), []byte(sign(string(body), "secret"))) {
					return errors.New("wrong signature")
				}
				return nil
			}
			o.Keys = func(r *http.Request, body []byte) ([]string, error) {
				if read, err := io.ReadAll(r.Body); err != nil || !bytes.Equal(read, body) {
					t.Errorf("the body read by Keys is %q (%v), that given %q", read, err, body)
				}
				return strings.Fields(string(body)), nil
			}
		})
		if err := c.Watch(h.Source()); err != nil {
			t.Fatal(err)
		}
		start(t, c)
		for _, test := range []struct {
			body, signature string
			want            int
		}{
			{"a b", sign("a b", "secret"), http.StatusAccepted},
			{"a b", sign("a c", "secret"), http.StatusUnauthorized},
			{"c", sign("c", "guess"), http.StatusUnauthorized},
			{"c", "", http.StatusUnauthorized},
		} {
			req := httptest.NewRequest("POST", "/", strings.NewReader(test.body))
			req.Header.Set("X-Hub-Signature-256", test.signature)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			expect(t, "status of "+test.body, w.Code, test.want)
		}
		big := &counting{left: 5_000_000}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", "/", big))
		expect(t, "status of a large body", w.Code, http.StatusRequestEntityTooLarge)
		if big.read > 64+512 {
			t.Errorf("%d bytes of it were read, MaxBody is 64", big.read)
		}
		synctest.Wait()
		expectList(t, "keys", slices.Sorted(slices.Values(r.keys())), "a", "b")
	})
}

// counting is a body that says how much of it was read.
type counting struct{ left, read int }

func (c *counting) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), c.left)
	clear(p[:n])
	c.left -= n
	c.read += n
	return n, nil
}

// Auth and Keys that panic refuse the call, and callers beyond MaxCalls are told to
// come back: their bodies are not even read.
func TestWebhookBoundsItsCalls(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newController(t, record[string](nil), nil)
		h := newWebhook(t, func(o *webhook.Options[string]) {
			o.MaxCalls = 2
			o.Keys = func(*http.Request, []byte) ([]string, error) { panic("boom") }
		})
		if err := c.Watch(h.Source()); err != nil {
			t.Fatal(err)
		}
		start(t, c)
		answers := make(chan int, 2)
		var slow []net.Conn
		for range 2 {
			body, sender := net.Pipe()
			slow = append(slow, sender)
			go func() {
				req := httptest.NewRequest("POST", "/", body)
				req.Header.Set("Authorization", "secret")
				w := httptest.NewRecorder()
				h.ServeHTTP(w, req)
				answers <- w.Code
			}()
		}
		synctest.Wait()
		unread := &counting{left: 10}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", "/", unread))
		expect(t, "a call too many", w.Code, http.StatusServiceUnavailable)
		expect(t, "of its body was read", unread.read, 0)
		for _, s := range slow {
			_ = s.Close()
			expect(t, "a call whose Keys panics", <-answers, http.StatusBadRequest)
		}
		expect(t, "a call afterwards", call(h, "POST", "guess", "k").Code, http.StatusUnauthorized)
	})
}

// A panic of Known ended the connection, and the call was not counted as refused.
//
// Negative control: mutant "a panic of Known ends the connection".
func TestWebhookRefusesAKeyThatKnownPanicsAt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := record[string](nil)
		logger, lines := quiet()
		c := newController(t, r, &reconcile.Options[string]{Logger: logger})
		h := newWebhook(t, func(o *webhook.Options[string]) {
			o.Known = func(k string) bool {
				if k == "bad" {
					panic("boom")
				}
				return true
			}
		})
		if err := c.Watch(h.Source()); err != nil {
			t.Fatal(err)
		}
		start(t, c)
		expect(t, "answer", call(h, "POST", "secret", "bad good").Code, http.StatusServiceUnavailable)
		synctest.Wait()
		expectList(t, "runs", r.keys(), "good")
		expect(t, "refused calls", h.Refused(), 1)
		if !strings.Contains(lines.String(), "boom") {
			t.Errorf("the log does not say why:\n%s", lines)
		}
	})
}

func TestWebhookSaysWhenTheQueueIsFull(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newController(t, record[string](nil), &reconcile.Options[string]{Queue: queue.Options[string]{MaxKeys: 1}})
		if err := c.SetWorkers(0); err != nil {
			t.Fatal(err)
		}
		h := newWebhook(t, nil)
		if err := c.Watch(h.Source()); err != nil {
			t.Fatal(err)
		}
		start(t, c)
		expect(t, "first", call(h, "POST", "secret", "a").Code, http.StatusAccepted)
		expect(t, "second", call(h, "POST", "secret", "b").Code, http.StatusServiceUnavailable)
		expect(t, "the first again", call(h, "POST", "secret", "a").Code, http.StatusAccepted)
	})
}

// A key that finds no room does not keep the others of the call from being queued.
//
// Negative control: with the call ended at the first key that was refused, a was still
// delayed.
func TestWebhookQueuesTheOthersWhenOneFindsNoRoom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := record[string](nil)
		c := newController(t, r, &reconcile.Options[string]{Queue: queue.Options[string]{MaxKeys: 1}})
		h := newWebhook(t, nil)
		if err := c.Watch(h.Source()); err != nil {
			t.Fatal(err)
		}
		if err := c.Queue().AddAfter("a", time.Hour); err != nil {
			t.Fatal(err)
		}
		start(t, c)
		expect(t, "answer", call(h, "POST", "secret", "b a").Code, http.StatusServiceUnavailable)
		pass(time.Minute)
		expectList(t, "runs", r.keys(), "a")
	})
}

// A call about a key of another server is not answered as if it had been taken.
//
// Negative control: with the key dropped as those of other sources are, which list
// again when it becomes theirs, the caller got 202 and no server ran it.
func TestWebhookSaysThatAKeyIsAnotherServers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newHandPlaced(2)
		r := record[string](nil)
		c := newController(t, r, &reconcile.Options[string]{
			Placement: p,
			Hash:      byFirstDigit,
		})
		h := newWebhook(t, nil)
		if err := c.Watch(h.Source()); err != nil {
			t.Fatal(err)
		}
		start(t, c)
		expect(t, "with no shard held", call(h, "POST", "secret", "0-a").Code, http.StatusServiceUnavailable)
		p.give(0)
		expect(t, "ours", call(h, "POST", "secret", "0-a").Code, http.StatusAccepted)
		synctest.Wait()
		w := call(h, "POST", "secret", "1-b 0-c")
		expect(t, "ours and another's", w.Code, http.StatusServiceUnavailable)
		expect(t, "why", strings.TrimSpace(w.Body.String()), reconcile.ErrElsewhere.Error())
		synctest.Wait()
		expectList(t, "runs", r.keys(), "0-a", "0-c")
		p.give(1)
		expect(t, "ours by now", call(h, "POST", "secret", "1-b").Code, http.StatusAccepted)
		synctest.Wait()
		expectList(t, "runs", r.keys(), "0-a", "0-c", "1-b")
	})
}

// A webhook answers all the time, also while its server gains shards: it has nothing to list for
// them, and its source is not ended and started again.
//
// Negative control: without a call of Again the second shard began another run of the source.
func TestWebhookGoesOnWhenAShardIsGained(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newHandPlaced(2)
		c := newController(t, record[string](nil), &reconcile.Options[string]{Placement: p, Hash: byFirstDigit})
		source, begun := newWebhook(t, nil).Source(), 0
		run := source.Run
		source.Run = func(ctx context.Context, to reconcile.Sink[string]) error {
			begun++
			return run(ctx, to)
		}
		if err := c.Watch(source); err != nil {
			t.Fatal(err)
		}
		start(t, c)
		p.give(0)
		p.give(1)
		pass(time.Minute)
		expect(t, "runs of the source", begun, 1)
	})
}

// A webhook may be a part of a source of the program's own: what is in its sink is asked all the same.
func TestWebhookInAnotherSource(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newHandPlaced(2)
		c := newController(t, record[string](nil), &reconcile.Options[string]{Placement: p, Hash: byFirstDigit})
		h := newWebhook(t, nil)
		if err := c.Watch(reconcile.Source[string]{Name: "around", Run: func(ctx context.Context, to reconcile.Sink[string]) error {
			return h.Source().Run(ctx, around{to})
		}}); err != nil {
			t.Fatal(err)
		}
		start(t, c)
		p.give(0)
		expect(t, "ours", call(h, "POST", "secret", "0-a").Code, http.StatusAccepted)
		expect(t, "another's", call(h, "POST", "secret", "1-a").Code, http.StatusServiceUnavailable)
		expect(t, "refused", call(h, "POST", "guess", "0-a").Code, http.StatusUnauthorized)
		expect(t, "skipped", c.Snapshot().Sources[0].Skipped, 2)
	})
}

type around struct{ reconcile.Sink[string] }

func (a around) Unwrap() reconcile.Sink[string] { return a.Sink }

// A sink that no controller made is told nothing but keys.
func TestWebhookFeedsAnySink(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := newWebhook(t, nil)
		for range 2 { // a source that has ended may be run once more
			ctx, stop := context.WithCancel(t.Context())
			to := make(keysOnly, 1)
			done := make(chan error, 1)
			go func() { done <- h.Source().Run(ctx, to) }()
			synctest.Wait()
			expect(t, "refused", call(h, "POST", "guess", "a").Code, http.StatusUnauthorized)
			expect(t, "taken", call(h, "POST", "secret", "a").Code, http.StatusAccepted)
			expect(t, "key", <-to, "a")
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
			expect(t, "a call when it has ended", call(h, "POST", "secret", "a").Code, http.StatusServiceUnavailable)
		}
	})
}

type keysOnly chan string

func (k keysOnly) Add(key string, _ queue.AddOptions) error { k <- key; return nil }
func (k keysOnly) Synced()                                  {}

// A caller that sends slowly, or stops in the middle, holds one request and nothing else: the
// server's own timeouts end it, and no key of it is queued.
func TestWebhookBodyThatNeverEndsQueuesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := record[string](nil)
		c := newController(t, r, nil)
		h := newWebhook(t, nil)
		if err := c.Watch(h.Source()); err != nil {
			t.Fatal(err)
		}
		start(t, c)
		body, sender := net.Pipe()
		done := make(chan int, 1)
		go func() {
			req := httptest.NewRequest("POST", "/", body)
			req.Header.Set("Authorization", "secret")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			done <- w.Code
		}()
		if _, err := sender.Write([]byte("half")); err != nil {
			t.Fatal(err)
		}
		expect(t, "another call meanwhile", call(h, "POST", "secret", "other").Code, http.StatusAccepted)
		pass(time.Minute)
		_ = body.SetReadDeadline(time.Now()) // http.Server.ReadTimeout
		expect(t, "status", <-done, http.StatusBadRequest)
		pass(time.Minute)
		expectList(t, "keys that were run", r.keys(), "other")
		_ = sender.Close()
	})
}

// The body of a call that is refused unread was waited for without end.
//
// Negative control: mutant "a call that is refused unread holds its connection".
func TestWebhookWaitsForNoBodyThatItDoesNotRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := pipes.Serve(newWebhook(t, nil))
		defer l.Close()
		for method, want := range map[string]int{"GET": http.StatusMethodNotAllowed, "POST": http.StatusBadRequest} {
			c := l.Half(method, "/")
			defer c.Close()
			code, text, err := pipes.Answer(c)
			if err != nil {
				t.Errorf("half of a %s is answered %d %s, %v", method, code, text, err)
			}
			expect(t, method, code, want)
		}
	})
}

// Whatever is sent is answered with one of the statuses that are documented, and
// a caller that is refused causes nothing, whatever it sends.
func FuzzWebhook(f *testing.F) {
	f.Add("POST", "secret", []byte("a b c"))
	f.Add("POST", "", []byte("a"))
	f.Add("GET", "secret", []byte{})
	f.Add("PUT", "secret\x00", []byte("\xff\xfe"))
	f.Add("POST", "secret", bytes.Repeat([]byte("k "), 100))
	f.Fuzz(func(t *testing.T, method, auth string, body []byte) {
		bubble(t, func(t *testing.T) {
			r := record[string](nil)
			c := newController(t, r, &reconcile.Options[string]{Queue: queue.Options[string]{MaxKeys: 20}})
			h := newWebhook(t, nil)
			if err := c.Watch(h.Source()); err != nil {
				t.Fatal(err)
			}
			start(t, c)
			req := httptest.NewRequest("POST", "/", bytes.NewReader(body))
			req.Method = method
			req.Header.Set("Authorization", auth)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			synctest.Wait()
			switch w.Code {
			case http.StatusAccepted:
			case http.StatusBadRequest, http.StatusUnauthorized, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge:
				expect(t, "runs of a call that was refused", r.count(), 0)
			case http.StatusServiceUnavailable: // full
			default:
				t.Errorf("status %d", w.Code)
			}
			if auth != "secret" && (r.count() > 0 || w.Code == http.StatusAccepted) {
				t.Errorf("status %d and %d runs without the secret", w.Code, r.count())
			}
		})
	})
}

func TestWebhookNeedsItsParts(t *testing.T) {
	auth := func(*http.Request, []byte) error { return nil }
	keys := func(*http.Request, []byte) ([]string, error) { return nil, nil }
	for _, o := range []webhook.Options[string]{
		{Keys: keys}, {Auth: auth}, {Auth: auth, Keys: keys, MaxBody: -1}, {Auth: auth, Keys: keys, MaxCalls: -1}, {Auth: auth, Keys: keys, MaxCalls: math.MaxInt},
	} {
		if _, err := webhook.New("hook", &o); err == nil {
			t.Errorf("New(%+v) gave no error", o)
		}
	}
	if _, err := webhook.New("", &webhook.Options[string]{Auth: auth, Keys: keys}); err == nil {
		t.Error("New without a name gave no error")
	}
}

func TestWebhookIsRunByOneController(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := newWebhook(t, nil)
		var told []reconcile.Failure[string]
		hear := func(f reconcile.Failure[string]) { told = append(told, f) }
		a := newController(t, record[string](nil), nil)
		b := newController(t, record[string](nil), &reconcile.Options[string]{Hooks: reconcile.Hooks[string]{OnError: hear}})
		for _, c := range []*reconcile.Controller[string]{a, b} {
			if err := c.Watch(h.Source()); err != nil {
				t.Fatal(err)
			}
			start(t, c)
		}
		synctest.Wait()
		if len(told) == 0 || !strings.Contains(told[0].Err.Error(), "another controller") {
			t.Errorf("OnError heard %v", told)
		}
	})
}
