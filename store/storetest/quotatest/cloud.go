package quotatest

import (
	"encoding/json"
	"net/http"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/tendhq/tend/reconcile/external"
)

// resource is one of the cloud's.
type resource struct {
	Name string
	Mark external.Mark
}

// pageSize is the length of a page of the list.
const pageSize = 1000

// cloud is an API over HTTP that refuses to create what exists, and notes each call:
//
//	PUT /disks/NAME      creates; 409: it exists
//	GET /disks/NAME      404: there is none
//	GET /disks?after=X   a page of the list, in the order of names
type cloud struct {
	mu      sync.Mutex // guards what follows
	made    map[string]resource
	names   []string // of made, in order
	writes  []time.Time
	reads   int
	again   int                   // creates of what existed
	reached map[int]chan struct{} // closed when so many were made
}

func newCloud() *cloud { return &cloud{made: map[string]resource{}, reached: map[int]chan struct{}{}} }

// when is closed as soon as so many resources were made.
func (c *cloud) when(n int) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reached[n] == nil {
		c.reached[n] = make(chan struct{})
		if len(c.made) >= n {
			close(c.reached[n])
		}
	}
	return c.reached[n]
}

func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/disks"), "/")
	if r.Method == http.MethodPut {
		var one resource
		if err := json.NewDecoder(r.Body).Decode(&one); err != nil || one.Name != name {
			http.Error(w, "no resource of that name in the body", http.StatusBadRequest)
			return
		}
		w.WriteHeader(c.create(one))
		return
	}
	c.mu.Lock()
	c.reads++
	var answer any
	if one, exists := c.made[name]; exists {
		answer = one
	} else if name == "" {
		answer = c.pageLocked(r.URL.Query().Get("after"))
	}
	c.mu.Unlock()
	if answer == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_ = json.NewEncoder(w).Encode(answer) // an error is the client's: it has gone
}

func (c *cloud) create(one resource) (status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes = append(c.writes, time.Now())
	if _, exists := c.made[one.Name]; exists {
		c.again++
		return http.StatusConflict
	}
	c.made[one.Name] = one
	at := sort.SearchStrings(c.names, one.Name)
	c.names = slices.Insert(c.names, at, one.Name)
	if reached := c.reached[len(c.made)]; reached != nil {
		close(reached)
	}
	return http.StatusCreated
}

func (c *cloud) pageLocked(after string) []resource {
	first := 0
	if after != "" {
		first = sort.SearchStrings(c.names, after+"\x00")
	}
	page := []resource{}
	for _, name := range c.names[first:min(first+pageSize, len(c.names))] {
		page = append(page, c.made[name])
	}
	return page
}
