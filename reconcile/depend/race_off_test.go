//go:build !race

package depend

// stride takes every case.
const stride = 1
