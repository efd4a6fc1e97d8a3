package reconciletest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/reconcile/reconciletest"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

type thing = store.Object[string, string]

func things(_ testing.TB, b store.Backend) *store.Store[string, string] {
	if b == nil {
		b = must(memory.New(&memory.Options{Encode: true}))
	}
	return must(store.New[string, string](b, "thing", nil))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// failing is a test that notes how it fails, and runs its cleanups when it is told to.
type failing struct {
	testing.TB
	failed   []string
	cleanups []func()
}

func (f *failing) Helper()           {}
func (f *failing) Output() io.Writer { return io.Discard }
func (f *failing) Cleanup(c func())  { f.cleanups = append(f.cleanups, c) }

func (f *failing) Errorf(format string, args ...any) {
	f.failed = append(f.failed, fmt.Sprintf(format, args...))
}

func (f *failing) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	panic(f)
}

// of runs what a test does, and its cleanups.
func (f *failing) of(test func()) string {
	func() {
		defer func() {
			if v := recover(); v != nil && v != any(f) {
				panic(v)
			}
		}()
		test()
	}()
	for _, c := range slices.Backward(f.cleanups) {
		c()
	}
	return strings.Join(f.failed, "\n")
}

// What was there is shown when Start returns, and what is written later when Shown does.
func TestCachesShowWhatIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := things(t, nil)
		must(s.Create(t.Context(), &thing{Meta: store.Meta{Name: "a"}}))
		one, two := must(cache.New(s, nil)), must(cache.New(s, &cache.Options[string, string]{Name: "two"}))
		c := must(reconcile.For(s, func(context.Context, *thing) (reconcile.Result, error) { return reconcile.Result{}, nil }, nil))
		reconciletest.Start(t, one, two, c)
		if one.Len() != 1 || two.Len() != 1 || c.Cache().Len() != 1 {
			t.Errorf("%d, %d and %d objects, want 1", one.Len(), two.Len(), c.Cache().Len())
		}
		b := must(s.Create(t.Context(), &thing{Meta: store.Meta{Name: "b"}}))
		reconciletest.Shown(t, b.Revision, one, two, c.Cache())
		if one.Len() != 2 || two.Len() != 2 || c.Cache().Len() != 2 {
			t.Errorf("%d, %d and %d objects, want 2", one.Len(), two.Len(), c.Cache().Len())
		}
	})
}

var errBoom = errors.New("boom")

// deaf is a backend that never lists.
type deaf struct{ store.Backend }

func (d deaf) List(ctx context.Context, _ string, _ store.ListOptions) (store.Page, error) {
	return store.Page{}, errBoom
}

func (d deaf) Watch(ctx context.Context, _ string, _ store.Revision) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) { yield(store.Batch{}, errBoom) }
}

// runner ends with an error.
type runner struct{ at string }

func (r runner) Run(ctx context.Context) error {
	if r.at == "" {
		<-ctx.Done()
	}
	return errBoom
}

func TestWhatDoesNotStartFailsTheTest(t *testing.T) {
	for name, c := range map[string]struct {
		test func(f *failing)
		want string
	}{
		"never synced": {func(f *failing) {
			reconciletest.Start(f, must(cache.New(things(t, deaf{must(memory.New(nil))}), nil)))
		}, "not ready after 1m0s"},
		"never shown": {func(f *failing) {
			c := must(cache.New(things(t, nil), nil))
			reconciletest.Start(f, c)
			reconciletest.Shown(f, 7, c)
		}, "is at revision 0 after 1m0s, want 7"},
		"ends with an error": {func(f *failing) { reconciletest.Start(f, runner{}) }, "boom"},
		"ends at once": {func(f *failing) {
			reconciletest.Start(f, must(cache.New(things(t, nil), nil)), runner{at: "once"})
		}, "boom"}, // at once, or at the end if it was ready for a moment
		"cannot be registered": {func(f *failing) { reconciletest.Start(f, nil) }, "Start:"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &failing{TB: t}
			if got := f.of(func() { c.test(f) }); !strings.Contains(got, c.want) {
				t.Errorf("%s: the test failed with %q, want %q", name, got, c.want)
			}
		})
	}
}

// A client of one's own is killed before and after each of its calls.
func TestEachStepOfAClientKillsIt(t *testing.T) {
	var trails []string
	reconciletest.KillAtEachStep(t, func(t *testing.T, steps *reconciletest.Steps) {
		calls := 0
		for range 2 {
			if err := steps.Do("call", func() error { calls++; return nil }); errors.Is(err, reconciletest.ErrKilled) {
				break
			}
		}
		trails = append(trails, fmt.Sprint(calls, steps.Trail()))
	})
	want := []string{
		"0 [1 before call]", "1 [1 before call 2 after call]",
		"1 [1 before call 2 after call 3 before call]",
		"2 [1 before call 2 after call 3 before call 4 after call]",
		"2 [1 before call 2 after call 3 before call 4 after call]", // it ended
	}
	if !slices.Equal(trails, want) {
		t.Errorf("got %q, want %q", trails, want)
	}
	if err := (*reconciletest.Steps)(nil).Do("call", func() error { return errBoom }); !errors.Is(err, errBoom) {
		t.Errorf("without steps: %v, want the call's error", err)
	}
}

// The front of the cloud answers as the cloud does, also what goes wrong, and what a client reads of it
// is what the library's own HTTP error reads.
func TestFrontOfTheCloudAnswersAsItDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := must(reconciletest.NewCloud(&reconciletest.CloudOptions{UniqueNames: true, PageSize: 1, WriteRate: 100, RetryAfter: 1500 * time.Millisecond}))
		steps := &reconciletest.Steps{}
		client := reconciletest.HTTPClient(cloud, steps)
		call := func(method, path, body, want string) {
			t.Helper()
			r := must(http.NewRequestWithContext(t.Context(), method, "https://cloud.example"+path, strings.NewReader(body)))
			resp := must(client.Do(r))
			defer resp.Body.Close()
			got := fmt.Sprint(resp.StatusCode, " ", strings.TrimSpace(string(must(io.ReadAll(resp.Body)))))
			if got != want {
				t.Errorf("%s %s: got %s, want %s", method, path, got, want)
			}
		}
		const disk = `{"ID":"a/b c","Name":"a/b c","Tags":null,"Props":{"size":"1"},"Deleting":false}`
		call("POST", "/resources", `{"Name": "a/b c", "Props": {"size": "1"}}`, "201 "+disk)
		call("GET", "/resources/a%2Fb%20c", "", "200 "+disk)
		call("POST", "/resources", `{"Name": "a/b c"}`, `409 {"id":"exists","message":"create \"a/b c\": cloud: the name is taken"}`)
		call("PUT", "/resources/a%2Fb%20c", `{"Props": {"size": "2"}}`, "200 null")
		call("POST", "/resources", `{"Name": "z"}`, `201 {"ID":"z","Name":"z","Tags":null,"Props":null,"Deleting":false}`)
		call("GET", "/resources", "", `200 {"page":[`+strings.Replace(disk, `"1"`, `"2"`, 1)+`],"more":true}`)
		call("GET", "/resources?after=a/b+c", "", `200 {"page":[{"ID":"z","Name":"z","Tags":null,"Props":null,"Deleting":false}],"more":false}`)
		call("DELETE", "/resources/z", "", "200 null")
		call("GET", "/resources/z", "", `404 {"id":"not_found","message":"get \"z\": cloud: no such resource"}`)
		call("PATCH", "/resources/z", "", `400 {"id":"bad_request","message":"cloud: no such request"}`)
		call("POST", "/resources", `{`, `400 {"id":"bad_request","message":"cloud: no such request: unexpected EOF"}`)
		if steps.Count() != 22 {
			t.Errorf("%d steps, want two for each request: %q", steps.Count(), steps.Trail())
		}

		for status, o := range map[int]reconciletest.CloudOptions{429: {Rate: 1, RetryAfter: 1500 * time.Millisecond}, 500: {FailEvery: 2}, 504: {Lost: 1}} {
			client := reconciletest.HTTPClient(must(reconciletest.NewCloud(&o)), nil)
			var resp *http.Response
			for range 2 {
				resp = must(client.Post("https://cloud.example/resources", "", strings.NewReader(`{"Name": "a"}`)))
			}
			err := quota.CheckResponse(resp)
			if e, ok := errors.AsType[*quota.HTTPError](err); !ok || e.Status != status || (e.RetryAfter == 2*time.Second) != (status == 429) {
				t.Errorf("%+v: %v, want status %d", o, err, status)
			}
		}
	})
}

// A client that hangs up while the cloud takes its time hears nothing, and a killed one neither.
func TestClientOfTheFrontHangsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := must(reconciletest.NewCloud(&reconciletest.CloudOptions{Latency: time.Hour}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
		defer cancel()
		r := must(http.NewRequestWithContext(ctx, http.MethodGet, "https://cloud.example/resources", nil))
		if _, err := reconciletest.HTTPClient(cloud, nil).Do(r); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", err)
		}
		killed := reconciletest.HTTPClient(cloud, &reconciletest.Steps{Kill: 1})
		for range 2 {
			if _, err := killed.Get("https://cloud.example/resources"); !errors.Is(err, reconciletest.ErrKilled) {
				t.Errorf("got %v, want that it is dead", err)
			}
		}
		if n := cloud.Calls("List"); n != 0 {
			t.Errorf("%d calls, want none", n)
		}
	})
}
