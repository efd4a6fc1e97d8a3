package api_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile/api"
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

// Lists hold what they answer in memory, and any number of them were made at once.
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
