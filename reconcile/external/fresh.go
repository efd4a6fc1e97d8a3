package external

import "context"

type freshKey struct{}

// Fresh reports whether Observe is to look at the resource itself, and not at
// what an [Inventory] or another cache has of it: somebody asked for this run
// with the annotation [store.AnnotationReconcileNow].
func Fresh(ctx context.Context) bool { return ctx.Value(freshKey{}) != nil }
