//go:build race

package depend

// stride leaves cases out: the race detector makes them slow, and they have one goroutine.
const stride = 17
