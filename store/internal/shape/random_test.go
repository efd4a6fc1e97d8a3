package shape

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A random type is a struct of the types below and of lists, arrays, maps, pointers and structs
// of them, with tags of every option; a random value has each kind of oddity that a type allows.

type (
	// Celsius encodes itself by its value, and forgets what is below a hundredth.
	Celsius struct{ Degrees float64 }
	// Version encodes itself by its pointer, and is in no JSON without it.
	Version struct{ major, minor int }
	// Names encodes nil as null, and reads null as nil.
	Names []string
	// Lowered is a key and a value that is read back in lower case.
	Lowered struct{ text string }
	// Level is a number with a text, also as a key.
	Level int
	// Word is a text with a form of its own.
	Word string
	// Stamp hides a time in what encodes itself.
	Stamp struct{ at time.Time }
	// Unset says that it is zero with a value in it.
	Unset struct{ N int }
	// Blank says so by its pointer.
	Blank struct{ N int }
	// Cloned copies itself, Sameish compares itself too.
	Cloned  struct{ List []int }
	Sameish struct{ Text, note string }
	// Base is embedded, by value and by pointer.
	Base struct {
		BaseText string  `json:",omitempty"`
		BaseNum  float64 `json:"baseNum,omitzero"`
		BaseList []int   `json:"baseList,omitempty"`
	}
	// Node contains itself.
	Node struct {
		Next *Node
		Kids []Node
		Text string
	}
	// Login has a secret.
	Login struct {
		User     string
		Password string `json:"password,omitempty" tend:"secret"`
	}
	// Sealed encodes itself with a secret in it.
	Sealed struct {
		Token string `tend:"secret"`
	}
	// Octet is a byte with a text of its own.
	Octet uint8
)

func (c Celsius) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "%.2f", c.Degrees), nil }
func (c *Celsius) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	return json.Unmarshal(b, &c.Degrees)
}

func (v *Version) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%d.%d", v.major, v.minor), nil
}

func (v *Version) UnmarshalText(b []byte) error {
	_, err := fmt.Sscanf(string(b), "%d.%d", &v.major, &v.minor)
	return err
}

func (n Names) MarshalJSON() ([]byte, error) { return json.Marshal(strings.Join(n, ",")) }
func (n *Names) UnmarshalJSON(data []byte) error {
	var text string
	err := json.Unmarshal(data, &text)
	if *n = nil; text != "" {
		*n = strings.Split(text, ",")
	}
	return err
}

func (l Lowered) MarshalText() ([]byte, error)  { return []byte(strings.ToLower(l.text)), nil }
func (l *Lowered) UnmarshalText(b []byte) error { l.text = string(b); return nil }

func (l Level) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "level-%d", int(l)), nil }
func (l *Level) UnmarshalText(b []byte) error {
	n, err := strconv.Atoi(strings.TrimPrefix(string(b), "level-"))
	*l = Level(n)
	return err
}

func (w Word) MarshalText() ([]byte, error) { return []byte("word " + w), nil }
func (w *Word) UnmarshalText(b []byte) error {
	*w = Word(strings.TrimPrefix(string(b), "word "))
	return nil
}

func (s Stamp) MarshalJSON() ([]byte, error)     { return json.Marshal(s.at) }
func (s *Stamp) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &s.at) }

func (u Unset) IsZero() bool  { return u.N < 10 }
func (b *Blank) IsZero() bool { return b.N < 10 }

func (c Cloned) Clone() Cloned                  { return Cloned{slices.Clone(c.List)} }
func (s Sameish) Clone() Sameish                { return s }
func (s Sameish) Equal(o Sameish) bool          { return s.Text == o.Text }
func (s Sameish) MarshalText() ([]byte, error)  { return []byte(s.Text), nil }
func (s *Sameish) UnmarshalText(b []byte) error { s.Text = string(b); return nil }

func (s Sealed) MarshalJSON() ([]byte, error) { return json.Marshal(map[string]string{"t": s.Token}) }

func (s *Sealed) UnmarshalJSON(data []byte) error {
	var m map[string]string
	err := json.Unmarshal(data, &m)
	s.Token = m["t"]
	return err
}

func (o Octet) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "o%d", uint8(o)), nil }
func (o *Octet) UnmarshalText(b []byte) error {
	_, err := fmt.Sscanf(string(b), "o%d", (*uint8)(o))
	return err
}

var leaves = []reflect.Type{
	reflect.TypeFor[bool](), reflect.TypeFor[int](), reflect.TypeFor[int8](), reflect.TypeFor[uint16](), reflect.TypeFor[uint64](),
	reflect.TypeFor[float32](), reflect.TypeFor[float64](), reflect.TypeFor[string](), reflect.TypeFor[[]byte](), reflect.TypeFor[[3]byte](),
	reflect.TypeFor[time.Time](), reflect.TypeFor[time.Duration](), reflect.TypeFor[json.RawMessage](), reflect.TypeFor[json.Number](),
	reflect.TypeFor[netip.Addr](), reflect.TypeFor[netip.AddrPort](), reflect.TypeFor[netip.Prefix](),
	reflect.TypeFor[map[string]string](), reflect.TypeFor[[]string](),
	reflect.TypeFor[Celsius](), reflect.TypeFor[Version](), reflect.TypeFor[Names](), reflect.TypeFor[Lowered](), reflect.TypeFor[Level](),
	reflect.TypeFor[Stamp](), reflect.TypeFor[Unset](), reflect.TypeFor[Blank](), reflect.TypeFor[Word](), reflect.TypeFor[Cloned](), reflect.TypeFor[Sameish](),
	reflect.TypeFor[Node](), reflect.TypeFor[Login](), reflect.TypeFor[Sealed](), reflect.TypeFor[[]Octet](),
}

var keyTypes = []reflect.Type{
	reflect.TypeFor[string](), reflect.TypeFor[int](), reflect.TypeFor[uint8](), reflect.TypeFor[Level](), reflect.TypeFor[Lowered](),
	reflect.TypeFor[time.Time](), reflect.TypeFor[netip.Addr](), reflect.TypeFor[time.Duration](),
}

var tags = []reflect.StructTag{
	"", "", "", `json:"x,omitempty"`, `json:",omitempty"`, `json:",omitzero"`, `json:"y,omitempty,omitzero"`, `json:",string"`,
	`json:"z,string,omitempty"`, `json:"X"`, `json:"Z,omitempty"`, `tend:"secret"`, `json:"w,omitempty" tend:"secret"`, `json:"a'b"`, `json:"ä"`,
}

// randomType is one that a spec may have, but for what New refuses of it.
func randomType(r *rand.Rand, depth int) reflect.Type {
	if depth <= 0 || r.IntN(3) == 0 {
		return leaves[r.IntN(len(leaves))]
	}
	switch r.IntN(6) {
	case 0:
		return reflect.PointerTo(randomType(r, depth-1))
	case 1:
		return reflect.SliceOf(randomType(r, depth-1))
	case 2:
		return reflect.ArrayOf(r.IntN(3), randomType(r, depth-1))
	case 3:
		return reflect.MapOf(keyTypes[r.IntN(len(keyTypes))], randomType(r, depth-1))
	}
	return randomStruct(r, depth)
}

func randomStruct(r *rand.Rand, depth int) reflect.Type {
	var fields []reflect.StructField
	for i := range 1 + r.IntN(5) {
		tag := tags[r.IntN(len(tags))]
		fields = append(fields, reflect.StructField{Name: fmt.Sprintf("F%d", i), Type: randomType(r, depth-1), Tag: reflect.StructTag(strings.Replace(string(tag), `json:"`, fmt.Sprintf(`json:"%.*s`, r.IntN(2), strconv.Itoa(i)), 1))})
	}
	switch r.IntN(4) {
	case 0:
		fields = append(fields, reflect.StructField{Name: "Base", Type: reflect.TypeFor[Base](), Anonymous: true})
	case 1:
		fields = append(fields, reflect.StructField{Name: "Base", Type: reflect.TypeFor[*Base](), Anonymous: true})
	}
	return reflect.StructOf(fields)
}

var texts = []string{"", "a", "b", "<&>\u2028", "ä\x00", "null", "hunter22-secret"}

var zones = []*time.Location{time.UTC, time.Local, time.FixedZone("X", 3600), time.FixedZone("LMT", 19*60+32), time.FixedZone("", 0)}

func randomTime(r *rand.Rand) time.Time {
	switch r.IntN(20) {
	case 0:
		return time.Time{}
	case 1:
		return time.Now()
	case 2:
		return time.Time{}.In(zones[r.IntN(len(zones))])
	case 3:
		return time.Date([]int{-1, 0, 9999, 10000}[r.IntN(4)], 1, 1, 0, 0, 0, 0, time.UTC)
	case 4:
		return time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -7201))
	case 5, 6, 7:
		return time.Time{}
	case 8: // often enough for two keys of one map
		return time.Unix(1e9, 0).In(zones[r.IntN(len(zones))])
	}
	return time.Unix(r.Int64N(1e9), r.Int64N(3)).In(zones[r.IntN(len(zones))])
}

// randomize gives v a random value.
func randomize(r *rand.Rand, v reflect.Value, depth int) {
	if set, ok := special(r, v); ok {
		v.Set(reflect.ValueOf(set))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt([]int64{0, 1, -1, 77, math.MaxInt64, math.MinInt64}[r.IntN(6)])
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint([]uint64{0, 1, 77, math.MaxUint64}[r.IntN(4)])
	case reflect.Float32, reflect.Float64:
		v.SetFloat([]float64{0, math.Copysign(0, -1), 1.5, 1e30, -1e-9, 1e21}[r.IntN(6)])
		if odd(r) {
			v.SetFloat([]float64{math.NaN(), math.Inf(1), 1e300}[r.IntN(3)])
		}
	case reflect.String:
		v.SetString(texts[r.IntN(len(texts))])
		if odd(r) {
			v.SetString([]string{"b\xffad", "\xff", "\xfe"}[r.IntN(3)])
		}
	case reflect.Pointer:
		if r.IntN(3) > 0 && depth > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			randomize(r, v.Elem(), depth-1)
		}
	case reflect.Slice:
		if n := r.IntN(4) - 1; n >= 0 && depth > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n+r.IntN(2))) // an append to a copy without elements may write to the original
			randomizeElems(r, v, depth-1)
		}
	case reflect.Array:
		randomizeElems(r, v, depth-1)
	case reflect.Map:
		if n := r.IntN(4) - 1; n >= 0 && depth > 0 {
			v.Set(reflect.MakeMap(v.Type()))
			for range n {
				k, x := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
				randomize(r, k, 1)
				randomize(r, x, depth-1)
				v.SetMapIndex(k, x)
			}
		}
	case reflect.Struct:
		for _, f := range v.Fields() {
			if f.CanSet() {
				randomize(r, f, depth)
			}
		}
	}
}

func randomizeElems(r *rand.Rand, v reflect.Value, depth int) {
	for i := range v.Len() {
		randomize(r, v.Index(i), depth)
	}
}

// odd is true of values that JSON does not carry.
func odd(r *rand.Rand) bool { return r.IntN(40) == 0 }

// special makes values of what has more to it than its fields.
func special(r *rand.Rand, v reflect.Value) (any, bool) {
	pick := func(values ...any) (any, bool) { return values[r.IntN(len(values))], true }
	addr := netip.MustParseAddr("fe80::1%eth0")
	if odd(r) {
		switch v.Interface().(type) {
		case json.RawMessage:
			return pick(json.RawMessage{}, json.RawMessage("\"\xff\""), json.RawMessage("{"))
		case json.Number:
			return pick(json.Number(""), json.Number("word"))
		case netip.AddrPort:
			return pick(netip.AddrPortFrom(netip.Addr{}, 80))
		case netip.Prefix:
			return pick(netip.PrefixFrom(addr, -1))
		}
	}
	switch v.Interface().(type) {
	case time.Time:
		return pick(randomTime(r))
	case Stamp:
		return pick(Stamp{randomTime(r)})
	case json.RawMessage:
		return pick(json.RawMessage(nil), json.RawMessage("null"), json.RawMessage(`{ "b" : "<", "a":[1.0, 2] }`), json.RawMessage(`"x"`))
	case json.Number:
		return pick(json.Number("1.50"), json.Number("-0"), json.Number("1e400"), json.Number("7"))
	case netip.Addr:
		return pick(netip.Addr{}, addr, netip.MustParseAddr("10.0.0.1"))
	case netip.AddrPort:
		return pick(netip.AddrPort{}, netip.AddrPortFrom(addr, 80))
	case netip.Prefix:
		return pick(netip.Prefix{}, netip.MustParsePrefix("10.0.0.0/8"))
	case Celsius:
		return pick(Celsius{}, Celsius{1.234}, Celsius{20})
	case Version:
		return pick(Version{}, Version{1, 2})
	case Lowered:
		return pick(Lowered{}, Lowered{"up"}, Lowered{"UP"})
	case Level:
		return pick(Level(0), Level(3))
	case Sameish:
		return pick(Sameish{}, Sameish{"a", ""}, Sameish{"a", "note"})
	case Names:
		return pick(Names(nil), Names{}, Names{"a", "b"})
	}
	return nil, false
}

// readBack is what a backend of bytes reads back of v.
func readBack(v reflect.Value) (reflect.Value, error) {
	data, err := json.Marshal(v.Addr().Interface())
	if err != nil {
		return v, err
	}
	again := reflect.New(v.Type())
	err = json.Unmarshal(data, again.Interface())
	return again.Elem(), err
}
