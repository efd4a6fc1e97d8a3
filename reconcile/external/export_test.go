package external

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/objects"
)

// Remembered is how many single resources the inventory keeps something of.
func (v *Inventory[S, T, R]) Remembered() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.written) + len(v.single) + len(v.detail)
}

// A Room is a map, by its address, and how many entries it has.
type Room struct {
	At  uintptr
	Len int
}

// Rooms are maps of what the inventory keeps of resources and of runs that
// waited, as they are now.
func (v *Inventory[S, T, R]) Rooms() map[string]Room {
	v.mu.Lock()
	defer v.mu.Unlock()
	rooms := map[string]Room{}
	for name, m := range map[string]any{"written": v.written, "detail": v.detail, "back": v.back} {
		rooms[name] = Room{reflect.ValueOf(m).Pointer(), reflect.ValueOf(m).Len()}
	}
	return rooms
}

// Sightings is how many records of creates r remembers.
func (r *Reconciler[S, T]) Sightings() int {
	r.seen.mu.Lock()
	defer r.seen.mu.Unlock()
	return len(r.seen.of)
}

const ReasonCreating = reasonCreating

const ReasonDeleting = reasonDeleting

const ReasonCreated = reasonCreated

const ReasonUpdated = reasonUpdated

const ReasonDeleted = reasonDeleted

const ReasonAdopted = reasonAdopted

const ReasonReleased = reasonReleased

const ReasonPaused = reasonPaused

const ReasonPanicked = reasonPanicked

const ReasonPolicy = reasonPolicy

const ReasonConnectFailed = reasonConnectFailed

const ReasonObserveFailed = reasonObserveFailed

const ReasonCreateFailed = reasonCreateFailed

const ReasonCreateIncomplete = reasonCreateIncomplete

const ReasonUpdateFailed = reasonUpdateFailed

const ReasonDeleteFailed = reasonDeleteFailed

const ReasonCloseFailed = reasonCloseFailed

const ReasonLocationChanged = reasonLocationChanged

const ReasonMissing = reasonMissing

const ReasonNotOurs = reasonNotOurs

const ReasonLetterCase = reasonLetterCase

const ReasonDeletesHeld = reasonDeletesHeld

const ReasonDiffers = reasonDiffers

const ReasonAwaiting = reasonAwaiting

const DeleteHoldKind = deleteHoldKind

func (v *Inventory[S, T, R]) Look(ctx context.Context, id string) (R, bool, error) {
	return v.lookAsOf(ctx, id, time.Now())
}

var Fresh = freshened

const LettersUnknown = lettersUnknown

var ErrPolicy = errPolicy

const PollAnnotation = pollAnnotation

// ClearPending is an operator's word about a pending create, as package store/objects gives it: the
// resource has that name, or was not created. One that is not pending stays.
func (r *Reconciler[S, T]) ClearPending(ctx context.Context, key store.Key, externalName string) error {
	if externalName != "" {
		return r.answer(ctx, key, objects.Created, externalName)
	}
	return r.answer(ctx, key, objects.NotCreated, "")
}

// ClearLocation is an operator's word about a location.
func (r *Reconciler[S, T]) ClearLocation(ctx context.Context, key store.Key) error {
	return r.answer(ctx, key, objects.ForgetLocation, "")
}

// answer edits the record of an object's creates, if it asks for the answer, and has its key run. An
// operator calls it, outside of a run: there is no guard.
func (r *Reconciler[S, T]) answer(ctx context.Context, key store.Key, a objects.Answer, externalName string) error {
	_, err := objects.Of(r.store.Unguarded()).Answer(ctx, key, a, externalName)
	if err == nil || errors.Is(err, objects.ErrNotPending) {
		return nil
	}
	return fmt.Errorf("external: %s: answer %s: %w", key, a, err)
}

const (
	ReasonRotated        = reasonRotated
	ReasonOutputsLost    = reasonOutputsLost
	ReasonNotPublished   = reasonNotPublished
	ReasonWithdrawFailed = reasonWithdrawFailed
)
