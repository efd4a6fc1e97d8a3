package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tendhq/tend/internal/contain"
	"github.com/tendhq/tend/internal/sleep"
)

// Conversion brings an object that an earlier version of the program stored into the
// form of the next version. It gets the decoded JSON, with the fields "spec", "status" and
// "meta" as they were written, and modifies it. Numbers are [json.Number]. It must not
// change "meta". It runs each time such an object is read, also by caches, on several
// goroutines at once, and must always give the same result. An error, or a panic, makes
// the object one that cannot be decoded ([*DecodeError]); nothing is written then.
type Conversion func(object map[string]any) error

// checkConversions says what is wrong with [Options].Convert.
func (s *core) checkConversions() error {
	if s.convert == nil {
		return nil
	}
	if len(s.convert) != s.version-1 {
		return fmt.Errorf("%w: %s: %d conversions for version %d, want %d", ErrInvalid, s.kind, len(s.convert), s.version, s.version-1)
	}
	for i, step := range s.convert {
		if step == nil {
			return fmt.Errorf("%w: %s: no conversion from version %d", ErrInvalid, s.kind, i+1)
		}
	}
	return nil
}

// schemaOf returns the schema version that the bytes of an object were written with.
func (s *core) schemaOf(data []byte) (int, error) {
	if bytes.HasPrefix(data, s.present) {
		return s.version, nil
	}
	var at struct {
		Schema int `json:"schema"`
	}
	err := decodeJSON(data, &at)
	return at.Schema, err
}

// toThisVersion converts the bytes of an object, decrypted, if an earlier version wrote
// them.
func (s *core) toThisVersion(data []byte) (now []byte, schema int, converted bool, err error) {
	if schema, err = s.schemaOf(data); err != nil {
		return nil, 0, false, s.hideDecode(err)
	}
	if s.convert == nil || schema >= s.version {
		return data, schema, false, nil
	}
	doc, err := readEnvelope(data)
	if err != nil {
		return nil, 0, false, s.hideDecode(err)
	}
	for version := max(schema, 1); version < s.version; version++ {
		if err := contain.Apart(func() error { return s.convert[version-1](doc.all) }); err != nil {
			return nil, 0, false, fmt.Errorf("conversion from version %d: %w", version, s.hideDecode(err))
		}
	}
	doc.all["schema"] = s.version
	delete(doc.all, ownersField) // its paths are those of the earlier form
	now, err = json.Marshal(doc.all)
	return now, s.version, true, err
}

// Rewrite stores every object of the kind that is stored in an earlier form again, in that
// of s: one that an earlier version of the program wrote ([Options].Version, Convert), and one
// that is not encrypted, or under an older key ([Options].Encryption). Specs, status and
// generations stay as they are. It returns how many it stored.
//
// It can be ended and called again, on any server and beside controllers: what is in the new
// form already is skipped, and a conflict with another write is tried again. Objects that
// cannot be decoded, or are of a newer version, are left, and named in the error. As long as
// an earlier version of the program runs, it may store objects in its form again, but none
// that is in the new one ([ErrNewer]): call Rewrite when the last one has gone.
func Rewrite[S, T any](ctx context.Context, s *Store[S, T]) (int, error) {
	if s == nil {
		return 0, fmt.Errorf("%w: Rewrite: a nil store", ErrInvalid)
	}
	return s.core.rewriteAll(ctx)
}

func (s *core) rewriteAll(ctx context.Context) (n int, err error) {
	for {
		before := n
		var wrong []error
		err := eachRecord(ctx, s.backend, s.kind, func(r Record) error {
			f, err := s.decode(r)
			if err == nil && s.isCurrent(f) {
				return nil
			}
			rewritten, err := s.rewrite(ctx, r.Key)
			if rewritten {
				n++
			}
			if errors.Is(err, ErrDecode) || errors.Is(err, ErrNewer) || errors.Is(err, ErrInvalid) {
				wrong = append(wrong, err)
				return nil
			}
			return err
		})
		if errors.Is(err, ErrCompacted) && n > before {
			continue // the list took too long; what is done is skipped
		}
		return n, errors.Join(append(wrong, err)...)
	}
}

// isCurrent tells that there is nothing to rewrite: a newer version is refused by the write.
func (s *core) isCurrent(f found) bool { return !f.stale && f.schema <= s.version }

func (s *core) rewrite(ctx context.Context, k Key) (done bool, err error) {
	for conflicts := 0; ; conflicts++ {
		began := time.Now()
		f, err := s.find(ctx, k)
		if errors.Is(err, ErrNotFound) || err == nil && s.isCurrent(f) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		_, err = s.replace(ctx, f, nil, func(*core, object, object) (changed, error) { return changed{rest: true, intent: true}, nil })
		if !errors.Is(err, ErrConflict) {
			return err == nil, err
		}
		sleep.For(ctx, conflictPause(conflicts, time.Since(began)))
	}
}
