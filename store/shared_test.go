package store_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// whole has something in each part that two objects could share.
func whole(text string) *bucket {
	o := named("a")
	o.Labels, o.Annotations = map[string]string{"k": text}, map[string]string{"k": text}
	o.Finalizers, o.Owners = []string{text}, []store.Owner{{Kind: "Site", Key: store.Key{Name: text}, UID: text}}
	o.Spec.Tags, o.Spec.Rules = map[string]string{"k": text}, []rule{{Prefix: text, Hosts: []string{text}}}
	o.Conditions = []store.Condition{{Type: "Odd", Status: store.True, Reason: text}}
	return o
}

// scribble writes to each of these parts.
func scribble(o *bucket) {
	o.Labels["k"], o.Annotations["k"], o.Finalizers[0], o.Owners[0].UID = "x", "x", "x", "x"
	o.Spec.Tags["k"], o.Spec.Rules[0].Prefix, o.Spec.Rules[0].Hosts[0] = "x", "x", "x"
	o.Conditions[0].Reason = "x"
}

// What a caller writes to an object that it gave to the store, or got from it, changes nothing that is
// stored, whatever the call was: a backend of values keeps the very objects.
//
// Seen to fail: with the spec, and with the conditions, of the caller in what Update and UpdateStatus store,
// and with the object that is stored in what they return.
func TestTheStoreSharesNothingWithItsCallers(t *testing.T) {
	for name, options := range map[string]*store.Options[bucketSpec, bucketStatus]{"plain": nil, "with a Default": {Default: func(*bucket) {}}} {
		t.Run(name, func(t *testing.T) {
			s := newBuckets(t, newMemory(t, &memory.Options{}), options)
			var given *bucket
			check := func(call string, got *bucket, err error) {
				t.Helper()
				if err != nil {
					t.Fatalf("%s: %v", call, err)
				}
				want := s.Clone(got)
				scribble(given)
				scribble(got)
				if diff := cmp.Diff(want, stored(t, s, want)); diff != "" {
					t.Errorf("%s (-want +stored):\n%s", call, diff)
				}
				got = stored(t, s, want)
				scribble(got)
				if diff := cmp.Diff(want, stored(t, s, want)); diff != "" {
					t.Errorf("Get after %s (-want +stored):\n%s", call, diff)
				}
			}
			next := func(text string) *bucket {
				o := whole(text)
				o.Meta.Revision = stored(t, s, o).Revision
				return o
			}
			given = whole("a")
			o, err := s.Create(t.Context(), given)
			check("Create", o, err)
			given = next("b")
			o, err = s.Update(t.Context(), given)
			check("Update", o, err)
			given = next("c")
			o, err = s.UpdateStatus(t.Context(), given)
			check("UpdateStatus", o, err)
			o, err = s.Mutate(t.Context(), named("a").Key(), func(o *bucket) error {
				given = o
				w := whole("d")
				o.Spec, o.Labels, o.Annotations, o.Finalizers, o.Owners, o.Conditions = w.Spec, w.Labels, w.Annotations, w.Finalizers, w.Owners, w.Conditions
				return nil
			})
			check("Mutate", o, err)
		})
	}
}
