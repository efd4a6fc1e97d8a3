package main

import (
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The credentials with which the program signs its calls are in nothing that it
// says: what it prints, the metrics, the debug page in every form, the plan. Not when
// the endpoint refuses them, cuts connections or fails, either. The endpoint gets what
// it should: the test would not see anything else.
//
// Negative control: with the secret key among the rows that the debug page has of the
// program, every form of the page held it.
func TestCredentialsAreSaidNowhere(t *testing.T) {
	canaries := map[string]string{
		"AWS_ACCESS_KEY_ID": "AKIACANARYCANARY0001", "AWS_SECRET_ACCESS_KEY": "canary-secret-access-key", "AWS_SESSION_TOKEN": "canary-session-token",
	}
	for name, value := range canaries {
		t.Setenv(name, value)
	}
	server := newTestS3(t, true)
	signed, cut := make(chan string, 1), make(chan bool, 2)
	server.Fail(func(w http.ResponseWriter, r *http.Request) bool {
		select {
		case signed <- r.Header.Get("Authorization") + r.Header.Get("X-Amz-Security-Token"):
		default:
		}
		switch {
		case r.Method == http.MethodGet || r.Method == http.MethodHead:
			return false
		case strings.Contains(r.URL.Path, "acme-denied"):
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `<Error><Code>InvalidAccessKeyId</Code><Message>The key does not exist in our records.</Message></Error>`)
			return true
		case strings.Contains(r.URL.Path, "acme-cut"):
			select {
			case cut <- true:
			default:
			}
			panic(http.ErrAbortHandler)
		}
		return false
	})
	declared := declaring("acme-a", "acme-denied", "acme-cut")
	s := begin(t, declared, options{Endpoint: server.URL, Listen: "localhost:0"})
	s.Await(t, "+ acme-a  created", 1)
	url := "http://" + serving(t, s)
	awaitPage(t, url+"/debug?c=bucket&key=acme-denied&format=text", "does not exist in our records")
	for range 2 { // when it comes again, the first has been told
		select {
		case <-cut:
		case <-time.After(patience):
			t.Fatal("acme-cut was not tried again")
		}
	}
	said := map[string]string{}
	said["the metrics"] = fetch(t, url+"/metrics")
	for _, view := range []string{"?", "?c=bucket", "?c=bucket&key=acme-denied", "?c=bucket&key=acme-cut", "?view=events"} {
		for _, format := range []string{"html", "json", "text"} {
			said["the debug page as "+format] += fetch(t, url+"/debug"+view+"&format="+format)
		}
	}
	s.stop()
	if err := s.Result(t); err != nil {
		said["the error"] = err.Error()
	}
	said["what it printed"] = s.String()
	_, out, notes := planned(t, declared, "-endpoint "+server.URL)
	said["the plan"] = out + notes

	if got := <-signed; !strings.Contains(got, canaries["AWS_ACCESS_KEY_ID"]) || !strings.Contains(got, canaries["AWS_SESSION_TOKEN"]) {
		t.Errorf("the endpoint was sent %q, want it signed with the canaries", got)
	}
	for what, text := range said {
		for name, value := range canaries {
			for _, form := range []string{value, base64.StdEncoding.EncodeToString([]byte(value))} {
				if i := strings.Index(text, form); i >= 0 {
					t.Errorf("%s holds %s: …%s…", what, name, text[max(0, i-200):min(len(text), i+100)])
				}
			}
		}
	}
	for _, what := range []string{"the debug page as html", "what it printed", "the plan"} {
		if !strings.Contains(said[what], "acme-") {
			t.Errorf("%s says nothing of the buckets: this test would not see anything\n%s", what, said[what])
		}
	}
}
