package shape

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"
)

// These tables are inside the package, and of plain values: a Store of each of these
// types would have to be compiled.
type (
	// flag has a boolean that is secret by its place alone: none is looked for in a text.
	flag struct {
		Plain  bool `json:"plain"`
		Hidden bool `json:"hidden,omitempty" tend:"secret"`
	}
	// Flag and Flags are exported, as an embedded pointer and list must be.
	Flag  flag
	Flags []bool
	// Chicken and Egg are embedded in themselves.
	Chicken struct{ *Egg }
	Egg     struct {
		*Chicken
		B int
	}
	pair       struct{ A, B int }
	ownEncoder struct {
		Hidden bool `tend:"secret"`
	}
)

func (p pair) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%d-%d", p.A, p.B), nil }

func (p *pair) UnmarshalText(b []byte) error {
	_, err := fmt.Sscanf(string(b), "%d-%d", &p.A, &p.B)
	return err
}

func (o ownEncoder) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]bool{"as": o.Hidden})
}

// A secret is hidden by its place, wherever that is, and what is beside it is shown.
//
// Seen to fail: an embedded struct that is secret and not exported ended in a panic, and the
// secret of a field with a name that JSON refuses was shown. Negative controls: mutants
// "secrets of an embedded struct are shown" and "a map with names that are not its keys is shown".
func TestSecretIsHiddenByItsPlace(t *testing.T) {
	on := flag{true, true}
	exported := Flag(on)
	const hidden, plain = `{"hidden":"(secret)","plain":true}`, `{"plain":true}`
	for place, c := range map[string]struct {
		v    any
		want string
	}{
		"a field":             {struct{ A flag }{on}, `{"A":` + hidden + `}`},
		"a pointer":           {struct{ A *flag }{&on}, `{"A":` + hidden + `}`},
		"a nil pointer":       {struct{ A *flag }{}, `{"A":null}`},
		"a slice":             {struct{ A []flag }{[]flag{on, {Plain: true}}}, `{"A":[` + hidden + `,` + plain + `]}`},
		"an array":            {struct{ A [2]*flag }{[2]*flag{&on, &on}}, `{"A":[` + hidden + `,` + hidden + `]}`},
		"a map":               {struct{ A map[string]flag }{map[string]flag{"x": on, "y": on}}, `{"A":{"x":` + hidden + `,"y":` + hidden + `}}`},
		"a map by numbers":    {struct{ A map[int8]flag }{map[int8]flag{-7: on}}, `{"A":{"-7":` + hidden + `}}`},
		"a map by texts":      {struct{ A map[pair]flag }{map[pair]flag{{1, 2}: on}}, `{"A":{"1-2":` + hidden + `}}`},
		"a map by durations":  {struct{ A map[time.Duration]flag }{map[time.Duration]flag{7: on}}, `{"A":"(secret)"}`},
		"a map in a list":     {struct{ A []map[string][]flag }{[]map[string][]flag{nil, {"x": {on}}}}, `{"A":[null,{"x":[` + hidden + `]}]}`},
		"an embedded":         {struct{ flag }{on}, hidden},
		"an embedded pointer": {struct{ *Flag }{&exported}, hidden},
		"an embedded nil":     {struct{ *Flag }{}, `{}`},
		"an embedded of a name": {struct {
			Flag `json:"f"`
		}{exported}, `{"f":` + hidden + `}`},
		"an embedded with options": {struct {
			Flag `json:",omitempty"` //nolint:modernize // an option without an effect is what is tested
		}{exported}, hidden},
		"all of an embedded": {struct {
			Flag `tend:"secret"`
			B    bool
		}{exported, true}, `{"B":true,"hidden":"(secret)","plain":"(secret)"}`},
		"all of an unexported embedded": {struct {
			flag `tend:"secret"`
			B    bool
		}{on, true}, `{"B":true,"hidden":"(secret)","plain":"(secret)"}`},
		"all of an embedded nil": {struct {
			*Flag `tend:"secret"`
			B     bool
		}{nil, true}, `{"B":true}`},
		"an embedded list": {struct {
			Flags `tend:"secret"`
		}{Flags{true}}, `{"Flags":"(secret)"}`},
		"a name that JSON refuses": {struct {
			A bool `json:"a'b" tend:"secret"` //nolint:staticcheck // SA5008: the refused name is what is tested
		}{true}, `{"A":"(secret)"}`},
		"what encodes itself":  {struct{ A, B *ownEncoder }{A: &ownEncoder{true}}, `{"A":"(secret)","B":null}`},
		"a list of what does":  {struct{ A []ownEncoder }{[]ownEncoder{{true}}}, `{"A":["(secret)"]}`},
		"keys that are secret": {struct{ A map[ownKey]bool }{map[ownKey]bool{{"x"}: true}}, `{"A":"(secret)"}`},
		"an empty text, list and map": {struct {
			A string         `tend:"secret"`
			B []bool         `tend:"secret"`
			C map[string]int `tend:"secret"`
		}{"", []bool{}, map[string]int{}}, `{"A":"","B":[],"C":{}}`},
		"a whole list": {struct {
			A []bool `tend:"secret"`
		}{[]bool{true}}, `{"A":"(secret)"}`},
	} {
		t.Run(place, func(t *testing.T) {
			data, err := json.Marshal(c.v)
			if err != nil {
				t.Fatal(err)
			}
			var tree any
			if err := json.Unmarshal(data, &tree); err != nil {
				t.Fatal(err)
			}
			if got, err := json.Marshal(hide(c.v, tree)); err != nil || string(got) != c.want {
				t.Errorf("got %s, error %v, want %s", got, err, c.want)
			}
		})
	}
}

type ownKey struct {
	Hidden string `tend:"secret"`
}

func (k ownKey) MarshalText() ([]byte, error) { return []byte(k.Hidden), nil }

// declaredPointer makes what it embeds when it is read.
type declaredPointer struct{ *time.Time }

func (p *declaredPointer) UnmarshalJSON(data []byte) error {
	p.Time = new(time.Time)
	return p.Time.UnmarshalJSON(data)
}

// refusedFor is why a spec of this value is refused, for its type or for what is in it.
func refusedFor(t *testing.T, spec any) error {
	t.Helper()
	v := reflect.New(reflect.TypeOf(spec))
	v.Elem().Set(reflect.ValueOf(spec))
	n, b := nodeOf(place{Type: v.Type().Elem()}, "Spec")
	if b.unkept != nil {
		return b.unkept
	}
	_, err := n.check("Spec", v.Elem(), true)
	return err
}

func hide(v, tree any) any {
	n, _ := nodeOf(place{Type: reflect.TypeOf(v)}, "Spec")
	return n.hidden(addressable(reflect.ValueOf(v)), tree, "(secret)")
}

// found collects what is secret in a value.
type found map[string]bool

func (f found) Text(s string)   { f[s] = true }
func (f found) Number(s string) { f[s] = true }
func (f found) Enough() bool    { return false }

func search(v any, tagged bool) found {
	f := found{}
	n, _ := nodeOf(place{Type: reflect.TypeOf(v)}, "Spec")
	n.search(addressable(reflect.ValueOf(v)), tagged, 0, f)
	return f
}

// byItsPointer encodes itself if it can be addressed: JSON does not ask one in a map.
type byItsPointer struct{ Fails bool }

func (p *byItsPointer) MarshalJSON() ([]byte, error) {
	if p.Fails {
		return nil, errors.New("moody")
	}
	return []byte("{}"), nil
}

// noText is no text, although it has the method.
type noText struct{}

func (noText) MarshalText() ([]byte, error) { return []byte("half"), errors.New("moody") }

// The text that a secret makes of itself is secret too; what it failed to make is none.
func TestTextThatASecretMakesOfItselfIsFound(t *testing.T) {
	made, empty := search(pair{1, 2}, true), search(struct {
		A *noText
		B netip.Addr
		C pair
	}{A: new(noText)}, true)
	if !made["1-2"] || len(empty) > 0 {
		t.Errorf("found are %v, and of what is empty or no text %v", made, empty)
	}
}

// A type that encodes itself is asked where JSON asks it.
func TestTypeThatEncodesItselfByItsPointerIsAskedAsJSONDoes(t *testing.T) {
	bad := byItsPointer{Fails: true}
	for place, v := range map[string]any{
		"a field":            &struct{ A byItsPointer }{bad},
		"a pointer":          &struct{ A *byItsPointer }{&bad},
		"a slice":            &struct{ A []byItsPointer }{[]byItsPointer{{}, bad}},
		"an array":           &struct{ A [2]byItsPointer }{[2]byItsPointer{{}, bad}},
		"a map":              &struct{ A map[string]byItsPointer }{map[string]byItsPointer{"x": bad}},
		"a pointer in a map": &struct{ A map[string]*byItsPointer }{map[string]*byItsPointer{"x": &bad}},
		"none that fails":    &struct{ A byItsPointer }{},
		"a key":              &struct{ A map[noText]int }{map[noText]int{{}: 1}},
		"a key that can":     &struct{ A map[pair]int }{map[pair]int{{1, 2}: 1}},
	} {
		_, fails := json.Marshal(v)
		if err := refusedFor(t, reflect.ValueOf(v).Elem().Interface()); (err != nil) != (fails != nil) {
			t.Errorf("%s: got error %v, and of JSON %v", place, err, fails)
		}
	}
}

type (
	// readsByItsPointer and mixed encode themselves by methods of pointers, which JSON does not
	// call of what lies in a map by value, and decode what these wrote.
	readsByItsPointer struct{ A int }
	hidesByItsPointer struct{ a int } //nolint:unused // JSON drops it
	mixed             struct{ A int }
)

func (p *readsByItsPointer) MarshalJSON() ([]byte, error)    { return json.Marshal(p.A) }
func (p *readsByItsPointer) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &p.A) }
func (p *hidesByItsPointer) MarshalText() ([]byte, error)    { return []byte("x"), nil }
func (m *mixed) MarshalJSON() ([]byte, error)                { return json.Marshal(m.A) }
func (m mixed) MarshalText() ([]byte, error)                 { return fmt.Append(nil, m.A), nil }
func (m *mixed) UnmarshalJSON(data []byte) error             { return json.Unmarshal(data, &m.A) }

// What lies in a map has no address, and JSON passes over methods of its pointer, but calls
// them when it reads. What is read back then is refused by its type.
//
// Seen to fail: such objects were stored, and could not be read back. Negative control: mutant
// "values of maps are taken to have addresses".
//
// promise S3
func TestValuesOfMapsThatEncodeThemselvesByTheirPointers(t *testing.T) {
	type inner struct{ X readsByItsPointer }
	one := readsByItsPointer{1}
	for what, c := range map[string]struct {
		v    any
		want string // empty: it is written and read back
	}{
		"a map":             {struct{ A map[string]readsByItsPointer }{map[string]readsByItsPointer{"x": one}}, "Spec.A[]: shape.readsByItsPointer is in a map"},
		"a field in a map":  {struct{ A map[string]inner }{map[string]inner{"x": {one}}}, "Spec.A[].X: shape.readsByItsPointer is in a map"},
		"an array in a map": {struct{ A map[string][1]inner }{map[string][1]inner{"x": {{one}}}}, "Spec.A[][].X: shape.readsByItsPointer is in a map"},
		"beside one in a list": {struct {
			A []inner
			B map[string]inner
		}{[]inner{{one}}, map[string]inner{"x": {one}}}, "Spec.B[].X: shape.readsByItsPointer is in a map"},
		"a text beside the method": {struct{ A map[string]mixed }{map[string]mixed{"x": {1}}}, "Spec.A[]: shape.mixed is in a map"},
		"a field that JSON drops":  {struct{ A map[string]hidesByItsPointer }{}, "Spec.A[].a: int is unexported"},

		"a pointer in a map":  {struct{ A map[string]*readsByItsPointer }{map[string]*readsByItsPointer{"x": &one}}, ""},
		"a list in a map":     {struct{ A map[string][]inner }{map[string][]inner{"x": {{one}}}}, ""},
		"a field":             {struct{ A inner }{inner{one}}, ""},
		"both in a list":      {struct{ A []mixed }{[]mixed{{1}}}, ""},
		"that reads as usual": {struct{ A map[string]byItsPointer }{map[string]byItsPointer{"x": {}}}, ""},
		"its own method":      {struct{ A map[string]time.Time }{map[string]time.Time{"x": {}}}, ""},
	} {
		err := refusedFor(t, c.v)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got error %v, want %q", what, err, c.want)
			}
			continue
		}
		given, read := reflect.New(reflect.TypeOf(c.v)), reflect.New(reflect.TypeOf(c.v))
		given.Elem().Set(reflect.ValueOf(c.v)) // in its object a spec has an address
		data, failed := json.Marshal(given.Interface())
		if failed == nil {
			failed = json.Unmarshal(data, read.Interface())
		}
		if err != nil || failed != nil || !reflect.DeepEqual(read.Elem().Interface(), c.v) {
			t.Errorf("%s: got error %v, and read back %v, error %v", what, err, read.Elem(), failed)
		}
	}
}

type (
	// JSON writes a key that is a string as it is, whatever its method says, and reads it by the
	// method.
	prefixed  string
	onlyReads string
	upper     string
	// halfText has no method that reads it, and evenText one that forgets a bit.
	halfText struct{ A int }
	evenText int
	named    struct{ Namespace, Name string }
)

func (n named) MarshalText() ([]byte, error) { return []byte(n.Namespace + "/" + n.Name), nil }
func (n *named) UnmarshalText(b []byte) error {
	n.Namespace, n.Name, _ = strings.Cut(string(b), "/")
	return nil
}

func (p prefixed) MarshalText() ([]byte, error) { return []byte("p-" + p), nil }
func (p *prefixed) UnmarshalText(b []byte) error {
	*p = prefixed(strings.TrimPrefix(string(b), "p-"))
	return nil
}

func (o *onlyReads) UnmarshalText(b []byte) error { *o = onlyReads("read " + string(b)); return nil }
func (u upper) MarshalText() ([]byte, error)      { return bytes.ToUpper([]byte(u)), nil }
func (halfText) MarshalText() ([]byte, error)     { return []byte("half"), nil }
func (e evenText) MarshalText() ([]byte, error)   { return fmt.Append(nil, e/2*2), nil }

// A map is written if JSON reads the same keys back, whatever methods they have.
//
// Seen to fail: keys of string kind were judged by a MarshalText that JSON does not call, so that
// what was read back had others; keys that nothing reads were stored. Negative control: mutant
// "keys are not read back".
//
// promise S3
func TestMapsAreWrittenIfTheirKeysAreReadBack(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for what, c := range map[string]struct {
		m    any
		want bool
	}{
		"strings":                         {map[string]int{"a": 1, "": 2}, true},
		"a string with another text":      {map[prefixed]int{"p-a": 1}, false},
		"one that is read as it is":       {map[prefixed]int{"a": 1}, true},
		"a string that is read otherwise": {map[onlyReads]int{"a": 1}, false},
		"strings of one text":             {map[upper]int{"a": 1, "A": 2}, true},
		"what has no method to be read":   {map[halfText]int{{1}: 1}, false},
		"numbers with a text":             {map[evenText]int{2: 1, 4: 2}, true},
		"numbers with that of another":    {map[evenText]int{3: 1}, false},
		"numbers of one text":             {map[evenText]int{2: 1, 3: 2}, false},
		"times":                           {map[time.Time]int{at: 1, at.Add(1): 2}, true},
		"addresses":                       {map[netip.Addr]int{netip.MustParseAddr("10.0.0.1"): 1, {}: 2}, true},
		"an address without a text":       {map[netip.Prefix]int{netip.PrefixFrom(netip.MustParseAddr("10.0.0.1"), -1): 1}, false},
		"keys of fields of strings":       {map[named]int{{Name: "a"}: 1}, true},
	} {
		data, err := json.Marshal(c.m)
		read := reflect.New(reflect.TypeOf(c.m))
		if err == nil {
			err = json.Unmarshal(data, read.Interface())
		}
		if kept := err == nil && reflect.DeepEqual(read.Elem().Interface(), c.m); kept != c.want {
			t.Fatalf("%s: JSON reads %v back, error %v: the test is wrong", what, read.Elem(), err)
		}
		if err := refusedFor(t, c.m); (err == nil) != c.want {
			t.Errorf("%s: got error %v, and JSON keeps them: %v", what, err, c.want)
		}
	}
	// Which location a time has says nothing of when it is, and depends on the machine.
	for _, key := range []time.Time{at.In(time.FixedZone("X", 3600)), at.Local(), time.Now()} {
		if err := refusedFor(t, map[time.Time]int{key: 1}); err != nil {
			t.Errorf("%v: %v", key, err)
		}
	}
}

// What JSON would drop of an embedded struct is refused, and else its fields are checked and
// counted as those of the struct around it.
//
// Seen to fail: of a struct embedded in itself New did not return, and fields of an embedded
// struct with options in its tag were not checked if its type is not exported.
func TestEmbeddedStructsAreCheckedAsJSONWritesThem(t *testing.T) {
	type number struct{ F float64 }
	nan := number{math.NaN()}
	for what, c := range map[string]struct {
		v    any
		want string // empty: it can be written
	}{
		"in itself by turns": {Chicken{}, "Spec.Egg.Chicken: *shape.Chicken is embedded in itself"},
		"in itself, deep":    {struct{ A []Egg }{}, "is embedded in itself"},
		"two that encode themselves": {struct {
			pair
			netip.Addr
		}{}, "Spec.pair: shape.pair is embedded"},
		"blank fields": {struct {
			A int
			_ complex128
			_ time.Time
		}{}, ""},
		"not a number": {struct{ number }{nan}, "field Spec.number.F is NaN"},
		"not a number, with options": {struct {
			number `json:",inline"`
		}{nan}, "field Spec.number.F is NaN"},
		"a number": {struct {
			number `json:",inline"`
		}{}, ""},
	} {
		err := refusedFor(t, c.v)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got error %v, want %q", what, err, c.want)
		}
	}
}

type (
	// AsText and byRead are embedded for the method that each has.
	byRead struct{ A int }
	AsText string
	// The methods of declared are its own, also where what it embeds has the same.
	declared struct {
		ownKey
		B int
	}
	declaredByPointer struct {
		ownKey
		B int
	}
	declaredOf[V any] struct {
		ownKey
		B V
	}
	declaredHalf struct { // nothing of its own reads it
		pair
		B int
	}
	declaredText struct { // JSON asks the embedded MarshalJSON first
		ownEncoder
		B int
	}
)

func (AsText) MarshalText() ([]byte, error)             { return []byte("x"), nil }
func (*byRead) UnmarshalJSON([]byte) error              { return nil }
func (declared) MarshalText() ([]byte, error)           { return []byte("x"), nil }
func (*declared) UnmarshalText([]byte) error            { return nil }
func (*declaredByPointer) UnmarshalText([]byte) error   { return nil }
func (*declaredOf[V]) UnmarshalText([]byte) error       { return nil }
func (*declaredByPointer) MarshalText() ([]byte, error) { return []byte("x"), nil }
func (declaredOf[V]) MarshalText() ([]byte, error)      { return []byte("x"), nil }
func (declaredHalf) MarshalText() ([]byte, error)       { return []byte("x"), nil }
func (declaredText) MarshalText() ([]byte, error)       { return []byte("x"), nil }

// The method of an embedded field encodes the struct around it too, if that has none of its
// own, and knows nothing of the fields beside it.
//
// Seen to fail: each was accepted, and the fields beside were gone when it was read. Negative
// control: mutant "fields beside an embedded one that encodes itself are lost".
//
// promise S3
func TestMethodOfAnEmbeddedFieldLosesThoseBesideIt(t *testing.T) {
	type timed struct {
		time.Time
		Zone string
	}
	for what, c := range map[string]struct {
		v    any
		want string // empty: it can be written
	}{
		"a time": {struct {
			time.Time
			B int
		}{}, "Spec.Time: time.Time is embedded"},
		"a named struct with a time": {timed{}, "Spec.Time: time.Time is embedded"},
		"a pointer": {struct {
			*time.Time
			B int
		}{}, "Spec.Time: *time.Time is embedded"},
		"a pointer alone, which may be nil":    {struct{ *time.Time }{&time.Time{}}, "Spec.Time: *time.Time is embedded"},
		"an interface alone, which may be nil": {struct{ json.Marshaler }{}, "Spec.Marshaler: json.Marshaler is embedded"},
		"a pointer's method": {struct {
			byItsPointer
			B int
		}{}, "Spec.byItsPointer: shape.byItsPointer is embedded"},
		"no struct": {struct {
			AsText
			B int
		}{}, "Spec.AsText: shape.AsText is embedded"},
		"an address that has a name": {struct {
			netip.Addr `json:"addr"`
			B          int
		}{}, "Spec.Addr: netip.Addr is embedded"},
		"a field that JSON never has": {struct {
			time.Time
			b int
		}{}, "Spec.Time: time.Time is embedded"},
		"in a struct that is embedded alone": {struct{ timed }{}, "Spec.timed.Time: time.Time is embedded"},
		"in a struct that is embedded beside others": {struct {
			B int
			timed
		}{}, "Spec.timed: shape.timed is embedded"},
		"deep in the spec":               {struct{ A map[string][]timed }{}, "Spec.A[][].Time: time.Time is embedded"},
		"a text beside its method":       {declaredText{}, "Spec.ownEncoder: shape.ownEncoder is embedded"},
		"half of the methods of its own": {declaredHalf{}, "Spec.pair: shape.pair is embedded, and its UnmarshalText"},
		"a method that reads": {struct {
			byRead
			B int
		}{}, "Spec.byRead: shape.byRead is embedded"},

		"a pointer alone, that is made":       {declaredPointer{&time.Time{}}, ""},
		"an empty map of what cannot be read": {struct{ A map[halfText]int }{}, ""},

		"a time alone": {struct{ time.Time }{}, ""},
		"a time beside a blank": {struct {
			time.Time
			_ struct{}
		}{}, ""},
		"alone in one that is alone":  {struct{ declared }{}, ""},
		"a method of its own":         {declared{}, ""},
		"one of its pointer":          {declaredByPointer{}, ""},
		"one of a type of parameters": {declaredOf[string]{}, ""},
		"a field": {struct {
			At time.Time
			B  int
		}{}, ""},
	} {
		err := refusedFor(t, c.v)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got error %v, want %q", what, err, c.want)
		}
	}
}

type (
	deepPointer struct{ Next *deepPointer }
	deepList    []deepList
	deepMap     map[string]deepMap
	deepArray   struct{ Next [1]*deepArray }
	deepText    struct{ Next map[string][]*deepText }
	deepValue   struct{ deepInner }
	deepInner   struct{ Next *deepValue }
	deepOptions struct {
		DeepInner `json:",omitempty"` //nolint:modernize // an option without an effect is what is tested
	}
	DeepInner struct{ Next *deepOptions }
	deepOuter struct{ *DeepPart }
	DeepPart  struct{ Next *deepOuter }
	deepNamed struct {
		DeepNamed `json:"named"`
	}
	DeepNamed struct{ Next *deepNamed }
)

// deepen puts n pointers, lists or maps into each other.
func deepen(v reflect.Value, n int) {
	switch v.Kind() {
	case reflect.Struct:
		deepen(v.Field(0), n)
	case reflect.Array:
		deepen(v.Index(0), n)
	case reflect.Pointer:
		if n > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			deepen(v.Elem(), n-1)
		}
	case reflect.Slice:
		if n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			deepen(v.Index(0), n-1)
		}
	case reflect.Map:
		if n > 0 {
			x := reflect.New(v.Type().Elem()).Elem()
			deepen(x, n-1)
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(reflect.ValueOf("x"), x)
		}
	}
}

// What is nested as deep as JSON is read, is written, and what is nested deeper is refused:
// on each backend alike.
//
// Seen to fail: an embedded pointer was counted, although JSON writes no braces for it.
// Negative control: mutant "an embedded struct counts as a level".
func TestDepthIsCountedAsJSONNests(t *testing.T) {
	for _, typ := range []reflect.Type{
		reflect.TypeFor[deepPointer](), reflect.TypeFor[deepList](), reflect.TypeFor[deepMap](), reflect.TypeFor[deepArray](),
		reflect.TypeFor[deepText](), reflect.TypeFor[deepValue](), reflect.TypeFor[deepOptions](), reflect.TypeFor[deepOuter](), reflect.TypeFor[deepNamed](),
	} {
		top, b := nodeOf(place{Type: typ}, "Spec")
		if err := cmp.Or(b.uncopied, b.unkept); err != nil {
			t.Fatal(err)
		}
		for n, refusals := 0, 0; n < 2*MaxDepth; n++ {
			spec := reflect.New(typ)
			deepen(spec.Elem(), n)
			data, err := json.Marshal(map[string]any{"spec": spec.Interface()})
			if err != nil {
				t.Fatal(err)
			}
			_, refused := top.check("Spec", spec.Elem(), true)
			if deep := Deeper(data, MaxDepth); (refused != nil) != deep {
				t.Errorf("%v with %d inside each other is refused: %v, and JSON of it is too deep: %v", typ, n, refused, deep)
				break
			}
			if refused != nil {
				refusals++
			}
			if n == 2*MaxDepth-1 && refusals == 0 {
				t.Errorf("%v is never refused: this shows nothing", typ)
			}
		}
	}
}

// latin encodes itself to what is no UTF-8, as one that hands on the bytes of another system may.
type latin struct{ Text string }

func (l latin) MarshalJSON() ([]byte, error)     { return []byte(`"` + l.Text + `"`), nil }
func (l *latin) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &l.Text) }

// What is no UTF-8 in a json.RawMessage is refused, or mended in a status; what a type makes of itself is refused.
//
// Seen to fail: both were stored as they are, and that of the type was mended to another value.
func TestBytesThatAreNoUTF8InWhatEncodesItself(t *testing.T) {
	type both struct {
		Raw   json.RawMessage
		Latin *latin
	}
	s, err := New[both]("Spec")
	if err != nil {
		t.Fatal(err)
	}
	raw, own := &both{Raw: json.RawMessage("\"\xff\xfe\"")}, &both{Latin: &latin{"\xff"}}
	for _, v := range []*both{raw, own} {
		if _, err := s.Writable(v, false); !errors.Is(err, errNotUTF8) {
			t.Errorf("%v: error %v", v, err)
		}
	}
	mended, err := s.Writable(raw, true)
	if err != nil || string(mended.(*both).Raw) != "\"\ufffd\ufffd\"" || string(raw.Raw) != "\"\xff\xfe\"" {
		t.Errorf("%v of %v, error %v", mended, raw, err)
	}
	if mended, err := s.Writable(own, true); !errors.Is(err, errNotUTF8) {
		t.Errorf("%v is mended to %v, error %v", own, mended, err)
	}
	for _, text := range []string{"a\xffb", "\xff\xfe", "\xe2\x82", "ä\xf0"} {
		data, err := json.Marshal(text)
		var read string
		if err = cmp.Or(err, json.Unmarshal(data, &read)); err != nil || ValidText(text) != read {
			t.Errorf("%q is mended to %q, and read back as %q, error %v", text, ValidText(text), read, err)
		}
	}
}

// The levels of a json.RawMessage count with those that it lies in: a backend of bytes would refuse the whole.
//
// Seen to fail: with the levels counted from the field.
func TestLevelsOfRawJSONCount(t *testing.T) {
	type deep struct {
		In struct{ List []json.RawMessage }
	}
	s, err := New[deep]("Spec")
	if err != nil {
		t.Fatal(err)
	}
	const around = 4 // the object, the spec, In, List
	for levels, fits := range map[int]bool{MaxDepth - around: true, MaxDepth - around + 1: false} {
		var v deep
		v.In.List = []json.RawMessage{json.RawMessage(strings.Repeat("[", levels) + strings.Repeat("]", levels))}
		data, err := json.Marshal(map[string]any{"spec": v})
		if err != nil || Deeper(data, MaxDepth) == fits {
			t.Fatalf("%d levels are wrong, error %v", levels, err)
		}
		if _, err := s.Writable(&v, false); (err == nil) != fits {
			t.Errorf("%d levels: error %v", levels, err)
		}
	}
}

// A zone that RFC 3339 cannot say is left out, and the instant stays.
//
// Seen to fail: with the day as no bound the write was refused, and with seconds the instant was another.
func TestTimesInZonesThatHaveNoText(t *testing.T) {
	s, err := New[time.Time]("Spec")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for _, offset := range []int{1, 24 * 3600, -24 * 3600, 25 * 3600, -25*3600 - 1} {
		given := at.In(time.FixedZone("far", offset))
		stored, err := s.Writable(&given, false)
		if err != nil || *stored.(*time.Time) != at {
			t.Errorf("%v is stored as %v, error %v", given, stored, err)
		}
	}
}
