//go:build !linux

package file

// What needs a second process that is killed, or a disk that is full, is tested on
// Linux: crash_test.go.
const childEnv = "TEND_FILE_TEST_CHILD"

func child() int { return 1 }
