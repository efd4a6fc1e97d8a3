// Package body bounds how long the body of a request may take to come in.
package body

import (
	"net/http"
	"time"
)

// Within gives the body of r, if it has one, d from now to come in, where a deadline can be
// set. A handler that leaves a body unread needs it as well: net/http reads what is left before
// the answer goes out, up to 256 KiB, and has no deadline of its own for that.
//
// A request without a body is left alone: its connection is being read to notice that the
// caller leaves, and a deadline would end the request's context.
func Within(w http.ResponseWriter, r *http.Request, d time.Duration) {
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(d))
	}
}
