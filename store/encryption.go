package store

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"slices"
)

// Encryption encrypts the objects of a [Store] where they are kept as bytes, with AES-256
// in Galois counter mode (package crypto/cipher) under a random nonce. Kind, namespace, name,
// revision and lease of a record are not encrypted: the backend needs them. The bytes are bound to
// kind, namespace and name, so that a record which was moved under another name is not read.
// A record that was put back to an earlier version of itself is not noticed.
//
// Backends of Go values (memory) keep objects in the clear, in this process only. An
// encrypted kind has no [Store.Declaration]. Of a program without the key, [Store.DeleteUndecodable]
// can delete its objects, and nothing else works; the plain command tend can do nothing with them.
//
// It is safe for concurrent use, and may serve any number of stores.
type Encryption struct {
	keys  []encryptionKey // the first encrypts
	plain bool
}

type encryptionKey struct {
	head []byte // of what it encrypts: the magic, and its ID
	aead cipher.AEAD
}

// EncryptionKey is a key and its name.
type EncryptionKey struct {
	// ID is stored with what the key encrypts: 1 to 64 bytes, another one for each key.
	ID string
	// Secret has 32 random bytes, from a secret manager and not from a password. Under one
	// key at most 2^32 writes may be made.
	Secret []byte
}

// EncryptionOptions sets up an [Encryption]. The zero value and nil are the defaults.
type EncryptionOptions struct {
	// AcceptPlain reads objects that are not encrypted, until [Rewrite] has encrypted
	// them. Take it out then: with it, a writer to the store needs no key.
	AcceptPlain bool
}

// NewEncryption returns an encryption under the first of the keys. The others decrypt what was
// stored earlier. To change the key without an interruption:
//
//  1. deploy the new key behind the old one, to all servers,
//  2. deploy it before the old one,
//  3. call [Rewrite], and take the old key out when it has succeeded.
//
// No keys, a secret of another length, and an ID that is empty, longer than 64 bytes or there
// twice are [ErrInvalid].
func NewEncryption(keys []EncryptionKey, o *EncryptionOptions) (*Encryption, error) {
	if len(keys) == 0 {
		return nil, fmt.Errorf("%w: encryption without a key", ErrInvalid)
	}
	e := &Encryption{plain: o != nil && o.AcceptPlain}
	for i, k := range keys {
		if len(k.ID) == 0 || len(k.ID) > 64 {
			return nil, fmt.Errorf("%w: encryption key %d: its ID has %d bytes, want 1 to 64", ErrInvalid, i, len(k.ID))
		}
		if slices.ContainsFunc(keys[:i], func(other EncryptionKey) bool { return other.ID == k.ID }) {
			return nil, fmt.Errorf("%w: two encryption keys have the ID %q", ErrInvalid, k.ID)
		}
		if len(k.Secret) != 32 {
			return nil, fmt.Errorf("%w: the secret of encryption key %q has %d bytes, want 32", ErrInvalid, k.ID, len(k.Secret))
		}
		block, err := aes.NewCipher(k.Secret)
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, err
		}
		e.keys = append(e.keys, encryptionKey{slices.Concat(encrypted, []byte{byte(len(k.ID))}, []byte(k.ID)), aead})
	}
	return e, nil
}

// encrypted is what encrypted bytes begin with. JSON cannot.
var encrypted = []byte("\x00tend\x01")

// overhead is how much longer than an object its encryption is, at most.
func (e *Encryption) overhead() int {
	if e == nil {
		return 0
	}
	return len(e.keys[0].head) + e.keys[0].aead.Overhead()
}

func (k encryptionKey) id() []byte { return k.head[len(encrypted)+1:] }

// bound is authenticated, and not stored: the record that the bytes are of.
func (k encryptionKey) bound(kind string, at Key) []byte {
	return fmt.Appendf(slices.Clip(k.head), "%q%q%q", kind, at.Namespace, at.Name)
}

// seal encrypts the bytes of an object; nil leaves them as they are.
func (e *Encryption) seal(kind string, at Key, data []byte) []byte {
	if e == nil {
		return data
	}
	k := e.keys[0]
	return k.aead.Seal(slices.Grow(slices.Clone(k.head), len(data)+k.aead.Overhead()), nil, data, k.bound(kind, at))
}

// open decrypts what seal made. stale tells that the first key would make it otherwise.
func (e *Encryption) open(kind string, at Key, data []byte) (plain []byte, stale bool, err error) {
	sealed := bytes.HasPrefix(data, encrypted)
	switch {
	case e == nil && sealed:
		return nil, false, fmt.Errorf("encrypted, and the store has no Encryption")
	case e == nil:
		return data, false, nil
	case !sealed && e.plain:
		return data, true, nil
	case !sealed:
		return nil, false, fmt.Errorf("not encrypted, and EncryptionOptions.AcceptPlain is not set")
	}
	for i, k := range e.keys {
		if rest, ok := bytes.CutPrefix(data, k.head); ok {
			if plain, err = k.aead.Open(nil, nil, rest, k.bound(kind, at)); err != nil {
				err = fmt.Errorf("encrypted with the key %q: %w", e.keys[i].id(), err)
			}
			return plain, i > 0, err
		}
	}
	id := data[len(encrypted):]
	if len(id) > 0 {
		id = id[1:min(1+int(id[0]), len(id))]
	}
	return nil, false, fmt.Errorf("encrypted with the key %q, which the store does not have", id)
}
