//go:build peers

package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/reconciletest"
)

// guide: adapter

// adapt runs a reconciler that was written for controller-runtime.
func adapt(r ctrl.Reconciler) reconcile.Func[reconcile.Request] {
	return func(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
		ctx = logr.NewContext(ctx, logr.FromSlogHandler(reconcile.Logger(ctx).Handler())) // for log.FromContext
		var request ctrl.Request
		request.Namespace, request.Name = key.Namespace, key.Name
		result, err := r.Reconcile(ctx, request)
		if errors.Is(err, ctrl.TerminalError(nil)) {
			err = reconcile.Terminal(err)
		}
		return resultOf(result), err
	}
}

// guide: end

// resultOf copies the fields of a result, the deprecated one too: old reconcilers use it.
func resultOf(r ctrl.Result) reconcile.Result {
	return reconcile.Result{Requeue: r.Requeue, RequeueAfter: r.RequeueAfter} //nolint:staticcheck // SA1019: controller-runtime still has Requeue, and this carries it over
}

// A reconciler of controller-runtime gets its key, and what it returns means what it
// means there.
func TestReconcilerOfControllerRuntimeRunsHere(t *testing.T) {
	broken := errors.New("broken")
	theirs := ctrl.Func(func(_ context.Context, r ctrl.Request) (ctrl.Result, error) {
		switch r.String() {
		case "a/later":
			return ctrl.Result{RequeueAfter: time.Hour}, nil
		case "a/again":
			return ctrl.Result{Requeue: true}, nil //nolint:staticcheck // SA1019: controller-runtime still has Requeue, and this carries it over
		case "a/fails":
			return ctrl.Result{}, broken
		case "a/never":
			return ctrl.Result{}, ctrl.TerminalError(broken)
		}
		return ctrl.Result{}, nil
	})
	for name, want := range map[string]struct {
		result   reconcile.Result
		err      error
		terminal bool
	}{
		"done":  {},
		"later": {result: reconcile.Result{RequeueAfter: time.Hour}},
		"again": {result: reconcile.Result{Requeue: true}},
		"fails": {err: broken},
		"never": {err: broken, terminal: true},
	} {
		got := reconciletest.RunOne(t.Context(), adapt(theirs), reconcile.Request{Namespace: "a", Name: name})
		if got.Result != want.result || !errors.Is(got.Err, want.err) || errors.Is(got.Err, reconcile.ErrTerminal) != want.terminal {
			t.Errorf("%s: %+v, %v; want %+v, %v, terminal %v", name, got.Result, got.Err, want.result, want.err, want.terminal)
		}
	}
}

// It runs in a controller, is tried again after an error, and logs with the run's logger.
func TestControllerRunsAReconcilerOfControllerRuntime(t *testing.T) {
	var log lockedBuilder
	ctx, stop := context.WithCancel(t.Context())
	runs := 0
	controller, err := reconcile.New("theirs", adapt(ctrl.Func(func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
		if runs++; runs < 3 {
			return ctrl.Result{}, fmt.Errorf("run %d", runs)
		}
		logr.FromContextOrDiscard(ctx).Info("done", "request", r.String())
		stop()
		return ctrl.Result{}, nil
	})), &reconcile.Options[reconcile.Request]{
		Backoff: queue.Backoff{Base: time.Millisecond, Max: time.Millisecond},
		Logger:  slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := controller.Add(reconcile.Request{Name: "x"}); err != nil {
		t.Fatal(err)
	}
	if err := controller.Run(ctx); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"msg=done", "controller=theirs", "key=x", "attempt=2", "request=/x"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %s:\n%s", want, log.String())
		}
	}
}

type lockedBuilder struct {
	mu sync.Mutex // guards text
	strings.Builder
}

func (b *lockedBuilder) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Builder.Write(p)
}

func (b *lockedBuilder) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Builder.String()
}
