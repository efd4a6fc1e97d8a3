package joints_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/web/debug"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/objects"
)

// The page answers by the condition, as the object does, and not by the phase.
func TestPageAndObjectAgreeOnWhatIsAsDeclared(t *testing.T) {
	type object = store.Object[spec, status]
	for name, c := range map[string]struct {
		say  func(o *object)
		want string
	}{
		"ready": {(*object).SetReady, "the 1 object is as declared."},
		"ready phase": {func(o *object) {
			o.SetReady()
			o.SetCondition(store.Condition{Type: store.ConditionReady, Status: store.False})
		}, "1 of 1 object is not as declared yet"},
		"ready condition": {func(o *object) { o.SetCondition(store.Condition{Type: store.ConditionReady, Status: store.True}) }, "the 1 object is as declared."},
	} {
		s := must(store.New[spec, status](must(memory.New(nil)), "thing", nil))
		must(s.Create(t.Context(), poison("a")))
		o := must(s.Mutate(t.Context(), key("a"), func(o *object) error { c.say(o); return nil }))
		h := must(debug.New(new(reconcile.Manager), &debug.Options{Objects: []objects.Kind{objects.Of(s)}}))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/?format=text", nil))
		if !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: the page does not say %q:\n%.300s", name, c.want, w.Body)
		}
		if ready := strings.HasPrefix(c.want, "the 1"); o.Ready() != ready {
			t.Errorf("%s: Ready is %v", name, o.Ready())
		}
	}
}
