package store

import (
	"fmt"
	"time"
)

// HealthChecker is implemented by a [Backend] that notices by itself when it cannot
// serve, or soon will not: a cluster that does not answer, a file that was removed. A watch that has
// nothing to deliver looks the same in either case.
type HealthChecker interface {
	// Health returns an [*UnavailableError] while the backend cannot serve. An error of any
	// other type is a warning: the backend serves still, but an operator has to act. Otherwise
	// Health returns nil. It returns what is known already, at once and without
	// I/O, and is safe for concurrent use.
	Health() error
}

// Health returns what b says about itself, or nil if b is no [HealthChecker]. A
// backend that wraps another one implements HealthChecker with it.
func Health(b Backend) error {
	if h, ok := b.(HealthChecker); ok {
		return h.Health()
	}
	return nil
}

// UnavailableError says since when a backend cannot serve, and why.
type UnavailableError struct {
	// Since is when the backend last served, or when the failure was noticed if
	// that is not known.
	Since time.Time
	// Err is the reason. It names the backend's place: a path, an endpoint.
	Err error
}

// Error gives the time and the reason.
func (e *UnavailableError) Error() string {
	return fmt.Sprintf("store: unavailable since %s: %v", e.Since.Format(time.RFC3339), e.Err)
}

// Unwrap returns the reason.
func (e *UnavailableError) Unwrap() error { return e.Err }
