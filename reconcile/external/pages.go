package external

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/tendhq/tend/internal/endless"
	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
)

const (
	// pageTries is how often one page is read before the list fails: with one call in
	// ten that fails, one list in a thousand of 100 pages does.
	pageTries = 5
	// minPagePause is the wait before the second try of a page; it doubles from try to try.
	minPagePause = 100 * time.Millisecond
)

// Pages makes the List of an [Inventory] of a function that reads one page: those
// resources that come after a cursor ("" for the first page), and the cursor of the next
// page ("" if there is none). A cursor is whatever the cloud calls it: a continuation
// token, a marker, the last id.
//
// A page that fails is read again, up to five times within about two seconds, and the
// list goes on after it: a list of 100 pages does not begin again because one call in ten
// fails. A page that is throttled (see [ratelimit.Throttled] and package quota) is read again
// when the pause is over, as often as it takes while ctx lives, unless ctx ends before
// that; only on the first page, of which nothing would be lost, the list ends with the
// error at once. An error that is [reconcile.ErrTerminal] is not tried again.
//
// A list is never shown in part: an error that is left ends it, as [InventoryOptions.List] says.
// So do a cursor that comes a second time, which would make the list endless, and the end of
// ctx, which is looked at before each page.
func Pages[R any](read func(ctx context.Context, after string) (page []R, next string, err error)) func(ctx context.Context) iter.Seq2[R, error] {
	return func(ctx context.Context) iter.Seq2[R, error] {
		return func(yield func(R, error) bool) {
			seen := map[string]bool{}
			for after, more := "", true; more; {
				page, next, err := readPage(ctx, read, after)
				if err == nil && next != "" && seen[next] {
					err = fmt.Errorf("external: pages: the page after %q is followed by that after %q for the second time", after, next)
				}
				seen[next] = true
				if err != nil {
					var none R
					yield(none, err)
					return
				}
				for _, r := range page {
					if !yield(r, nil) {
						return
					}
				}
				after, more = next, next != ""
			}
		}
	}
}

// readPage reads one page, again if that fails.
func readPage[R any](ctx context.Context, read func(context.Context, string) ([]R, string, error), after string) (page []R, next string, err error) {
	backoff := sleep.Backoff{Min: minPagePause, Max: time.Second}
	for failed := 0; ; {
		if ctx.Err() != nil {
			return nil, "", context.Cause(ctx)
		}
		if page, next, err = read(ctx, after); err == nil {
			return page, next, nil
		}
		err = endless.Cut(err)
		pause := backoff.Next()
		if until, throttled := ratelimit.ThrottledUntil(err); throttled {
			if after == "" {
				return nil, "", err
			}
			if wait := time.Until(until); wait > pause { // else each pause is longer, as after failures
				backoff.Reset()
				pause = wait
			}
		} else if failed++; failed == pageTries || errors.Is(err, reconcile.ErrTerminal) {
			return nil, "", err
		}
		if end, ok := ctx.Deadline(); ok && time.Until(end) <= pause || !sleep.For(ctx, pause) {
			return nil, "", err
		}
	}
}
