package object

import (
	"strings"
	"testing"
)

// case 123
func TestFinalizerNameIsDerivedTheSameEveryTimeAndPerHandler(t *testing.T) {
	long := strings.Repeat("k", 80)
	seen := map[string]string{}
	for _, c := range [][2]string{{"bucket", "dns"}, {"bucket", "cert"}, {"role", "dns"}, {long, "a"}, {long, "b"}, {long + "x", "a"}} {
		name, err := FinalizerName(c[0], c[1])
		if err != nil {
			t.Fatalf("FinalizerName(%q, %q): %v", c[0], c[1], err)
		}
		again, _ := FinalizerName(c[0], c[1])
		if again != name {
			t.Errorf("FinalizerName(%q, %q) = %q, then %q", c[0], c[1], name, again)
		}
		if err := CheckFinalizer(name); err != nil {
			t.Errorf("derived name: %v", err)
		}
		if other, taken := seen[name]; taken {
			t.Errorf("%v and %s have the one name %q", c, other, name)
		}
		seen[name] = c[0] + "/" + c[1]
		if p := PendingName(name); len(p) > maxFinalizer || p == name {
			t.Errorf("pendingName(%q) = %q, %d bytes", name, p, len(p))
		}
	}
}

// The name is stored in objects: a version that derives another one leaves
// every deletion hanging.
func TestFinalizerNameNeverChanges(t *testing.T) {
	for want, c := range map[string][2]string{
		"tend.bucket.dns": {"bucket", "dns"},
		"tend.kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk.221c6d14b9d0282f": {strings.Repeat("k", 60), "dns"},
	} {
		if got, err := FinalizerName(c[0], c[1]); got != want || err != nil {
			t.Errorf("FinalizerName(%q, %q) = %q, %v, want %q", c[0], c[1], got, err, want)
		}
	}
}

// case 123
func TestIllegalFinalizersAreRefused(t *testing.T) {
	for _, name := range []string{"", "a b", "-a", "a.", "ä", "a\n", "pending.a", strings.Repeat("x", 64)} {
		if err := CheckFinalizer(name); err == nil {
			t.Errorf("CheckFinalizer(%q) = nil, want an error", name)
		} else if !strings.Contains(err.Error(), "finalizer") {
			t.Errorf("CheckFinalizer(%q) = %v, want the finalizer named", name, err)
		}
	}
	for _, name := range []string{"a", "a/b.c-d_e", strings.Repeat("x", 63)} {
		if err := CheckFinalizer(name); err != nil {
			t.Errorf("CheckFinalizer(%q) = %v", name, err)
		}
	}
	for _, c := range [][2]string{{"", "h"}, {"k", ""}, {"k k", "h"}, {"k", "h!"}} {
		if name, err := FinalizerName(c[0], c[1]); err == nil {
			t.Errorf("FinalizerName(%q, %q) = %q, want an error", c[0], c[1], name)
		}
	}
}
