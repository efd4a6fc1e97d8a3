//go:build peers

package bench

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// object is the second key type of the queue families: what names an object.
type object struct{ Namespace, Name string }

const keyLen = 40

// text holds the keys' text in one piece, made once and shared by all
// families: it is the same for every implementation and never part of a
// figure.
var text struct {
	sync.Mutex
	s string
}

func keyText(n int) string {
	text.Lock()
	defer text.Unlock()
	if have := len(text.s) / keyLen; have < n {
		var b strings.Builder
		b.Grow(n * keyLen)
		for i := range n {
			fmt.Fprintf(&b, "%08d/account-0042/region-eu/bkt-%04d", i, i%1e4)
		}
		text.s = b.String()
	}
	return text.s
}

// stringKeys are n keys of 40 bytes. The first eight are the number, so that
// a consumer finds out cheaply which key it got.
func stringKeys(n int) []string {
	s := keyText(n)
	keys := make([]string, n)
	for i := range keys {
		keys[i] = s[i*keyLen : (i+1)*keyLen]
	}
	return keys
}

// objectKeys are the same 40 bytes, cut in two.
func objectKeys(n int) []object {
	s := keyText(n)
	keys := make([]object, n)
	for i := range keys {
		keys[i] = object{s[i*keyLen : i*keyLen+21], s[i*keyLen+21 : (i+1)*keyLen]}
	}
	return keys
}

// number is the number of a string key.
func number(key string) int {
	n := 0
	for i := range 8 {
		n = 10*n + int(key[i]-'0')
	}
	return n
}

// count reads 1, 10k, 2M.
func count(s string) (int, error) {
	unit := 1
	switch {
	case strings.HasSuffix(s, "k"):
		unit, s = 1e3, s[:len(s)-1]
	case strings.HasSuffix(s, "M"):
		unit, s = 1e6, s[:len(s)-1]
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is not a count like 1, 10k or 2M", s)
	}
	return n * unit, nil
}

// short writes 10000 as 10k.
func short(n int) string {
	switch {
	case n >= 1e6 && n%1e6 == 0:
		return strconv.Itoa(n/1e6) + "M"
	case n >= 1e3 && n%1e3 == 0:
		return strconv.Itoa(n/1e3) + "k"
	}
	return strconv.Itoa(n)
}
