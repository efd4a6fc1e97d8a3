package queue

import (
	"fmt"
	"testing"
)

// A key that adds itself again in each of its runs waits its turn like any other:
// between two of its runs every key that was there runs once, and it comes in the
// order in which it was added.
//
// promise Q5; negative control: the mutant "what comes last is first".
func TestHotKeyWaitsItsTurn(t *testing.T) {
	bubble(t, oneOrder(), func(t *testing.T, q *Queue[string]) {
		const cold = 1000
		add(t, q, "hot")
		for n := range cold {
			add(t, q, fmt.Sprint(n))
		}
		last := map[string]int{}
		for n := range 20 * (cold + 1) {
			it := get(t, q)
			if was, ran := last[it.Key]; ran && n-was != cold+1 {
				t.Fatalf("%s ran as number %d and again as number %d, want once in each round of %d", it.Key, was, n, cold+1)
			}
			last[it.Key] = n
			add(t, q, it.Key) // during its run
			if it.Key == "hot" {
				for range 10 {
					add(t, q, "hot")
				}
			}
			it.Done()
		}
		if len(last) != cold+1 {
			t.Errorf("%d keys ran, want all %d", len(last), cold+1)
		}
	})
}
