package store

import (
	"context"
	"log/slog"

	"github.com/tendhq/tend/internal/written"
)

type Writes = writes

func WithWrites(ctx context.Context, w *Writes) context.Context { return written.With(ctx, w) }

const MaxFinalizers = maxFinalizers

type SelectorOp = selectorOp

func (r *SlotSet) Has(a0 int) bool { return r.has(a0) }

func (o *Options[S, T]) SetLogger(v *slog.Logger) *Options[S, T] {
	o.logger = v
	return o
}

func (o *Requirement) SetOp(v selectorOp) *Requirement {
	o.op = v
	return o
}

var KeepJSON = keepJSON
