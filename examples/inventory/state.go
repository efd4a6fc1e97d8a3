package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/file"
	"github.com/tendhq/tend/store/memory"
)

// stateFile is the one file in -state's directory.
const stateFile = "inventory.db"

// withState calls f with the state open: the directory's file, which one process
// at a time may have, or a fresh one in memory.
func (a *app) withState(f func(store.Backend) error) error {
	state, err := a.openState()
	if err != nil {
		return err
	}
	return errors.Join(f(state), state.Close())
}

func (a *app) openState() (store.Backend, error) {
	if a.o.State == "" {
		return memory.New(nil)
	}
	path := filepath.Join(a.o.State, stateFile)
	if _, err := os.Stat(path); a.o.Plan && errors.Is(err, os.ErrNotExist) {
		return memory.New(nil) // a plan doesn't leave a file behind
	}
	if err := os.MkdirAll(a.o.State, 0o700); err != nil {
		return nil, fmt.Errorf("-state: %w", err)
	}
	state, err := file.Open(path, nil)
	if errors.Is(err, file.ErrLocked) {
		return nil, fmt.Errorf("-state: another process is keeping its state in %s; end it, or use another directory: %w", a.o.State, err)
	}
	if err != nil {
		return nil, fmt.Errorf("-state: %w", err)
	}
	return state, nil
}

// identify finds out whose buckets these are. An installation is a store's: with
// a store that forgets, one name stands for all runs, so that each adopts what
// the one before it made.
func (a *app) identify(ctx context.Context, state store.Backend) error {
	if a.o.Installation != "" {
		return nil
	}
	a.o.Installation = "demo"
	if a.o.State == "" {
		return nil
	}
	id, err := store.Installation(ctx, state)
	if err == nil {
		a.o.Installation = strings.ToLower(id[:min(8, len(id))]) // bucket names are short
	}
	return err
}
