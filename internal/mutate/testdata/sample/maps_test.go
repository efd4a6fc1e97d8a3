//go:build unix

package sample

import (
	"syscall"
	"testing"
)

func TestMapsMoreThanThereIs(t *testing.T) {
	m, err := syscall.Mmap(-1, 0, 20<<30, syscall.PROT_NONE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Munmap(m); err != nil {
		t.Fatal(err)
	}
}
