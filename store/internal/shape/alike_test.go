package shape

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/tendhq/tend/internal/campaign"
	"github.com/tendhq/tend/store/internal/odd"
)

// A backend that keeps values and one that keeps their JSON give back the same of random values of
// random types, refuse the same, and call the same a change.
//
// Seen to fail: a nil json.RawMessage and an empty list with omitempty were read back in
// another form; a hidden time and times as keys of a map differed after they were read back, so
// that each write was a change; what has no method to be read was stored.
//
// promise S3
func TestBothFormsAreAlike(t *testing.T) {
	seen := make(map[string]int)
	for seed := range campaign.Seeds(t, 2000, campaign.Length()) {
		if err := alike(&odd.Random{Rand: rand.New(rand.NewPCG(seed, 0)), Odd: 40}, seen); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	t.Logf("campaign: %d types, %d values: %v", seen["types"], seen["written"], seen)
	for _, what := range []string{"types", "types refused", "written", "mended", "refused", "equal", "different"} {
		if seen[what] == 0 {
			t.Errorf("no value was %s: %v", what, seen)
		}
	}
}

// alike checks a random type.
func alike(r *odd.Random, seen map[string]int) error {
	typ := r.Struct(3)
	n, b := nodeOf(place{Type: typ}, "Spec")
	if b.uncopied != nil || b.unkept != nil {
		seen["types refused"]++
		return nil //nolint:nilerr // what New refuses is not stored
	}
	seen["types"]++
	var kept []reflect.Value
	for range 6 {
		v := reflect.New(typ).Elem()
		r.Fill(v, 4)
		if len(kept) > 0 && r.IntN(2) == 0 { // or one that differs in one field
			v.Set(copied(n, kept[0]))
			i := r.IntN(typ.NumField())
			r.Fill(v.Field(i), 3)
		}
		w, err := written(n, v, r.IntN(2) == 0, seen)
		if err != nil {
			return fmt.Errorf("%v: %w", typ, err)
		}
		if w.IsValid() {
			kept = append(kept, w)
		}
	}
	for _, x := range kept {
		for _, y := range kept {
			if err := sameChange(n, x, y, seen); err != nil {
				return fmt.Errorf("%v: %w", typ, err)
			}
		}
	}
	return nil
}

func copied(n *node, v reflect.Value) reflect.Value {
	c := reflect.New(n.Type).Elem()
	if c.Set(v); n.has(refers) {
		n.fix(n, c)
	}
	return c
}

// store is what a backend of values keeps of v.
func stored(n *node, v reflect.Value, text bool) (reflect.Value, error) {
	if !n.has(checked) {
		return copied(n, v), nil
	}
	mend, err := n.check("Spec", v, text)
	w := copied(n, v)
	if err == nil && mend {
		err = n.mended("Spec", w, text)
	}
	return w, err
}

// written checks what is stored of v in both forms; not valid if it is refused.
func written(n *node, v reflect.Value, text bool, seen map[string]int) (w reflect.Value, err error) {
	w, err = stored(n, v, text)
	read, failed := readBack(v)
	if err != nil {
		seen["refused"]++
		if failed == nil && !strings.Contains(err.Error(), errNotUTF8.Error()) && reflect.DeepEqual(read.Interface(), v.Interface()) {
			return w, fmt.Errorf("%#v is refused, and is read back as it is: %w", v, err)
		}
		return reflect.Value{}, nil
	}
	seen["written"]++
	if read, err = readBack(w); err != nil {
		return w, fmt.Errorf("%#v is stored as %#v, which is not read back: %w", v, w, err)
	}
	if !reflect.DeepEqual(read.Interface(), w.Interface()) {
		return w, fmt.Errorf("%#v is stored as %#v, and read back as %#v", v, w, read)
	}
	if !reflect.DeepEqual(w.Interface(), v.Interface()) {
		seen["mended"]++
	}
	again, err := stored(n, v, text) // it is declared again
	if err != nil || !n.equal(n, again, w) || !n.equal(n, again, read) || !n.equal(n, read, again) {
		return w, fmt.Errorf("%#v again is a change of %#v: %w", v, read, errors.Join(err, errors.New("not equal")))
	}
	if c := copied(n, w); !n.equal(n, c, w) || !reflect.DeepEqual(c.Interface(), w.Interface()) {
		return w, fmt.Errorf("the copy of %#v is %#v", w, c)
	}
	var shared []string
	if findShared(v, copied(n, v), "Spec", &shared); len(shared) > 0 {
		return w, fmt.Errorf("the copy of %#v shares memory at %v", v, shared)
	}
	return w, hidesAlike(n, w, read)
}

// sameChange checks that y is a change of x for both.
func sameChange(n *node, x, y reflect.Value, seen map[string]int) error {
	rx, errX := readBack(x)
	ry, errY := readBack(y)
	if errX != nil || errY != nil {
		return errors.Join(errX, errY)
	}
	same := n.equal(n, x, y)
	if n.equal(n, rx, y) != same || n.equal(n, x, ry) != same || n.equal(n, y, x) != same {
		return fmt.Errorf("%#v and %#v are the same: %v, and read back they are not alike", x, y, same)
	}
	what := map[bool]string{true: "equal", false: "different"}[same]
	seen[what]++
	return nil
}

// hidesAlike checks that no form of a value shows a secret, and both show the same.
func hidesAlike(n *node, x, y reflect.Value) error {
	var shown [2]string
	for i, v := range []reflect.Value{x, y} {
		data, err := json.Marshal(v.Addr().Interface())
		if err != nil {
			return err
		}
		d := json.NewDecoder(strings.NewReader(string(data)))
		d.UseNumber()
		var tree any
		if err := d.Decode(&tree); err != nil {
			return err
		}
		data, err = json.Marshal(n.hidden(v, tree, "(secret)"))
		if err != nil {
			return err
		}
		f := found{}
		n.search(v, false, 0, f)
		shown[i] = fmt.Sprint(string(data), f)
	}
	if shown[0] != shown[1] {
		return fmt.Errorf("one form shows %s, the other %s", shown[0], shown[1])
	}
	return nil
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
