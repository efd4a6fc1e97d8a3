package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// firstBeside is what runs beside this version until there is a release.
const firstBeside = "9ed8c61"

// showLimit ends a show whose servers do not agree: it would wait for ever. A show takes seconds.
const showLimit = 5 * time.Minute

// beside runs servers of an older version (the last release, unless old names a commit)
// and of this one side by side, as in the middle of a deployment: they share the leases,
// shards and records of one store, are killed, stopped and started, and no key may be
// worked on by two. It does so on etcd and on PostgreSQL.
//
// Negative control: with another separator in lease.HashKey the sites never all have their
// owner.
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
	for _, example := range []string{"leader", "sharded"} {
		before, now := filepath.Join(programs, example+"-before"+exe()), filepath.Join(programs, example+exe())
		if err := command(clone, nil, "go", "build", "-o", before, "./examples/"+example); err != nil {
			return err
		}
		if err := command(root, nil, "go", "build", "-o", now, "./examples/"+example); err != nil {
			return err
		}
		for _, store := range []string{"etcd", "postgres"} {
			ctx, cancel := context.WithTimeout(context.Background(), showLimit)
			told, err := outputWithin(ctx, root, nil, now, "-store", store, "-with", before)
			cancel()
			if err != nil {
				return fmt.Errorf("%s on %s, with servers of %s beside: %w", example, store, base, err)
			}
			fmt.Printf("%s on %s, servers of %s and of this version:\n%s\n\n", example, store, base, told)
		}
	}
	return nil
}

// exe is what the names of programs end in.
func exe() string {
	if runtime.GOOS == "windows" {
		return ".exe"
	}
	return ""
}
