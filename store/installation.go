package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
)

// InstallationKind is the kind under which a store keeps the id that [Installation] returns.
// A copy of a store that a service is to go on with needs it too: without it the service
// gets another id, and takes every resource that it marked before for another's.
const InstallationKind = "_installation"

// Installation returns the id of the installation that the backend belongs to,
// and makes one at the first call: a random text that is kept in the store and
// tells what one installation created in a cloud from what another did.
func Installation(ctx context.Context, b Backend) (string, error) {
	if b == nil {
		return "", fmt.Errorf("%w: Installation: a nil backend", ErrInvalid)
	}
	key := Key{Name: "id"}
	for {
		r, err := b.Get(ctx, InstallationKind, key)
		if err == nil {
			id, err := r.Encode()
			return string(id), err
		}
		if !errors.Is(err, ErrNotFound) {
			return "", err
		}
		_, err = b.Commit(ctx, Txn{
			If:  []Compare{{Kind: InstallationKind, Key: key}},
			Ops: []Op{{Kind: InstallationKind, Key: key, Put: Bytes(rand.Text())}},
		})
		if err != nil && !errors.Is(err, ErrConflict) {
			return "", err
		}
	}
}
