package objects

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/tendhq/tend/internal/sleep"
	"github.com/tendhq/tend/internal/wall"
	"github.com/tendhq/tend/store"
)

// An Answer is what an operator that has looked says of an object's resource in an external
// system, where the program that reconciles it has stopped to ask ([Kind].Answer).
type Answer string

// The answers. A wrong one makes a second resource, or takes another's for the object's. The first two
// are for an object that stopped (package reconcile/external: reason CreateIncomplete): that a create
// is still under way cannot be told from its record.
const (
	// Created says that the create of unknown outcome made the resource, of a name that is
	// given with it. So it does of a create that succeeded and left no name; if what that made
	// was removed by hand, give the name that it had: the next look finds it gone.
	Created Answer = "created"
	// NotCreated says that it made none, or that what it made was removed by hand: the next
	// run creates again.
	NotCreated Answer = "not-created"
	// ForgetLocation forgets where the resource lies, see [store.Intent]: the next run looks
	// where the spec says. There is no resource at the old location any more, or it was moved
	// by hand, or the location has another name now. The id on record stays: where ids repeat from one
	// location to the next, what has it in the new one is taken for the object's unless its mark names
	// another owner. Declare another object there instead, and delete this one.
	ForgetLocation Answer = "forget-location"
	// Adopt has an object without a resource take over the one whose name is given with it, by
	// [store.AnnotationAdopt]. Where one was made again, which failed, the name of the one before is
	// taken off the record: the annotation alone is not heeded there.
	Adopt Answer = "adopt"
	// OutputsRestored ends a loss of outputs (reason OutputsLost): new credentials were made by hand, and are
	// where the readers of the lost ones find them. Nothing is published for it. What was on record for a
	// publication is older, and is dropped. From before a call that replaces them, of a client that is a Rotator
	// or an update, until its end is on record it is not taken.
	OutputsRestored Answer = "outputs-restored"
)

// ErrNotPending says that an object does not ask for an answer: it has no create of unknown
// outcome, no location on record, or no lost outputs.
var ErrNotPending = errors.New("there is nothing to answer")

// Check returns the error that [Kind].Answer would return for the object as it is.
func (a Answer) Check(o Object, externalName string) error {
	m := o.Meta
	return a.edit(&m, externalName)
}

// edit changes the record of an object's creates as the answer says.
func (a Answer) edit(m *store.Meta, externalName string) error {
	i := &m.Intent
	if (a == Created || a == Adopt) != (externalName != "") {
		return fmt.Errorf("%w: an external name is for the answers %q and %q, and for no other", store.ErrInvalid, Created, Adopt)
	}
	switch a {
	case Adopt:
		failed := i.Failed.After(i.Succeeded) // a run has found that what is on record is not there
		if i.ExternalName != "" && !failed || i.Unresolved() || i.Succeeded.After(i.Failed) {
			return fmt.Errorf("%w: it has a resource on record, or a create of unknown outcome", ErrNotPending)
		}
		i.ExternalName = ""
		annotate(m, store.AnnotationAdopt, externalName)
		return nil
	case Created, NotCreated:
		nameless := a == Created && i.ExternalName == "" && i.Succeeded.After(i.Failed)
		if !i.Unresolved() && !nameless {
			return fmt.Errorf("%w: no create of it is of unknown outcome", ErrNotPending)
		}
		*i = i.Resolved(a == Created, wall.Now())
		if a == Created {
			i.ExternalName = externalName
			return nil
		}
		i.OutputsDue = i.OutputsDue || i.Outputs != (store.Outputs{})
		i.Outputs = store.Outputs{} // or they would be published of a resource that is not there
	case OutputsRestored:
		switch {
		case !i.OutputsDue || i.Unresolved():
			return fmt.Errorf("%w: it has lost no outputs, or a create of it is of unknown outcome", ErrNotPending)
		case i.Replacing: // what was made by hand may be what the call replaces
			return fmt.Errorf("%w: a call that replaces its outputs was begun; look again after its next run", ErrNotPending)
		}
		i.Outputs, i.OutputsDue = store.Outputs{}, false
		return nil
	case ForgetLocation:
		if i.Location == "" {
			return fmt.Errorf("%w: it has no location on record", ErrNotPending)
		}
	default:
		return fmt.Errorf("%w: no answer %.100q", store.ErrInvalid, string(a))
	}
	i.Location = ""
	return nil
}

// Answer implements [Kind].
func (k *kind[S, T]) Answer(ctx context.Context, key store.Key, a Answer, externalName string) (Object, error) {
	for pause := (sleep.Backoff{Min: time.Millisecond, Max: time.Second}); ; {
		o, err := k.store.Get(ctx, key)
		if err == nil {
			if err = a.edit(&o.Meta, externalName); err != nil {
				err = fmt.Errorf("%s %s: %w", k.Kind(), key, err)
			}
		}
		if err != nil {
			return Object{}, err
		}
		reconcileNow(&o.Meta) // in the same write: its key is parked, and nothing else about it has changed
		stored, err := k.store.UpdateIntent(ctx, o)
		if !errors.Is(err, store.ErrConflict) {
			return k.result(stored, err)
		}
		pause.Wait(ctx) // Get fails when ctx ends
	}
}

// reconcileNow asks for a run. The time is for people that read the object; no clock is asked how
// long ago it was.
func reconcileNow(m *store.Meta) {
	annotate(m, store.AnnotationReconcileNow, wall.Now().Format(time.RFC3339Nano))
}

func annotate(m *store.Meta, name, value string) {
	notes := map[string]string{}
	maps.Copy(notes, m.Annotations)
	notes[name] = value
	m.Annotations = notes
}
