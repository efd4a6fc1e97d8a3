package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tendhq/tend/metrics"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/reconcile/web"
	"github.com/tendhq/tend/store/memory"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A container listens on all addresses. Specs, error texts and the memory's contents (profiles)
// go to this machine, and to others that have the token; probes answer all.
func TestOtherMachinesNeedTheToken(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, token := range []string{"", "secret"} {
		p := program.New(memory.New(nil))
		keep(p, &reconcile.Options[reconcile.Request]{})
		page := must(web.New(nil, newPage(p, metrics.New(&p.Manager), token)))
		if err := p.Run(ended, nil); err != nil { // its parts are on the page from then on
			t.Fatal(err)
		}
		for _, c := range []struct {
			from, path, bearer string
			refused            bool
		}{
			{"127.0.0.1:1234", "/objects?kind=site", "", false},
			{"[::1]:1234", "/metrics", "", false},
			{"[::ffff:127.0.0.1]:1234", "/metrics", "", false},
			{"192.0.2.1:1234", "/livez", "", false},
			{"192.0.2.1:1234", "/readyz", "", false},
			{"192.0.2.1:1234", "/objects?kind=site", "", true},
			{"192.0.2.1:1234", "/metrics", "", true},
			{"192.0.2.1:1234", "/debug", "", true},
			{"192.0.2.1:1234", "/debug/pprof/heap", "", true},
			{"192.0.2.1:1234", "/metrics", "wrong", true},
			{"192.0.2.1:1234", "/metrics", token, token == ""},
			{"", "/metrics", "", true},
		} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+c.path, nil)
			r.RemoteAddr = c.from
			r.Header.Set("Authorization", "Bearer "+c.bearer)
			answer := httptest.NewRecorder()
			page.ServeHTTP(answer, r)
			if refused := answer.Code == http.StatusForbidden; refused != c.refused {
				t.Errorf("token %q: %s from %q with %q is answered %d, want it refused: %v", token, c.path, c.from, c.bearer, answer.Code, c.refused)
			}
		}
	}
}
