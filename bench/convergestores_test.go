//go:build peers && unix

package bench

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/file"
)

// BenchmarkConvergeStores is BenchmarkConverge on the stores that keep what they are given, with
// 16 goroutines that create 2,000 objects. The loop around client-go's queue makes the same writes
// through the same backend, and reads the store where tend reads its cache. cpu-ns/object is the
// CPU time of this process, in which the member of etcd runs, and of PostgreSQL's server.
func BenchmarkConvergeStores(b *testing.B) {
	names := make([]string, 2000)
	for i := range names {
		names[i] = fmt.Sprintf("disk-%07d", i)
	}
	none := func() time.Duration { return 0 }
	for _, s := range []struct {
		name   string
		open   func(b *testing.B) store.Backend
		server func() time.Duration
	}{
		{"memory", func(b *testing.B) store.Backend { return newMemory(b, nil) }, none},
		{"file", openDisksFile, none},
		{"etcd", func(b *testing.B) store.Backend { return openEtcd(b, newPrefix()) }, none},
		{"postgres", openDisksPostgres, pgCPU},
	} {
		for _, impl := range []struct {
			name  string
			start kernel
		}{{"tend", convergeTend}, {"client-go", convergeLoop}} {
			b.Run("backend="+s.name+"/impl="+impl.name, func(b *testing.B) {
				var opened []store.Backend
				for range b.N {
					opened = append(opened, s.open(b))
				}
				next := func() (first store.Backend) {
					first, opened = opened[0], opened[1:]
					return first
				}
				own, server := ownCPU(), s.server()
				convergeOn(b, next, 16, names, impl.start)
				b.ReportMetric(float64(ownCPU()-own+s.server()-server)/float64(b.N*len(names)), "cpu-ns/object")
			})
		}
	}
}

func openDisksFile(b *testing.B) store.Backend {
	s, err := file.Open(filepath.Join(b.TempDir(), "state"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

func openDisksPostgres(b *testing.B) store.Backend {
	if _, err := pgBinaries(); err != nil {
		b.Skip(err)
	}
	return openPostgres(b, fmt.Sprint("disks", pgServer.schemas.Add(1)))
}
