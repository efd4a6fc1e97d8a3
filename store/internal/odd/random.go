package odd

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Random makes types and values.
type Random struct {
	*rand.Rand
	// Odd: of so many parts of a value one has what JSON does not carry; 0: none has.
	Odd int
}

var leaves = []reflect.Type{
	reflect.TypeFor[bool](), reflect.TypeFor[int](), reflect.TypeFor[int8](), reflect.TypeFor[uint16](), reflect.TypeFor[uint64](),
	reflect.TypeFor[float32](), reflect.TypeFor[float64](), reflect.TypeFor[string](), reflect.TypeFor[[]byte](), reflect.TypeFor[[3]byte](),
	reflect.TypeFor[time.Time](), reflect.TypeFor[time.Duration](), reflect.TypeFor[json.RawMessage](), reflect.TypeFor[json.Number](),
	reflect.TypeFor[netip.Addr](), reflect.TypeFor[netip.AddrPort](), reflect.TypeFor[netip.Prefix](),
	reflect.TypeFor[map[string]string](), reflect.TypeFor[[]string](),
	reflect.TypeFor[celsius](), reflect.TypeFor[version](), reflect.TypeFor[names](), reflect.TypeFor[lowered](), reflect.TypeFor[level](),
	reflect.TypeFor[stamp](), reflect.TypeFor[unset](), reflect.TypeFor[blank](), reflect.TypeFor[word](), reflect.TypeFor[cloned](), reflect.TypeFor[sameish](),
	reflect.TypeFor[node](), reflect.TypeFor[login](), reflect.TypeFor[sealed](), reflect.TypeFor[[]octet](),
}

var keyTypes = []reflect.Type{
	reflect.TypeFor[string](), reflect.TypeFor[int](), reflect.TypeFor[uint8](), reflect.TypeFor[level](), reflect.TypeFor[lowered](),
	reflect.TypeFor[time.Time](), reflect.TypeFor[netip.Addr](), reflect.TypeFor[time.Duration](),
}

var tags = []reflect.StructTag{
	"", "", "", `json:"x,omitempty"`, `json:",omitempty"`, `json:",omitzero"`, `json:"y,omitempty,omitzero"`, `json:",string"`,
	`json:"z,string,omitempty"`, `json:"X"`, `json:"Z,omitempty"`, `tend:"secret"`, `json:"w,omitempty" tend:"secret"`, `json:"a'b"`, `json:"ä"`,
}

// Type is one that a spec may have, but for what New refuses of it.
func (r *Random) Type(depth int) reflect.Type {
	if depth <= 0 || r.IntN(3) == 0 {
		return leaves[r.IntN(len(leaves))]
	}
	switch r.IntN(6) {
	case 0:
		return reflect.PointerTo(r.Type(depth - 1))
	case 1:
		return reflect.SliceOf(r.Type(depth - 1))
	case 2:
		return reflect.ArrayOf(r.IntN(3), r.Type(depth-1))
	case 3:
		return reflect.MapOf(keyTypes[r.IntN(len(keyTypes))], r.Type(depth-1))
	}
	return r.Struct(depth)
}

// Struct is a Type that is a struct.
func (r *Random) Struct(depth int) reflect.Type {
	var fields []reflect.StructField
	for i := range 1 + r.IntN(5) {
		tag := tags[r.IntN(len(tags))]
		fields = append(fields, reflect.StructField{Name: fmt.Sprintf("F%d", i), Type: r.Type(depth - 1), Tag: reflect.StructTag(strings.Replace(string(tag), `json:"`, fmt.Sprintf(`json:"%.*s`, r.IntN(2), strconv.Itoa(i)), 1))})
	}
	switch r.IntN(4) {
	case 0:
		fields = append(fields, reflect.StructField{Name: "Base", Type: reflect.TypeFor[Base](), Anonymous: true})
	case 1:
		fields = append(fields, reflect.StructField{Name: "Base", Type: reflect.TypeFor[*Base](), Anonymous: true})
	}
	return reflect.StructOf(fields)
}

var texts = []string{"", "a", "b", "<&>\u2028", "ä\x00", "null", " line\n", "hunter22-secret"}

var zones = []*time.Location{time.UTC, time.Local, time.FixedZone("X", 3600), time.FixedZone("LMT", 19*60+32), time.FixedZone("", 0)}

// started has a monotonic clock.
var started = time.Now()

func (r *Random) time() time.Time {
	n := r.IntN(20)
	if r.Odd == 0 && (n == 3 || n == 4) { // JSON has no such year
		n = 0
	}
	switch n {
	case 0:
		return time.Time{}
	case 1:
		return started
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

// Fill gives v a random value.
func (r *Random) Fill(v reflect.Value, depth int) {
	if set, ok := r.special(v); ok {
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
		if r.odd() {
			v.SetFloat([]float64{math.NaN(), math.Inf(1), 1e300}[r.IntN(3)])
		}
	case reflect.String:
		v.SetString(texts[r.IntN(len(texts))])
		if r.odd() {
			v.SetString([]string{"b\xffad", "\xff", "\xfe"}[r.IntN(3)])
		}
	case reflect.Pointer:
		if r.IntN(3) > 0 && depth > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			r.Fill(v.Elem(), depth-1)
		}
	case reflect.Slice:
		if n := r.IntN(4) - 1; n >= 0 && depth > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n+r.IntN(2))) // an append to a copy without elements may write to the original
			r.fillElems(v, depth-1)
		}
	case reflect.Array:
		r.fillElems(v, depth-1)
	case reflect.Map:
		if n := r.IntN(4) - 1; n >= 0 && depth > 0 {
			v.Set(reflect.MakeMap(v.Type()))
			for range n {
				k, x := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
				r.Fill(k, 1)
				r.Fill(x, depth-1)
				v.SetMapIndex(k, x)
			}
		}
	case reflect.Struct:
		for _, f := range v.Fields() {
			if f.CanSet() {
				r.Fill(f, depth)
			}
		}
	}
}

// Change gives one field of v, or of a struct in it, another value.
func (r *Random) Change(v reflect.Value) {
	for v.Kind() == reflect.Struct && v.NumField() > 0 {
		f := v.Field(r.IntN(v.NumField()))
		if !f.CanSet() {
			break
		}
		v = f
	}
	r.Fill(v, 3)
}

func (r *Random) fillElems(v reflect.Value, depth int) {
	for i := range v.Len() {
		r.Fill(v.Index(i), depth)
	}
}

// odd is true of values that JSON does not carry.
func (r *Random) odd() bool { return r.Odd > 0 && r.IntN(r.Odd) == 0 }

// special makes values of what has more to it than its fields.
func (r *Random) special(v reflect.Value) (any, bool) {
	pick := func(values ...any) (any, bool) { return values[r.IntN(len(values))], true }
	addr := netip.MustParseAddr("fe80::1%eth0")
	if r.odd() {
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
		return pick(r.time())
	case stamp:
		return pick(stamp{r.time()})
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
	case celsius:
		return pick(celsius{}, celsius{1.234}, celsius{20})
	case version:
		return pick(version{}, version{1, 2})
	case lowered:
		return pick(lowered{}, lowered{"up"}, lowered{"UP"})
	case level:
		return pick(level(0), level(3))
	case sameish:
		return pick(sameish{}, sameish{"a", ""}, sameish{"a", "note"})
	case names:
		return pick(names(nil), names{}, names{"a", "b"})
	}
	return nil, false
}
