package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// placed has a value in each place that a field of a spec or status can be.
type placed[T any] struct {
	Field  T
	Ptr    *T
	List   []T
	Array  [3]T
	ByName map[string]T
	Lists  [][]T
	Deep   struct{ In []map[string]*T }
	promoted[T]
	Last T
}

// promoted is embedded, and its name is not exported; its field is.
type promoted[T any] struct{ Promoted T }

// everywhere has good in all places, and at least twice where there is room for several.
func everywhere[T any](good T) placed[T] {
	p := placed[T]{
		Field: good, Ptr: &good, List: []T{good, good, good}, Array: [3]T{good, good, good}, ByName: map[string]T{"a": good, "b": good},
		Lists: [][]T{{good}, {good, good, good}}, promoted: promoted[T]{good}, Last: good,
	}
	first, second := good, good
	p.Deep.In = []map[string]*T{{"a": &first}, {"b": &second}}
	return p
}

// places has v in one place and good in all others, by place.
func places[T any](good, v T) map[string]placed[T] {
	all := make(map[string]placed[T])
	for place, set := range map[string]func(p *placed[T]){
		"a field":                  func(p *placed[T]) { p.Field = v },
		"a pointer":                func(p *placed[T]) { p.Ptr = &v },
		"the second of a slice":    func(p *placed[T]) { p.List[1] = v },
		"the last of an array":     func(p *placed[T]) { p.Array[2] = v },
		"a value of a map":         func(p *placed[T]) { p.ByName["b"] = v },
		"a slice in a slice":       func(p *placed[T]) { p.Lists[1][1] = v },
		"a pointer deep down":      func(p *placed[T]) { p.Deep.In[1]["b"] = &v },
		"a field of an embedded":   func(p *placed[T]) { p.Promoted = v },
		"the field after all this": func(p *placed[T]) { p.Last = v },
	} {
		p := everywhere(good)
		set(&p)
		all[place] = p
	}
	return all
}

// twin is copied by its own Clone, and compared by what is in it.
type twin struct {
	A, B int
	List []int
	Map  map[string]int
	Ptr  *int
	Arr  [2]int
}

func (t twin) Clone() twin { return t }

// leaf has a value of each type that matters here: one type for all, because each kind of object
// that a test has costs the compiler seconds.
type leaf struct {
	Text   string
	Small  int8
	Large  uint64
	Number float64
	Single float32
	Yes    bool
	Bytes  []byte
	Texts  []string
	At     time.Time
	Addr   netip.Addr
	Twin   twin
	JSON   json.Number
	Moody  moody
	Own    moodyText
	Lower  map[lower]int
	Counts map[string]int
	Chain  recursive
	Lists  lists
}

func goodLeaf() leaf { return leaf{JSON: "1.5", At: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)} }

// with is a good leaf but for an edit.
func with(edit func(l *leaf)) leaf {
	l := goodLeaf()
	edit(&l)
	return l
}

type placedObject = store.Object[placed[leaf], placed[leaf]]

func placedStore(t testing.TB, encode bool) *store.Store[placed[leaf], placed[leaf]] {
	t.Helper()
	return must[*store.Store[placed[leaf], placed[leaf]]](t)(store.New[placed[leaf], placed[leaf]](newMemory(t, &memory.Options{Encode: encode}), "Placed", nil))
}

// differEverywhere wants a and b told apart in each place, by the store and by a declaration,
// and nothing where they are the same.
func differEverywhere(t *testing.T, a, b leaf) {
	s := placedStore(t, true)
	object := func(p placed[leaf]) *placedObject {
		return &placedObject{Meta: store.Meta{Name: "a"}, Spec: p, Status: p}
	}
	was, again := object(everywhere(a)), object(everywhere(a))
	if c := s.Clone(was); !s.SameSpec(was, c) || !s.SameStatus(was, c) || !s.SameSpec(was, again) {
		t.Error("what is the same differs")
	}
	data := must[store.Declaration](t)(s.Declaration(was)).Value
	if next, err := must[store.Declaration](t)(s.Declaration(again)).Over(data); err != nil || next != nil {
		t.Errorf("the same declaration again: %s, error %v, want no change", next, err)
	}
	for place, p := range places(a, b) {
		o := object(p)
		if s.SameSpec(was, o) || s.SameSpec(o, was) || s.SameStatus(was, o) || s.SameStatus(o, was) {
			t.Errorf("another value in %s counts as the same", place)
		}
		if c := s.Clone(o); !s.SameSpec(o, c) || !s.SameStatus(o, c) {
			t.Errorf("a copy of another value in %s differs", place)
		}
		next, err := must[store.Declaration](t)(s.Declaration(o)).Over(data)
		if err != nil || next == nil {
			t.Errorf("a declaration with another value in %s: %s, error %v, want a change", place, next, err)
			continue
		}
		read := must[*placedObject](t)(s.Decode(store.Record{Kind: "Placed", Key: o.Key(), Revision: 1, Bytes: next}))
		if !s.SameSpec(read, o) || read.Generation != 2 {
			t.Errorf("a declaration with another value in %s made %+v of generation %d, want %+v of 2", place, read.Spec, read.Generation, p)
		}
	}
}

// Two values that differ in one place, whatever the type and the place, are two: to the store,
// and to a declaration, which has the bytes alone.
//
// Negative controls: mutants "a declaration sees the first of a list alone" and "clones are
// compared by their first field".
func TestDifferencesAreSeenInEachPlace(t *testing.T) {
	one, two := 1, 2
	for what, pair := range map[string][2]func(l *leaf){
		"texts":                 {func(l *leaf) { l.Text = "a" }, func(l *leaf) { l.Text = "b" }},
		"small numbers":         {func(l *leaf) { l.Small = 1 }, func(l *leaf) { l.Small = -1 }},
		"large numbers":         {func(l *leaf) { l.Large = 1 << 63 }, func(l *leaf) { l.Large = 1<<63 + 1 }},
		"fractions":             {func(l *leaf) { l.Number = 0.5 }, func(l *leaf) { l.Number = 0.25 }},
		"truths":                {func(l *leaf) { l.Yes = true }, func(l *leaf) { l.Yes = false }},
		"bytes":                 {func(l *leaf) { l.Bytes = []byte{1, 2} }, func(l *leaf) { l.Bytes = []byte{1, 3} }},
		"lists":                 {func(l *leaf) { l.Texts = []string{"a", "b"} }, func(l *leaf) { l.Texts = []string{"a", "c"} }},
		"times":                 {func(*leaf) {}, func(l *leaf) { l.At = l.At.Add(1) }},
		"addresses":             {func(*leaf) {}, func(l *leaf) { l.Addr = netip.MustParseAddr("10.0.0.2") }},
		"maps":                  {func(l *leaf) { l.Counts = map[string]int{"a": 1, "b": 1} }, func(l *leaf) { l.Counts = map[string]int{"a": 1, "b": 2} }},
		"keys":                  {func(l *leaf) { l.Counts = map[string]int{"a": 1, "b": 1} }, func(l *leaf) { l.Counts = map[string]int{"a": 1, "c": 1} }},
		"clones by a field":     {func(l *leaf) { l.Twin.A = 1 }, func(l *leaf) { l.Twin.A, l.Twin.B = 1, 1 }},
		"clones by a slice":     {func(l *leaf) { l.Twin.List = []int{1, 2} }, func(l *leaf) { l.Twin.List = []int{1, 3} }},
		"clones by a map":       {func(l *leaf) { l.Twin.Map = map[string]int{"a": 1} }, func(l *leaf) { l.Twin.Map = map[string]int{"a": 2} }},
		"clones by a pointer":   {func(l *leaf) { l.Twin.Ptr = &one }, func(l *leaf) { l.Twin.Ptr = &two }},
		"clones by an array":    {func(l *leaf) { l.Twin.Arr = [2]int{1, 2} }, func(l *leaf) { l.Twin.Arr = [2]int{1, 3} }},
		"what contains itself":  {func(l *leaf) { l.Chain = chain(3) }, func(l *leaf) { l.Chain = chain(4) }},
		"lists that do so, too": {func(l *leaf) { l.Lists = nested(3) }, func(l *leaf) { l.Lists = nested(4) }},
	} {
		t.Run(what, func(t *testing.T) { differEverywhere(t, with(pair[0]), with(pair[1])) })
	}
}

type (
	// moody and moodyText encode themselves, or fail to.
	moody     struct{ Fails bool }
	moodyText struct{ fails bool }
	// lower is a key whose text is in lower case.
	lower struct{ text string }
)

var errMood = errors.New("not in the mood")

func (m moody) MarshalJSON() ([]byte, error) {
	if m.Fails {
		return nil, errMood
	}
	return []byte(`{}`), nil
}

func (m moodyText) MarshalText() ([]byte, error) {
	if m.fails {
		return nil, errMood
	}
	return []byte("fine"), nil
}
func (*moodyText) UnmarshalText([]byte) error { return nil }

func (l lower) MarshalText() ([]byte, error)  { return []byte(strings.ToLower(l.text)), nil }
func (l *lower) UnmarshalText(b []byte) error { l.text = string(b); return nil }

// What JSON cannot carry is refused in each place, before anything is written, and what it can
// carry is written, on a backend that keeps values too.
//
// Negative controls: mutants "the values of a map are not looked at" and "no type encodes itself
// as text".
func TestWhatJSONCannotCarryIsRefusedInEachPlace(t *testing.T) {
	year := func(y int) time.Time { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC) }
	for what, pair := range map[string][2]func(l *leaf){ // the first is written, the second refused
		"NaN":                       {func(l *leaf) { l.Number = 1e300 }, func(l *leaf) { l.Number = math.NaN() }},
		"Inf":                       {func(l *leaf) { l.Single = -1.5 }, func(l *leaf) { l.Single = float32(math.Inf(-1)) }},
		"a year of five digits":     {func(l *leaf) { l.At = year(9999) }, func(l *leaf) { l.At = year(10000) }},
		"a year before 0":           {func(l *leaf) { l.At = year(0) }, func(l *leaf) { l.At = year(-1) }},
		"a number that is a word":   {func(l *leaf) { l.JSON = "-2e9" }, func(l *leaf) { l.JSON = "word" }},
		"a number that is nothing":  {func(l *leaf) { l.JSON = "0" }, func(l *leaf) { l.JSON = "" }},
		"what does not encode":      {func(*leaf) {}, func(l *leaf) { l.Moody.Fails = true }},
		"what is no text":           {func(*leaf) {}, func(l *leaf) { l.Own.fails = true }},
		"two keys of one text":      {func(l *leaf) { l.Lower = map[lower]int{{"a"}: 1, {"b"}: 2} }, func(l *leaf) { l.Lower = map[lower]int{{"a"}: 1, {"A"}: 2} }},
		"two keys that are mended":  {func(l *leaf) { l.Counts = map[string]int{"a": 1, "b": 2} }, func(l *leaf) { l.Counts = map[string]int{"\xff": 1, "\xfe": 2} }},
		"a chain that is too long":  {func(l *leaf) { l.Chain = chain(store.MaxDepth - 12) }, func(l *leaf) { l.Chain = chain(store.MaxDepth) }},
		"a list that is too nested": {func(l *leaf) { l.Lists = nested(store.MaxDepth - 12) }, func(l *leaf) { l.Lists = nested(store.MaxDepth) }},
	} {
		t.Run(what, func(t *testing.T) { refusedEverywhere(t, with(pair[0]), with(pair[1])) })
	}
}

func chain(n int) (r recursive) {
	for range n {
		next := r
		r = recursive{Next: &next}
	}
	return r
}

type lists []lists

func nested(n int) (l lists) {
	for range n {
		l = lists{l}
	}
	return l
}

func refusedEverywhere(t *testing.T, good, bad leaf) {
	for _, encode := range []bool{false, true} {
		s := placedStore(t, encode)
		o, err := s.Create(t.Context(), &placedObject{Meta: store.Meta{Name: "a"}, Spec: everywhere(good), Status: everywhere(good)})
		if err != nil {
			t.Fatalf("without it: %v", err)
		}
		o.Status = everywhere(good)
		o, err = s.UpdateStatus(t.Context(), o)
		if err != nil {
			t.Fatalf("without it, in a status: %v", err)
		}
		for place, p := range places(good, bad) {
			o := s.Clone(o)
			o.Spec = p
			_, err := s.Update(t.Context(), o)
			wantErr(t, "in "+place+" of a spec", err, store.ErrInvalid)
			_, err = s.Create(t.Context(), &placedObject{Meta: store.Meta{Name: "b"}, Spec: p})
			wantErr(t, "in "+place+" of a new spec", err, store.ErrInvalid)
			o.Spec, o.Status = everywhere(good), p
			_, err = s.UpdateStatus(t.Context(), o)
			wantErr(t, "in "+place+" of a status", err, store.ErrInvalid)
		}
		if now := must[*placedObject](t)(s.Get(t.Context(), o.Key())); now.Revision != o.Revision {
			t.Errorf("revision %d, want still %d", now.Revision, o.Revision)
		}
		if all := must[[]*placedObject](t)(s.List(t.Context(), store.Selector{})); len(all) != 1 {
			t.Errorf("%d objects, want one", len(all))
		}
	}
}

// What is mended is read back in its new form from each place, is what the write returned, and
// is written once.
//
// Negative control: mutant "a text that was mended is stored as it was".
func TestWhatIsMendedInEachPlaceSettles(t *testing.T) {
	odd := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("odd", 3601))
	text, key, zone := func(text string) leaf { return with(func(l *leaf) { l.Text = text }) },
		func(key string) leaf { return with(func(l *leaf) { l.Counts = map[string]int{key: 2} }) },
		func(at time.Time) leaf { return with(func(l *leaf) { l.At = at }) }
	t.Run("a text", func(t *testing.T) { mendedEverywhere(t, text("good"), text("b\xffad"), "b\ufffdad", false) })
	t.Run("a text beside another", func(t *testing.T) { mendedEverywhere(t, text("g\xfe"), text("b\xffad"), "b\ufffdad", false) })
	t.Run("a key", func(t *testing.T) { mendedEverywhere(t, key("good"), key("b\xffad"), "\"b\ufffdad\":2", false) })
	t.Run("an odd zone", func(t *testing.T) {
		mendedEverywhere(t, zone(odd.UTC()), zone(odd), odd.UTC().Format(time.RFC3339Nano), true)
	})
}

func mendedEverywhere(t *testing.T, good, bad leaf, mended string, ofSpec bool) {
	for _, encode := range []bool{false, true} {
		s := placedStore(t, encode)
		o := must[*placedObject](t)(s.Create(t.Context(), &placedObject{Meta: store.Meta{Name: "a"}, Spec: everywhere(goodLeaf()), Status: everywhere(goodLeaf())}))
		for place, p := range places(good, bad) {
			given := s.Clone(o)
			given.Spec = p
			next, err := s.Update(t.Context(), given)
			if ofSpec && err != nil || !ofSpec && !errors.Is(err, store.ErrInvalid) {
				t.Errorf("in %s of a spec: error %v", place, err)
			}
			if next != nil {
				o = next
			}
			given = s.Clone(o)
			given.Status = p
			o = must[*placedObject](t)(s.UpdateStatus(t.Context(), given))
			made := must[*placedObject](t)(s.Create(t.Context(), &placedObject{Meta: store.Meta{Name: "made"}, Spec: everywhere(goodLeaf()), Status: p}))
			if !s.SameStatus(made, o) || !s.SameStatus(must[*placedObject](t)(s.Get(t.Context(), made.Key())), o) {
				t.Errorf("in %s: created with it the status is %+v, want %+v", place, made.Status, o.Status)
			}
			if err := s.Delete(t.Context(), made); err != nil {
				t.Error(err)
			}
			again := s.Clone(o)
			again.Status = p
			if got := must[*placedObject](t)(s.UpdateStatus(t.Context(), again)); got.Revision != o.Revision {
				t.Errorf("in %s: the same status again is another revision", place)
			}
			read := must[*placedObject](t)(s.Get(t.Context(), o.Key()))
			has, want := fmt.Sprintf("%+v %q", o.Status.Field, fmt.Sprint(o.Status.List)), fmt.Sprintf("%+v %q", read.Status.Field, fmt.Sprint(read.Status.List))
			if !s.SameStatus(read, o) || has != want {
				t.Errorf("in %s: stored is %+v, returned was %+v", place, read.Status, o.Status)
			}
			if text := string(must[[]byte](t)(json.Marshal(read.Status))); !strings.Contains(text, mended) {
				t.Errorf("in %s: stored is %s, want it to have %v", place, text, mended)
			}
			if ofSpec && !s.SameSpec(read, next) {
				t.Errorf("in %s: the stored spec is %+v, returned was %+v", place, read.Spec, next.Spec)
			}
		}
	}
}
