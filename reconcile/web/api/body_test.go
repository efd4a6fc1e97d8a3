package api_test

import (
	"errors"
	"net"
	"net/http"
	"os"
	"testing"
	"testing/synctest"

	"github.com/tendhq/tend/internal/pipes"
	"github.com/tendhq/tend/reconcile/web/api"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/objects"
)

// The body of a request that is refused, or that reads, was waited for without end.
//
// Negative control: mutant "a refusal of the api waits without end for a body".
func TestBodyThatIsNotReadIsNotWaitedForWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disks := must(store.New[spec, status](must(memory.New(nil)), "disk", nil))
		l := pipes.Serve(must(api.New([]objects.Kind{objects.Of(disks)}, &api.Options{Allow: func(_ *http.Request, a api.Access) error {
			if a.Writes() {
				return errors.New("read only")
			}
			return nil
		}})))
		defer l.Close()
		for i, c := range []net.Conn{
			l.Half("PUT", "/?kind=disk&key=a", "If-None-Match: *"), l.Half("GET", "/?kind=disk"), l.Half("GET", "/?kind=disk&key=a"),
			l.Half("PATCH", "/"), l.Half("GET", "/"), l.Half("GET", "/?kind=disk&watch=true"),
		} {
			if code, text, err := pipes.Answer(c); err != nil && (i < 5 || errors.Is(err, os.ErrDeadlineExceeded)) { // the watch breaks off
				t.Errorf("half a request is answered %d %s, %v", code, text, err)
			}
			c.Close()
		}
	})
}
