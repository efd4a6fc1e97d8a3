package external_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/reconciletest"
)

// book is pages of one number each, and what reading them comes to.
type book struct {
	pages int
	fails func(call, page int) error // nil: none
	read  []int                      // the pages that were read, in order
}

func (b *book) page(_ context.Context, after string) ([]int, string, error) {
	page := 0
	if after != "" {
		page = must(strconv.Atoi(after))
	}
	b.read = append(b.read, page)
	if b.fails != nil {
		if err := b.fails(len(b.read), page); err != nil {
			return nil, "", err
		}
	}
	if page == b.pages-1 {
		return []int{page}, "", nil
	}
	return []int{page}, strconv.Itoa(page + 1), nil
}

// readAll reads a list to its end.
func readAll(list iter.Seq2[int, error]) (got []int, err error) {
	for n, err := range list {
		if err != nil {
			return got, err
		}
		got = append(got, n)
	}
	return got, nil
}

func numbers(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// Every tenth call fails: a list of a hundred pages takes eleven calls more, and shows each
// page once.
func TestPageThatFailsIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &book{pages: 100, fails: func(call, _ int) error {
			if call%10 == 0 {
				return reconciletest.ErrServer
			}
			return nil
		}}
		list := external.Pages(b.page)
		got, err := readAll(list(t.Context()))
		if err != nil || !slices.Equal(got, numbers(100)) || len(b.read) != 111 {
			t.Errorf("%d resources by %d calls, %v; want 100 by 111", len(got), len(b.read), err)
		}
		if again, err := readAll(list(t.Context())); err != nil || !slices.Equal(again, got) {
			t.Errorf("the second list has %d resources, %v; want the same", len(again), err)
		}
	})
}

// A page that is throttled is read again when the pause is over, and the list goes on there;
// the first page is not waited for. Other errors that stay end the list after a few tries, a
// terminal one at once.
func TestListGoesOnAtThePageThatFailed(t *testing.T) {
	busy := func(d time.Duration) error { return ratelimit.Throttled(nil, time.Now().Add(d), io.ErrUnexpectedEOF) }
	for name, c := range map[string]struct {
		page   int           // that fails
		times  int           // so often
		err    func() error  // so
		within time.Duration // the time that the caller has
		wrong  bool          // the list ends with the error
		calls  int
		took   time.Duration // at least, and at most a second or so more
	}{
		"throttled for 30 s":                 {page: 5, times: 1, err: func() error { return busy(30 * time.Second) }, calls: 11, took: 30 * time.Second},
		"throttled again and again":          {page: 5, times: 20, err: func() error { return busy(time.Second) }, calls: 30, took: 20 * time.Second},
		"throttled beyond the caller's time": {page: 5, times: 1, err: func() error { return busy(30 * time.Second) }, within: 20 * time.Second, wrong: true, calls: 6},
		"the first page is throttled":        {page: 0, times: 1, err: func() error { return busy(30 * time.Second) }, wrong: true, calls: 1},
		"the first page fails":               {page: 0, times: 1, err: func() error { return io.ErrUnexpectedEOF }, calls: 11},
		"four failures":                      {page: 9, times: 4, err: func() error { return io.ErrUnexpectedEOF }, calls: 14, took: time.Second},
		"five failures":                      {page: 9, times: 5, err: func() error { return io.ErrUnexpectedEOF }, wrong: true, calls: 14, took: time.Second},
		"terminal":                           {page: 5, times: 1, err: func() error { return reconcile.Terminal(io.ErrUnexpectedEOF) }, wrong: true, calls: 6},
		"an error that unwraps to itself":    {page: 5, times: 1, err: func() error { return &loop{} }, calls: 11},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				failed := 0
				b := &book{pages: 10, fails: func(_, page int) error {
					if page != c.page || failed == c.times {
						return nil
					}
					failed++
					return c.err()
				}}
				ctx := t.Context()
				if c.within > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.within)
					defer cancel()
				}
				begun := time.Now()
				got, err := readAll(external.Pages(b.page)(ctx))
				took := time.Since(begun)
				if (err != nil) != c.wrong || len(b.read) != c.calls || took < c.took || took > c.took+2*time.Second {
					t.Errorf("%d calls in %v, %v; want %d in %v and an error: %v", len(b.read), took, err, c.calls, c.took, c.wrong)
				}
				if c.wrong && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("error %v does not wrap the cause", err)
				}
				if want := numbers(10); !c.wrong && !slices.Equal(got, want) {
					t.Errorf("got %v, want %v", got, want)
				}
			})
		})
	}
}

// The list ends with its reader, with its context, and where the cloud's cursor stands still.
func TestListOfPagesEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &book{pages: 10}
		for n := range external.Pages(b.page)(t.Context()) {
			if n == 3 {
				break
			}
		}
		if len(b.read) != 4 {
			t.Errorf("%d pages were read for a reader that stopped at the fourth", len(b.read))
		}
		ctx, cancel := context.WithCancel(t.Context())
		b = &book{pages: 10, fails: func(_, page int) error {
			if page == 2 {
				cancel()
				return fmt.Errorf("page 2: %w", io.ErrUnexpectedEOF)
			}
			return nil
		}}
		if _, err := readAll(external.Pages(b.page)(ctx)); !errors.Is(err, io.ErrUnexpectedEOF) || len(b.read) != 3 {
			t.Errorf("after the end of the context: %d pages, %v", len(b.read), err)
		}
		enough := errors.New("enough")
		deaf, stop := context.WithCancelCause(t.Context()) // of a cloud whose client does not look at it
		b = &book{pages: 10, fails: func(_, page int) error {
			if page == 2 {
				stop(enough)
			}
			return nil
		}}
		if got, err := readAll(external.Pages(b.page)(deaf)); !errors.Is(err, enough) || !slices.Equal(got, numbers(3)) || len(b.read) != 3 {
			t.Errorf("after the end of the context between two pages: %v by %d calls, %v; want 3 pages and the cause", got, len(b.read), err)
		}
		for name, cursors := range map[string]map[string]string{
			"a cursor that stands still":  {"": "x", "x": "x"},
			"cursors that go in a circle": {"": "x", "x": "y", "y": "x"},
			"a circle that begins late":   {"": "a", "a": "b", "b": "x", "x": "y", "y": "z", "z": "x"},
		} {
			calls := 0
			circle := func(_ context.Context, after string) ([]int, string, error) {
				if calls++; calls > 2*len(cursors) {
					return nil, "", reconcile.Terminal(errors.New("the list does not end"))
				}
				return nil, cursors[after], nil
			}
			if _, err := readAll(external.Pages(circle)(t.Context())); err == nil || !strings.Contains(err.Error(), "for the second time") || calls != len(cursors) {
				t.Errorf("%s: %d calls, %v; want %d and an error that says so", name, calls, err, len(cursors))
			}
		}
	})
}

// A cloud that says "too many" and not until when is asked less and less often.
func TestPageThatIsThrottledUntilNowIsReadOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		b := &book{pages: 10, fails: func(_, page int) error {
			if page == 0 {
				return nil
			}
			return ratelimit.Throttled(nil, time.Now(), io.ErrUnexpectedEOF)
		}}
		if _, err := readAll(external.Pages(b.page)(ctx)); !ratelimit.IsThrottled(err) || len(b.read) > 90 {
			t.Errorf("%d calls within a minute, %v; want at most 90", len(b.read), err)
		}
	})
}

// The list of a source of Changed is throttled in its middle: it is one list, of as many
// calls as it has pages and one more, and not one that begins again each second. The same
// list without Pages is the control.
func TestThrottledListOfASourceIsOneList(t *testing.T) {
	for _, brittle := range []bool{false, true} {
		bubble(t, func(t *testing.T, w *world) {
			const n = 100
			s := newScene(t, w, func(o *reconciletest.CloudOptions) {
				o.ReadRate, o.PageSize, o.RetryAfter = 5, 10, 20*time.Second // a second's worth of calls, then a refusal
			})
			s.n, s.brittle = n, brittle
			s.limits.Read.PerSecond, s.limits.Read.Burst, s.limits.Read.Ceiling = 100, 20, 100
			s.settle(n)
			s.begin()
			defer func() { s.stop() }()
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			calls := s.cloud.Calls("List")
			if most := n/10 + 2; !brittle && (calls > most || s.inv.Snapshot().Lists != 1) {
				t.Errorf("%d calls for %d lists, want at most %d for one", calls, s.inv.Snapshot().Lists, most)
			}
			if brittle && calls <= n/10+2 {
				t.Errorf("a list that begins again took %d calls: the check does not tell them apart", calls)
			}
		})
	}
}
