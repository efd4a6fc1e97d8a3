//go:build peers

package bench

import "testing"

func TestKeysAreDistinctAndKnowTheirNumber(t *testing.T) {
	const n = 1e5
	seen := map[string]bool{}
	for i, key := range stringKeys(n) {
		if len(key) != keyLen || number(key) != i {
			t.Fatalf("key %d is %q", i, key)
		}
		seen[key] = true
	}
	if len(seen) != n {
		t.Errorf("%d of %d keys differ", len(seen), int(n))
	}
	pairs := map[object]bool{}
	for _, key := range objectKeys(n) {
		pairs[key] = true
	}
	if len(pairs) != n {
		t.Errorf("%d of %d struct keys differ", len(pairs), int(n))
	}
}
