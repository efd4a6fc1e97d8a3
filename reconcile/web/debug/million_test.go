package debug_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tendhq/tend/internal/campaign"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/web/debug"
	"github.com/tendhq/tend/store"
)

// At a million keys a page is as long as at a hundred, and nothing is kept for it:
// what a view allocates is that of a page, whatever it looks at. That no lock is
// held meanwhile for more than a thousand keys is tested in package queue.
//
// Negative control: with all candidates kept until the end (walk.cut left out) the
// sorted pages allocated over 60 MB.
func TestPagesHoldAtAMillionKeys(t *testing.T) {
	keys := campaign.Sized(1_000_000, 100_000)
	nothing := reconcile.Func[reconcile.Request](func(context.Context, reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{}, nil
	})
	c := must(reconcile.New("inventory", nothing, nil))
	for i := range keys {
		key := store.Key{Namespace: "tenant-" + fmt.Sprint(i%97), Name: fmt.Sprintf("resource-%07d", i)}
		if err := c.Queue().AddAfter(key, time.Hour+time.Duration(i*7919%keys)*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	var m reconcile.Manager
	if err := m.Register(c); err != nil {
		t.Fatal(err)
	}
	h := must(debug.New(&m, &debug.Options{Timeout: time.Hour})) // not a test of how fast the machine is
	for n, query := range []string{
		"?", "?c=inventory", "?c=inventory&order=next", "?c=inventory&order=age&q=07777", "?c=inventory&order=failures&q=tenant-5/resource",
		"?c=inventory&q=9999999", "?c=inventory&q=tenant-5/nothing", "?c=inventory&state=parked", "?c=inventory&state=delayed&order=next&from=4000000000000000.1",
		"?c=inventory&key=tenant-0/resource-0000000",
	} {
		format := []string{"html", "json", "text"}[n%3]
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		a := httptest.NewRecorder()
		h.ServeHTTP(a, httptest.NewRequest(http.MethodGet, "http://localhost/debug"+query+"&format="+format, nil))
		runtime.ReadMemStats(&after)
		if a.Code != http.StatusOK || a.Body.Len() > 200_000 {
			t.Errorf("%s as %s: %d, %d bytes", query, format, a.Code, a.Body.Len())
		}
		allocated := after.TotalAlloc - before.TotalAlloc
		if limit := uint64(8 << 20); allocated > limit {
			t.Errorf("%s as %s allocated %d bytes, want %d at most", query, format, allocated, limit)
		}
	}
	// The pages go on to the end, and hold what they should.
	seen := 0
	for q := (queue.PageOptions{Limit: 1000}); ; {
		p, err := inspected(c).Keys(t.Context(), "0007", &q)
		if err != nil {
			t.Fatal(err)
		}
		seen += len(p.Entries)
		if q.From = p.Next; !p.More {
			break
		}
	}
	want := 0
	for i := range keys {
		if strings.Contains(fmt.Sprintf("%07d", i), "0007") {
			want++
		}
	}
	if seen != want {
		t.Errorf("the pages hold %d keys, want %d", seen, want)
	}
}
