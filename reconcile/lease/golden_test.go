package lease_test

import (
	"strings"
	"testing"

	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// Servers of two versions run side by side during a deployment. A key that is in
// one shard for the old version and in another for the new one is worked on twice,
// so these values may never change. They were computed by a second implementation
// (FNV-1a and the finalizer of splitmix64, in Python).
//
// promise L1.
func TestHashKeyAndShardNeverChange(t *testing.T) {
	for _, c := range []struct {
		key          store.Key
		hash         uint64
		of64, of1000 int
	}{
		{key: store.Key{}, hash: 0xaf63a24c860189fe, of64: 61, of1000: 101},
		{key: store.Key{Name: "a"}, hash: 0x07d66707b49cd92d, of64: 59, of1000: 403},
		{key: store.Key{Namespace: "a"}, hash: 0x089bf907b54518f9, of64: 39, of1000: 591},
		{key: store.Key{Namespace: "team-1", Name: "bucket-1"}, hash: 0x2906446c49da612f, of64: 34, of1000: 834},
		{key: store.Key{Namespace: "a", Name: "b/c"}, hash: 0x9ef3e9bc4337feeb, of64: 63, of1000: 759},
		{key: store.Key{Namespace: "prod", Name: "db.example.com/eu-1"}, hash: 0x2ac0864562498f99, of64: 60, of1000: 876},
		{key: store.Key{Namespace: "ü", Name: "日本"}, hash: 0x8b8b67d654655e1f, of64: 11, of1000: 923},
	} {
		hash := lease.HashKey(c.key)
		if hash != c.hash {
			t.Errorf("HashKey(%q) = %#016x, want %#016x", c.key, hash, c.hash)
		}
		if got := lease.Shard(c.hash, 64); got != c.of64 {
			t.Errorf("Shard(%#016x, 64) = %d, want %d", c.hash, got, c.of64)
		}
		if got := lease.Shard(c.hash, 1000); got != c.of1000 {
			t.Errorf("Shard(%#016x, 1000) = %d, want %d", c.hash, got, c.of1000)
		}
		if got, want := store.Slot(c.key), lease.Shard(c.hash, store.Slots); got != want {
			t.Errorf("Slot(%q) = %d, want %d, the shard of so many", c.key, got, want)
		}
		// A cache of shards has the same shards as a placement.
		if got64, got1000 := store.ShardOf(c.key, 64), store.ShardOf(c.key, 1000); got64 != c.of64 || got1000 != c.of1000 {
			t.Errorf("ShardOf(%q) = %d of 64 and %d of 1000, want %d and %d", c.key, got64, got1000, c.of64, c.of1000)
		}
	}
}

// By the rule of before plans, which servers use while one lives that knows no other.
//
// The owner of a shard may change between versions without harm to a promise: the
// record decides. But two versions that disagree would take shards from each other
// for as long as both run.
func TestOwnersOfShardsNeverChange(t *testing.T) {
	var got strings.Builder
	names := []string{"a", "b", "c"}
	for _, server := range lease.OwnersOf(names, 64) {
		got.WriteString(names[server])
	}
	const want = "cccbbabbbbbabbaabaacbaccccaabacaacbcbaabbaacbacbaababcccacacaabc"
	if got.String() != want {
		t.Errorf("the owners are %s, want %s", got.String(), want)
	}
	// Two servers of one name are told apart by their sessions: all go to the same one.
	for shard, server := range lease.OwnersOf([]string{"a", "a"}, 64) {
		if server != 1 {
			t.Errorf("shard %d goes to session %d of one name, want 1", shard, server)
		}
	}
}

// By the rules of plans: a server leaves, another comes, one has three times the weight, and by
// rule 2 the first shards cost ten times the others. Two versions that make different plans of the
// same servers would take turns in rewriting the plan in the store, and its shards would move at
// each.
func TestPlansNeverChange(t *testing.T) {
	loads := make(map[int]int64)
	for shard := range 24 {
		loads[shard] = 100
		if shard < 4 {
			loads[shard] = 1000
		}
	}
	steps := []map[string]int{
		{"a": 1, "b": 1, "c": 1},
		{"a": 1, "c": 1},
		{"a": 1, "c": 1, "d": 3},
		{"c": 1, "d": 3},
	}
	for rule, next := range map[string]func(p lease.Plan, live map[string]int) lease.Plan{
		"plan":  func(p lease.Plan, live map[string]int) lease.Plan { return p.Next(live) },
		"loads": func(p lease.Plan, live map[string]int) lease.Plan { return p.NextByLoad(live, loads) },
	} {
		p := lease.NewPlan(24)
		for i, live := range steps {
			p = next(p, live)
			if got, want := strings.Join(p.Owners(), ""), plansOf[rule][i]; got != want {
				t.Errorf("rule %s, step %d: the shards are of %s, want %s", rule, i+1, got, want)
			}
		}
	}
}

// plansOf are the owners of the shards after each step.
var plansOf = map[string][4]string{
	"plan":  {"abcabcabcabcabcabcabcabc", "aacaccaacaccaacaccaacacc", "adcadcadcadcadcddddddddd", "ddcddcddccdcddcddddddddd"},
	"loads": {"abcabcbcbcbcbcbcbcbcbcbc", "accaacacacacacacacacacac", "dddaccacdcdcdcdcdcdcdcdc", "ddddccccccccdcdcdcdcdcdc"},
}

// The division of a group of singletons is a hash of their names, the 32 bits of FNV-1a over them, sorted and
// quoted, without the last two and above MaxShards: servers that compute another one would wait for each other
// to leave. The values were computed by a second implementation, in Python.
func TestDivisionOfAGroupNeverChanges(t *testing.T) {
	b := newBackend(t)
	defer b.Close()
	for want, names := range map[int][]string{
		409515003: {"a"},
		562422690: {"b", "a"},
		950777368: {"invoices", "backup", "ünïcode \"quoted\""},
	} {
		s, err := lease.NewSingletons(b, "group", names, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := lease.DivisionOf(s); got != want {
			t.Errorf("the division of %q is %d, want %d", names, got, want)
		}
	}
}
