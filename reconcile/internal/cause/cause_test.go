package cause_test

import (
	"errors"
	"testing"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"

	"github.com/tendhq/tend/reconcile/internal/cause"
)

// A store that is read-only or full answers: it is said of it what it does not do.
func TestStoreThatRefusesWritesAnswers(t *testing.T) {
	b, err := memory.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	health := store.NewWriteHealth(b, "here", nil)
	defer health.Close()
	health.Committed(t.Context(), store.Txn{Ops: []store.Op{{Put: store.Bytes("1")}}}, errors.New("read-only"))
	u, _ := errors.AsType[*store.UnavailableError](health.Health())
	for want, u := range map[string]*store.UnavailableError{
		"has taken no writes since 23:20": u, "has not answered since 23:20": {Err: errors.New("10.0.0.7:2379: no answer")},
	} {
		if got := cause.Down(u.Err, "23:20"); got != want {
			t.Errorf("of %v: %q, want %q", u, got, want)
		}
	}
}

func TestErrorsOfOneCauseHaveOneName(t *testing.T) {
	for _, c := range []struct {
		what          string
		text, key     string
		other, itsKey string
		one           bool
	}{
		{"the key differs", "create db-00562: no space", "db-00562", "create db-00563: no space", "db-00563", true},
		{"a key without digits", "role alice is not there", "alice", "role bob is not there", "bob", true},
		{"a key of a namespace", "GET /prod/logs: timeout", "prod/logs", "GET /test/mail: timeout", "test/mail", true},
		{"another object's name", "role alice is not there", "x", "role bob is not there", "y", false},
		{"ids and times", "request 8f3-ae9, after 12ms at 10:04:05.", "a", "request 77c-01b, after 3s at 11:00:00.", "a", true},
		{"a count", "limit of 10 databases", "a", "limit of 12 databases", "b", true},
		{"a status of HTTP", "PUT https://s3/a: 500", "a", "PUT https://s3/a: 503", "a", false},
		{"a number after the status", "500 after 403 calls", "a", "500 after 404 calls", "a", true},
		{"no status", "after 700 calls", "a", "after 701 calls", "a", true},
		{"other words", "permission denied", "a", "connection refused", "a", false},
		{"nothing but the key", "a", "a", "b", "b", true},
		{"a call without an answer", `Get "http://s3/a": context deadline exceeded (Client.Timeout exceeded while awaiting headers)`, "a", `Get "http://s3/b": net/http: request canceled (Client.Timeout exceeded while awaiting headers)`, "b", true},
		{"the same, in its run", `Get "http://s3/a": context deadline exceeded`, "a", `Get "http://s3/b": net/http: timeout awaiting response headers`, "b", true},
		{"one of them waits since", "no space", "a", "no space; since then throttled until 2026-11-29T11:09:02Z: quota: no budget: s3/read: it is used up", "b", true},
		{"both wait, of other causes", "no space; since then throttled: quota: no budget", "a", "no disk; since then throttled: quota: no budget", "b", false},
		{"a broken rune", "no \xff\xfe", "a", "no \xff", "b", true},
	} {
		if one := cause.Of(c.text, c.key) == cause.Of(c.other, c.itsKey); one != c.one {
			t.Errorf("%s: %q and %q are of one cause: %t, want %t (%q, %q)", c.what, c.text, c.other, one, c.one, cause.Of(c.text, c.key), cause.Of(c.other, c.itsKey))
		}
	}
	if got, want := cause.Of("PUT https://cloud/db-1: 400 QuotaExceeded: limit of 10 databases", "db-1"), "PUT https cloud 400 QuotaExceeded limit of databases"; got != want {
		t.Errorf("the name is %q, want %q", got, want)
	}
}

// What a provider answers all calls alike has one name in all controllers, whatever was called.
func TestErrorsOfOneProviderHaveOneName(t *testing.T) {
	for _, c := range []struct {
		what        string
		text, other string
		one         bool
	}{
		{"bad credentials", `GET https://cloud/db/a: 401 Unauthorized`, `LIST https://cloud/db?page=2: 401 Unauthorized`, true},
		{"bad credentials at two providers", `GET https://cloud/db: 401 Unauthorized`, `GET https://dns/db: 401 Unauthorized`, false},
		{"a port is of the host", `Get "http://10.0.0.7:80/a": EOF`, `Get "http://10.0.0.7:81/a": EOF`, false},
		{"an answer without a host", "answered with status 401: 401 Unauthorized", "answered with status 401: 401 Unauthorized", true},
		{"the words differ", "answered with status 401: NoSuchKey", "answered with status 401: Expired", false},
		{"no connection", `Get "https://cloud/a": dial tcp 10.0.0.7:443: connect: connection refused`, `Post "https://cloud/b": dial tcp 10.0.0.8:443: connect: connection refused`, true},
		{"no answer in time", `Get "https://cloud/a": context deadline exceeded`, `Get "https://cloud/b": net/http: request canceled (Client.Timeout exceeded while awaiting headers)`, true},
		{"an error of the provider's own, of which one waits", "PUT https://cloud/a: 500", "PUT https://cloud/b: 500; since then throttled until then", true},
	} {
		name, other := cause.Provider(c.text, "a"), cause.Provider(c.other, "b")
		if name == "" || other == "" || (name == other) != c.one {
			t.Errorf("%s: %q is of %q, and %q of %q: one: want %t", c.what, c.text, name, c.other, other, c.one)
		}
	}
	for what, text := range map[string]string{
		"about one object":                   "PUT https://cloud/a: 409 Conflict",
		"about one object of a telling name": "GET https://cloud/db/503: 404 Not Found",
		"no provider's":                      "boom",
		"a page to read":                     "size 0 is not allowed: see https://wiki/sizes",
		"a number that is no status":         "limit of 10 databases",
		"nothing":                            "",
		"nothing after the host":             "https://",
	} {
		if got := cause.Provider(text, "a"); got != "" {
			t.Errorf("%s: %q is of the provider %q, want none", what, text, got)
		}
	}
}
