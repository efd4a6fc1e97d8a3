// Package origin tells requests of a server's own pages from those of other sites' pages.
package origin

import (
	"errors"
	"net"
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

var errHost = errors.New("this server is not known by that name: it is served as localhost, by IP address, and by the names that its operator allows")

// CheckHost refuses a request for a host that is not allowed: any web site can give
// its own name the address of this server, and a browser on the same network lets it
// read what is served there (DNS rebinding). Allowed are localhost, IP addresses, and
// the given names, with or without a port; "*" allows all.
func CheckHost(r *http.Request, names []string) error {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = strings.Trim(r.Host, "[]")
	}
	host = strings.TrimSuffix(host, ".")
	allowed := func(name string) bool { return name == "*" || strings.EqualFold(strings.TrimSuffix(name, "."), host) }
	if allowed("localhost") || net.ParseIP(host) != nil || slices.ContainsFunc(names, allowed) {
		return nil
	}
	return errHost
}
