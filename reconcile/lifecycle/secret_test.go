package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

type safeSpec struct {
	Code string `tend:"secret"`
}

type safe = store.Object[safeSpec, struct{}]

const code = "open-sesame-4711"

func newSafes(t *testing.T) *store.Store[safeSpec, struct{}] {
	t.Helper()
	b, err := memory.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	s, err := store.New[safeSpec, struct{}](b, "safe", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(t.Context(), &safe{Meta: store.Meta{Name: "a"}, Spec: safeSpec{Code: code}}); err != nil {
		t.Fatal(err)
	}
	return s
}

// replaceSafe deletes the object, and makes another of its name if again is set.
func replaceSafe(t *testing.T, s *store.Store[safeSpec, struct{}], again bool) {
	t.Helper()
	o, err := s.Get(t.Context(), key("a"))
	if err == nil {
		err = s.Delete(t.Context(), o)
	}
	if err == nil && again {
		_, err = s.Create(t.Context(), &safe{Meta: store.Meta{Name: "a"}, Spec: safeSpec{Code: "another-one"}})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A simple handler is shown an object that is no more, with its secrets: what it says
// of it is logged and shown like any other error.
//
// Negative control: with only the object of the run in what is taken out, there was
// none, or one with other secrets.
func TestSecretsOfAnObjectThatIsGoneAreTakenOut(t *testing.T) {
	for name, again := range map[string]bool{"gone": false, "another of its name": true} {
		for how, fail := range map[string]func(text string) error{
			"error": func(text string) error { return errors.New(text) },
			"panic": func(text string) error { panic(text) },
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				s := newSafes(t)
				l, err := New(s, []Handler[safeSpec, struct{}]{{Simple: true, Delete: func(_ context.Context, o *safe) (reconcile.Result, error) {
					return reconcile.Result{}, fail("cannot close " + o.Spec.Code)
				}}}, nil)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := l.Reconcile(t.Context(), key("a")); err != nil {
					t.Fatal(err)
				}
				replaceSafe(t, s, again)
				text := func() (text string) {
					defer func() {
						if p := recover(); p != nil {
							text = fmt.Sprint(p)
						}
					}()
					_, err := l.Reconcile(t.Context(), key("a"))
					return err.Error()
				}()
				if !strings.Contains(text, "cannot close "+store.Redacted) {
					t.Errorf("%q, want it with the secret taken out", text)
				}
			})
		}
	}
}

type failingSafes struct{ text string }

func (p failingSafes) CreateOrUpdate(context.Context, *safe, struct{}, struct{}) (reconcile.Result, error) {
	return reconcile.Result{}, errors.New(p.text)
}

func (p failingSafes) Delete(context.Context, *safe, struct{}, struct{}) (reconcile.Result, error) {
	return reconcile.Result{}, errors.New(p.text)
}

// A condition holds so many bytes of a message, and half a secret is no secret that
// could be found.
//
// Negative control: with the message cut first, it ended in "open-se…".
func TestSecretAtTheEndOfAMessageIsNotCutInTwo(t *testing.T) {
	text := strings.Repeat("x", store.MaxMessage-10) + code
	for name, build := range map[string]func(s *store.Store[safeSpec, struct{}]) (*Lifecycle[safeSpec, struct{}], error){
		"provider": func(s *store.Store[safeSpec, struct{}]) (*Lifecycle[safeSpec, struct{}], error) {
			return NewProvider[safeSpec, struct{}, struct{}, struct{}](s, failingSafes{text}, StaticConfig(struct{}{}), nil, nil)
		},
		"handlers": func(s *store.Store[safeSpec, struct{}]) (*Lifecycle[safeSpec, struct{}], error) {
			fail := func(context.Context, *safe) (reconcile.Result, error) {
				return reconcile.Result{}, errors.New(text[len("handler: "):])
			}
			return New(s, []Handler[safeSpec, struct{}]{{Add: fail, Resync: fail}}, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSafes(t)
			l, err := build(s)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.Reconcile(t.Context(), key("a")); err == nil || strings.Contains(err.Error(), "open") {
				t.Fatalf("%v, want an error without the secret", err)
			}
			o, err := s.Get(t.Context(), key("a"))
			if err != nil {
				t.Fatal(err)
			}
			if c, _ := o.Condition(store.ConditionReady); !strings.Contains(c.Message, "xxxx") || strings.Contains(c.Message, "ope") {
				t.Errorf("the condition says …%s", c.Message[max(0, len(c.Message)-40):])
			}
		})
	}
}

// A failure is remembered, and told again, when the object has other secrets already.
//
// Negative control: remembered as it came, the condition had the secret of before.
func TestSecretOfBeforeIsNotInAFailureThatIsStillToldOf(t *testing.T) {
	s := newSafes(t)
	fails := Handler[safeSpec, struct{}]{
		Name: "fails",
		Add: func(_ context.Context, o *safe) (reconcile.Result, error) {
			return reconcile.Result{}, errors.New("cannot open with " + o.Spec.Code)
		},
		Retry:     func(int, error) time.Duration { return time.Hour },
		Supersede: func(Pending[safeSpec, struct{}]) bool { return false },
	}
	l, err := New(s, []Handler[safeSpec, struct{}]{fails, {Name: "works"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := l.Reconcile(t.Context(), key("a")); err != nil && strings.Contains(err.Error(), code) {
			t.Error(err)
		}
		o, err := s.Get(t.Context(), key("a"))
		if err != nil {
			t.Fatal(err)
		}
		if c, _ := o.Condition(store.ConditionReady); c.Message != "fails: cannot open with "+store.Redacted {
			t.Errorf("the condition says %q", c.Message)
		}
		o.Spec.Code = "another-one"
		if _, err := s.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}
