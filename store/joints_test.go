package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// An object that cannot be decoded ends no list: what comes after it is yielded too.
//
// Negative control: mutant "a list ends at what cannot be decoded".
func TestListGoesOnAfterWhatCannotBeDecoded(t *testing.T) {
	onBoth(t, func(t *testing.T, s *buckets) {
		for i := range 4 {
			must[*bucket](t)(s.Create(t.Context(), named(fmt.Sprint("b", i))))
		}
		for _, name := range []string{"a", "b1x", "z"} {
			putRaw(t, s.Backend(), named(name).Key(), "{")
		}
		whole, broken := 0, 0
		for o, err := range s.All(t.Context(), store.Selector{}) {
			var decode *store.DecodeError
			switch {
			case errors.As(err, &decode) && o == nil:
				broken++
			case err == nil:
				whole++
			default:
				t.Errorf("got %v, %v", o, err)
			}
		}
		if whole != 4 || broken != 3 {
			t.Errorf("%d objects and %d errors, want 4 and 3", whole, broken)
		}
	})
}

// A copy that is made again notices whatever has changed of an object since, not only its
// spec and status.
//
// Negative control: mutant "a copy is not compared in its observed generation".
func TestCopyComparesEverything(t *testing.T) {
	for what, edit := range map[string]func(s *buckets, o *bucket) (*bucket, error){
		"labels": func(s *buckets, o *bucket) (*bucket, error) {
			o.Labels = map[string]string{"a": "b"}
			return s.Update(t.Context(), o)
		},
		"finalizers": func(s *buckets, o *bucket) (*bucket, error) {
			o.Finalizers = []string{"f"}
			return s.Update(t.Context(), o)
		},
		"spec": func(s *buckets, o *bucket) (*bucket, error) { o.Spec.Region = "eu-2"; return s.Update(t.Context(), o) },
		"intent": func(s *buckets, o *bucket) (*bucket, error) {
			o.Intent.ExternalName = "x"
			return s.UpdateIntent(t.Context(), o)
		},
		"status": func(s *buckets, o *bucket) (*bucket, error) {
			o.Status.ARN = "x"
			return s.UpdateStatus(t.Context(), o)
		},
		"phase": func(s *buckets, o *bucket) (*bucket, error) { o.Phase = "Odd"; return s.UpdateStatus(t.Context(), o) },
		"observed": func(s *buckets, o *bucket) (*bucket, error) {
			o.ObservedGeneration = 1
			return s.UpdateStatus(t.Context(), o)
		},
		"conditions": func(s *buckets, o *bucket) (*bucket, error) {
			o.SetCondition(store.Condition{Type: "Odd", Status: store.True, Reason: "Odd"})
			return s.UpdateStatus(t.Context(), o)
		},
	} {
		t.Run(what, func(t *testing.T) {
			src, dst := newBuckets(t, newMemory(t, nil), nil), newBuckets(t, newMemory(t, nil), nil)
			o := must[*bucket](t)(src.Create(t.Context(), named("a")))
			if n, err := store.Copy(t.Context(), dst, src); n != 1 || err != nil {
				t.Fatalf("%d, %v", n, err)
			}
			before := o.Revision
			if o = must[*bucket](t)(edit(src, o)); o.Revision == before {
				t.Fatal("nothing was changed: this shows nothing")
			}
			n, err := store.Copy(t.Context(), dst, src)
			wantErr(t, fmt.Sprintf("a copy again, of %d", n), err, store.ErrConflict)
		})
	}
}

// rival is a backend in which another process commits just before the first commit of this one.
type rival struct {
	store.Backend
	first func(b store.Backend)
}

func (r *rival) Commit(ctx context.Context, t store.Txn) (store.Revision, error) {
	if f := r.first; f != nil {
		r.first = nil
		f(r.Backend)
	}
	return r.Backend.Commit(ctx, t)
}

// An object that could not be decoded, and was written since, is not deleted: it may be whole now.
//
// Seen to fail: with a condition on the revision of its creation alone it was.
func TestUndecodableObjectThatIsWrittenMeanwhileStays(t *testing.T) {
	m := newMemory(t, &memory.Options{Encode: true})
	at := named("a").Key()
	putRaw(t, m, at, "{")
	b := &rival{m, func(b store.Backend) { putRaw(t, b, at, `{"schema":1,"meta":{"uid":"u"},"spec":{},"status":{}}`) }}
	var conflict *store.ConflictError
	if err := newBuckets(t, b, nil).DeleteUndecodable(t.Context(), at); !errors.As(err, &conflict) {
		t.Errorf("got error %v, want a conflict", err)
	}
	if _, err := newBuckets(t, m, nil).Get(t.Context(), at); err != nil {
		t.Errorf("what was written meanwhile: %v", err)
	}
}

// Of two processes that make the id of an installation at once both have that of the first.
//
// Negative control: mutant "a process fails for another made the installation's id".
func TestInstallationMadeByAnotherCounts(t *testing.T) {
	other := ""
	r := &rival{newMemory(t, nil), func(b store.Backend) { other = must[string](t)(store.Installation(t.Context(), b)) }}
	if id, err := store.Installation(t.Context(), r); err != nil || id != other || id == "" {
		t.Errorf("%q, %v; want the other's %q", id, err, other)
	}
}

// Secrets are those of all objects given, in spec and status, and the longest first: what is
// left of one that begins with another would show it.
//
// Negative controls: mutants "the secrets of a status are shown", "the secrets of all objects
// but the first are shown" and "what is left of a secret that begins with another is shown".
func TestSecretsOfSpecAndStatusOfEachObject(t *testing.T) {
	type session struct {
		Cookie string `tend:"secret"`
	}
	s := must[*store.Store[login, session]](t)(store.New[login, session](newMemory(t, nil), "Vault", nil))
	a := &store.Object[login, session]{Spec: login{"anna", "first-secret"}, Status: session{"a-cookie"}}
	b := &store.Object[login, session]{Spec: login{"bert", "first-secret-and-more"}, Status: session{"b-cookie"}}
	const text = "x first-secret-and-more, first-secret; a-cookie/b-cookie"
	const want = "x (secret), (secret); (secret)/(secret)"
	for _, objects := range [][]*store.Object[login, session]{{a, b}, {b, a}, {nil, b, nil, a}} {
		if got := s.Redact(text, objects...); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := s.Redact(text, a); strings.Contains(got, "a-cookie") || !strings.Contains(got, "b-cookie") {
		t.Errorf("of the first alone: %q", got)
	}
}

// A panic with an error, whose text loses a secret, is still that error.
//
// Negative control: mutant "a panic that is redacted is no error any more".
func TestRedactedPanicIsStillWhatItWas(t *testing.T) {
	s := secretStore[login](t)
	o := &store.Object[login, struct{}]{Spec: login{"anna", "hunter22"}}
	defer func() {
		err, _ := recover().(error)
		if !errors.Is(err, io.ErrUnexpectedEOF) || err.Error() != "with (secret): unexpected EOF" {
			t.Errorf("panicked with %v", err)
		}
	}()
	defer s.RedactPanic(o)
	panic(fmt.Errorf("with hunter22: %w", io.ErrUnexpectedEOF))
}

// Negative control: mutant "a namespace may hold whatever it likes".
func TestKeysThatNoObjectCanHave(t *testing.T) {
	for what, key := range map[string]store.Key{
		"a control character in the namespace": {Namespace: "a\tb", Name: "x"},
		"another in the namespace":             {Namespace: "a\u0085", Name: "x"},
		"a namespace that is not UTF-8":        {Namespace: "\xff", Name: "x"},
		"a namespace that is too long":         {Namespace: strings.Repeat("n", store.MaxNamespace+1), Name: "x"},
		"a slash in the namespace":             {Namespace: "a/b", Name: "x"},
		"a control character in the name":      {Name: "a\x7f"},
		"a name that is not UTF-8":             {Name: "\xff"},
		"a name that is too long":              {Name: strings.Repeat("n", store.MaxName+1)},
		"no name":                              {Namespace: "a"},
	} {
		wantErr(t, what, key.Check(), store.ErrInvalid)
	}
	longest := store.Key{Namespace: strings.Repeat("n", store.MaxNamespace), Name: strings.Repeat("ä", store.MaxName/2)}
	if err := longest.Check(); err != nil {
		t.Errorf("the longest key: %v", err)
	}
}

// Negative control: mutant "the observed generation is no status".
func TestSameStatusIsAllThatUpdateStatusWrites(t *testing.T) {
	s := newBuckets(t, newMemory(t, nil), nil)
	for what, edit := range map[string]func(o *bucket){
		"status":     func(o *bucket) { o.Status.ARN = "x" },
		"phase":      func(o *bucket) { o.Phase = "Odd" },
		"observed":   func(o *bucket) { o.ObservedGeneration++ },
		"progress":   func(o *bucket) { o.SetProgressing("Odd", "") },
		"conditions": func(o *bucket) { o.Conditions = []store.Condition{{Type: "Odd", Status: store.True}} },
	} {
		a, b := named("a"), named("a")
		if edit(b); s.SameStatus(a, b) || !s.SameStatus(b, b) {
			t.Errorf("an object with another %s has the same status", what)
		}
	}
	a, b := named("a"), named("a")
	if b.Spec.Region, b.Labels = "x", map[string]string{"a": "b"}; !s.SameStatus(a, b) {
		t.Error("another spec is another status")
	}
}
