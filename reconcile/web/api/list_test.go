package api_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/internal/pipes"
	"github.com/tendhq/tend/reconcile/web/api"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/objects"
)

func allowAll(*http.Request, api.Access) error { return nil }

// A page of 500 objects could be of 500 MiB. A client that follows next sees each object once.
//
// Negative control: mutant "a page of a list may be of any size".
func TestPageOfLargeObjectsEndsEarly(t *testing.T) {
	texts := must(store.New[struct{ Text string }, struct{}](must(memory.New(nil)), "text", nil))
	const objectSize = 900 << 10
	for i := range 21 {
		o := &store.Object[struct{ Text string }, struct{}]{Meta: store.Meta{Name: fmt.Sprintf("t-%02d", i)}}
		o.Spec.Text = strings.Repeat("a", objectSize)
		_ = must(texts.Create(t.Context(), o))
	}
	server := httptest.NewServer(must(api.New([]objects.Kind{objects.Of(texts)}, &api.Options{Allow: allowAll})))
	defer server.Close()
	pages := 0
	client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		pages++
		return http.DefaultTransport.RoundTrip(r)
	})}
	defer http.DefaultClient.CloseIdleConnections()
	var names []string
	for o, err := range must(api.NewClient(server.URL, client, nil)).Kind("text").All(t.Context(), store.Selector{}) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, o.Name)
	}
	if len(names) != 21 || names[0] != "t-00" || names[20] != "t-20" || pages != 3 {
		t.Errorf("%d pages list %v", pages, names)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// stuck is a kind whose lists wait.
type stuck struct {
	disksKind
	until chan struct{}
}

func (k stuck) All(ctx context.Context, sel store.Selector) iter.Seq2[objects.Object, error] {
	<-k.until
	return k.disksKind.All(ctx, sel)
}

// The lists that are made at once hold objects in memory. There was no bound on their number.
//
// Negative control: mutant "any number of lists are made at once".
func TestListsAreMadeInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disks := must(store.New[spec, status](must(memory.New(nil)), "disk", nil))
		k := stuck{objects.Of(disks), make(chan struct{})}
		h := must(api.New([]objects.Kind{k}, &api.Options{Allow: allowAll, Timeout: time.Minute}))
		codes := make(chan int, 20)
		list := func() {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/?kind=disk", nil))
			codes <- w.Code
		}
		for range 16 {
			go list()
		}
		synctest.Wait()
		go list()
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		if len(codes) != 1 || <-codes != http.StatusServiceUnavailable {
			t.Fatalf("%d answers beside the first of a list too many", len(codes))
		}
		close(k.until)
		synctest.Wait()
		for len(codes) > 0 {
			<-codes // they have waited too long
		}
		list()
		if code := <-codes; code != http.StatusOK {
			t.Errorf("the next list is answered %d", code)
		}
	})
}

// Requests whose bodies do not come in, and callers that do not read, keep no other caller from
// its list: a page is made in its turn, and sent after it.
//
// Negative control: with the place held until the answer was sent, the list waited for a minute.
func TestCallersThatStandStillHoldUpNoList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disks := must(store.New[spec, status](must(memory.New(nil)), "disk", nil))
		for i := range 30 { // more than net/http keeps back for the end of the handler
			o := &store.Object[spec, status]{Meta: store.Meta{Name: fmt.Sprint("d", i), Annotations: map[string]string{"note": strings.Repeat("x", 4096)}}}
			must(disks.Create(t.Context(), o))
		}
		l := pipes.Serve(must(api.New([]objects.Kind{objects.Of(disks)}, &api.Options{Allow: allowAll, Timeout: time.Minute})))
		defer l.Close()
		for range 16 {
			defer l.Half(http.MethodGet, "/?kind=disk").Close()
			defer l.Send("GET /?kind=disk HTTP/1.1", "Host: localhost").Close()
		}
		synctest.Wait()
		began := time.Now()
		if status, _, err := l.Whole(http.MethodGet, "/?kind=disk"); status != http.StatusOK || err != nil {
			t.Errorf("a list beside callers that stand still: %d, %v", status, err)
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("it waited for %v", waited)
		}
	})
}

// Options.Timeout ends a list that takes long to make, however short its answer is.
//
// Negative control: without the look at the context the answer was 200 after an hour.
func TestListThatTakesLongEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disks := must(store.New[slow, status](must(memory.New(nil)), "disk", nil))
		for i := range 60 {
			must(disks.Create(t.Context(), &store.Object[slow, status]{Meta: store.Meta{Name: fmt.Sprint("d", i)}, Spec: slow{Pin: "hunter22"}}))
		}
		slowness.Store(int64(time.Minute))
		defer slowness.Store(0)
		h := must(api.New([]objects.Kind{objects.Of(disks)}, &api.Options{Allow: allowAll, Timeout: time.Minute}))
		w, began := httptest.NewRecorder(), time.Now()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/?kind=disk", nil))
		if took := time.Since(began); w.Code != http.StatusServiceUnavailable || took > 3*time.Minute {
			t.Errorf("it is answered %d after %v", w.Code, took)
		}
	})
}

// slow is a spec that takes its time to be shown.
type slow struct {
	Pin pin `tend:"secret"`
}

type pin string

var slowness atomic.Int64

// String is called where secrets are looked for.
func (p pin) String() string {
	time.Sleep(time.Duration(slowness.Load()))
	return string(p)
}
