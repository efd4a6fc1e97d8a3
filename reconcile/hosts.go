package reconcile

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tendhq/tend/internal/body"
)

var errHosts = errors.New("this server is not known by that name: it is served as localhost, by IP address, and by the names that its operator allows")

// CheckHost refuses a request for a host that is not allowed: any web site can give
// its own name the address of this server, and a browser on the same network lets it
// read what is served there (DNS rebinding). Allowed are localhost, IP addresses, and
// the given names, with or without a port; "*" allows all.
func CheckHost(r *http.Request, names ...string) error {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = strings.Trim(r.Host, "[]")
	}
	host = strings.TrimSuffix(host, ".")
	allowed := func(name string) bool { return name == "*" || strings.EqualFold(strings.TrimSuffix(name, "."), host) }
	if allowed("localhost") || net.ParseIP(host) != nil || slices.ContainsFunc(names, allowed) {
		return nil
	}
	return errHosts
}

// bodyTimeout is how long the body of a request may take to come in.
const bodyTimeout = 10 * time.Second

// AllowHosts serves next to requests for the allowed hosts (see [CheckHost]) and
// answers the others with 403. No browser guesses at the type of what it serves. It
// is for handlers that are not of this module, such as one for metrics.
func AllowHosts(next http.Handler, names ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if err := CheckHost(r, names...); err != nil {
			body.Within(w, r, bodyTimeout) // it is not read
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
