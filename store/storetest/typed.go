package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tendhq/tend/store"
)

// spoken is a spec and a status with everything that an encoding may change.
type spoken struct {
	Text   string
	Texts  map[string]string
	Number float64
	At     time.Time
	Raw    json.RawMessage
	Ptr    *[]string
	Next   *spoken
	List   []*spoken
}

type spokenObject = store.Object[spoken, spoken]

func (e *env) spoken() *store.Store[spoken, spoken] {
	e.Helper()
	s, err := store.New[spoken, spoken](e.b, kind, nil)
	if err != nil {
		e.Fatal(err)
	}
	return s
}

// oddZone is a zone whose offset RFC 3339 cannot say, as zones of before 1900 are.
var oddZone = time.FixedZone("LMT", 19*60+32)

// changing is what no encoding keeps as it is.
func changing() spoken {
	return spoken{
		At: time.Date(1890, 1, 2, 3, 4, 5, 6, oddZone), Raw: json.RawMessage(`{ "a" : "<" }`), Ptr: new([]string),
		Next: &spoken{At: time.Date(2026, 1, 2, 3, 4, 5, 0, oddZone), List: []*spoken{}},
	}
}

const notUTF8 = "the cloud said \xff\xfe"

// typedChecks are about the typed store, which must do the same on every backend.
var typedChecks = []check{
	{"Store/a status that is written again is not written", func(e *env) {
		s := e.spoken()
		o, err := s.Create(e.ctx, &spokenObject{Meta: store.Meta{Name: "a"}})
		if err != nil {
			e.Fatal(err)
		}
		var first store.Revision
		for i := range 20 {
			o.Status = changing()
			o.Status.Text, o.Status.Texts = notUTF8, map[string]string{"\xff": "\xfe"}
			o.Status.Raw = json.RawMessage(`{"b":"` + notUTF8 + `","a":[]}`)
			o.SetProgressing("CloudError", notUTF8)
			o.Conditions = append(o.Conditions[:1:1], store.Condition{Type: "Other", Message: notUTF8 + strings.Repeat("x", 5000)})
			if o, err = s.UpdateStatus(e.ctx, o); err != nil {
				e.Fatal(err)
			}
			if i == 0 {
				first = o.Revision
			}
			if o.Revision != first {
				e.Fatalf("the same UpdateStatus for the time %d: revision %d, the first time %d", i+1, o.Revision, first)
			}
			if i%2 == 0 {
				if o, err = s.Get(e.ctx, o.Key()); err != nil {
					e.Fatal(err)
				}
			}
		}
		if want := "the cloud said \ufffd\ufffd"; o.Status.Text != want || o.Status.Texts["\ufffd"] != "\ufffd" {
			e.Errorf("the status reads %q, %q, want %q", o.Status.Text, o.Status.Texts, want)
		}
		if got, want := string(o.Status.Raw), "{\"b\":\"the cloud said \ufffd\ufffd\",\"a\":[]}"; got != want {
			e.Errorf("the raw status reads %q, want %q", got, want)
		}
		if c, _ := o.Condition("Other"); len(c.Message) > store.MaxMessage {
			e.Errorf("a message of %d bytes was stored", len(c.Message))
		}
	}},
	{"Store/the deepest JSON that can be stored is taken", func(e *env) {
		s := e.spoken()
		deepest := strings.Repeat("[", store.MaxDepth-2) + strings.Repeat("]", store.MaxDepth-2)
		o, err := s.Create(e.ctx, &spokenObject{Meta: store.Meta{Name: "a"}, Spec: spoken{Raw: json.RawMessage(deepest)}})
		if err != nil {
			e.Fatal(err)
		}
		if o, err = s.Get(e.ctx, o.Key()); err != nil || string(o.Spec.Raw) != deepest {
			e.Errorf("reads %v, error %v", o, err)
		}
	}},
	{"Store/raw JSON beside a field that the program does not know settles", func(e *env) {
		s := e.spoken()
		e.commit(put(store.Key{Name: "a"}, `{"schema": 1, "later": 1, "meta": {"name": "a", "uid": "u", "labels": {"`+store.LabelOwner+`": "me"}}, "spec": {"later": 1}}`))
		raw := json.RawMessage(`{"b":1,"a":{"d":1,"c":[2]}}`)
		var o *spokenObject
		for i := range 3 {
			a, err := s.Apply(e.ctx, []*spokenObject{{Meta: store.Meta{Name: "a"}, Spec: spoken{Raw: raw}}}, "me", 0)
			if err != nil {
				e.Fatal(err)
			}
			if want := (store.Applied{Unchanged: 1}); i > 0 && a != want {
				e.Errorf("the same set for the time %d: %+v, want %+v", i+1, a, want)
			}
			if o, err = s.Get(e.ctx, store.Key{Name: "a"}); err != nil || string(o.Spec.Raw) != string(raw) {
				e.Fatalf("declared %s, reads %s, error %v", raw, o.Spec.Raw, err)
			}
			o.Status.Raw = raw
			if again, err := s.UpdateStatus(e.ctx, o); err != nil || i > 0 && again.Revision != o.Revision {
				e.Errorf("the same status for the time %d: %v, error %v, want it as it was", i+1, again, err)
			}
		}
	}},
	{"Store/a set that is applied again is not written", func(e *env) {
		s := e.spoken()
		for i := range 4 {
			a, err := s.Apply(e.ctx, []*spokenObject{{Meta: store.Meta{Name: "a"}, Spec: changing()}}, "me", 0)
			if err != nil {
				e.Fatal(err)
			}
			if want := (store.Applied{Unchanged: 1}); i > 0 && a != want {
				e.Errorf("the same set for the time %d: %+v, want %+v", i+1, a, want)
			}
		}
		o, err := s.Get(e.ctx, store.Key{Name: "a"})
		if err != nil || o.Generation != 1 || !o.Spec.At.Equal(changing().At) || !o.Spec.Next.At.Equal(changing().Next.At) {
			e.Errorf("got %+v, error %v, want generation 1 and the instants that were written", o, err)
		}
		if o.Spec.Ptr = new([]string); err == nil {
			again, err := s.Update(e.ctx, o)
			if err != nil || again.Revision != o.Revision {
				e.Errorf("Update without a change: error %v, revision %d, want %d", err, again.Revision, o.Revision)
			}
		}
	}},
	{"Store/each edit takes effect, of what was edited before too", func(e *env) {
		s := e.spoken()
		at := store.Key{Name: "a"}
		o, err := s.Create(e.ctx, &spokenObject{Meta: store.Meta{Name: "a", Labels: map[string]string{store.LabelOwner: "me"}}})
		if err != nil {
			e.Fatal(err)
		}
		for i := range 4 {
			is := fmt.Sprint(i)
			edit := func(o *spokenObject) {
				o.Spec.Text, o.Labels, o.Annotations = is, map[string]string{"l": is, store.LabelOwner: "me"}, map[string]string{"a": is}
			}
			for what, write := range map[string]func() (*spokenObject, error){
				"Update": func() (*spokenObject, error) { edit(o); return s.Update(e.ctx, o) },
				"Mutate": func() (*spokenObject, error) {
					return s.Mutate(e.ctx, at, func(o *spokenObject) error { edit(o); return nil })
				},
				"Apply": func() (*spokenObject, error) {
					declared := &spokenObject{Meta: store.Meta{Name: "a"}}
					edit(declared)
					did, err := s.Apply(e.ctx, []*spokenObject{declared}, "me", 0)
					if did.Updated != 1 {
						e.Errorf("Apply of the edit %s did %+v", is, did)
					}
					return o, err
				},
				"UpdateStatus": func() (*spokenObject, error) {
					o.Status.Text = is
					o.SetCondition(store.Condition{Type: "Other", Status: store.True, Message: is})
					return s.UpdateStatus(e.ctx, o)
				},
			} {
				is = what + " " + fmt.Sprint(i)
				if _, err := write(); err != nil {
					e.Fatalf("%s: %v", is, err)
				}
				before := o.Generation
				if o, err = s.Get(e.ctx, at); err != nil {
					e.Fatal(err)
				}
				c, _ := o.Condition("Other")
				if what == "UpdateStatus" && (o.Status.Text != is || c.Message != is || o.Generation != before) {
					e.Errorf("after %s the status is %q, the condition %q, the generation %d after %d", is, o.Status.Text, c.Message, o.Generation, before)
				}
				if what != "UpdateStatus" && (o.Spec.Text != is || o.Labels["l"] != is || o.Annotations["a"] != is || o.Generation != before+1) {
					e.Errorf("after %s the object has %q, labels %v, annotations %v, generation %d after %d", is, o.Spec.Text, o.Labels, o.Annotations, o.Generation, before)
				}
			}
		}
	}},
	{"Store/what was given to it and what it gave belongs to the caller", func(e *env) {
		s := e.spoken()
		full := func() spoken {
			return spoken{
				Texts: map[string]string{"a": "b", "c": "d"}, Raw: json.RawMessage(`{"a":1}`), Ptr: &[]string{"x", "y"},
				Next: &spoken{Texts: map[string]string{"e": "f"}}, List: []*spoken{{Ptr: &[]string{"z"}}, {Text: "t"}},
			}
		}
		o := &spokenObject{Spec: full(), Status: full(), Meta: store.Meta{
			Name: "a", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"},
			Finalizers: []string{"f", "g"}, Owners: []store.Owner{{Kind: "Owner", Key: key("o"), UID: "1"}, {Kind: "Owner", Key: key("p"), UID: "2"}},
		}}
		o.SetProgressing("One", "first")
		o.Conditions = append(o.Conditions, store.Condition{Type: "Other", Status: store.True, Message: "second"})
		// Each use gives what went in and came out. All of it is written over, and the store
		// must say what it said before.
		n := 0
		edit := func(o *spokenObject) {
			n++
			is := fmt.Sprint(n)
			o.Spec.Texts, o.Status.Texts = map[string]string{"now": is}, map[string]string{"now": is}
			o.Spec.List, o.Status.Ptr = []*spoken{{Text: is}, {Ptr: &[]string{is}}}, &[]string{is, "x"}
			o.Labels, o.Annotations = map[string]string{"now": is}, map[string]string{"now": is}
			o.Finalizers, o.Owners = []string{"f" + is, "g"}, []store.Owner{{Kind: "Owner", Key: key(is), UID: is}}
			o.Conditions = append(o.Conditions[:1:1], store.Condition{Type: "Other", Status: store.True, Message: is})
		}
		get := func() *spokenObject {
			e.Helper()
			got, err := s.Get(e.ctx, store.Key{Name: "a"})
			if err != nil {
				e.Fatal(err)
			}
			return got
		}
		type lent = []*spokenObject
		for _, use := range []struct {
			what string
			do   func() (lent, error)
		}{
			{"Create", func() (lent, error) { got, err := s.Create(e.ctx, o); return lent{o, got}, err }},
			{"Get", func() (lent, error) { return lent{get()}, nil }},
			{"List", func() (lent, error) { return s.List(e.ctx, store.Selector{}) }},
			{"Update", func() (lent, error) {
				o := get()
				edit(o)
				got, err := s.Update(e.ctx, o)
				return lent{o, got}, err
			}},
			{"UpdateStatus", func() (lent, error) {
				o := get()
				edit(o)
				got, err := s.UpdateStatus(e.ctx, o)
				return lent{o, got}, err
			}},
			{"UpdateIntent", func() (lent, error) {
				o := get()
				edit(o)
				got, err := s.UpdateIntent(e.ctx, o)
				return lent{o, got}, err
			}},
			{"Update without a change", func() (lent, error) {
				o := get()
				got, err := s.Update(e.ctx, o)
				return lent{o, got}, err
			}},
			{"Mutate", func() (lent, error) {
				var kept *spokenObject
				got, err := s.Mutate(e.ctx, store.Key{Name: "a"}, func(o *spokenObject) error { kept = o; edit(o); return nil })
				return lent{kept, got}, err
			}},
			{"Apply", func() (lent, error) {
				o := &spokenObject{Spec: full(), Meta: store.Meta{Name: "c", Annotations: map[string]string{"a": "b"}, Finalizers: []string{"f"}}}
				_, err := s.Apply(e.ctx, lent{o}, "me", 0)
				return lent{o}, err
			}},
			{"Apply to what is there", func() (lent, error) {
				o := &spokenObject{Spec: full(), Meta: store.Meta{Name: "c", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"x": "y"}}}
				o.Spec.Text = "another"
				_, err := s.Apply(e.ctx, lent{o}, "me", 0)
				return lent{o}, err
			}},
			{"Delete", func() (lent, error) { o := get(); return lent{o}, s.Delete(e.ctx, o) }},
		} {
			given, err := use.do()
			if err != nil {
				e.Fatalf("%s: %v", use.what, err)
			}
			before := e.everything(s)
			for _, o := range given {
				scribble(reflect.ValueOf(o).Elem())
			}
			if after := e.everything(s); after != before {
				e.Errorf("the store changed with what %s was given, or gave:\n%s\nwas\n%s", use.what, after, before)
			}
		}
	}},
	{"Store/what cannot be written is ErrInvalid and nothing is written", func(e *env) {
		s := e.spoken()
		o, err := s.Create(e.ctx, &spokenObject{Meta: store.Meta{Name: "a"}})
		if err != nil {
			e.Fatal(err)
		}
		ring := &spoken{}
		ring.Next = ring
		list := spoken{}
		list.List = append(list.List, &spoken{})
		list.List[0].List = list.List
		for what, bad := range map[string]spoken{
			"NaN": {Number: math.NaN()}, "Inf": {Number: math.Inf(-1)}, "year 10000": {At: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
			"year 9999 that is 10000 in UTC": {At: time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -7201))},
			"keys that become one":           {Texts: map[string]string{"\xff": "1", "\xfe": "2"}},
			"bad JSON":                       {Raw: json.RawMessage("{")}, "a ring": {Next: ring}, "a ring of lists": list,
			"JSON that is too deep": {Next: &spoken{Raw: json.RawMessage(strings.Repeat("[", store.MaxDepth-2) + strings.Repeat("]", store.MaxDepth-2))}},
			"a part far below":      {Next: &spoken{List: []*spoken{nil, {Number: math.NaN()}}}},
		} {
			e.refused(s, o, what, func(o *spokenObject) { o.Spec = bad })
			e.refused(s, o, what+" in the status", func(o *spokenObject) { o.Status = bad })
		}
		e.refused(s, o, "text that is not UTF-8", func(o *spokenObject) { o.Spec.Text = notUTF8 })
		e.refused(s, o, "raw JSON that is not UTF-8", func(o *spokenObject) { o.Spec.Raw = json.RawMessage(`"` + notUTF8 + `"`) })
		e.refused(s, o, "a key that is not UTF-8", func(o *spokenObject) { o.Spec.Texts = map[string]string{"\xff": "1"} })
		e.refused(s, o, "an annotation that is not UTF-8", func(o *spokenObject) { o.Annotations = map[string]string{"a": "\xff"} })
		e.refused(s, o, "a condition without a type", func(o *spokenObject) { o.Conditions = []store.Condition{{Status: store.True}} })
		e.refused(s, o, "a condition twice", func(o *spokenObject) { o.Conditions = []store.Condition{{Type: "A"}, {Type: "A"}} })
		e.refused(s, o, "a condition of a giant type", func(o *spokenObject) { o.Conditions = []store.Condition{{Type: strings.Repeat("x", 5000)}} })
		e.refused(s, o, "too many conditions", func(o *spokenObject) {
			for i := range store.MaxConditions + 1 {
				o.Conditions = append(o.Conditions, store.Condition{Type: fmt.Sprint(i)})
			}
		})
	}},
	{"Store/the longest object that is taken can be deleted, and its create recorded", func(e *env) {
		s := e.spoken()
		object := func(size int) *spokenObject {
			return &spokenObject{
				Meta: store.Meta{Name: fmt.Sprint("size", size), Finalizers: []string{"f"}},
				Spec: spoken{Text: strings.Repeat("x", size)},
			}
		}
		// An encoding is as much longer than its text for any text of seven digits' length.
		known := object(1_000_000)
		if _, err := s.Create(e.ctx, known); err != nil {
			e.Fatalf("Create of 1,000,000 bytes: %v", err)
		}
		data, err := e.get(known.Key()).Encode()
		if err != nil {
			e.Fatal(err)
		}
		longest := 1_000_000 + store.MaxObject - len(data)
		taken, refused := longest-16, longest+16
		for refused-taken > 1 {
			size := (taken + refused) / 2
			_, err := s.Create(e.ctx, object(size))
			switch {
			case err == nil:
				taken = size
			case errors.Is(err, store.ErrInvalid):
				refused = size
			default:
				e.Fatalf("Create of %d bytes: %v", size, err)
			}
		}
		o, err := s.Get(e.ctx, object(taken).Key())
		if err != nil {
			e.Fatalf("Get of %d bytes: %v", taken, err)
		}
		at := time.Now()
		for _, write := range []func() error{
			func() error {
				o.Intent = store.Intent{ExternalName: strings.Repeat("n", 1000), Location: "eu-1", Attempt: 9, Pending: at, Succeeded: at, Failed: at}
				o, err = s.UpdateIntent(e.ctx, o)
				return err
			},
			func() error { return s.Delete(e.ctx, o) },
			func() error {
				o, err = s.Mutate(e.ctx, o.Key(), func(o *spokenObject) error {
					o.SetTerminating("Deleting", strings.Repeat("m", store.MaxMessage))
					return nil
				})
				return err
			},
			func() error { o.Finalizers = nil; _, err = s.Update(e.ctx, o); return err },
		} {
			if err := write(); err != nil {
				e.Fatalf("an object of %d bytes was taken and cannot be deleted: %v", taken, err)
			}
		}
		if _, err := s.Get(e.ctx, object(taken).Key()); !errors.Is(err, store.ErrNotFound) {
			e.Errorf("after its deletion, Get: %v", err)
		}
	}},
}

// refused checks that no write of the typed store takes the object that spoil makes.
func (e *env) refused(s *store.Store[spoken, spoken], stored *spokenObject, what string, spoil func(*spokenObject)) {
	e.Helper()
	before := e.head()
	bad := *stored
	spoil(&bad)
	fresh := spokenObject{Meta: store.Meta{Name: "fresh"}}
	spoil(&fresh)
	_, create := s.Create(e.ctx, &fresh)
	_, update := s.Update(e.ctx, &bad)
	_, status := s.UpdateStatus(e.ctx, &bad)
	_, apply := s.Apply(e.ctx, []*spokenObject{&fresh}, "me", 0)
	_, mutate := s.Mutate(e.ctx, stored.Key(), func(o *spokenObject) error { spoil(o); return nil })
	e.wantErr("Create of "+what, create, store.ErrInvalid)
	e.wantErr("Apply of "+what, apply, store.ErrInvalid)
	e.wantErr("Mutate to "+what, mutate, store.ErrInvalid)
	if err := errors.Join(update, status); !errors.Is(err, store.ErrInvalid) { // one of them writes what is wrong
		e.Errorf("Update and UpdateStatus of %s: got errors %v, want %v", what, err, store.ErrInvalid)
	}
	if after := e.head(); after != before {
		e.Errorf("%s took the store from revision %d to %d", what, before, after)
	}
}

// everything prints all objects of a store.
func (e *env) everything(s *store.Store[spoken, spoken]) string {
	e.Helper()
	var all []string // a list has no order
	for o, err := range s.All(e.ctx, store.Selector{}) {
		text, errText := json.Marshal(o)
		if err = errors.Join(err, errText); err != nil {
			e.Fatal(err)
		}
		all = append(all, string(text))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// scribble writes over whatever can be reached from v through pointers, slices and maps.
func scribble(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			scribble(v.Elem())
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			if field.CanSet() {
				scribble(field)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			scribble(v.Index(i))
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			v.SetMapIndex(k, reflect.ValueOf("scribbled"))
		}
		if !v.IsNil() {
			v.SetMapIndex(reflect.ValueOf("more"), reflect.ValueOf("scribbled"))
		}
	case reflect.String:
		v.SetString("scribbled")
	case reflect.Uint8: // of a json.RawMessage
		v.SetUint('0')
	}
}
