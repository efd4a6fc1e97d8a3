// Package sleep waits for a while, or for the end of a context.
package sleep
