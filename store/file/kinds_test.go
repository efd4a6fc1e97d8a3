package file

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/tendhq/tend/store"
)

// The records are in the file, as of the last checkpoint, and in memory: each counts once, and one
// that was deleted since does not.
func TestKindsCountsWhatIsThere(t *testing.T) {
	path := newPath(t)
	b := open(t, path, nil)
	random := rand.New(rand.NewPCG(1, 2))
	live := map[store.Key]bool{}
	want := map[string]int{}
	check := func(when string) {
		t.Helper()
		got, err := b.Kinds(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		maps.DeleteFunc(want, func(_ string, n int) bool { return n == 0 })
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	check("empty")
	for n := range 300 { // a checkpoint comes each thousand records
		var ops []store.Op
		for i := range 8 {
			kind, key := fmt.Sprint("k", i%3), store.Key{Namespace: fmt.Sprint("k", i), Name: fmt.Sprint(random.IntN(300))}
			op := store.Op{Kind: kind, Key: key}
			if random.IntN(3) > 0 {
				op.Put = store.Bytes("x")
			}
			if was := live[key]; was != (op.Put != nil) {
				want[kind] += map[bool]int{true: -1, false: 1}[was]
				live[key] = !was
			}
			ops = append(ops, op)
		}
		commit(t, b, ops...)
		if n%50 == 7 {
			check(fmt.Sprint("after ", n))
		}
	}
	closeNow(t, b)
	b = open(t, path, nil)
	check("opened again")
	for key := range live { // in the file and in memory
		if live[key] && key.Namespace == "k0" {
			commit(t, b, store.Op{Kind: "k0", Key: key, Put: store.Bytes("y")})
		}
	}
	check("written again")
}
