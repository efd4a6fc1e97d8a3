package store

import (
	"maps"
	"slices"
	"time"
)

// Meta is what the store knows of every object, whatever its kind. The fields
// marked "store" are written by the store; what a caller puts there is ignored.
type Meta struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`

	// UID is random and fresh for each creation, so that an object deleted and
	// made again under the same key is told apart. (store)
	UID string `json:"uid"`
	// Revision is that of the object's last write; zero means never stored.
	// Update and Delete compare it. In JSON it is a string. The stored form is
	// without it: the backend keeps it beside the object. (store)
	Revision Revision `json:"revision,omitzero"`
	// Generation counts the versions of the spec, from 1. It grows when the
	// spec changes and when deletion is asked for, never on a status write.
	// (store)
	Generation int64 `json:"generation"`

	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Finalizers keep a deleted object until the last of them is removed. None
	// can be added once deletion was asked for.
	Finalizers []string `json:"finalizers,omitempty"`
	Owners     []Owner  `json:"owners,omitempty"`

	// Created is when the object was made, in UTC. (store)
	Created time.Time `json:"created"`
	// Deleted is when deletion was asked for; zero means it was not. (store)
	Deleted time.Time `json:"deleted,omitzero"`

	// Paused asks every reconciler on every server to leave the object alone.
	Paused bool `json:"paused,omitempty"`

	// Newer says that a newer version of the program stored the object, with a schema version
	// above [Options].Version: the spec and the status are what of them this program knows.
	// Nothing may be done by them; a write is [ErrNewer]. The stored form is without it. (store)
	Newer bool `json:"newer,omitempty"`

	// PausedSince is when Paused was set; zero means that it is not, or was by a program
	// that did not record it. (store)
	PausedSince time.Time `json:"pausedSince,omitzero"`

	// Intent is the kernel's record of a create in an external system. Only
	// [Store.UpdateIntent] writes it; every other write keeps what is stored.
	Intent Intent `json:"intent,omitzero"`
}

// pause sets Paused, and since when.
func (m *Meta) pause(paused bool) {
	m.Paused, m.PausedSince = paused, zeroTime
	if paused {
		m.PausedSince = now()
	}
}

// AnnotationReconcileNow asks for a run of an object that has no other cause for one.
// Setting it, to a value that it did not have, is urgent, as a change of the spec is: take
// the present time. The next run by package lifecycle or external takes it off;
// other reconcilers leave it.
const AnnotationReconcileNow = "tend.reconcile-now"

// AnnotationAdopt on an object names a resource that exists and that the object is to take over, by
// the id that the external system chose for it. Package reconcile/external heeds it as long as
// the object has no resource on record, creates none meanwhile, and records the one that it names
// before it writes the ownership mark onto it. Where a name is on record, of a resource that went and could
// not be made again, an event says that it takes "tend adopt". A resource with another's mark is let be. Observe is
// given the id as the object's Intent.ExternalName and has to look for that, and so has the IDOf of an inventory.
const AnnotationAdopt = "tend.adopt"

// Owner names an object that this one belongs to. UID decides whether it is
// still the same one.
type Owner struct {
	Kind string `json:"kind"`
	Key  Key    `json:"key"`
	UID  string `json:"uid"`
}

// Intent says how far a create in an external system came. It is stored before
// the create is called and again when its outcome is known.
type Intent struct {
	// ExternalName is what the external system calls the thing, once known.
	ExternalName string `json:"externalName,omitempty"`
	// Location is where the thing was made or found, in the words of the reconciler; empty: not
	// recorded, or nothing was made.
	Location string `json:"location,omitempty"`
	// Attempt counts the creates begun.
	Attempt int `json:"attempt,omitempty"`
	// Pending, Succeeded and Failed are when the last create was begun, and
	// when one last succeeded or failed. A Pending newer than both others is a
	// create whose outcome is not known.
	Pending   time.Time `json:"pending,omitzero"`
	Succeeded time.Time `json:"succeeded,omitzero"`
	Failed    time.Time `json:"failed,omitzero"`
	// Outputs are what the create returned, or an update, and what was not handed on yet: see package
	// reconcile/external, Options.Publisher. They are in no JSON of an object but the stored one.
	Outputs Outputs `json:"-"`
	// OutputsDue says that a create was begun, or an update, whose outputs are not on record. Once the
	// outcome of the create is known nothing has them: they are lost.
	OutputsDue bool `json:"outputsDue,omitempty"`
	// Replacing says that a call was begun that may replace outputs of a resource that is there, and that its end
	// is not on record. It is told apart from a loss, which an operator may end.
	Replacing bool `json:"replacing,omitempty"`
}

// Unresolved reports whether the outcome of the newest create is not known.
func (i Intent) Unresolved() bool { return i.Pending.After(i.Succeeded) && i.Pending.After(i.Failed) }

// Resolved is the record of a create that came back: with a resource, or without. The outcome is as
// old as the create at least, and newer than one before it, whatever the clock says.
func (i Intent) Resolved(made bool, now time.Time) Intent {
	if made {
		i.Succeeded = latest(now, i.Pending, i.Failed.Add(1))
	} else {
		i.Failed = latest(now, i.Pending, i.Succeeded.Add(1))
	}
	return i
}

func latest(times ...time.Time) time.Time {
	return slices.MaxFunc(times, time.Time.Compare).UTC().Round(0)
}

// Key returns the key of the object.
func (m *Meta) Key() Key { return Key{m.Namespace, m.Name} }

// Deleting reports whether deletion was asked for.
func (m *Meta) Deleting() bool { return !m.Deleted.IsZero() }

// HasFinalizer reports whether the finalizer is present.
func (m *Meta) HasFinalizer(name string) bool { return slices.Contains(m.Finalizers, name) }

// AddFinalizer appends the finalizer and reports whether it was missing.
func (m *Meta) AddFinalizer(name string) bool {
	if m.HasFinalizer(name) {
		return false
	}
	m.Finalizers = append(slices.Clip(m.Finalizers), name)
	return true
}

// RemoveFinalizer removes the finalizer, leaves the others in their order, and
// reports whether it was there.
func (m *Meta) RemoveFinalizer(name string) bool {
	i := slices.Index(m.Finalizers, name)
	if i < 0 {
		return false
	}
	m.Finalizers = slices.Concat(m.Finalizers[:i], m.Finalizers[i+1:])
	return true
}

// normal gives the times the form they are stored in, so that an intent read
// back is equal to the one written.
func (i Intent) normal() Intent {
	i.Pending, i.Succeeded, i.Failed = storedTime(i.Pending), storedTime(i.Succeeded), storedTime(i.Failed)
	return i
}

// clone copies everything that m refers to.
func (m *Meta) clone() {
	m.Labels = maps.Clone(m.Labels)
	m.Annotations = maps.Clone(m.Annotations)
	m.Finalizers = slices.Clone(m.Finalizers)
	m.Owners = slices.Clone(m.Owners)
}
