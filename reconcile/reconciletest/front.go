package reconciletest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"
)

// ServeHTTP is a front for the cloud's calls, for a client that speaks HTTP:
//
//	POST   /resources             a Resource; the answer is the one that was made, with status 201
//	GET    /resources/ID          the answer is the Resource
//	GET    /resources?after=ID    the answer is {"page": [Resource, …], "more": true}, of [Cloud.Page]
//	PUT    /resources/ID          a Resource, as for [Cloud.Update]
//	DELETE /resources/ID
//
// An error is {"id": "not_found", "message": …} with status 404, "exists" with 409,
// "too_many_requests" with 429 and a Retry-After in whole seconds, "timeout" with 504 (the write may
// have taken effect), "bad_request" with 400, and "server_error" with 500. [HTTPClient] calls it
// without a network, as a synctest bubble needs; a server of net/http/httptest, with one.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var answer any
	err := errBadRequest
	status := http.StatusOK
	id, one := resourceID(r.URL.Path)
	switch {
	case one && r.Method == http.MethodGet:
		answer, err = c.Get(r.Context(), id)
	case one && r.Method == http.MethodDelete:
		err = c.Delete(r.Context(), id)
	case one && r.Method == http.MethodPut:
		var to Resource
		if err = readJSON(r, &to); err == nil {
			to.ID = id
			err = c.Update(r.Context(), to)
		}
	case r.URL.Path == "/resources" && r.Method == http.MethodPost:
		var made Resource
		if err = readJSON(r, &made); err == nil {
			status = http.StatusCreated
			answer, err = c.Create(r.Context(), made)
		}
	case r.URL.Path == "/resources" && r.Method == http.MethodGet:
		var page struct {
			Page []Resource `json:"page"`
			More bool       `json:"more"`
		}
		page.Page, page.More, err = c.Page(r.Context(), r.URL.Query().Get("after"))
		answer = page
	}
	if err != nil {
		status, answer = refusal(w.Header(), err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // the client has gone, if it cannot be written
}

var errBadRequest = errors.New("cloud: no such request")

func resourceID(path string) (id string, one bool) {
	const prefix = "/resources/"
	if len(path) <= len(prefix) || path[:len(prefix)] != prefix {
		return "", false
	}
	return path[len(prefix):], true
}

func readJSON(r *http.Request, to any) error {
	if err := json.NewDecoder(r.Body).Decode(to); err != nil {
		return fmt.Errorf("%w: %w", errBadRequest, err)
	}
	return nil
}

// refusal is the status and the body of an error.
func refusal(header http.Header, err error) (status int, body any) {
	status, id := http.StatusInternalServerError, "server_error"
	var over *QuotaError
	switch {
	case errors.As(err, &over):
		status, id = http.StatusTooManyRequests, "too_many_requests"
		header.Set("Retry-After", strconv.Itoa(int((over.RetryAfter+time.Second-1)/time.Second)))
	case errors.Is(err, errBadRequest):
		status, id = http.StatusBadRequest, "bad_request"
	case errors.Is(err, ErrNotFound):
		status, id = http.StatusNotFound, "not_found"
	case errors.Is(err, ErrExists):
		status, id = http.StatusConflict, "exists"
	case errors.Is(err, ErrTimeout):
		status, id = http.StatusGatewayTimeout, "timeout"
	}
	return status, map[string]string{"id": id, "message": err.Error()}
}

// HTTPClient is a client whose requests the handler answers, whatever their host: in this
// process, without a socket, in the goroutine that makes the request. So it works in a synctest
// bubble. Each request takes steps; with nil steps, none.
func HTTPClient(h http.Handler, steps *Steps) *http.Client {
	return &http.Client{Transport: &front{h, steps}}
}

type front struct {
	handler http.Handler
	steps   *Steps
}

func (f *front) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	if r.Body == nil {
		r = r.Clone(r.Context())
		r.Body = http.NoBody // as a handler finds it
	}
	defer r.Body.Close()
	err = f.steps.Do(r.Method+" "+r.URL.Path, func() error {
		answer := httptest.NewRecorder()
		f.handler.ServeHTTP(answer, r)
		resp = answer.Result()
		resp.Request = r
		return r.Context().Err() // the client has hung up, and hears nothing
	})
	if err != nil {
		return nil, err
	}
	return resp, nil
}
