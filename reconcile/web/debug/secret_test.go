package debug_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tendhq/tend/metrics"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/event"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/lifecycle"
	"github.com/tendhq/tend/reconcile/web/debug"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
	kinds "github.com/tendhq/tend/store/objects"
)

type (
	login struct {
		User     string
		Password string `tend:"secret"`
	}
	vaultSpec struct {
		Login  login
		Logins []login
		ByName map[string]login
		Next   *login
		Tokens map[string]string `tend:"secret"`
		Key    []byte            `tend:"secret"`
	}
	vault = store.Object[vaultSpec, status]
)

// The secrets all hold marked, so that any trace of one is found.
const marked = "s3cr3t"

func secretSpec() vaultSpec {
	at := func(where string) login { return login{"anna", marked + `"` + where + "\n" + marked + "-second-line"} }
	next := at("pointer")
	return vaultSpec{
		Login: at("struct"), Logins: []login{at("slice")}, ByName: map[string]login{"x": at("map")}, Next: &next,
		Tokens: map[string]string{marked + "-key": marked + "-value"}, Key: []byte(marked + "-bytes"),
	}
}

// blab is what a careless client says: everything, in every way.
func blab(o *vault) string {
	text, err := json.Marshal(o.Spec)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("%s\n%+v %q %+v %s %x %v", text, o.Spec.Login, o.Spec.Logins, *o.Spec.Next, o.Spec.Key, o.Spec.Key, o.Spec.Tokens)
}

// blabber is a client and connector that fails in a way that its object's name
// says, and blabs.
func blabber(o *vault, calm bool) external.ClientFuncs[vaultSpec, status] {
	failing := func(what string) func(context.Context, *vault) error {
		return func(_ context.Context, o *vault) error {
			if o.Name == what {
				return errors.New(what + ": " + blab(o))
			}
			return nil
		}
	}
	return external.ClientFuncs[vaultSpec, status]{
		ObserveFunc: func(_ context.Context, o *vault) (external.Observation, error) {
			switch o.Name {
			case "observe":
				return external.Observation{}, reconcile.Terminal(errors.New(blab(o)))
			case "panic":
				if calm {
					return external.Observation{}, errors.New(blab(o))
				}
				panic(blab(o))
			case "condition":
				o.SetCondition(store.Condition{Type: "Seen", Status: store.True, Reason: "Seen", Message: blab(o)})
			}
			there := o.Name != "create" || o.Deleting()
			return external.Observation{Exists: there, Diff: blab(o)}, nil
		},
		CreateFunc: failing("create"), UpdateFunc: failing("update"), DeleteFunc: failing("delete"),
		CloseFunc: func(context.Context) error {
			if o.Name == "close" {
				return errors.New(blab(o))
			}
			return nil
		},
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

// Everything that the kernel says, walked through for a marked value: logs, the
// change log, events, conditions, plans, reports, snapshots of queues and controllers
// with the errors in them, metrics, health, the debug page in all its forms; from an
// external reconciler, from a lifecycle, from a plain function.
//
// Negative controls: the mutants "errors are shown as they come" and "the secret's
// tag is not looked at".
func TestSecretsAppearNowhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := map[string]string{}
		var logged lockedBuffer
		log := slog.New(slog.NewJSONHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
		var m reconcile.Manager
		m.Logger, m.Summary = log, time.Minute
		measures := metrics.New(&m)
		vaults := must(store.New[vaultSpec, status](must(measures.Measure("memory", must(memory.New(nil)))), "Vault", nil))
		var calm atomic.Bool // nothing panics: a plan would go down with it
		events := event.NewLog(nil)
		rec := must(external.New(vaults, external.ConnectorFunc[vaultSpec, status](func(_ context.Context, o *vault) (external.Client[vaultSpec, status], error) {
			if o.Name == "connect" {
				return nil, errors.New(blab(o))
			}
			return blabber(o, calm.Load()), nil
		}), &external.Options[vaultSpec, status]{Changes: external.LogChanges(log), Policy: func(o *vault) (external.Policy, error) {
			if o.Name == "policy" {
				return 0, errors.New(blab(o))
			}
			return external.All, nil
		}}))
		objects := must(cache.New(vaults, nil))
		options := &reconcile.Options[reconcile.Request]{Logger: log, Backoff: queue.Backoff{Base: time.Second, Max: time.Minute}}
		outside := must(reconcile.New("outside", rec, options))
		plain := must(reconcile.New("plain", reconcile.AsReconciler(objects, func(_ context.Context, o *vault) (reconcile.Result, error) {
			if o.Name == "panic" {
				panic(blab(o))
			}
			return reconcile.Result{}, errors.New(blab(o))
		}), options))
		cycle := must(reconcile.New("cycle", must(lifecycle.New(vaults, []lifecycle.Handler[vaultSpec, status]{{Name: "blab", Add: func(_ context.Context, o *vault) (reconcile.Result, error) {
			o.SetCondition(store.Condition{Type: "Blab", Status: store.True, Reason: "Blab", Message: blab(o)})
			return reconcile.Result{}, errors.New(blab(o))
		}}}, nil)), options))
		for _, c := range []*reconcile.Controller[reconcile.Request]{outside, plain, cycle} {
			if err := errors.Join(c.Watch(reconcile.From(objects)), m.Register(c)); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"connect", "observe", "create", "update", "delete", "close", "panic", "policy", "condition"} {
			_ = must(vaults.Create(t.Context(), &vault{Meta: store.Meta{Name: name}, Spec: secretSpec()}))
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(event.With(ctx, events.Record)) }() // ended and waited for below
		time.Sleep(5 * time.Second)
		if err := vaults.Delete(t.Context(), must(vaults.Get(t.Context(), store.Key{Name: "delete"}))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)

		inventory := must(external.NewInventory(&external.InventoryOptions[vaultSpec, status, string]{
			Store: vaults, Installation: "here",
			List: func(context.Context) iter.Seq2[string, error] {
				return func(yield func(string, error) bool) { yield("update", nil) }
			},
			Get: func(_ context.Context, id string) (string, bool, error) { return id, true, nil }, ID: func(r string) string { return r },
			IDOf: func(o *vault) string { return o.Name }, Owner: func(string) (external.Mark, bool) { return external.Mark{}, false },
			Compare: func(o *vault, _ string) external.Observation {
				return external.Observation{Owner: external.Ours, Diff: blab(o)}
			},
		}))
		report := must(json.Marshal(must(inventory.Report(t.Context()))))
		said["the report"] = string(report)
		calm.Store(true)
		plan := must(rec.Plan(t.Context()))
		said["the plan"] = string(must(json.Marshal(plan)))
		var text bytes.Buffer
		if err := plan.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		said["the plan as text"] = text.String()
		said["the events"] = fmt.Sprintf("%+v", events.Events("", store.Key{}, 0))
		for o, err := range vaults.All(t.Context(), store.Selector{}) {
			if err != nil {
				t.Fatal(err)
			}
			said["the conditions"] += fmt.Sprintf("%+v", o.Conditions)
		}
		quiet := map[string]string{} // what has no place for a text that was redacted
		registry := prometheus.NewRegistry()
		if err := registry.Register(measures); err != nil {
			t.Fatal(err)
		}
		quiet["the metrics"] = fmt.Sprint(must(registry.Gather()))
		quiet["the health report"] = fmt.Sprintf("%+v", m.Health())
		for _, c := range []*reconcile.Controller[reconcile.Request]{outside, plain, cycle} {
			quiet["the controllers' snapshots"] += string(must(json.Marshal(c.Snapshot()))) + string(must(json.Marshal(c.Queue().Stats())))
			for e := range c.Queue().Snapshot() {
				said["the queues' snapshots"] += fmt.Sprintf("%+v", e)
			}
			said["the pages of keys"] += string(must(json.Marshal(must(inspected(c).Keys(t.Context(), "", &queue.PageOptions{Limit: 1000})))))
		}
		h := must(debug.New(&m, &debug.Options{Events: events, Inventories: []debug.Inventory{inventory}, Objects: []kinds.Kind{kinds.Of(vaults)}, Logger: log}))
		for _, format := range []string{"html", "json", "text"} {
			for _, pairs := range [][]string{
				nil,
				{"c", "outside"},
				{"c", "plain"},
				{"c", "cycle"},
				{"c", "outside", "key", "create"},
				{"c", "plain", "key", "panic"},
				{"view", "events"},
				{"view", "objects", "kind", vaults.Kind()},
				{"view", "object", "kind", vaults.Kind(), "key", "create"},
				{"view", "object", "kind", vaults.Kind(), "key", "condition"},
				{"view", "search", "q", "create"},
				{"view", "drift", "kind", "Vault", "list", "different"},
			} {
				said["the debug page as "+format] += get(t, h, http.StatusOK, append(pairs, "format", format)...)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		said["the log"] = logged.String()
		for what, text := range quiet {
			if len(text) < 100 {
				t.Errorf("%s holds next to nothing: this test would not see a secret\n%s", what, text)
			}
			said[what] = text + store.Redacted
		}
		for what, text := range said {
			if !strings.Contains(text, store.Redacted) {
				t.Errorf("%s holds no secret at all: this test would not see one\n%.2000s", what, text)
			}
			for _, form := range []string{marked, "second-line", fmt.Sprintf("%x", marked), "czNjcjN0"} { // the last is base64
				if i := strings.Index(text, form); i >= 0 {
					t.Errorf("%s holds %q: …%s…", what, form, text[max(0, i-200):min(len(text), i+100)])
				}
			}
		}
		// The code that is meant to have it has it.
		if o := must(vaults.Get(context.Background(), store.Key{Name: "create"})); o.Spec.Login != secretSpec().Login {
			t.Errorf("the store holds %+v", o.Spec.Login)
		}
	})
}
