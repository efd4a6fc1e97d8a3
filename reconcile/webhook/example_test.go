package webhook_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/webhook"
)

// A webhook of a code host: each call is signed over its body with a secret that both
// sides know.
func Example() {
	secret := []byte("from a file that only this process may read")
	signature := func(body []byte) []byte {
		mac := hmac.New(sha256.New, secret)
		mac.Write(body)
		return []byte("sha256=" + hex.EncodeToString(mac.Sum(nil)))
	}
	hook, err := webhook.New("pushes", &webhook.Options[string]{
		Auth: func(r *http.Request, body []byte) error {
			if !hmac.Equal([]byte(r.Header.Get("X-Hub-Signature-256")), signature(body)) {
				return errors.New("wrong signature")
			}
			return nil
		},
		Keys: func(_ *http.Request, body []byte) ([]string, error) {
			var push struct{ Repository struct{ Name string } }
			err := json.Unmarshal(body, &push)
			return []string{push.Repository.Name}, err
		},
	})
	check(err)
	ctx, stop := context.WithCancel(context.Background())
	controller, err := reconcile.New("mirror", reconcile.Func[string](func(_ context.Context, repository string) (reconcile.Result, error) {
		fmt.Println("mirror", repository)
		stop()
		return reconcile.Result{}, nil
	}), nil)
	check(err)
	check(controller.Watch(hook.Source()))
	done := make(chan error, 1)
	go func() { done <- controller.Run(ctx) }()

	body := `{"repository": {"name": "tend"}}`
	for _, signed := range []string{"sha256=00", string(signature([]byte(body)))} {
		for { // until the controller runs the source
			r := httptest.NewRequest(http.MethodPost, "/hooks/pushes", strings.NewReader(body))
			r.Header.Set("X-Hub-Signature-256", signed)
			w := httptest.NewRecorder()
			hook.ServeHTTP(w, r)
			if w.Code != http.StatusServiceUnavailable {
				fmt.Println(w.Code)
				break
			}
		}
	}
	check(<-done)
	// Unordered output:
	// 401
	// 202
	// mirror tend
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
