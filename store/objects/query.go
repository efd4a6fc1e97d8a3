package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/tendhq/tend/store"
)

// Query says which objects List returns.
type Query struct {
	Selector store.Selector
	Contains string // part of the printed key
	After    string // a printed key: only those that come after it
	Limit    int    // zero: all
}

// States yields what [Kind.All] does. Conditions of a kind with secrets have neither a
// Reason nor a Message: to take the secrets out of them costs more than all else of a
// listing. [Object.WithTexts] adds them to one object. A Kind of another package, and one
// that wraps another, yields what its All does.
func States(ctx context.Context, k Kind, sel store.Selector) iter.Seq2[Object, error] {
	if s, ok := k.(interface {
		states(ctx context.Context, sel store.Selector) iter.Seq2[Object, error]
	}); ok {
		return s.states(ctx, sel)
	}
	return k.All(ctx, sel)
}

// Partial reports whether All of a kind yields the objects of some shards only: whether it is
// that of a cache of shards ([cache.Options].Shards). A Kind that wraps another is not Partial.
func Partial(k Kind) bool {
	p, ok := k.(interface{ partial() bool })
	return ok && p.partial()
}

// List returns objects in the order of their printed keys, and whether there are more.
// It looks at all objects of the kind, and keeps at most twice Limit.
func List(ctx context.Context, k Kind, q Query) (page []Object, more bool, err error) {
	if k == nil {
		return nil, false, fmt.Errorf("%w: objects: List: a nil kind", store.ErrInvalid)
	}
	for o, err := range States(ctx, k, q.Selector) {
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return nil, false, err
		}
		if key := o.Key().String(); key <= q.After || !strings.Contains(key, q.Contains) {
			continue
		}
		if page = append(page, o); q.Limit > 0 && len(page) > 2*q.Limit {
			slices.SortFunc(page, compare)
			page = slices.Delete(page, q.Limit+1, len(page))
		}
	}
	slices.SortFunc(page, compare)
	if q.Limit > 0 && len(page) > q.Limit {
		page, more = page[:q.Limit], true
	}
	for i := range page {
		if ctx.Err() != nil {
			return nil, false, context.Cause(ctx)
		}
		page[i] = page[i].WithTexts()
	}
	return page, more, nil
}

// Do reconciles an object now ("reconcile"), or pauses or resumes it on every server.
func Do(ctx context.Context, k Kind, key store.Key, action string) (Object, error) {
	if d, ok := k.(doer); ok {
		return d.Do(ctx, key, action)
	}
	return k.Edit(ctx, key, 0, func(m *store.Meta) error {
		switch action {
		case "reconcile":
			reconcileNow(m)
		case "pause", "resume":
			m.Paused = action == "pause"
		default:
			return fmt.Errorf("%w: no action %q", store.ErrInvalid, action)
		}
		return nil
	})
}

// Parse makes an Object of its JSON, as [Object.JSON] returns it.
func Parse(kind string, data []byte) (Object, error) {
	o := Object{Kind: kind}
	head := struct {
		Meta               *store.Meta        `json:"meta"`
		Conditions         *[]store.Condition `json:"conditions"`
		Phase              *store.Phase       `json:"phase"`
		ObservedGeneration *int64             `json:"observedGeneration"`
	}{&o.Meta, &o.Conditions, &o.Phase, &o.ObservedGeneration}
	if err := json.Unmarshal(data, &head); err != nil {
		return Object{}, fmt.Errorf("%w: %s: %w", store.ErrInvalid, kind, err)
	}
	o.show = func() ([]byte, error) { return data, nil }
	return o, nil
}

// A Doer is a [Kind] that carries out the actions of Do itself.
type doer interface {
	Do(ctx context.Context, key store.Key, action string) (Object, error)
}
