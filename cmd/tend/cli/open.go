package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/file"
	"github.com/tendhq/tend/store/postgres"
)

var errOpen = errors.New("the store cannot be opened")

// open opens the store, and makes the host's kinds on it.
func (r *command) open(ctx context.Context) (err error) {
	if r.backend, err = r.openStore(ctx, r.store, false); err != nil {
		return err
	}
	if r.Kinds != nil {
		if r.kinds, err = r.Kinds(r.backend); err != nil {
			err = errors.Join(err, r.backend.Close())
		}
	}
	return err
}

// openStore opens the store at an address. A file that is not there is made if create is set.
func (r *command) openStore(ctx context.Context, address string, create bool) (b store.Backend, err error) {
	scheme, rest, named := strings.Cut(address, ":")
	switch {
	case scheme == "file" && rest != "":
		if !create { // file.Open would
			_, err = os.Stat(rest)
		}
		if err == nil {
			b, err = opened(file.Open(rest, nil))
		}
	case scheme == "etcd" && named:
		b, err = r.openEtcd(rest)
	case scheme == "postgres" && named: // the PG* variables say what the address does not
		dsn := rest
		if strings.HasPrefix(rest, "//") {
			dsn = address
		}
		b, err = opened(postgres.Open(ctx, dsn, nil))
	case r.Open != nil:
		b, err = r.Open(ctx, address)
	default:
		return nil, usage("a store is file:PATH, etcd:[https://]HOST:PORT,.../PREFIX or postgres:DSN")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errOpen, err)
	}
	return b, nil
}

// opened makes no Backend of a nil pointer.
func opened[B store.Backend](b B, err error) (store.Backend, error) {
	if err != nil {
		return nil, err
	}
	return b, nil
}

// runEditor runs the user's editor on a file.
func (r *command) runEditor(ctx context.Context, path string) error {
	editor := strings.Fields(r.Getenv("VISUAL"))
	if len(editor) == 0 {
		editor = strings.Fields(r.Getenv("EDITOR"))
	}
	if len(editor) == 0 {
		editor = []string{"vi"}
	}
	cmd := exec.CommandContext(ctx, editor[0], append(editor[1:], path)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r.Stdin, r.terminal, r.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("editor %s: %w", editor[0], err)
	}
	return nil
}
