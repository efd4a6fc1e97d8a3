package store

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// What [JSON] cannot carry would read as something else than was written, be written
// again by the next run, and never settle. So [New] refuses types with fields that
// JSON drops, and a write refuses values, or gives them the form in which they are
// read back. The same holds on a backend that never encodes.

// A form is how values of one type are checked before they are written.
type form struct {
	building bool // it contains itself, and is not complete yet
	// find looks for values that cannot be written as they are; nil where all can.
	find func(v reflect.Value, depth int, r *report)
	// mend gives a copy the form in which it is read back; nil where nothing has
	// another.
	mend func(v reflect.Value, text bool)
}

// report is what find found: what is refused, what can be mended, and where.
type report struct {
	path    []string
	refused error
	text    error // a string that is not UTF-8
	other   bool  // a time or a pointer that JSON gives another form
}

func (r *report) refuse(format string, args ...any) {
	if r.refused == nil {
		r.refused = r.at(fmt.Errorf(format, args...))
	}
}

func (r *report) at(why error) error {
	return fmt.Errorf("%w: field %s %w", ErrInvalid, strings.Join(r.path, ""), why)
}

// in looks at a part of the value.
func (r *report) in(name string, f *form, v reflect.Value, depth int) {
	if f.find == nil || r.refused != nil {
		return
	}
	r.path = append(r.path, name)
	f.find(v, depth, r)
	r.path = r.path[:len(r.path)-1]
}

// firstDepth is how deep a spec lies in its object, see [MaxDepth].
const firstDepth = 2

// writable returns given, or a copy in the form in which it is read back. Text that is
// not UTF-8 is mended in a status, which may hold what a cloud said, and refused in
// a spec. The error is [ErrInvalid].
func (s *shape[V]) writable(given *V, mendText bool) (*V, error) {
	if s.form == nil || s.form.find == nil {
		return given, nil
	}
	r := s.find(given)
	defer reports.Put(r)
	if r.refused == nil && r.text == nil && !r.other {
		return given, nil
	}
	if r.refused != nil || r.text != nil && !mendText {
		return nil, firstOf(r.refused, r.text)
	}
	mended := new(V)
	s.copyTo(mended, given)
	if s.form.mend != nil {
		s.form.mend(reflect.ValueOf(mended).Elem(), mendText)
	}
	again := s.find(mended)
	defer reports.Put(again)
	return mended, firstOf(again.refused, again.text)
}

func (s *shape[V]) find(v *V) *report {
	r := reports.Get().(*report)
	*r = report{path: r.path[:0]}
	r.in(s.name, s.form, reflect.ValueOf(v).Elem(), firstDepth)
	return r
}

// reports are those of values that were looked through: every write looks through one.
var reports = sync.Pool{New: func() any { return new(report) }}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// forms makes forms; done breaks the recursion of types that contain themselves.
type forms struct {
	done map[place]*form
}

// A place is where values of a type lie. Those of a map have no address, so that JSON calls
// no method that has a pointer receiver.
type place struct {
	reflect.Type
	inMap bool
}

func newForm(t reflect.Type, name string) (*form, error) {
	b := forms{done: make(map[place]*form)}
	return b.build(place{t, false}, name)
}

func (b *forms) build(t place, path string) (*form, error) {
	if f, ok := b.done[t]; ok {
		return f, nil
	}
	f := &form{building: true}
	b.done[t] = f
	err := b.fill(f, t, path)
	f.building = false
	return f, err
}

var (
	jsonMarshaler   = reflect.TypeFor[json.Marshaler]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

var rawMessage = reflect.TypeFor[json.RawMessage]()

// marshals reports whether values of t encode themselves.
func marshals(t reflect.Type) bool {
	return t.Kind() != reflect.Pointer && encoder(reflect.PointerTo(t)) != nil
}

// encoder is the interface by which JSON encodes values of t, nil if by none.
func encoder(t reflect.Type) reflect.Type {
	switch {
	case t.Implements(jsonMarshaler):
		return jsonMarshaler
	case t.Implements(textMarshaler):
		return textMarshaler
	}
	return nil
}

// passedOver reports whether values of t would encode themselves in another way if they had
// an address.
func (t place) passedOver() bool {
	return t.inMap && marshals(t.Type) && encoder(t.Type) != encoder(reflect.PointerTo(t.Type))
}

func (b *forms) fill(f *form, t place, path string) error {
	_, immutable := immutable[t.Type]
	switch p := reflect.PointerTo(t.Type); {
	case t.Type == reflect.TypeFor[time.Time]():
		f.find, f.mend = findTime, mendTime
		return nil
	case immutable:
		f.find = findAddress
		return nil
	case t.passedOver() && (p.Implements(jsonUnmarshaler) || p.Implements(textUnmarshaler)):
		return refuse(path, t.Type, "is in a map, where JSON does not call its method, which wants a pointer; keep pointers")
	case marshals(t.Type) && (!t.inMap || encoder(t.Type) != nil):
		f.find = findMarshaler
		if t.Type == reflect.TypeFor[json.RawMessage]() {
			f.mend = mendRaw
		}
		return checkPromoted(t.Type, path)
	}
	switch t.Kind() {
	case reflect.Struct:
		return b.fillStruct(f, t, path)
	case reflect.Pointer:
		return b.fillPointer(f, t, path)
	case reflect.Slice, reflect.Array:
		return b.fillList(f, t, path)
	case reflect.Map:
		return b.fillMap(f, t, path)
	}
	return fillBasic(f, t.Type, path)
}

func fillBasic(f *form, t reflect.Type, path string) error {
	switch t.Kind() {
	case reflect.String:
		if t == reflect.TypeFor[json.Number]() {
			f.find = findNumber
			return nil
		}
		f.find, f.mend = findText, mendText
	case reflect.Float32, reflect.Float64:
		f.find = findFloat
	case reflect.Complex64, reflect.Complex128:
		return refuse(path, t, "has no form in JSON")
	}
	return nil
}

func findText(v reflect.Value, _ int, r *report) {
	if !utf8.ValidString(v.String()) && r.text == nil {
		r.text = r.at(errNotUTF8)
	}
}

var errNotUTF8 = errors.New("is not UTF-8")

func mendText(v reflect.Value, text bool) {
	if text {
		v.SetString(validText(v.String()))
	}
}

// validText replaces what is not UTF-8, as encoding/json does.
func validText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

func findFloat(v reflect.Value, _ int, r *report) {
	if x := v.Float(); math.IsNaN(x) || math.IsInf(x, 0) {
		r.refuse("is %v, which JSON has no number for", x)
	}
}

func findNumber(v reflect.Value, _ int, r *report) {
	if _, err := json.Marshal(v.Interface()); err != nil || v.Len() == 0 {
		r.refuse("is not a number")
	}
}

// findTime wants what RFC 3339 can say.
func findTime(v reflect.Value, _ int, r *report) {
	t := v.Interface().(time.Time)
	if y := t.Year(); y < 0 || y > 9999 {
		r.refuse("is a time in the year %d, which RFC 3339 has no form for", y)
	}
	if _, offset := t.Zone(); offset%60 != 0 || offset <= -24*3600 || offset >= 24*3600 {
		r.other = true
	}
}

func mendTime(v reflect.Value, _ bool) {
	v.Set(reflect.ValueOf(v.Interface().(time.Time).UTC()))
}

// findAddress wants an address, with a port or a prefix, that its text can say: that of an
// invalid prefix cannot be read, and with it the whole object.
func findAddress(v reflect.Value, _ int, r *report) {
	again := reflect.New(v.Type())
	data, err := json.Marshal(v.Interface())
	if err == nil {
		err = json.Unmarshal(data, again.Interface())
	}
	if err != nil || !again.Elem().Equal(v) {
		r.refuse("is a %v that has no text", v.Type())
	}
}

// findMarshaler asks a type that encodes itself; what it makes of its values is its
// own affair, as long as it is JSON that can be stored and read.
func findMarshaler(v reflect.Value, depth int, r *report) {
	if v.CanAddr() {
		v = v.Addr()
	}
	data, err := json.Marshal(v.Interface())
	switch {
	case err != nil:
		r.refuse("cannot be encoded: %w", err)
	case deeperThan(data, MaxDepth-depth+1): // its outermost list or object lies at depth
		r.refuse("is nested more than %d deep", MaxDepth)
	case !utf8.Valid(data) && r.text == nil:
		r.text = r.at(errNotUTF8)
	}
}

// mendRaw mends a json.RawMessage. What else encodes itself has its text in a form of its own.
func mendRaw(v reflect.Value, text bool) {
	if text && !utf8.Valid(v.Bytes()) { // nil stays nil
		v.SetBytes([]byte(validText(string(v.Bytes()))))
	}
}

// checkPromoted refuses a struct that JSON encodes or decodes by the method of a field that
// is embedded in it: that knows nothing of the fields beside it, and panics if it is nil.
func checkPromoted(t reflect.Type, path string) error {
	for _, methods := range [][]string{{"MarshalJSON", "MarshalText"}, {"UnmarshalJSON", "UnmarshalText"}} {
		for _, name := range methods { // JSON calls the first that there is
			m, ok := methodOf(t, name)
			if !ok {
				continue
			}
			if err := checkMethod(t, m, path); err != nil {
				return err
			}
			break
		}
	}
	return nil
}

func checkMethod(t reflect.Type, m reflect.Method, path string) error {
	if isDeclared(m) || t.Kind() != reflect.Struct {
		return nil
	}
	var from reflect.StructField
	fields := 0
	for field := range t.Fields() {
		if field.Name == "_" {
			continue
		}
		fields++
		if _, ok := methodOf(field.Type, m.Name); ok && field.Anonymous {
			from = field
		}
	}
	if from.Type == nil {
		return nil
	}
	path += "." + from.Name
	kind := from.Type.Kind()
	switch {
	case fields > 1:
		return refuse(path, from.Type, fmt.Sprintf("is embedded, and its %s would be that of all of %v", m.Name, t))
	case kind == reflect.Pointer, kind == reflect.Interface:
		_, format, _ := strings.Cut(m.Name, "arshal")
		if reads, ok := methodOf(t, "Unmarshal"+format); ok && isDeclared(reads) {
			return nil // which makes what is embedded
		}
		return refuse(path, from.Type, fmt.Sprintf("is embedded, and may be nil when %s of %v is called", m.Name, t))
	}
	m, _ = methodOf(from.Type, m.Name)
	return checkMethod(from.Type, m, path)
}

// isDeclared reports whether a method is not that of an embedded field.
func isDeclared(m reflect.Method) bool {
	code := m.Func.Pointer()
	file, _ := runtime.FuncForPC(code).FileLine(code)
	return file != "<autogenerated>"
}

// methodOf finds a method of t or of a pointer to it.
func methodOf(t reflect.Type, name string) (reflect.Method, bool) {
	if m, ok := t.MethodByName(name); ok || t.Kind() == reflect.Pointer {
		return m, ok
	}
	return reflect.PointerTo(t).MethodByName(name)
}

func (b *forms) fillPointer(f *form, t place, path string) error {
	elem, err := b.build(place{Type: t.Elem()}, path)
	if err != nil {
		return err
	}
	kind := t.Elem().Kind()
	nilable := kind == reflect.Pointer || kind == reflect.Slice || kind == reflect.Map
	if !nilable && elem.find == nil && !elem.building {
		return nil
	}
	deeper := 0
	if kind == reflect.Pointer {
		deeper = 1 // a type may be a pointer to itself
	}
	f.find = func(v reflect.Value, depth int, r *report) {
		switch {
		case v.IsNil():
		case depth > MaxDepth:
			r.refuse("is nested more than %d deep", MaxDepth)
		case nilable && v.Elem().IsNil():
			r.other = true // both are null in JSON
		default:
			r.in("", elem, v.Elem(), depth+deeper)
		}
	}
	f.mend = func(v reflect.Value, text bool) {
		switch {
		case v.IsNil():
		case nilable && v.Elem().IsNil():
			v.SetZero()
		case elem.mend != nil:
			elem.mend(v.Elem(), text)
		}
		if nilable && !v.IsNil() && v.Elem().IsNil() {
			v.SetZero() // what it points to has become nil
		}
	}
	return nil
}

func (b *forms) fillList(f *form, t place, path string) error {
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
		return nil // a string in JSON
	}
	elem, err := b.build(place{t.Elem(), t.inMap && t.Kind() == reflect.Array}, path+"[]")
	if err != nil || elem.find == nil && !elem.building {
		return err
	}
	f.find = func(v reflect.Value, depth int, r *report) {
		if depth > MaxDepth && v.Len() > 0 {
			r.refuse("is nested more than %d deep", MaxDepth)
		}
		for i := 0; i < v.Len() && r.refused == nil; i++ {
			r.in("[]", elem, v.Index(i), depth+1)
		}
	}
	f.mend = func(v reflect.Value, text bool) {
		for i := 0; elem.mend != nil && i < v.Len(); i++ {
			elem.mend(v.Index(i), text)
		}
	}
	return nil
}

func (b *forms) fillMap(f *form, t place, path string) error {
	elem, err := b.build(place{t.Elem(), true}, path+"[]")
	if err != nil {
		return err
	}
	textKey, err := checkMapKey(t.Type, path)
	if err != nil {
		return err
	}
	if !textKey && elem.find == nil && !elem.building {
		return nil
	}
	f.find = func(v reflect.Value, depth int, r *report) {
		if depth > MaxDepth && v.Len() > 0 {
			r.refuse("is nested more than %d deep", MaxDepth)
		}
		if textKey {
			findKeys(v, r)
		}
		for it := v.MapRange(); elem.find != nil && r.refused == nil && it.Next(); {
			r.in("[]", elem, it.Value(), depth+1)
		}
	}
	f.mend = func(v reflect.Value, text bool) {
		if !v.IsNil() {
			v.Set(mendedMap(v, elem, text))
		}
	}
	return nil
}

// checkMapKey tells whether the keys are texts that may be refused.
func checkMapKey(t reflect.Type, path string) (text bool, err error) {
	switch k := t.Key(); {
	case ownKeys(k), k.Kind() == reflect.String:
		return true, nil
	case k.Kind() >= reflect.Int && k.Kind() <= reflect.Uintptr:
		return false, nil
	}
	return false, refuse(path, t, "has keys that JSON cannot have")
}

// ownKeys reports whether JSON writes or reads keys of type k by their own methods. It writes
// a string as it is, and reads it by its method.
func ownKeys(k reflect.Type) bool {
	return k.Kind() != reflect.String && k.Implements(textMarshaler) || reflect.PointerTo(k).Implements(textUnmarshaler)
}

// findKeys refuses maps of which JSON reads other keys back.
func findKeys(v reflect.Value, r *report) {
	k := v.Type().Key()
	same := func(key reflect.Value) bool { return k.Kind() != reflect.String || utf8.ValidString(key.String()) }
	valid := true
	for it := v.MapRange(); valid && it.Next(); {
		valid = same(it.Key())
	}
	if !valid && r.text == nil {
		r.text = r.at(fmt.Errorf("has a key that %w", errNotUTF8))
	}
	if valid && !ownKeys(k) {
		return
	}
	if v.Len() == 0 {
		return
	}
	keys, read := reflect.MakeMap(reflect.MapOf(k, nothing)), reflect.New(reflect.MapOf(k, nothing))
	for it := v.MapRange(); it.Next(); {
		keys.SetMapIndex(it.Key(), reflect.Zero(nothing))
	}
	data, err := json.Marshal(keys.Interface())
	if err == nil {
		err = json.Unmarshal(data, read.Interface())
	}
	if err != nil {
		r.refuse("has a key that cannot be encoded and read: %w", err)
		return
	}
	if read.Elem().Len() < v.Len() {
		r.refuse("has two keys that are one in JSON")
	}
	for it := v.MapRange(); it.Next(); {
		// One time may be two keys, by its location or its monotonic clock.
		if k != reflect.TypeFor[time.Time]() && same(it.Key()) && !read.Elem().MapIndex(it.Key()).IsValid() {
			r.refuse("has a key that JSON reads back as another")
		}
	}
}

var nothing = reflect.TypeFor[struct{}]()

func mendedMap(v reflect.Value, elem *form, text bool) reflect.Value {
	fresh := reflect.MakeMapWithSize(v.Type(), v.Len())
	for it := v.MapRange(); it.Next(); {
		key, x := it.Key(), reflect.New(v.Type().Elem()).Elem()
		x.Set(it.Value())
		if elem.mend != nil {
			elem.mend(x, text)
		}
		if text && key.Kind() == reflect.String {
			key = reflect.ValueOf(validText(key.String())).Convert(key.Type())
		}
		fresh.SetMapIndex(key, x)
	}
	return fresh
}

func (b *forms) fillStruct(f *form, t place, path string) error {
	if err := checkNames(t.Type, path, make(map[string]string)); err != nil {
		return err
	}
	if err := checkPromoted(t.Type, path); err != nil {
		return err
	}
	type step struct {
		index  int
		form   *form
		name   string
		deeper int
	}
	var steps []step
	for i := range t.NumField() {
		field := t.Field(i)
		_, embedded := inlined(field)
		if !field.IsExported() && !(embedded && field.Type.Kind() == reflect.Struct) {
			continue // JSON has no such field
		}
		sub, err := b.build(place{field.Type, t.inMap}, path+"."+field.Name)
		if err != nil {
			return err
		}
		deeper := 1
		if embedded {
			deeper = 0
		}
		if sub.find != nil || sub.building {
			steps = append(steps, step{i, sub, "." + field.Name, deeper})
		}
	}
	if len(steps) == 0 {
		return nil
	}
	f.find = func(v reflect.Value, depth int, r *report) {
		if depth > MaxDepth {
			r.refuse("is nested more than %d deep", MaxDepth)
		}
		for _, s := range steps {
			r.in(s.name, s.form, v.Field(s.index), depth+s.deeper)
		}
	}
	f.mend = func(v reflect.Value, text bool) {
		for _, s := range steps {
			if s.form.mend != nil {
				s.form.mend(v.Field(s.index), text)
			}
		}
	}
	return nil
}

// checkNames refuses fields that JSON does not keep. Names has the fields met so far,
// also those of the structs that embed this one, by their names in JSON.
func checkNames(t reflect.Type, path string, names map[string]string, outer ...reflect.Type) error {
	for field := range t.Fields() {
		at := path + "." + field.Name
		inner, embedded := inlined(field)
		switch {
		case field.Name == "_":
			continue
		case field.Tag.Get("json") == "-":
			return refuse(at, field.Type, `is tagged json:"-" and would not be kept`)
		case embedded && (inner == t || slices.Contains(outer, inner)):
			return refuse(at, field.Type, "is embedded in itself and would not be kept")
		case embedded && marshals(inner):
			return refuse(at, field.Type, "is embedded, and would not be encoded by its own method")
		case embedded:
			if err := checkNames(inner, at, names, append(outer, t)...); err != nil {
				return err
			}
			continue
		case !field.IsExported():
			return refuse(at, field.Type, "is unexported and would not be kept")
		}
		name, _ := jsonName(field)
		if other, taken := names[name]; taken {
			return refuse(at, field.Type, fmt.Sprintf("has the name %q in JSON, as %s has", name, other))
		}
		names[name] = at
	}
	return nil
}

// inlined returns the struct whose fields JSON puts among those of the outer one, if the
// field is such a struct.
func inlined(field reflect.StructField) (inner reflect.Type, ok bool) {
	inner = field.Type
	if inner.Kind() == reflect.Pointer {
		inner = inner.Elem()
	}
	_, named := jsonName(field)
	return inner, field.Anonymous && !named && inner.Kind() == reflect.Struct
}

// jsonName is a field's name in JSON, and whether its tag gives it.
func jsonName(field reflect.StructField) (name string, tagged bool) {
	name, _, _ = strings.Cut(field.Tag.Get("json"), ",")
	odd := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r)
	}
	if name == "" || strings.ContainsFunc(name, odd) {
		return field.Name, false
	}
	return name, true
}

// writableConditions returns cs, or a copy with texts and times as
// [Object.SetCondition] stores them. The error is [ErrInvalid].
func writableConditions(cs []Condition) ([]Condition, error) {
	if len(cs) > MaxConditions {
		return nil, fmt.Errorf("%w: %d conditions, at most %d", ErrInvalid, len(cs), MaxConditions)
	}
	mended := cs
	for i := range cs {
		c := cs[i]
		if err := checkCondition(c, cs[:i]); err != nil {
			return nil, err
		}
		c.Reason, c.Message, c.Since = cut(c.Reason), cut(c.Message), storedTime(c.Since)
		if c != cs[i] {
			if &mended[0] == &cs[0] {
				mended = slices.Clone(cs)
			}
			mended[i] = c
		}
	}
	return mended, nil
}

func checkCondition(c Condition, before []Condition) error {
	if err := checkName("condition type", c.Type); err != nil {
		return err
	}
	if err := checkText("status of condition "+c.Type, string(c.Status), MaxLabel); err != nil {
		return err
	}
	if y := c.Since.UTC().Year(); y < 0 || y > 9999 {
		return fmt.Errorf("%w: condition %s since the year %d", ErrInvalid, c.Type, y)
	}
	for i := range before {
		if before[i].Type == c.Type {
			return fmt.Errorf("%w: condition %s twice", ErrInvalid, c.Type)
		}
	}
	return nil
}
