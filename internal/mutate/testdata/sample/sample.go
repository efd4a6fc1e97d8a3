// Package sample is broken in tests of internal/mutate and bench/mutants.
package sample

import "errors"

var limit = map[string]int{"a": 2}

// A Box keeps numbers.
type Box[T ~int] struct {
	kept []T
	sum  T
	open bool
}

// Put keeps a number that is not over the limit.
func (b *Box[T]) Put(n T) error {
	if !b.open || n > T(limit["a"]) {
		return errors.New("no")
	}
	b.kept = append(b.kept, n)
	b.sum += n + 1
	return nil
}

// Find gives the place of a number.
func (b *Box[T]) Find(n T) (at int, ok bool) {
	for i, k := range b.kept {
		if k == n {
			return i, true
		}
	}
	return 0, false
}

// Kind names a number.
func Kind(n int) string {
	n = max(n, -3)
	switch {
	case n < 0:
		n--
		return "negative"
	case n == 0:
		return "nothing"
	}
	f := func() string { return "positive" }
	return f()
}

// Open makes a box.
func Open() *Box[int] {
	const of = 1
	return &Box[int]{open: true, kept: make([]int, 0, of)}
}

// Unused is called by no test.
func Unused(n int) int { return n + 2 }
