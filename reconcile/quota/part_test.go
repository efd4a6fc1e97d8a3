package quota

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Whatever the servers say, the parts that they compute from one board are at most the
// whole together, no server that waits has less than its equal part, and none that said a
// need has more than that.
//
// Negative control: mutant "a server that waits takes what others keep".
func TestPartsOfABoardAreAtMostTheWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		b := board{live: 1 + r.IntN(6), said: map[string]needs{}}
		for i := range b.live {
			n := needs{}
			switch r.IntN(4) {
			case 0:
				n["b"] = hungry
			case 1:
				n["b"] = r.Float64() * 1.2
			case 2:
				n["b"] = []float64{-1, 0, 7}[r.IntN(3)] // of another version, or damaged
			}
			b.said[string(rune('a'+i))] = n
		}
		if r.IntN(3) == 0 {
			delete(b.said, "a") // it lives, and its record is not heard of yet
		}
		sum, equal := 0.0, 1/float64(b.live)
		for i := range b.live {
			b.self = string(rune('a' + i))
			part, need := b.part("b"), b.said[b.self]["b"]
			sum += part
			if need >= hungry && part < equal-1e-9 || need > 0 && need < hungry && part > equal+1e-9 || part < 0 {
				t.Fatalf("%+v has %v of the budget, an equal part is %v", b, part, equal)
			}
		}
		if sum > 1+1e-9 {
			t.Fatalf("the parts of %+v are %v together", b.said, sum)
		}
	}
	if p := (board{}).part("b"); p != 0 {
		t.Errorf("a server that is no member has %v of the budget", p)
	}
}

// A part is the least that the boards of the last TTL allowed.
//
// Negative control: mutant "a part grows at once".
func TestPartIsTheLeastOfATTL(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const ttl = 10 * time.Second
	begun := time.Now()
	for range 500 {
		s := steered{}
		var allowed []float64 // by second
		now := 0.0
		for second := range 200 {
			if r.IntN(5) == 0 {
				now = float64(r.IntN(5)) / 4
			}
			allowed = append(allowed, now)
			want := now
			for back := range 11 {
				if second-back < 0 {
					want = 0 // it began with nothing
					break
				}
				want = min(want, allowed[second-back])
			}
			if got := s.steer(now, begun.Add(time.Duration(second)*time.Second), ttl); got != want {
				t.Fatalf("after %v the part is %v, want %v", allowed[max(0, second-11):], got, want)
			}
		}
	}
}

// What another server said counts as a whole: words of which a part cannot be read say nothing.
func TestNeedsThatCannotBeReadSayNothing(t *testing.T) {
	for text, want := range map[string]int{
		`{"a/read": 0.5, "b/read": 1}`: 2, "": 0, "{}": 0, "[]": 0, "0.5": 0,
		`{"a/read": 0.5, "b/read": "much"}`: 0, `{"a/read": 0.5`: 0,
	} {
		if got := readNeeds(text); len(got) != want {
			t.Errorf("%s is read as %v, want %d needs", text, got, want)
		}
	}
}
