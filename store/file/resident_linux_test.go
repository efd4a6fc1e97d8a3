package file

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tendhq/tend/store"
)

// After a snapshot the file's pages are not part of the process's memory, beside what the
// consumer made of them. The negative control is the mutant "a snapshot keeps the pages that
// it read".
func TestSnapshotKeepsNoPages(t *testing.T) {
	path := newPath(t)
	b := open(t, path, nil)
	for n := range 64 {
		commit(t, b, put(fmt.Sprintf("%03d", n), strings.Repeat("v", 32<<10)))
	}
	closeNow(t, b)
	b = open(t, path, nil)
	read := 0
	for batch, err := range b.Watch(t.Context(), "k", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if read += len(batch.Changes); batch.Kind == store.BatchSnapshotEnd {
			break
		}
	}
	if kb := residentOf(t, path); read != 64 || kb > 256 {
		t.Errorf("%d records were read, %d kB of the file are resident, want 64 and at most 256", read, kb)
	}
}

// residentOf is how many kB of a mapped file the process holds.
func residentOf(t *testing.T, path string) (kb int) {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	_, of, mapped := strings.Cut(string(maps), path+"\n")
	_, rss, told := strings.Cut(of, "\nRss:")
	if _, err := fmt.Sscan(rss, &kb); !mapped || !told || err != nil {
		t.Fatalf("%s is not mapped: %v", path, err)
	}
	return kb
}
