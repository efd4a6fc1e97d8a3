package debug

import (
	"maps"
	"net/url"
	"slices"
)

// maxServers is how many other servers a page leads to.
const maxServers = 100

// servers are the other servers whose pages are web pages. What addresses hold besides is left out:
// names and passwords, and queries, which the links make.
func (h *handler) servers() (all []serverView) {
	if h.o.Servers == nil {
		return nil
	}
	given := h.o.Servers()
	for _, name := range slices.Sorted(maps.Keys(given)) {
		u, err := url.Parse(given[name])
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || len(given[name]) > maxText || len(name) > maxText || len(all) == maxServers {
			continue
		}
		page := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
		all = append(all, serverView{name, text(page.String())})
	}
	return all
}
