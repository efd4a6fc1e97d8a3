// Package origin tells requests of a server's own pages from those of other sites' pages.
package origin

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Check is p's check, but that a page under one of the given names is the server's own also where a proxy
// rewrites the Host of requests, as long as the browser does not say otherwise. "*" is no name.
func Check(p *http.CrossOriginProtection, r *http.Request, names []string) error {
	err := p.Check(r)
	if err == nil || r.Header.Get("Sec-Fetch-Site") != "" {
		return err
	}
	u, parseErr := url.Parse(r.Header.Get("Origin"))
	if parseErr != nil || u.Host == "" {
		return err
	}
	host := strings.TrimSuffix(u.Hostname(), ".")
	if slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(strings.TrimSuffix(name, "."), host) }) {
		return nil
	}
	return err
}
