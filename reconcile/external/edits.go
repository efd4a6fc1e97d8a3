package external

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/tendhq/tend/store"
)

// The parts of an object that a client may edit.
const (
	partSpec        = "spec"
	partStatus      = "status"
	partLabels      = "labels"
	partAnnotations = "annotations"
	partFinalizers  = "finalizers"
	partOwners      = "owners"
	partName        = "external name"
)

// unedited is a copy of o, for sayDropped; nil: nothing is logged at debug level.
func (a *attempt[S, T]) unedited(ctx context.Context, o *store.Object[S, T]) *store.Object[S, T] {
	if !a.log.Enabled(ctx, slog.LevelDebug) {
		return nil
	}
	return a.store.Clone(o)
}

// sayDropped logs which parts of an object a client edited in vain: all but those that are kept,
// if the call kept any. It names no values, which may be secret.
func (a *attempt[S, T]) sayDropped(ctx context.Context, call string, before, after *store.Object[S, T], keeps bool, kept ...string) {
	if before == nil {
		return
	}
	var dropped []string
	for _, part := range []struct {
		name string
		same bool
	}{
		{partSpec, a.store.SameSpec(before, after)},
		{partStatus, a.store.SameStatus(before, after)},
		{partLabels, maps.Equal(before.Labels, after.Labels)},
		{partAnnotations, maps.Equal(before.Annotations, after.Annotations)},
		{partFinalizers, slices.Equal(before.Finalizers, after.Finalizers)},
		{partOwners, slices.Equal(before.Owners, after.Owners)},
		{partName, before.Intent.ExternalName == after.Intent.ExternalName},
	} {
		if !part.same && !(keeps && slices.Contains(kept, part.name)) {
			dropped = append(dropped, part.name)
		}
	}
	if len(dropped) > 0 {
		a.log.DebugContext(ctx, "edits of the client are not kept", "call", call, "of", strings.Join(dropped, ", "))
	}
}
