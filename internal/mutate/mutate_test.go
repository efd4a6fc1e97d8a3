package mutate

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const sample = "internal/mutate/testdata/sample"

// What Write makes of a function is named by the function and the operator, and compiles: what
// would not is left out, as 0 for the size of a constant is not.
func TestMutantsOfEachOperator(t *testing.T) {
	dir := t.TempDir()
	overlay, all, err := Write("../..", dir, []string{sample}, func(string, string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	of := map[string][]string{}
	ids := map[int]bool{}
	for _, m := range all {
		if m.Package != sample || ids[m.ID] {
			t.Errorf("%v: of another package, or with the number of another", m)
		}
		ids[m.ID] = true
		of[m.Func] = append(of[m.Func], m.Op)
	}
	for fn, want := range map[string]string{
		"(*Box).Put":  "empty always never always never always never boundary goon noerror drop swap drop one",
		"(*Box).Find": "empty always never goon zero flip one flip",
		"Unused":      "empty zero sign",
		"var limit":   "",
	} {
		got := of[fn]
		missing := strings.Fields(want)
		for _, op := range got {
			if i := slices.Index(missing, op); i >= 0 {
				missing = slices.Delete(missing, i, i+1)
			}
		}
		if len(missing) > 0 {
			t.Errorf("%s has %v, and lacks %v", fn, got, missing)
		}
	}
	for _, op := range []string{"minmax", "case", "always", "boundary"} {
		if !slices.Contains(of["Kind"], op) {
			t.Errorf("Kind has %v, and lacks %s", of["Kind"], op)
		}
	}
	for op := range Operators {
		if !slices.ContainsFunc(all, func(m Mutant) bool { return m.Op == op }) {
			t.Errorf("there is no mutant of %s", op)
		}
	}
	checkOverlay(t, overlay, all)
}

func checkOverlay(t *testing.T, overlay string, all []Mutant) {
	t.Helper()
	data, err := os.ReadFile(overlay)
	if err != nil {
		t.Fatal(err)
	}
	var o struct{ Replace map[string]string }
	if err := json.Unmarshal(data, &o); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for file, with := range o.Replace {
		if filepath.Base(filepath.Dir(file)) != "sample" {
			t.Errorf("%s is replaced as well", file)
		}
		data, err := os.ReadFile(with)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(data)
	}
	for _, m := range all {
		if n := fmt.Sprint(m.ID); !strings.Contains(text.String(), "("+n+")") && !strings.Contains(text.String(), "("+n+",") {
			t.Errorf("nothing turns on %v", m)
		}
	}
}

// A function that is not wanted stays as it is.
func TestOnlyWhatIsWantedIsBroken(t *testing.T) {
	_, all, err := Write("../..", t.TempDir(), []string{sample}, func(pkg, fn string) bool { return Func(pkg, fn) == sample+".Kind" })
	if err != nil || len(all) == 0 {
		t.Fatal(err, all)
	}
	for _, m := range all {
		if m.Func != "Kind" {
			t.Errorf("%v was made", m)
		}
	}
}

func TestPackageThatIsNotThere(t *testing.T) {
	if _, _, err := Write("../..", t.TempDir(), []string{"none"}, nil); err == nil {
		t.Error("no error")
	}
}
