package debug_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/web/debug"
)

// A page about a manager, served beside whatever else the program serves, and
// read with curl.
func Example() {
	bucket, _ := reconcile.New("buckets", reconcile.Func[string](func(context.Context, string) (reconcile.Result, error) {
		return reconcile.Result{}, nil
	}), nil)
	var manager reconcile.Manager
	if err := manager.Register(bucket); err != nil {
		panic(err)
	}
	page, err := debug.New(&manager, nil)
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/debug", page)

	_ = bucket.Add("logs") // nothing runs yet
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest("GET", "http://localhost/debug?c=buckets&key=logs&format=text", nil))
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "state") || strings.HasPrefix(line, "why") {
			fmt.Print(line)
		}
	}
	// Output:
	// state                  ready
	// why it is not running  this server holds no lease
}

// Actions are there once Authorise says which requests may ask for them.
func ExampleOptions() {
	var manager reconcile.Manager
	_, err := debug.New(&manager, &debug.Options{
		Authorise: func(r *http.Request, a debug.Action) error {
			if user, _, _ := r.BasicAuth(); user != "operator" {
				return fmt.Errorf("%s is for operators", a.Do)
			}
			return nil
		},
	})
	fmt.Println(err)
	// Output: <nil>
}
