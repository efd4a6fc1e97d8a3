package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
)

const kindInstallation = "_installation"

// Installation returns the id of the installation that the backend belongs to,
// and makes one at the first call: a random text that is kept in the store and
// tells what one installation created in a cloud from what another did.
func Installation(ctx context.Context, b Backend) (string, error) {
	if b == nil {
		return "", fmt.Errorf("%w: Installation: a nil backend", ErrInvalid)
	}
	key := Key{Name: "id"}
	for {
		r, err := b.Get(ctx, kindInstallation, key)
		if err == nil {
			id, err := r.Encode()
			return string(id), err
		}
		if !errors.Is(err, ErrNotFound) {
			return "", err
		}
		_, err = b.Commit(ctx, Txn{
			If:  []Compare{{Kind: kindInstallation, Key: key}},
			Ops: []Op{{Kind: kindInstallation, Key: key, Put: Bytes(rand.Text())}},
		})
		if err != nil && !errors.Is(err, ErrConflict) {
			return "", err
		}
	}
}
