package program_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// Objects that the program cannot read are left, and need a person: one whose key to the
// encryption it does not have ends, and does not call what it cannot see as declared.
//
// Seen to fail without unreadable in Kind.look: the program ended well, with no object declared.
func TestWhatCannotBeDecodedIsLeft(t *testing.T) {
	for _, track := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b := must(memory.New(&memory.Options{Encode: true}))
			secret := store.EncryptionKey{ID: "one", Secret: bytes.Repeat([]byte("k"), 32)}
			encrypted := must(store.New(b, "site", &store.Options[spec, status]{Encryption: must(store.NewEncryption([]store.EncryptionKey{secret}, nil))}))
			var s *service
			s = newService(t, b, track, nil, func(ctx context.Context, o *site) (reconcile.Result, error) { return s.resize(ctx, o) })
			s.create(t, "plain")
			must(encrypted.Create(t.Context(), &site{Meta: store.Meta{Name: "sealed"}}))
			err := program.Run(t.Context(), &s.manager, s.once())
			var left *program.LeftError
			if !errors.As(err, &left) || !errors.Is(err, program.ErrStuck) || !errors.Is(err, store.ErrDecode) || len(left.Left) != 1 {
				t.Fatalf("tracked %v: ended with %v, want that one object is left that cannot be decoded", track, err)
			}
			if l := left.Left[0]; l.Key.Name != "sealed" || !l.Failing || !strings.Contains(l.Why, "Encryption") {
				t.Errorf("tracked %v: left is %+v", track, l)
			}
			if p := s.part.Progress(); p.Declared != 2 || p.Done != 1 || p.Stuck != 1 || p.Failing != 1 {
				t.Errorf("tracked %v: %+v", track, p)
			}
		})
	}
}

// An object that another writer makes unreadable, and one that goes while it is, are noticed though the
// cache has no change of it.
//
// Seen to fail without followUndecodable (the first program went on until its Timeout), and without
// unreadable in Kind.look (the second was complete at once).
func TestWhatCannotBeDecodedAnyMoreIsNoticed(t *testing.T) {
	broken := func(b store.Backend, put store.Value) {
		must(b.Commit(t.Context(), store.Txn{Ops: []store.Op{{Kind: "site", Key: siteA, Put: put}}}))
	}
	nothing := func(context.Context, *site) (reconcile.Result, error) { return reconcile.Result{}, nil }
	synctest.Test(t, func(t *testing.T) {
		b := must(memory.New(&memory.Options{Encode: true}))
		s := newService(t, b, false, nil, nothing)
		must(s.sites.Create(t.Context(), &site{Meta: store.Meta{Name: "a"}, Conditions: []store.Condition{{Type: store.ConditionReady, Status: store.False, Reason: "Waiting"}}}))
		ended := make(chan error, 1)
		go func() { ended <- program.Run(t.Context(), &s.manager, s.once()) }()
		time.Sleep(10 * time.Second)
		broken(b, store.Bytes("no object"))
		if err := <-ended; !errors.Is(err, program.ErrStuck) {
			t.Errorf("ended with %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := must(memory.New(&memory.Options{Encode: true}))
		s := newService(t, b, false, nil, nothing)
		broken(b, store.Bytes("no object"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		complete := false
		o := &program.Options{Parts: []program.Part{s.part}, Logger: quiet, Complete: func(context.Context) error { complete = true; cancel(); return nil }}
		ended := make(chan error, 1)
		go func() { ended <- program.Run(ctx, &s.manager, o) }()
		time.Sleep(10 * time.Second)
		if complete {
			t.Error("complete although an object cannot be decoded")
		}
		broken(b, nil)
		if check(t, <-ended); !complete {
			t.Error("not complete when it has gone")
		}
	})
}

// An object of a newer version needs a person too: this program does nothing about it.
//
// promise S5. Seen to fail with Left of the run's error alone: the program ended by its Timeout.
func TestWhatANewerVersionStoredIsStuck(t *testing.T) {
	for _, track := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b := must(memory.New(&memory.Options{Encode: true}))
			newer := must(store.New(b, "site", &store.Options[spec, status]{Version: 2}))
			o := &site{Meta: store.Meta{Name: "a", Generation: 1}}
			o.SetReady() // says the newer program; what that means is not known to this one
			must(newer.Create(t.Context(), o))
			var s *service
			done := &program.KindOptions[spec, status]{Done: func(*site) bool { return true }} // as it is read, in part
			s = newService(t, b, track, nil, func(ctx context.Context, o *site) (reconcile.Result, error) { return s.resize(ctx, o) }, done)
			err := program.Run(t.Context(), &s.manager, s.once())
			if !errors.Is(err, program.ErrStuck) || !strings.Contains(err.Error(), store.ErrNewer.Error()) {
				t.Errorf("tracked %v: ended with %v", track, err)
			}
		})
	}
}
