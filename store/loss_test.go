package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/netip"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// A field of which only the case changed is the same one, as it is for encoding/json: what
// was stored under the name of before must not come back over what is written.
func TestFieldWhoseNameChangedItsCaseIsNotKeptAsUnknown(t *testing.T) {
	type before struct {
		User string `json:"userId,omitempty"`
		More string `json:"more"`
	}
	type after struct {
		User string `json:"userID,omitempty"`
	}
	b := newMemory(t, &memory.Options{Encode: true})
	old := must[*store.Store[before, struct{}]](t)(store.New[before, struct{}](b, "User", nil))
	now := must[*store.Store[after, struct{}]](t)(store.New[after, struct{}](b, "User", nil))
	made := must[*store.Object[before, struct{}]](t)(old.Create(t.Context(), &store.Object[before, struct{}]{Meta: store.Meta{Name: "a"}, Spec: before{"one", "kept"}}))
	for _, id := range []string{"two", ""} {
		o := must[*store.Object[after, struct{}]](t)(now.Get(t.Context(), made.Key()))
		o.Spec.User = id
		must[*store.Object[after, struct{}]](t)(now.Update(t.Context(), o))
		o = must[*store.Object[after, struct{}]](t)(now.Get(t.Context(), made.Key()))
		if o.Spec.User != id {
			t.Errorf("the field is read back as %q, want %q", o.Spec.User, id)
		}
	}
	if o := must[*store.Object[before, struct{}]](t)(old.Get(t.Context(), made.Key())); o.Spec.More != "kept" {
		t.Errorf("the unknown field is %q, want kept", o.Spec.More)
	}
}

// What netip cannot write as a text that it reads is refused, and is not stored as an object
// that can never be read again.
func TestAddressesThatTextCannotSayAreRefused(t *testing.T) {
	type spec struct {
		Net  netip.Prefix         `json:"net"`
		Port netip.AddrPort       `json:"port"`
		Addr netip.Addr           `json:"addr"`
		Nets map[netip.Prefix]int `json:"nets"`
	}
	addr := netip.MustParseAddr("10.0.0.1")
	for _, o := range []*memory.Options{nil, {Encode: true}} {
		s := must[*store.Store[spec, struct{}]](t)(store.New[spec, struct{}](newMemory(t, o), "Net", nil))
		for name, x := range map[string]spec{
			"prefix":    {Net: netip.PrefixFrom(addr, 99)},
			"no prefix": {Net: netip.PrefixFrom(addr, -1)},
			"port":      {Port: netip.AddrPortFrom(netip.Addr{}, 80)},
			"zone":      {Addr: netip.MustParseAddr("fe80::1").WithZone("\xff")},
			"key":       {Nets: map[netip.Prefix]int{netip.PrefixFrom(addr, 99): 1}},
			"good": {
				netip.MustParsePrefix("10.0.0.0/8"), netip.AddrPortFrom(addr, 80), netip.MustParseAddr("fe80::1%eth0"),
				map[netip.Prefix]int{netip.MustParsePrefix("10.0.0.0/8"): 1},
			},
			"zero": {},
		} {
			made, err := s.Create(t.Context(), &store.Object[spec, struct{}]{Meta: store.Meta{Name: name}, Spec: x})
			if errors.Is(err, store.ErrInvalid) && name != "good" && name != "zero" {
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			got, err := s.Get(t.Context(), made.Key())
			if err != nil {
				t.Errorf("%s: was stored, and cannot be read: %v", name, err)
			} else if !reflect.DeepEqual(got.Spec, x) {
				t.Errorf("%s: stored %v, read back %v", name, x, got.Spec)
			}
		}
	}
}

// oneWatch is a backend whose first watches are given.
type oneWatch struct {
	store.Backend
	watches []func(yield func(store.Batch, error) bool)
}

func (b *oneWatch) Watch(ctx context.Context, kind string, after store.Revision) iter.Seq2[store.Batch, error] {
	if len(b.watches) == 0 {
		return b.Backend.Watch(ctx, kind, after)
	}
	w := b.watches[0]
	b.watches = b.watches[1:]
	return w
}

// An object that is deleted while a watch is broken is missing from the snapshot with which the
// watch begins again, also if a change of it was seen before.
func TestWaitReadyNoticesADeletionBehindACompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newMemory(t, &memory.Options{Encode: true})
		b := &oneWatch{Backend: inner}
		s := newBuckets(t, b, nil)
		o := must[*bucket](t)(s.Create(t.Context(), named("a")))
		b.watches = append(b.watches, func(yield func(store.Batch, error) bool) {
			o.SetProgressing("Creating", "")
			o = must[*bucket](t)(s.UpdateStatus(t.Context(), o))
			r := must[store.Record](t)(inner.Get(t.Context(), "Bucket", o.Key()))
			if !yield(store.Batch{Kind: store.BatchChanges, Revision: r.Revision, Changes: []store.Change{{Record: r}}}, nil) {
				return
			}
			if err := s.Delete(t.Context(), o); err != nil {
				t.Error(err)
			}
			yield(store.Batch{}, store.ErrCompacted)
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := s.WaitReady(ctx, o.Key())
		wantErr(t, "WaitReady", err, store.ErrNotFound)
	})
}

// An object without bytes cannot be decoded, and is not shown as neither there nor broken.
func TestWatchSaysThatAnObjectWithoutBytesIsBroken(t *testing.T) {
	b := newMemory(t, nil)
	s := newBuckets(t, b, nil)
	must[store.Revision](t)(b.Commit(t.Context(), store.Txn{Ops: []store.Op{{Kind: "Bucket", Key: named("a").Key(), Put: store.Bytes(nil)}}}))
	for e, err := range s.Watch(t.Context(), 0) {
		if wantErr(t, "the event", e.Err, store.ErrDecode); err != nil || e.Object != nil || e.Key != named("a").Key() {
			t.Errorf("got %+v, %v", e, err)
		}
		break
	}
}

// SetCondition reports no change if only Since is filled in.
func TestSinceAloneIsNoChangeOfACondition(t *testing.T) {
	zone := time.FixedZone("", 3600)
	for what, since := range map[string]time.Time{"no time": {}, "another zone": time.Date(2020, 1, 2, 3, 4, 5, 6, zone)} {
		o := named("a")
		o.Conditions = []store.Condition{{Type: "Ready", Status: store.True, Since: since}}
		if o.SetCondition(store.Condition{Type: "Ready", Status: store.True}) {
			t.Errorf("%s: a change is reported", what)
		}
		if o.Conditions[0].Since.IsZero() || !since.IsZero() && !o.Conditions[0].Since.Equal(since) {
			t.Errorf("%s: since is %v", what, o.Conditions[0].Since)
		}
	}
}

// A json.Number is stored as it is written.
func TestNumbersOfAnyLengthAreKept(t *testing.T) {
	type spec struct {
		N json.Number     `json:"n"`
		R json.RawMessage `json:"r"`
	}
	s := must[*store.Store[spec, struct{}]](t)(store.New[spec, struct{}](newMemory(t, &memory.Options{Encode: true}), "N", nil))
	for _, n := range []string{"12345678901234567890123", "0.12345678901234567890", "1e400", "-0", "1.0"} {
		o := &store.Object[spec, struct{}]{Meta: store.Meta{Name: n}, Spec: spec{json.Number(n), json.RawMessage(`{"x":` + n + `}`)}}
		must[*store.Object[spec, struct{}]](t)(s.Create(t.Context(), o))
		got := must[*store.Object[spec, struct{}]](t)(s.Get(t.Context(), o.Key()))
		if string(got.Spec.N) != n || string(got.Spec.R) != `{"x":`+n+`}` {
			t.Errorf("%s is read back as %s and %s", n, got.Spec.N, got.Spec.R)
		}
	}
}
