package reconcile

import "context"

// WaitsFor notes what the run that ctx belongs to waits for, until the func that it
// returns is called. The note is in the log line of a run that is stuck: what has to be
// done although the run's context ended, as to record what the run did, is then told
// from code that ignores the end. It is for packages that call the user's code, from the
// run's own goroutine; outside of a run it does nothing.
func WaitsFor(ctx context.Context, what string) (over func()) {
	r, ok := ctx.Value(runKey{}).(interface{ waitsFor(*string) *string })
	if !ok {
		return func() {}
	}
	before := r.waitsFor(&what)
	return func() { r.waitsFor(before) }
}

func (x *runCtx[K]) waitsFor(what *string) (before *string) { return x.waits.Swap(what) }

// because says what the run does instead of ending.
func (x *runCtx[K]) because() string {
	if what := x.waits.Load(); what != nil {
		return "it waits for " + *what
	}
	return "it goes on although its context ended"
}
