package event

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tendhq/tend/store"
)

// kind is that under which [Keep] stores events.
const kind = "event"

// Keep makes a [Log] that keeps events in a store too, as objects of kind "event" with an Event as spec:
// the newest most of them, at least 1, and up to a tenth more for each server that writes. They are
// there after a restart, for "tend get event"; the Log itself begins empty. What it hands on is
// what a Log hands on: an event that is repeated is written every five minutes, with the count of the
// server that wrote it last. It has to run, as a program.Program runs what is given to Use.
//
// The encryption is that of the kind "event", see [store.Options]; nil: none. Without it the message
// of an event about an encrypted kind is not kept. Those that cannot be decoded are the first to be
// deleted beyond most.
func Keep(b store.Backend, most int, crypt *store.Encryption) (*Log, error) {
	if most < 1 {
		return nil, fmt.Errorf("event: Keep: at most %d events", most)
	}
	s, err := store.New(b, kind, &store.Options[Event, struct{}]{Encryption: crypt})
	if err != nil {
		return nil, fmt.Errorf("event: Keep: %w", err)
	}
	k := &keeper{store: s, most: most, made: most} // the first one trims
	return NewLog(k.record), nil
}

// keeper writes events, and deletes the oldest after each tenth of most that it has made.
type keeper struct {
	store *store.Store[Event, struct{}]
	most  int

	mu   sync.Mutex // one write at a time; guards what follows
	made int        // since it trimmed
}

func (k *keeper) record(ctx context.Context, e Event) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e.Encrypted && !k.store.Encrypted() {
		e.Message = "(not kept: the kind is encrypted, and event.Keep has no Encryption)"
	}
	key := store.Key{Namespace: e.Key.Namespace, Name: nameOf(e)}
	o := &store.Object[Event, struct{}]{Meta: store.Meta{Namespace: key.Namespace, Name: key.Name}, Spec: e}
	if _, err := k.store.Create(ctx, o); !errors.Is(err, store.ErrExists) {
		if k.made++; err != nil || k.made <= k.most/10 {
			return err
		}
		return k.trim(ctx)
	}
	_, err := k.store.Mutate(ctx, key, func(o *store.Object[Event, struct{}]) error { o.Spec = e; return nil })
	if !errors.Is(err, store.ErrDecode) {
		return err
	}
	if err = k.store.DeleteUndecodable(ctx, key); err == nil {
		_, err = k.store.Create(ctx, o)
	}
	return err
}

// nameOf is the same for events that are the same but for their time and count.
func nameOf(e Event) string {
	h := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %q %v", e.Kind, e.Key.Name, e.UID, e.Reason, e.Message, e.Warning))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h[:16]))
}

// trim deletes those that cannot be decoded and the oldest beyond most. Another server may be at it too.
func (k *keeper) trim(ctx context.Context) error {
	var all []*store.Object[Event, struct{}]
	var broken []store.Key
	for o, err := range k.store.All(ctx, store.Selector{}) {
		if bad, ok := errors.AsType[*store.DecodeError](err); ok {
			broken = append(broken, bad.Key)
			continue
		}
		if err != nil {
			return err
		}
		all = append(all, o)
	}
	k.made = 0
	over := max(0, len(all)+len(broken)-k.most)
	for _, key := range broken[:min(over, len(broken))] {
		if err := k.store.DeleteUndecodable(ctx, key); err != nil && !otherServer(err) {
			return err
		}
		over--
	}
	slices.SortFunc(all, func(a, b *store.Object[Event, struct{}]) int { return a.Spec.Time.Compare(b.Spec.Time) })
	for _, o := range all[:over] {
		if err := k.store.Delete(ctx, o); err != nil && !otherServer(err) {
			return err
		}
	}
	return nil
}

// otherServer reports whether a deletion failed because another server was at the event.
func otherServer(err error) bool {
	return errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict)
}
