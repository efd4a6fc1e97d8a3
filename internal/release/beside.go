package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

// firstBeside is what runs beside this version until there is a release.
const firstBeside = "7ee1e2d"

// firstRecords is whose records this version shares. Testdata/records/old.go is compiled with it.
const firstRecords = "571baec9"

// showLimit ends a show whose servers do not agree: it would wait for ever. A show takes seconds.
const showLimit = 5 * time.Minute

// beside runs servers of an older version (the last release, unless old names a commit)
// and of this one side by side, as in the middle of a deployment: they share the leases,
// shards and records of one store, are killed, stopped and started, and no key may be
// worked on by two. They also share the quota of an account, and together may not make more
// calls than it grants. It does so on etcd and on PostgreSQL, at the same time.
//
// Negative controls: with another separator in lease.HashKey the sites never all have their
// owner; with another name of the members in examples/quota's servers of one version, that
// version's servers and the other's each take the whole quota.
func beside(folder, old string) error {
	root, last, err := repository(folder)
	if err != nil {
		return err
	}
	base := cmp.Or(old, last, firstBeside)
	if err := command(root, nil, "git", "cat-file", "-e", base+"^{commit}"); err != nil {
		if old != "" || last != "" {
			return err
		}
		fmt.Printf("no release, and no commit %s, in this repository: nothing to run beside\n", base)
		return nil
	}
	clone, remove, err := cloneAt(root, base)
	if err != nil {
		return err
	}
	defer remove()
	programs, err := os.MkdirTemp("", "beside")
	if err != nil {
		return err
	}
	defer os.RemoveAll(programs)
	for _, example := range []string{"leader", "sharded", "quota"} {
		before, now := filepath.Join(programs, example+"-before"+exe()), filepath.Join(programs, example+exe())
		if err := command(clone, nil, "go", "build", "-o", before, "./examples/"+example); err != nil {
			return err
		}
		if err := command(root, nil, "go", "build", "-o", now, "./examples/"+example); err != nil {
			return err
		}
		if err := runBeside(root, now, before, base, "etcd", "postgres"); err != nil {
			return err
		}
	}
	return recordsBeside(root, programs)
}

// recordsBeside has this version and the one at firstRecords read and write what the other stores, on each
// store: with external, Convert, encryption and fields that the other does not know.
//
// Negative controls: it fails with another key of the phase in a stored object, with writes that keep
// no unknown fields, and with outputs under another key than the stored one.
func recordsBeside(root, programs string) error {
	if err := command(root, nil, "git", "cat-file", "-e", firstRecords+"^{commit}"); err != nil {
		fmt.Printf("no commit %s in this repository: nothing reads and writes records beside\n", firstRecords)
		return nil
	}
	clone, remove, err := cloneAt(root, firstRecords)
	if err != nil {
		return err
	}
	defer remove()
	before, now := filepath.Join(programs, "records-before"+exe()), filepath.Join(programs, "records"+exe())
	for _, side := range []struct {
		folder, program string
		files           []string
	}{
		{clone, before, []string{"main.go", "steps.go", "cloud.go", "old.go"}},
		{root, now, []string{"main.go", "steps.go", "cloud.go", "new.go", "conduct.go"}},
	} {
		build := []string{"build", "-o", side.program}
		for _, file := range side.files {
			build = append(build, filepath.Join(root, "internal/release/testdata/records", file))
		}
		if err := command(side.folder, nil, "go", build...); err != nil {
			return err
		}
	}
	return runBeside(root, now, before, firstRecords, "file", "etcd", "postgres")
}

// runBeside runs a program with its older version beside, on all stores at the same time.
func runBeside(root, now, before, base string, stores ...string) error {
	errs := make([]error, len(stores))
	var shows sync.WaitGroup
	for i, store := range stores {
		shows.Go(func() { // ends with the show, or at showLimit
			ctx, cancel := context.WithTimeout(context.Background(), showLimit)
			defer cancel()
			name := strings.TrimSuffix(filepath.Base(now), exe())
			told, err := outputWithin(ctx, root, nil, now, "-store", store, "-with", before)
			if err != nil {
				errs[i] = fmt.Errorf("%s on %s, with %s beside: %w", name, store, base, err)
				return
			}
			fmt.Printf("%s on %s, %s and this version:\n%s\n\n", name, store, base, told)
		})
	}
	shows.Wait()
	return errors.Join(errs...)
}

// exe is what the names of programs end in.
func exe() string {
	if runtime.GOOS == "windows" {
		return ".exe"
	}
	return ""
}
