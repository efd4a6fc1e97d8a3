package file

import (
	"syscall"

	bolt "go.etcd.io/bbolt"
)

// dropPages takes the pages of the file out of the memory of this process. The system's cache
// of the file keeps them, and the next read of one maps it again.
func dropPages(db *bolt.DB) {
	_ = db.View(func(tx *bolt.Tx) error { // within one, bbolt maps the file nowhere else
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, db.Info().Data, uintptr(tx.Size()), syscall.MADV_DONTNEED)
		return nil
	})
}
