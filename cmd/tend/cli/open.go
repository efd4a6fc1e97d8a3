package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/tendhq/tend/store"
	_ "github.com/tendhq/tend/store/etcd" // for -store
	_ "github.com/tendhq/tend/store/file"
	_ "github.com/tendhq/tend/store/postgres"
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

// openStore opens the store of a URL. A file that is not there is made if create is set.
func (r *command) openStore(ctx context.Context, url string, create bool) (b store.Backend, err error) {
	if path, isFile := strings.CutPrefix(url, "file:"); isFile && path != "" && !create { // Open would make it
		if _, err = os.Stat(path); err != nil {
			return nil, fmt.Errorf("%w: %w", errOpen, err)
		}
	}
	if b, err = store.Open(ctx, url); errors.Is(err, store.ErrInvalid) {
		return nil, fmt.Errorf("%w: %w", errUsage, err)
	} else if err != nil {
		return nil, fmt.Errorf("%w: %w", errOpen, err)
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
