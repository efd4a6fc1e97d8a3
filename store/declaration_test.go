package store_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

type declaredSpec struct {
	Size  int64    `json:"size"`
	Zones []string `json:"zones"`
}

// What a Declaration makes of a stored object is what Update makes of it.
func TestDeclarationChangesWhatUpdateChanges(t *testing.T) {
	b, err := memory.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	s, err := store.New[declaredSpec, struct{}](b, "Thing", nil)
	if err != nil {
		t.Fatal(err)
	}
	object := func(size int64, labels map[string]string, zones ...string) *store.Object[declaredSpec, struct{}] {
		o := &store.Object[declaredSpec, struct{}]{Spec: declaredSpec{Size: size, Zones: zones}}
		o.Name, o.Labels = "a", labels
		return o
	}
	declare := func(o *store.Object[declaredSpec, struct{}]) store.Declaration {
		t.Helper()
		d, err := s.Declaration(o)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	read := func(data []byte) *store.Object[declaredSpec, struct{}] {
		t.Helper()
		o, err := s.Decode(store.Record{Kind: "Thing", Key: store.Key{Name: "a"}, Revision: 7, Bytes: data})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	const large = 1<<60 + 1 // a float would lose its last digit
	first := declare(object(large, map[string]string{"team": "a"})).Value
	born := read(first)
	if born.Generation != 1 || born.UID == "" || born.Spec.Size != large {
		t.Errorf("declared: %+v", born)
	}

	same, err := declare(object(large, map[string]string{"team": "a"}, []string{}...)).Over(first)
	if err != nil || same != nil {
		t.Errorf("the same declaration again: %s, error %v, want no change", same, err)
	}
	labelled, err := declare(object(large, map[string]string{"tier": "b"})).Over(first)
	if err != nil {
		t.Fatal(err)
	}
	if o := read(labelled); o.Generation != 1 || o.Labels["team"] != "a" || o.Labels["tier"] != "b" || o.UID != born.UID {
		t.Errorf("another label: %+v", o)
	}
	grown, err := declare(object(5, nil, "z")).Over(labelled)
	if err != nil {
		t.Fatal(err)
	}
	if o := read(grown); o.Generation != 2 || o.Spec.Size != 5 || len(o.Spec.Zones) != 1 || len(o.Labels) != 2 || !o.Created.Equal(born.Created) {
		t.Errorf("another spec: %+v", o)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(grown, &fields); err != nil {
		t.Fatal(err)
	}
	fields["unknown"] = json.RawMessage(`{"kept":12345678901234567890}`)
	withUnknown, _ := json.Marshal(fields)
	after, err := declare(object(6, nil)).Over(withUnknown)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(after, &fields); err != nil || string(fields["unknown"]) != `{"kept":12345678901234567890}` {
		t.Errorf("a field that the program does not know became %s, error %v", fields["unknown"], err)
	}
}

// A declaration leaves the room that any object needs for what is added to it later (see
// MaxObject), as an edit does, and makes no larger what is over that bound already.
//
// Negative control: with MaxValue for the bound the result could not be deleted.
func TestDeclarationOverLeavesRoom(t *testing.T) {
	value := func(size int) []byte {
		head, tail := `{"meta":{"generation":1},"schema":1,"spec":{"text":"`, `"}}`
		return []byte(head + strings.Repeat("x", size-len(head)-len(tail)) + tail)
	}
	small := value(100)
	for _, c := range []struct {
		stored []byte
		size   int
		ok     bool
	}{
		{small, store.MaxObject, true},
		{small, store.MaxObject + 1, false},
		{small, store.MaxValue, false},
		{value(store.MaxObject + 100), store.MaxObject + 99, true},
		{value(store.MaxObject + 100), store.MaxObject + 101, false},
	} {
		d := store.Declaration{Kind: "Thing", Key: store.Key{Name: "a"}, Value: value(c.size)}
		next, err := d.Over(c.stored)
		if c.ok && (err != nil || len(next) != c.size) || !c.ok && (!errors.Is(err, store.ErrInvalid) || next != nil) {
			t.Errorf("%d bytes over %d: %d bytes, error %v; want it done: %v", c.size, len(c.stored), len(next), err, c.ok)
		}
	}
}

func TestDeclarationOverWhatItMayNotChange(t *testing.T) {
	d := store.Declaration{Kind: "Thing", Key: store.Key{Name: "a"}, Value: []byte(`{"schema":1,"meta":{"name":"a","generation":1},"spec":{}}`)}
	for stored, want := range map[string]error{
		`{"schema":2,"meta":{"name":"a","generation":1},"spec":{}}`:                                       store.ErrNewer,
		`{"schema":1,"meta":{"name":"a","generation":1,"deleted":"2026-01-01T00:00:00Z"},"spec":{"x":1}}`: store.ErrDeleting,
		`{"schema":1,"meta":{"name":"a"},"spec":{"x":1}}`:                                                 store.ErrDecode,
		`{"schema":1,"meta":{"generation":1},"later":` + nest(store.MaxDepth) + `}`:                       store.ErrDecode,
		`null`: store.ErrDecode,
		`{}`:   store.ErrDecode,
		`not`:  store.ErrDecode,
		`{"schema":1,"meta":{"generation":1},"spec":{}} {}`: store.ErrDecode,
	} {
		if next, err := d.Over([]byte(stored)); !errors.Is(err, want) || next != nil {
			t.Errorf("Over(%s) = %s, error %v, want %v", stored, next, err, want)
		}
	}
}

// A declaration whose bytes are damaged is an error, over an object and where none is.
func TestDamagedDeclarationIsAnError(t *testing.T) {
	whole := `{"schema":1,"meta":{"name":"a","generation":1},"spec":{"x":1},"converts":true}`
	for _, cut := range []int{0, 1, len(whole) / 2, len(whole) - 1} {
		d := store.Declaration{Kind: "Thing", Key: store.Key{Name: "a"}, Value: []byte(whole[:cut])}
		if next, err := d.Over([]byte(whole)); !errors.Is(err, store.ErrDecode) || next != nil {
			t.Errorf("%s over an object: %s, error %v, want ErrDecode", d.Value, next, err)
		}
		d.Value = append(d.Value, `"converts"`...)
		if next, err := d.Stored(); !errors.Is(err, store.ErrDecode) || next != nil {
			t.Errorf("%s where no object is: %s, error %v, want ErrDecode", d.Value, next, err)
		}
	}
	d := store.Declaration{Kind: "Thing", Key: store.Key{Name: "a"}, Value: []byte(whole)}
	if next, err := d.Stored(); err != nil || !strings.Contains(string(next), `"spec":{"x":1}`) || strings.Contains(string(next), "converts") {
		t.Errorf("whole it is stored as %s, error %v", next, err)
	}
}

// What a declaration changes is stored in its version, where an earlier one differs in nothing but new fields.
func TestDeclarationOverAnEarlierVersionIsOfItsOwn(t *testing.T) {
	s := newBuckets(t, newMemory(t, nil), &store.Options[bucketSpec, bucketStatus]{Version: 2})
	d := must[store.Declaration](t)(s.Declaration(named("a")))
	const stored = `{"schema":1,"meta":{"namespace":"prod","name":"a","uid":"u","generation":1},"spec":{"region":"eu-9"},"status":{}}`
	now := string(must[[]byte](t)(d.Over([]byte(stored))))
	if !strings.Contains(now, `"schema":2`) || !strings.Contains(now, `"eu-1"`) || !strings.Contains(now, `"uid":"u"`) {
		t.Errorf("it is stored as %s", now)
	}
}
