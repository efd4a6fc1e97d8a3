package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

type (
	diskSpec struct {
		Size     int                 `json:"size"`
		Zone     string              `json:"zone"`
		On       *bool               `json:"on,omitempty"`
		Parts    map[string]diskPart `json:"parts,omitempty"`
		Copy     *diskPart           `json:"copy,omitempty"`
		List     []string            `json:"list,omitempty"`
		Raw      json.RawMessage     `json:"raw,omitempty"`
		Keys     map[string]string   `json:"keys,omitempty" tend:"secret"`
		Password string              `json:"password,omitempty" tend:"secret"`
		Mounts   []diskMount         `json:"mounts,omitempty" tend:"key=At"`
		Tags     map[string]struct{} `json:"tags,omitempty"`
		Marked   *struct{}           `json:"marked,omitempty"`
		Lists    map[string][]string `json:"lists,omitempty"`

		Raws map[string]json.RawMessage `json:"raws,omitempty"`
	}
	diskMount struct {
		At   string            `json:"at"`
		Host string            `json:"host,omitempty"`
		Key  string            `json:"key,omitempty" tend:"secret"`
		Opts map[string]string `json:"opts,omitempty"`
		Sub  []diskMount2      `json:"sub,omitempty" tend:"key=At"`
	}
	diskMount2 struct {
		At string `json:"at"`
		N  int    `json:"n,omitempty"`
	}
	untagged struct { // is a diskMount of before there were keys
		At   string       `json:"at"`
		Host string       `json:"host,omitempty"`
		Sub  []diskMount2 `json:"sub,omitempty"`
	}
	diskPart struct {
		Size int    `json:"size"`
		Zone string `json:"zone"`
	}
	disk  = store.Object[diskSpec, struct{}]
	disks = store.Store[diskSpec, struct{}]
)

// onDisks runs a test on a backend that keeps values, and on one that keeps bytes.
func onDisks(t *testing.T, o *store.Options[diskSpec, struct{}], test func(t *testing.T, s *disks)) {
	for name, of := range map[string]*memory.Options{"values": nil, "bytes": {Encode: true}} {
		t.Run(name, func(t *testing.T) { test(t, must[*disks](t)(store.New(newMemory(t, of), "disk", o))) })
	}
}

// declareText applies what a text declares of the disk a, and returns what is stored then.
func declareText(t *testing.T, s *disks, spec string) *disk {
	t.Helper()
	o := must[*disk](t)(s.Parse([]byte(`{"meta":{"name":"a"},"spec":`+spec+`}`), nil))
	must[store.Applied](t)(s.Apply(t.Context(), []*disk{o}, "file", 0))
	return must[*disk](t)(s.Get(t.Context(), o.Key()))
}

func mutateDisk(t *testing.T, s *disks, fn func(o *disk)) *disk {
	t.Helper()
	return must[*disk](t)(s.Mutate(t.Context(), store.Key{Name: "a"}, func(o *disk) error { fn(o); return nil }))
}

// fillIn fills in the stored disk as a client that observed it does.
func fillIn(t *testing.T, s *disks, fn func(o *disk)) *disk {
	t.Helper()
	return mutateDisk(t, s, func(o *disk) {
		filled := s.Clone(o)
		fn(filled)
		if err := s.FillIn(o, filled); err != nil {
			t.Error(err)
		}
	})
}

func wantSpec(t *testing.T, o *disk, want diskSpec) {
	t.Helper()
	if diff := cmp.Diff(want, o.Spec); diff != "" {
		t.Errorf("unexpected spec (-want +got), owners %s:\n%s", o.FieldOwners, diff)
	}
}

// A file that leaves a field out and a client that fills it in come to rest.
//
// promise S6
func TestAFileAndAClientComeToRest(t *testing.T) {
	onDisks(t, nil, func(t *testing.T, s *disks) {
		var last *disk
		for i := range 5 {
			declareText(t, s, `{"size":1}`)
			o := fillIn(t, s, func(o *disk) {
				if o.Spec.Zone == "" {
					o.Spec.Zone = "z"
				}
			})
			if i > 1 && o.Revision != last.Revision {
				t.Errorf("round %d wrote revision %d over %d", i, o.Revision, last.Revision)
			}
			last = o
		}
		wantSpec(t, last, diskSpec{Size: 1, Zone: "z"})
	})
}

// A field that a text declares as empty is declared: a client does not fill it in.
//
// promise S6
func TestAFieldThatIsDeclaredAsEmptyIsNotFilledIn(t *testing.T) {
	onDisks(t, nil, func(t *testing.T, s *disks) {
		for range 2 {
			declareText(t, s, `{"Size":0,"zone":"","on":false,"list":[]}`)
			o := fillIn(t, s, func(o *disk) {
				o.Spec = diskSpec{Size: 7, Zone: "z", On: new(true), List: []string{"x"}, Password: "p"}
			})
			wantSpec(t, o, diskSpec{On: new(bool), Password: "p"})
		}
		o := declareText(t, s, `{"zone":""}`)
		wantSpec(t, o, diskSpec{Password: "p"})
		wantSpec(t, fillIn(t, s, func(o *disk) { o.Spec.Size = 7 }), diskSpec{Size: 7, Password: "p"})
	})
}

// An entry of a map and what a pointer holds go as a whole, with what was filled in, and stay as long as another
// declarer has a field in them.
//
// promise S6
func TestAnEntryThatIsDeclaredNoLongerGoesWhole(t *testing.T) {
	onDisks(t, nil, func(t *testing.T, s *disks) {
		declareText(t, s, `{"parts":{"p":{"size":1},"q":{"size":2},"r.~":{}},"copy":{"size":3}}`)
		fillIn(t, s, func(o *disk) {
			o.Spec.Parts["p"], o.Spec.Parts["q"] = diskPart{1, "z"}, diskPart{2, "z"}
			o.Spec.Copy.Zone = "z"
		})
		other := &disk{Meta: store.Meta{Name: "a"}, Spec: diskSpec{Parts: map[string]diskPart{"q": {Zone: "z"}}}}
		must[*disk](t)(s.ApplyFields(t.Context(), other, "other", false))
		o := declareText(t, s, `{"size":1}`)
		wantSpec(t, o, diskSpec{Size: 1, Parts: map[string]diskPart{"q": {0, "z"}}})
	})
}

// An object of before there was a record has no owners: nothing is unset in the step that upgrades and removes a field,
// and what is declared then has an owner.
//
// promise S6
func TestTheFirstDeclarationOfAnOlderObjectUnsetsNothing(t *testing.T) {
	onDisks(t, nil, func(t *testing.T, s *disks) {
		older := &disk{Meta: store.Meta{Name: "a", Labels: map[string]string{store.LabelOwner: "file"}}, Spec: diskSpec{Size: 1, Zone: "z", List: []string{"x"}}}
		must[*disk](t)(s.Create(t.Context(), older))
		wantSpec(t, declareText(t, s, `{"size":2,"list":["x"]}`), diskSpec{Size: 2, Zone: "z", List: []string{"x"}})
		wantSpec(t, declareText(t, s, `{"size":2}`), diskSpec{Size: 2, Zone: "z"})
	})
}

// What a program changes of a declared field is changed back, and what it changes besides stays.
func TestAProgramOwnsNothing(t *testing.T) {
	onDisks(t, nil, func(t *testing.T, s *disks) {
		declareText(t, s, `{"size":1}`)
		mutateDisk(t, s, func(o *disk) { o.Spec.Size, o.Spec.Zone = 9, "z" })
		wantSpec(t, declareText(t, s, `{"size":1}`), diskSpec{Size: 1, Zone: "z"})
		mutateDisk(t, s, func(o *disk) { o.Spec.Size = 0 })
		wantSpec(t, declareText(t, s, `{"size":1}`), diskSpec{Size: 1, Zone: "z"})
	})
}

// A person's edit of a declared field is a conflict until the declaration says the same; others of the set go on.
//
// promise S6
func TestAnEditOfADeclaredFieldIsAConflict(t *testing.T) {
	onDisks(t, nil, func(t *testing.T, s *disks) {
		declareText(t, s, `{"size":1,"keys":{"hunter2":"hunter3"}}`)
		edit := func(fn func(o *disk)) {
			t.Helper()
			o := must[*disk](t)(s.Get(t.Context(), store.Key{Name: "a"}))
			fn(o)
			must[*disk](t)(s.UpdateByHand(t.Context(), o))
		}
		edit(func(o *disk) { o.Spec.Size, o.Spec.Zone, o.Spec.Keys = 5, "z", map[string]string{"hunter2": "hunter4"} })
		apply := func(size int) error {
			a := &disk{Meta: store.Meta{Name: "a"}, Spec: diskSpec{Size: size, List: []string{"x"}, Keys: map[string]string{"hunter2": "hunter3"}}}
			_, err := s.Apply(t.Context(), []*disk{a, {Meta: store.Meta{Name: "b"}}}, "file", 0)
			return err
		}
		err := apply(1)
		if !errors.Is(err, store.ErrOwned) || !strings.Contains(err.Error(), "disk a: keys: edit has") || !strings.Contains(err.Error(), "size: edit has 5, file declares 1") || strings.Contains(err.Error(), "hunter") {
			t.Errorf("got %v", err)
		}
		o := must[*disk](t)(s.Get(t.Context(), store.Key{Name: "a"}))
		wantSpec(t, o, diskSpec{Size: 5, Zone: "z", List: []string{"x"}, Keys: map[string]string{"hunter2": "hunter4"}})
		if shown := must[[]byte](t)(s.Show(o)); strings.Contains(string(shown), "hunter") || !strings.Contains(string(shown), `"edit"`) || strings.Contains(string(o.FieldOwners), "hunter") {
			t.Errorf("shown is %s", shown)
		}
		must[*disk](t)(s.Get(t.Context(), store.Key{Name: "b"}))
		edit(func(o *disk) { o.Spec.Keys = map[string]string{"hunter2": "hunter3"} })
		if err := apply(5); err != nil {
			t.Errorf("it says what the edit says: %v", err)
		}
		if err := apply(1); err != nil {
			t.Errorf("the edit is over: %v", err)
		}
	})
}

// A person takes an entry that has parts out of a map, and one that declares other parts of it does not bring it back.
// Seen to fail: with the last name of its path escaped, so that the edit did not own that it is gone.
//
// promise S6
func TestAnEntryThatAPersonTookOutStaysOut(t *testing.T) {
	onDisks(t, nil, func(t *testing.T, s *disks) {
		declareText(t, s, `{"parts":{"p":{"size":1}}}`)
		o := must[*disk](t)(s.Get(t.Context(), store.Key{Name: "a"}))
		delete(o.Spec.Parts, "p")
		must[*disk](t)(s.UpdateByHand(t.Context(), o))
		other := &disk{Meta: store.Meta{Name: "a"}, Spec: diskSpec{Parts: map[string]diskPart{"p": {Zone: "z"}}}}
		if o, err := s.ApplyFields(t.Context(), other, "other", false); !errors.Is(err, store.ErrOwned) || strings.Contains(string(o.FieldOwners), "~0") {
			t.Errorf("got %v, owners %s", err, o.FieldOwners)
		}
	})
}

// A new value of the label hands the fields over.
func TestTheLabelHandsOverTheFields(t *testing.T) {
	onDisks(t, nil, func(t *testing.T, s *disks) {
		declareText(t, s, `{"size":1,"zone":"z"}`)
		mutateDisk(t, s, func(o *disk) { o.Labels[store.LabelOwner] = "new" })
		must[store.Applied](t)(s.Apply(t.Context(), []*disk{{Meta: store.Meta{Name: "a"}, Spec: diskSpec{Size: 2}}}, "new", 0))
		o := must[*disk](t)(s.Get(t.Context(), store.Key{Name: "a"}))
		wantSpec(t, o, diskSpec{Size: 2})
		if want := store.FieldOwners(`{"at":2,"by":{"new":{}}}`); o.FieldOwners != want {
			t.Errorf("owners are %s, want %s", o.FieldOwners, want)
		}
		o = mutateDisk(t, s, func(o *disk) { delete(o.Labels, store.LabelOwner) }) // it is let go
		if o.FieldOwners != "" {
			t.Errorf("without the label the owners are %s", o.FieldOwners)
		}
		must[*disk](t)(s.ApplyFields(t.Context(), &disk{Meta: store.Meta{Name: "a"}, Spec: diskSpec{Size: 3}}, "other", false))
	})
}

// What Default fills in is not declared.
func TestADefaultIsNotDeclared(t *testing.T) {
	o := &store.Options[diskSpec, struct{}]{Default: func(o *disk) {
		if o.Spec.Zone == "" {
			o.Spec.Zone = "default"
		}
	}}
	onDisks(t, o, func(t *testing.T, s *disks) {
		wantSpec(t, declareText(t, s, `{"size":1}`), diskSpec{Size: 1, Zone: "default"})
		mutateDisk(t, s, func(o *disk) { o.Spec.Zone = "z" })
		wantSpec(t, declareText(t, s, `{"size":2}`), diskSpec{Size: 2, Zone: "z"})
		declareText(t, s, `{"zone":"y"}`)
		wantSpec(t, declareText(t, s, `{"size":1}`), diskSpec{Size: 1, Zone: "default"})
	})
}

// The record of an earlier form of a kind counts for nothing.
func TestAConversionDropsTheRecord(t *testing.T) {
	b := newMemory(t, &memory.Options{Encode: true})
	s := must[*disks](t)(store.New[diskSpec, struct{}](b, "disk", nil))
	declareText(t, s, `{"size":1,"zone":"z"}`)
	later := must[*disks](t)(store.New(b, "disk", &store.Options[diskSpec, struct{}]{Version: 2, Convert: []store.Conversion{func(map[string]any) error { return nil }}}))
	wantSpec(t, declareText(t, later, `{"size":2}`), diskSpec{Size: 2, Zone: "z"})
}

// The size of the record that the documentation states.
func TestTheRecordIsSmall(t *testing.T) {
	onDisks(t, nil, func(t *testing.T, s *disks) {
		if o := must[*disk](t)(s.Create(t.Context(), &disk{Meta: store.Meta{Name: "n"}, Spec: diskSpec{Size: 1}})); o.FieldOwners != "" {
			t.Errorf("an object without a declaration has the record %s", o.FieldOwners)
		}
		if o := declareText(t, s, `{"size":1,"zone":"z","list":["x"]}`); o.FieldOwners != `{"at":1,"by":{"file":{}}}` {
			t.Errorf("one declarer has the record %s", o.FieldOwners)
		}
	})
}

// A Declaration makes of stored bytes what Apply makes of the object.
//
// promise S6
func TestADeclarationMergesAsApplyDoes(t *testing.T) {
	ctx := t.Context()
	r := rand.New(rand.NewPCG(3, 4))
	specs := []string{
		`"size":1`, `"size":2`, `"zone":"z"`, `"zone":""`, `"on":false`, `"list":["x"]`, `"parts":{"p":{"size":1}}`, `"parts":{"p":{"zone":"y"},"q":{}}`, `"copy":{"size":1}`,
		`"mounts":[{"at":"a","host":"h"},{"at":"b"}]`, `"mounts":[{"at":"c","sub":[{"at":"x","n":1}]},{"at":"a","host":""}]`, `"mounts":[]`,
	}
	names := []string{"size", "zone", "on", "list", "parts", "copy", "mounts"}
	refused := 0
	for i := range 300 {
		b := newMemory(t, &memory.Options{Encode: true})
		s := must[*disks](t)(store.New[diskSpec, struct{}](b, "disk", nil))
		stored := []byte(nil)
		for range 6 {
			by, has, fields := []string{"one", "two"}[r.IntN(2)], map[string]bool{}, []string{}
			for _, f := range specs {
				if name := strings.Split(f, `"`)[1]; r.IntN(3) == 0 && !has[name] {
					has[name] = true
					fields = append(fields, f)
				}
			}
			text := fmt.Sprintf(`{"meta":{"name":"a","labels":{%q:%q}},"spec":{%s}}`, store.LabelOwner, by, strings.Join(fields, ","))
			o := must[*disk](t)(s.Parse([]byte(text), nil))
			d := must[store.Declaration](t)(s.Declaration(o))
			next, err := stored, error(nil)
			if stored == nil {
				next, err = d.Stored()
			} else if over, failed := d.Over(stored); failed != nil || over != nil {
				next, err = over, failed
			}
			o.Labels = nil
			before, wasThere := b.Get(ctx, "disk", o.Key())
			now, applied := s.ApplyFields(ctx, o, by, false)
			if errors.Is(err, store.ErrOwned) != errors.Is(applied, store.ErrOwned) || !errors.Is(err, store.ErrOwned) && err != nil {
				t.Fatalf("case %d: %s over %s: %v, Apply says %v", i, text, stored, err, applied)
			}
			if err != nil { // nothing of it is applied: start from what was
				refused++
				if wasThere != nil {
					t.Fatal(wasThere)
				}
				must[store.Revision](t)(b.Commit(ctx, store.Txn{Ops: []store.Op{{Kind: "disk", Key: o.Key(), Put: store.Bytes(before.Bytes)}}}))
				continue
			}
			got := must[*disk](t)(s.Decode(store.Record{Kind: "disk", Key: o.Key(), Revision: 1, Bytes: next}))
			if diff := cmp.Diff(now.Spec, got.Spec); !s.SameSpec(now, got) || got.Generation != now.Generation || got.FieldOwners != now.FieldOwners && len(fields) > 0 {
				t.Fatalf("case %d: %s over\n%s:\ngeneration %d and %d, owners\n%s\n%s\n%s", i, text, stored, now.Generation, got.Generation, now.FieldOwners, got.FieldOwners, diff)
			}
			stored = next
		}
	}
	if refused < 50 {
		t.Errorf("%d were refused, %v", refused, names)
	}
}

// Owners that declare the same beside each other: the field goes with the last.
func TestAFieldOfTwoDeclarersGoesWithTheLast(t *testing.T) {
	onDisks(t, nil, func(t *testing.T, s *disks) {
		declareText(t, s, `{"size":1,"zone":"z"}`)
		other := func(spec diskSpec) *disk {
			t.Helper()
			return must[*disk](t)(s.ApplyFields(t.Context(), &disk{Meta: store.Meta{Name: "a"}, Spec: spec}, "other", false))
		}
		other(diskSpec{Size: 1})
		wantSpec(t, declareText(t, s, `{"zone":"z"}`), diskSpec{Size: 1, Zone: "z"})
		wantSpec(t, other(diskSpec{Size: 2}), diskSpec{Size: 2, Zone: "z"})
		wantSpec(t, other(diskSpec{}), diskSpec{Zone: "z"})
		var owners []string
		o := must[*disk](t)(s.Get(t.Context(), store.Key{Name: "a"}))
		for name, fields := range o.FieldOwners.All(o.Generation) {
			owners = append(owners, fmt.Sprint(name, fields))
		}
		if want := []string{"file[all]"}; fmt.Sprint(owners) != fmt.Sprint(want) {
			t.Errorf("the owners are %v, want %v", owners, want)
		}
		must[store.Applied](t)(s.Apply(context.WithoutCancel(t.Context()), nil, "file", 1))
	})
}

// An object that has another owner than the declaration names is another object: a child of the owner's namesake.
// Seen to fail: without the comparison of owners.
//
// promise S6
func TestADeclarationWithAnOwnerSparesWhatIsNotItsOwn(t *testing.T) {
	onDisks(t, nil, func(t *testing.T, s *disks) {
		of := func(uid string) []store.Owner {
			return []store.Owner{{Kind: "set", Key: store.Key{Name: "s"}, UID: uid}}
		}
		declare := func(uid string) error {
			_, err := s.ApplyFields(t.Context(), &disk{Meta: store.Meta{Name: "a", Owners: of(uid)}, Spec: diskSpec{Zone: uid}}, "set s", true)
			return err
		}
		if err := declare("one"); err != nil {
			t.Fatal(err)
		}
		if err := declare("two"); !errors.Is(err, store.ErrExists) || !strings.Contains(err.Error(), "disk a is not owned by this set s") {
			t.Errorf("got %v", err)
		}
		wantSpec(t, must[*disk](t)(s.Get(t.Context(), store.Key{Name: "a"})), diskSpec{Zone: "one"})
	})
}

// The elements of a list whose tag says by which field they are known are merged one by one: what is stored keeps its order, what is
// new comes behind it as it is declared, and a conflict names the element.
//
// promise S6
func TestElementsWithAKeyAreMergedOneByOne(t *testing.T) {
	onDisks(t, nil, func(t *testing.T, s *disks) {
		declareText(t, s, `{"mounts":[{"at":"b","host":"1"},{"at":"a.~","sub":[{"at":"x","n":1}]}]}`)
		fillIn(t, s, func(o *disk) {
			o.Spec.Mounts[0].Opts = map[string]string{"o": "1"}
			o.Spec.Mounts[1].Sub = append(o.Spec.Mounts[1].Sub, diskMount2{At: "late", N: 7})
			o.Spec.Mounts = append([]diskMount{{At: "0", Host: "filled"}}, o.Spec.Mounts...)
		})
		other := &disk{Meta: store.Meta{Name: "a"}, Spec: diskSpec{Mounts: []diskMount{{At: "z"}, {At: "b", Host: "2", Key: "hunter2"}, {At: "y"}}}}
		_, err := s.ApplyFields(t.Context(), other, "other", false)
		if want := `mounts.b.host: file has "1", other declares "2"`; !errors.Is(err, store.ErrOwned) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter") {
			t.Errorf("got %v, want %q in it", err, want)
		}
		o := must[*disk](t)(s.Get(t.Context(), store.Key{Name: "a"}))
		rest := []diskMount{{At: "a.~", Sub: []diskMount2{{"x", 1}, {"late", 7}}}, {At: "z"}, {At: "y"}}
		b := diskMount{At: "b", Host: "1", Key: "hunter2", Opts: map[string]string{"o": "1"}}
		wantOrder := func(o *disk, want ...diskMount) { t.Helper(); wantSpec(t, o, diskSpec{Mounts: want}) }
		wantOrder(o, append([]diskMount{b, rest[0], {At: "0", Host: "filled"}}, rest[1:]...)...)
		b.Host = ""
		wantOrder(declareText(t, s, `{"mounts":[{"at":"y"}]}`), b, diskMount{At: "0", Host: "filled"}, rest[1], rest[2])
		other.Spec.Mounts = nil
		must[*disk](t)(s.ApplyFields(t.Context(), other, "other", false))
		wantOrder(declareText(t, s, `{"mounts":[{"at":"y"}]}`), diskMount{At: "0", Host: "filled"}, rest[2])
	})
}

// Two elements of one key cannot be told apart, and are refused by every write that changes the spec.
func TestTwoElementsOfOneKeyAreRefused(t *testing.T) {
	onDisks(t, nil, func(t *testing.T, s *disks) {
		declareText(t, s, `{"mounts":[{"at":"a"}]}`)
		twice := &disk{Meta: store.Meta{Name: "a"}, Spec: diskSpec{Mounts: []diskMount{{At: "x"}, {At: "x", Host: "h"}}}}
		wrong := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, store.ErrInvalid) {
				t.Errorf("%s: got %v, want ErrInvalid", what, err)
			}
		}
		_, err := s.Apply(t.Context(), []*disk{twice}, "file", 0)
		wrong("Apply", err)
		_, err = s.ApplyFields(t.Context(), twice, "file", true)
		wrong("ApplyFields", err)
		_, err = s.Declaration(twice)
		wrong("Declaration", err)
		_, err = s.Mutate(t.Context(), twice.Key(), func(o *disk) error { o.Spec = twice.Spec; return nil })
		wrong("Mutate", err)
		twice.Name = "b"
		_, err = s.Create(t.Context(), twice)
		wrong("Create", err)
		_, err = s.Create(t.Context(), &disk{Meta: store.Meta{Name: "b"}, Spec: diskSpec{Mounts: []diskMount{{Sub: []diskMount2{{At: "x"}, {At: "x"}}}}}})
		wrong("Create of two below an element", err)
	})
}

// What was stored before there was a tag may have two elements of one key: it can be written besides, and a declaration
// changes nothing of it, unless it is forced: then the list becomes the one that is declared.
func TestElementsThatCannotBeToldApartAreNotMerged(t *testing.T) {
	type before struct {
		Size   int        `json:"size"`
		Zone   string     `json:"zone"`
		Mounts []untagged `json:"mounts,omitempty"`
	}
	b := newMemory(t, &memory.Options{Encode: true})
	earlier := must[*store.Store[before, struct{}]](t)(store.New[before, struct{}](b, "disk", nil))
	mounts := []diskMount{{At: "x"}, {At: "x", Host: "h"}}
	must[*store.Object[before, struct{}]](t)(earlier.Create(t.Context(), &store.Object[before, struct{}]{Meta: store.Meta{Name: "a"}, Spec: before{Mounts: []untagged{{At: "x"}, {At: "x", Host: "h"}}}}))
	s := must[*disks](t)(store.New[diskSpec, struct{}](b, "disk", nil))
	o := must[*disk](t)(s.Parse([]byte(`{"meta":{"name":"a"},"spec":{"mounts":[{"at":"y"}]}}`), nil))
	if _, err := s.ApplyFields(t.Context(), o, "file", false); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "mounts") {
		t.Errorf("got %v", err)
	}
	d := must[store.Declaration](t)(s.Declaration(o))
	r := must[store.Record](t)(b.Get(t.Context(), "disk", o.Key()))
	if _, err := d.Over(r.Bytes); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a Declaration: got %v", err)
	}
	stored := must[*disk](t)(s.Get(t.Context(), o.Key()))
	stored.SetReady()
	wantSpec(t, must[*disk](t)(s.UpdateStatus(t.Context(), stored)), diskSpec{Mounts: mounts})
	wantSpec(t, must[*disk](t)(s.ApplyFields(t.Context(), o, "file", true)), diskSpec{Mounts: []diskMount{{At: "y"}}})
}

// A tag that no element can have is refused with the kind.
func TestAKeyThatIsNoneIsRefused(t *testing.T) {
	type (
		part    struct{ Name, Password string }
		missing struct {
			List []part `tend:"key=Nome"`
		}
		number struct {
			List []struct{ N int } `tend:"key=N"`
		}
		texts struct {
			List []string `tend:"key=Name"`
		}
		secret struct {
			List []struct {
				Name string `tend:"secret"`
			} `tend:"key=Name"`
		}
		quoted struct {
			List []struct {
				Name string `json:",string"`
			} `tend:"key=Name"`
		}
		outer struct {
			List []struct {
				Name  string
				Parts map[string][2]struct {
					List []part `tend:"key=Name"`
				}
			}
		}
	)
	b := newMemory(t, nil)
	_, err := store.New[missing, struct{}](b, "k", nil)
	errs := map[string]error{"missing": err}
	_, errs["number"] = store.New[number, struct{}](b, "k", nil)
	_, errs["texts"] = store.New[texts, struct{}](b, "k", nil)
	_, errs["quoted"] = store.New[quoted, struct{}](b, "k", nil)
	_, errs["outer"] = store.New[outer, struct{}](b, "k", nil)
	_, errs["secret"] = store.New[secret, struct{}](b, "k", nil)
	_, errs["endless"] = store.New[treeOfKids, struct{}](b, "k", nil)
	for name, err := range errs {
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "field") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

type treeOfKids struct {
	Name string
	Kids []treeOfKids `tend:"key=Name"`
}

// An entry or a pointer that holds nothing is declared by being there: it is put into an object that exists, goes with
// the declaration, and one that a person took out stays out.
//
// promise S6
func TestWhatHoldsNothingIsThereOrNot(t *testing.T) {
	onDisks(t, nil, func(t *testing.T, s *disks) {
		for _, x := range []struct {
			text string
			want diskSpec
		}{
			{`{"size":1,"tags":{"a":{}}}`, diskSpec{Size: 1, Tags: map[string]struct{}{"a": {}}}},
			{`{"size":1,"marked":{}}`, diskSpec{Size: 1, Marked: &struct{}{}}},
			{`{"size":1,"lists":{"a":[]}}`, diskSpec{Size: 1, Lists: map[string][]string{"a": {}}}},
			{`{"size":1,"raws":{"a":{}}}`, diskSpec{Size: 1, Raws: map[string]json.RawMessage{"a": json.RawMessage("{}")}}},
			{`{"size":1,"raws":{"a":[]}}`, diskSpec{Size: 1, Raws: map[string]json.RawMessage{"a": json.RawMessage("[]")}}},
			{`{"size":1,"raw":{}}`, diskSpec{Size: 1, Raw: json.RawMessage("{}")}},
		} {
			declareText(t, s, `{"size":1}`)
			o := must[*disk](t)(s.Parse([]byte(`{"meta":{"name":"a"},"spec":`+x.text+`}`), nil))
			is := must[*disk](t)(s.Get(t.Context(), o.Key()))
			if s.Declares(o, is) {
				t.Errorf("%s: it is not there yet", x.text)
			}
			stored := must[[]byte](t)(must[store.Declaration](t)(s.Declaration(&disk{Meta: o.Meta, Spec: is.Spec})).Stored())
			over, err := must[store.Declaration](t)(s.Declaration(o)).Over(stored)
			if err != nil || !strings.Contains(string(over), x.text[10:len(x.text)-1]) {
				t.Errorf("a Declaration of %s makes %s, %v", x.text, over, err)
			}
			is = declareText(t, s, x.text)
			if wantSpec(t, is, x.want); !s.Declares(o, is) {
				t.Errorf("%s: it is not what is declared", x.text)
			}
			if again := declareText(t, s, x.text); again.Revision != is.Revision {
				t.Errorf("%s: written again", x.text)
			}
			wantSpec(t, declareText(t, s, `{"size":1}`), diskSpec{Size: 1})

			is = declareText(t, s, x.text)
			is.Spec = diskSpec{Size: 1}
			must[*disk](t)(s.UpdateByHand(t.Context(), is))
			if is, err := s.ApplyFields(t.Context(), o, "file", false); !errors.Is(err, store.ErrOwned) {
				t.Errorf("%s: it was taken out: %v, %+v", x.text, err, is.Spec)
			}
			is = must[*disk](t)(s.ApplyFields(t.Context(), o, "file", true))
			wantSpec(t, is, x.want)
		}
	})
}

// Null says that there is nothing: a declaration of it is what an object without it has, and puts it where there is something.
//
// Seen to fail: an entry of null that encodes itself was never what is declared.
//
// promise S6
func TestNullIsNoValue(t *testing.T) {
	onDisks(t, nil, func(t *testing.T, s *disks) {
		for _, text := range []string{`{"size":1,"raws":{"a":null}}`, `{"size":1,"raw":null}`, `{"size":1,"copy":null}`} {
			o := must[*disk](t)(s.Parse([]byte(`{"meta":{"name":"a"},"spec":`+text+`}`), nil))
			declareText(t, s, `{"size":1}`)
			is := declareText(t, s, text)
			if again := declareText(t, s, text); again.Revision != is.Revision || !s.Declares(o, is) {
				t.Errorf("%s: it does not come to rest: %+v", text, is.Spec)
			}
		}
		for _, text := range []string{`{"raws":{"a":{"x":1}}}`, `{"raw":[1]}`} {
			declareText(t, s, text)
		}
		is := declareText(t, s, `{"raws":{"a":null},"raw":null}`)
		if again := declareText(t, s, `{"raws":{"a":null},"raw":null}`); again.Revision != is.Revision {
			t.Errorf("it does not come to rest: %+v", is.Spec)
		}
		if raw := string(is.Spec.Raw); raw != "" && raw != "null" {
			t.Errorf("raw is %s", raw)
		}
	})
}

// A key that is written as the mark of what is there whatever its parts are is a key like another: with it, nothing of
// another's goes.
//
// promise S6
func TestAKeyMayBeATilde(t *testing.T) {
	onDisks(t, nil, func(t *testing.T, s *disks) {
		declareText(t, s, `{"parts":{"~":{"size":1}},"lists":{"~":["x"]},"mounts":[{"at":"~","host":"h"}]}`)
		other := &disk{Meta: store.Meta{Name: "a"}, Spec: diskSpec{
			Parts: map[string]diskPart{"b": {Size: 2}}, Lists: map[string][]string{"b": {"y"}}, Mounts: []diskMount{{At: "b"}},
		}}
		must[*disk](t)(s.ApplyFields(t.Context(), other, "other", false))
		if again := must[*disk](t)(s.ApplyFields(t.Context(), &disk{Meta: other.Meta, Spec: diskSpec{Lists: map[string][]string{"~": {"z"}}}}, "third", true)); again.Spec.Lists["~"][0] != "z" {
			t.Errorf("it is not written: %+v", again.Spec)
		}
		must[*disk](t)(s.ApplyFields(t.Context(), &disk{Meta: other.Meta}, "third", true))
		wantSpec(t, declareText(t, s, `{}`), other.Spec)
	})
}

// A list is stored with its owner, and gets a tag later: the owner has its elements, and an element that it drops goes whole.
func TestAListThatGetsATagIsOwnedByItsElements(t *testing.T) {
	type before struct {
		Size   int        `json:"size"`
		Zone   string     `json:"zone"`
		Mounts []untagged `json:"mounts,omitempty"`
	}
	type object = store.Object[before, struct{}]
	for what, filled := range map[string]before{"all": {}, "all but": {Size: 7}, "fields": {Size: 7, Zone: "z"}} {
		b := newMemory(t, &memory.Options{Encode: true})
		earlier := must[*store.Store[before, struct{}]](t)(store.New[before, struct{}](b, "disk", nil))
		o := &object{Meta: store.Meta{Name: "a"}, Spec: before{Mounts: []untagged{{At: "a", Host: "h", Sub: []diskMount2{{At: "s"}}}, {At: "b"}}}}
		must[store.Applied](t)(earlier.Apply(t.Context(), []*object{o}, "file", 0))
		must[*object](t)(earlier.Mutate(t.Context(), o.Key(), func(o *object) error { o.Spec.Size, o.Spec.Zone = filled.Size, filled.Zone; return nil }))
		s := must[*disks](t)(store.New[diskSpec, struct{}](b, "disk", nil))
		r := must[store.Record](t)(b.Get(t.Context(), "disk", o.Key()))
		next := must[*disk](t)(s.Parse([]byte(`{"meta":{"name":"a","labels":{"tend/declared-by":"file"}},"spec":{"mounts":[{"at":"b"}]}}`), nil))
		want := diskSpec{Size: filled.Size, Zone: filled.Zone, Mounts: []diskMount{{At: "b"}}}
		r.Bytes = must[[]byte](t)(must[store.Declaration](t)(s.Declaration(next)).Over(r.Bytes))
		t.Run(what, func(t *testing.T) {
			wantSpec(t, must[*disk](t)(s.Decode(r)), want)
			wantSpec(t, declareText(t, s, `{"mounts":[{"at":"b"}]}`), want)
		})
	}
}

// The kind says whose value stands: a scaler's over the file's, and the file's over what a person edits. Both are no
// conflict and come to rest, in whichever order they write; what is in no precedence stays a conflict.
//
// Seen to fail with a precedence that says nothing, and with a declarer that takes along what it leaves.
//
// promise S6
func TestPrecedenceSaysWhoseValueStands(t *testing.T) {
	o := &store.Options[diskSpec, struct{}]{Precedence: []string{"scaler", "file", "edit"}}
	onDisks(t, o, func(t *testing.T, s *disks) {
		declareText(t, s, `{"size":1,"zone":"z"}`)
		scale := &disk{Meta: store.Meta{Name: "a"}, Spec: diskSpec{Size: 5}}
		must[*disk](t)(s.ApplyFields(t.Context(), scale, "scaler", false))
		before := declareText(t, s, `{"size":1,"zone":"z"}`)
		wantSpec(t, before, diskSpec{Size: 5, Zone: "z"})
		must[*disk](t)(s.ApplyFields(t.Context(), scale, "scaler", false))
		if o := declareText(t, s, `{"size":1,"zone":"z"}`); o.Revision != before.Revision {
			t.Errorf("they do not come to rest: %+v", o)
		}
		text := func(spec string) *disk {
			return must[*disk](t)(s.Parse([]byte(`{"meta":{"name":"a"},"spec":`+spec+`}`), nil))
		}
		if !s.Declares(text(`{"size":1,"zone":"z"}`), before) || s.Declares(text(`{"size":1,"zone":"y"}`), before) {
			t.Error("Declares does not go by the precedence")
		}
		edited := s.Clone(before)
		edited.Spec.Size, edited.Spec.Zone = 7, "edited"
		edited = must[*disk](t)(s.UpdateByHand(t.Context(), edited))
		declared := text(`{"size":1,"zone":"z"}`)
		declared.Labels = map[string]string{store.LabelOwner: "file"}
		d := must[store.Declaration](t)(s.Declaration(declared))
		record := must[store.Record](t)(s.Backend().Get(t.Context(), "disk", edited.Key()))
		over := must[[]byte](t)(d.Over(must[[]byte](t)(record.Encode())))
		if !strings.Contains(string(over), `"zone":"z"`) || !strings.Contains(string(over), `"size":1`) || strings.Contains(string(over), "precedence") {
			t.Errorf("the declaration makes %s", over)
		}
		if first := must[[]byte](t)(d.Stored()); strings.Contains(string(first), "precedence") {
			t.Errorf("the declaration stores %s", first)
		}
		wantSpec(t, declareText(t, s, `{"size":1,"zone":"z"}`), diskSpec{Size: 1, Zone: "z"})
		must[*disk](t)(s.ApplyFields(t.Context(), scale, "scaler", false))
		d = must[store.Declaration](t)(s.Declaration(declared))
		record = must[store.Record](t)(s.Backend().Get(t.Context(), "disk", edited.Key()))
		if over := must[[]byte](t)(d.Over(must[[]byte](t)(record.Encode()))); strings.Contains(string(over), `"size":1`) {
			t.Errorf("a declaration that stands behind makes %s", over)
		}
		_, err := s.ApplyFields(t.Context(), &disk{Meta: store.Meta{Name: "a"}, Spec: diskSpec{Size: 6}}, "another", false)
		wantErr(t, "what is in no precedence", err, store.ErrOwned)
		left := must[*disk](t)(s.ApplyFields(t.Context(), &disk{Meta: store.Meta{Name: "a"}}, "scaler", false))
		wantSpec(t, left, diskSpec{Size: 5, Zone: "z"}) // and not zero until the file is applied again
		wantSpec(t, declareText(t, s, `{"size":1,"zone":"z"}`), diskSpec{Size: 1, Zone: "z"})
		wantSpec(t, declareText(t, s, `{"zone":"z"}`), diskSpec{Zone: "z"}) // persons do not declare again

		must[*disk](t)(s.ApplyFields(t.Context(), scale, "scaler", false))
		must[*disk](t)(s.ApplyFields(t.Context(), scale, "viewer", false)) // the same value, and in no precedence
		wantSpec(t, declareText(t, s, `{"size":1,"zone":"z"}`), diskSpec{Size: 5, Zone: "z"})
	})
	for _, names := range [][]string{{"a", "a"}, {""}, {"a\x00"}} {
		_, err := store.New(newMemory(t, nil), "disk", &store.Options[diskSpec, struct{}]{Precedence: names})
		wantErr(t, fmt.Sprintf("the precedence %q", names), err, store.ErrInvalid)
	}
}

// What some declarers refuse stops nothing else of a set: what is declared no longer is deleted, too.
//
// Seen to fail: with an Apply that deleted nothing after a failure.
//
// promise S6
func TestAConflictHoldsUpNoDeletion(t *testing.T) {
	onDisks(t, nil, func(t *testing.T, s *disks) {
		set := []*disk{{Meta: store.Meta{Name: "a"}, Spec: diskSpec{Size: 1}}, {Meta: store.Meta{Name: "b"}}}
		must[store.Applied](t)(s.Apply(t.Context(), set, "file", 0))
		must[*disk](t)(s.ApplyFields(t.Context(), &disk{Meta: store.Meta{Name: "a"}, Spec: diskSpec{Size: 2}}, "other", true))
		did, err := s.Apply(t.Context(), set[:1], "file", 1)
		wantErr(t, "the field of another", err, store.ErrOwned)
		if _, err := s.Get(t.Context(), store.Key{Name: "b"}); !errors.Is(err, store.ErrNotFound) || did.Deleted != 1 {
			t.Errorf("did %+v, b: %v", did, err)
		}
	})
}

// Labels and annotations that are declared replace those of others, by Apply and by a Declaration.
//
// Seen to fail: with what is stored in place of what is declared.
func TestADeclaredLabelReplacesTheStoredOne(t *testing.T) {
	s := must[*disks](t)(store.New[diskSpec, struct{}](newMemory(t, &memory.Options{Encode: true}), "disk", nil))
	declareText(t, s, `{}`)
	mutateDisk(t, s, func(o *disk) {
		o.Labels["tier"], o.Labels["rack"] = "2", "r"
		o.Annotations = map[string]string{"note": "2", "seen": "s"}
	})
	want := &disk{Meta: store.Meta{Name: "a", Labels: map[string]string{"tier": "1"}, Annotations: map[string]string{"note": "1"}}}
	record := must[store.Record](t)(s.Backend().Get(t.Context(), "disk", want.Key()))
	over := must[[]byte](t)(must[store.Declaration](t)(s.Declaration(want)).Over(record.Bytes))
	must[store.Applied](t)(s.Apply(t.Context(), []*disk{want}, "file", 0))
	for name, o := range map[string]*disk{
		"a Declaration": must[*disk](t)(s.Decode(store.Record{Kind: "disk", Key: want.Key(), Revision: 9, Bytes: over})),
		"Apply":         must[*disk](t)(s.Get(t.Context(), want.Key())),
	} {
		if o.Labels["tier"] != "1" || o.Labels["rack"] != "r" || o.Annotations["note"] != "1" || o.Annotations["seen"] != "s" {
			t.Errorf("%s: labels %v, annotations %v", name, o.Labels, o.Annotations)
		}
	}
}

// By force a declarer is the only owner of what it takes over: it goes when that declarer declares it no longer.
//
// Seen to fail: with owners that stay beside the one that took over.
//
// promise S6
func TestForceTakesTheFieldFromItsOwners(t *testing.T) {
	onDisks(t, nil, func(t *testing.T, s *disks) {
		declareText(t, s, `{"size":1,"zone":"z"}`)
		other := func(spec diskSpec) *disk {
			t.Helper()
			return must[*disk](t)(s.ApplyFields(t.Context(), &disk{Meta: store.Meta{Name: "a"}, Spec: spec}, "other", true))
		}
		wantSpec(t, other(diskSpec{Size: 2}), diskSpec{Size: 2, Zone: "z"})
		wantSpec(t, other(diskSpec{}), diskSpec{Zone: "z"})
	})
}

// A record counts for the generation that it was made at: the owners of a spec that another program wrote are not shown.
//
// Seen to fail: with a record that counts for ever.
func TestOwnersOfAnotherGenerationAreNotShown(t *testing.T) {
	s := must[*disks](t)(store.New[diskSpec, struct{}](newMemory(t, nil), "disk", nil))
	o := declareText(t, s, `{"size":1}`)
	for name, fields := range o.FieldOwners.All(o.Generation + 1) {
		t.Errorf("%s has %v in another generation", name, fields)
	}
}

// The record goes with its object: a copy that is created under another name is without owners.
//
// Seen to fail: with a Create that stored the record of the copy, so that its spec was one that a file may unset.
func TestACopyHasNoOwners(t *testing.T) {
	onDisks(t, nil, func(t *testing.T, s *disks) {
		o := declareText(t, s, `{"size":1}`)
		o.Name, o.Labels = "b", nil
		if made := must[*disk](t)(s.Create(t.Context(), o)); made.FieldOwners != "" {
			t.Errorf("the copy has the owners %s", made.FieldOwners)
		}
	})
}

// A value that is secret in one object is not shown as that of another field, in which it stands too.
//
// Seen to fail: with values that are shown as their own object has them.
//
// promise S6
func TestAConflictShowsNoSecretOfAnotherField(t *testing.T) {
	onDisks(t, nil, func(t *testing.T, s *disks) {
		declareText(t, s, `{"zone":"hunter2-hunter2"}`)
		other := &disk{Meta: store.Meta{Name: "a"}, Spec: diskSpec{Zone: "z", Password: "hunter2-hunter2"}}
		if _, err := s.ApplyFields(t.Context(), other, "other", false); !errors.Is(err, store.ErrOwned) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("got %v", err)
		}
	})
}

// Of several owners each one counts: one that stands in no precedence stays, whatever the others are.
//
// Seen to fail: with a declarer that wins where it stands before one of the owners.
//
// promise S6
func TestPrecedenceOverOneOwnerIsNoneOverAnother(t *testing.T) {
	for _, other := range []string{"another", "zone"} { // in the order of the names one stands before and one behind "file"
		onDisks(t, &store.Options[diskSpec, struct{}]{Precedence: []string{"scaler", "file"}}, func(t *testing.T, s *disks) {
			declareText(t, s, `{"size":1}`)
			apply := func(by string, size int) error {
				_, err := s.ApplyFields(t.Context(), &disk{Meta: store.Meta{Name: "a"}, Spec: diskSpec{Size: size}}, by, false)
				return err
			}
			wantErr(t, other+" declares the same", apply(other, 1), nil)
			wantErr(t, "the scaler beside "+other, apply("scaler", 2), store.ErrOwned)
		})
	}
}

// What is filled in shares nothing with the object that it was taken from.
//
// Seen to fail: with a spec that is assigned and not copied.
func TestWhatIsFilledInIsACopy(t *testing.T) {
	for name, text := range map[string]string{"no declarer": "", "a declarer": `{"size":1}`} {
		t.Run(name, func(t *testing.T) {
			s := must[*disks](t)(store.New[diskSpec, struct{}](newMemory(t, nil), "disk", nil))
			o := &disk{Meta: store.Meta{Name: "a"}}
			if text != "" {
				o = declareText(t, s, text)
			}
			filled := s.Clone(o)
			filled.Spec.List, filled.Spec.Keys = []string{"x"}, map[string]string{"k": "v"}
			if err := s.FillIn(o, filled); err != nil {
				t.Fatal(err)
			}
			filled.Spec.List[0], filled.Spec.Keys["k"] = "changed", "changed"
			if o.Spec.List[0] != "x" || o.Spec.Keys["k"] != "v" {
				t.Errorf("it is %+v", o.Spec)
			}
		})
	}
}

// meanwhile is a backend in which another writer acts before the next commit.
type meanwhile struct {
	store.Backend
	act func()
}

func (b *meanwhile) Commit(ctx context.Context, t store.Txn) (store.Revision, error) {
	if act := b.act; act != nil {
		b.act = nil
		act()
	}
	return b.Backend.Commit(ctx, t)
}

// What others do between the read and the write of a declaration is looked at: it is merged into what they made, and a
// conflict that is over is none.
//
// Seen to fail: with an ErrExists or ErrConflict of the object that was made, and with the conflict of the first look.
//
// promise S6
func TestADeclarationLooksAgainAfterAnother(t *testing.T) {
	b := &meanwhile{Backend: newMemory(t, nil)}
	s := must[*disks](t)(store.New[diskSpec, struct{}](b, "disk", nil))
	declare := func(by string, spec diskSpec, force bool) (*disk, error) {
		return s.ApplyFields(t.Context(), &disk{Meta: store.Meta{Name: "a"}, Spec: spec}, by, force)
	}
	b.act = func() { must[*disk](t)(declare("other", diskSpec{Zone: "z"}, false)) }
	o, err := declare("file", diskSpec{Size: 1}, false)
	if wantErr(t, "an object that was made meanwhile", err, nil); err == nil {
		wantSpec(t, o, diskSpec{Size: 1, Zone: "z"})
	}
	b.act = func() { must[*disk](t)(declare("other", diskSpec{Zone: "y"}, false)) }
	o, err = declare("file", diskSpec{Size: 2, Zone: "y"}, false)
	if wantErr(t, "a conflict that is over", err, nil); err == nil {
		wantSpec(t, o, diskSpec{Size: 2, Zone: "y"})
	}
}

// An object that is being deleted gets no fields, and one of several owners that are named is the one that has them all.
//
// Seen to fail: with an object in deletion that was written, and with a look at the first owner alone.
func TestADeclarationOfFieldsSparesWhatIsNotMeant(t *testing.T) {
	onDisks(t, nil, func(t *testing.T, s *disks) {
		owner := func(uid string) store.Owner {
			return store.Owner{Kind: "set", Key: store.Key{Name: "s"}, UID: uid}
		}
		declare := func(size int, uids ...string) error {
			o := &disk{Meta: store.Meta{Name: "a"}, Spec: diskSpec{Size: size}}
			for _, uid := range uids {
				o.Owners = append(o.Owners, owner(uid))
			}
			_, err := s.ApplyFields(t.Context(), o, "set", false)
			return err
		}
		wantErr(t, "the first", declare(1, "one"), nil)
		wantErr(t, "one owner of two", declare(2, "one", "two"), store.ErrExists)
		o := mutateDisk(t, s, func(o *disk) { o.AddFinalizer("f") })
		if err := s.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		wantErr(t, "in deletion", declare(3, "one"), store.ErrDeleting)
		wantSpec(t, must[*disk](t)(s.Get(t.Context(), o.Key())), diskSpec{Size: 1})
	})
}

// The name of a declarer is one that the label of it can have, and nothing is written under another.
func TestFieldsAreDeclaredUnderANameThatALabelMayHave(t *testing.T) {
	s := must[*disks](t)(store.New[diskSpec, struct{}](newMemory(t, nil), "disk", nil))
	for _, by := range []string{"", "a\nb", "\xff", strings.Repeat("x", store.MaxLabel+1)} {
		o := &disk{Meta: store.Meta{Name: "a"}, Spec: diskSpec{Size: 1}}
		_, err := s.ApplyFields(t.Context(), o, by, true)
		wantErr(t, fmt.Sprintf("the owner %.10q", by), err, store.ErrInvalid)
		_, err = s.Get(t.Context(), o.Key())
		wantErr(t, "what it declared", err, store.ErrNotFound)
	}
}

// A declarer that disowns leaves the values as they are, for others to declare or to fill in; what another one declares
// too stays that one's, and the next declaration of the first unsets nothing.
//
// Seen to fail: with values that were unset, and with a record that was not written.
//
// promise S6
func TestWhatIsDisownedStays(t *testing.T) {
	onDisks(t, nil, func(t *testing.T, s *disks) {
		declareText(t, s, `{"size":1,"zone":"z","mounts":[{"at":"a","host":"h"}]}`)
		other := func(spec diskSpec) error {
			_, err := s.ApplyFields(t.Context(), &disk{Meta: store.Meta{Name: "a"}, Spec: spec}, "other", false)
			return err
		}
		wantErr(t, "the same zone", other(diskSpec{Zone: "z"}), nil)
		was := must[*disk](t)(s.Get(t.Context(), store.Key{Name: "a"}))
		o := must[*disk](t)(s.Disown(t.Context(), was, "file"))
		want := diskSpec{Size: 1, Zone: "z", Mounts: []diskMount{{At: "a", Host: "h"}}}
		wantSpec(t, o, want)
		if o.Generation != was.Generation || o.Revision == was.Revision || strings.Contains(string(o.FieldOwners), "file") || !strings.Contains(string(o.FieldOwners), "other") {
			t.Errorf("the owners are %s", o.FieldOwners)
		}
		if again := must[*disk](t)(s.Disown(t.Context(), o, "file")); again.Revision != o.Revision {
			t.Error("it was written again")
		}
		_, err := s.Disown(t.Context(), was, "other")
		wantErr(t, "at an old revision", err, store.ErrConflict)
		wantSpec(t, declareText(t, s, `{}`), want)
		wantErr(t, "another size", other(diskSpec{Size: 2, Zone: "y"}), nil)
		want.Size, want.Zone = 2, "y"
		wantSpec(t, fillIn(t, s, func(o *disk) { o.Spec.Zone, o.Spec.Mounts[0].Host = "late", "late" }), diskSpec{Size: 2, Zone: "y", Mounts: []diskMount{{At: "a", Host: "late"}}})
	})
}

// With a uid a declaration means one object: it makes none where that is gone, and writes no other one.
//
// Seen to fail: with an object that came again, and with one of another uid that was written.
func TestADeclarationWithAUIDMakesNoObject(t *testing.T) {
	onDisks(t, nil, func(t *testing.T, s *disks) {
		o := declareText(t, s, `{"size":1}`)
		declare := func() error {
			_, err := s.ApplyFields(t.Context(), &disk{Meta: store.Meta{Name: "a", UID: o.UID}, Spec: diskSpec{Size: 2}}, "file", false)
			return err
		}
		wantErr(t, "it is there", declare(), nil)
		if err := s.Delete(t.Context(), must[*disk](t)(s.Get(t.Context(), o.Key()))); err != nil {
			t.Fatal(err)
		}
		wantErr(t, "it is gone", declare(), store.ErrNotFound)
		must[*disk](t)(s.Create(t.Context(), &disk{Meta: store.Meta{Name: "a"}}))
		wantErr(t, "another one has its name", declare(), store.ErrExists)
		wantSpec(t, must[*disk](t)(s.Get(t.Context(), o.Key())), diskSpec{})
	})
}
