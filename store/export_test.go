package store

import (
	"log/slog"
)

func (o *CapError) SetOwner(v string) *CapError {
	o.owner = v
	return o
}

func (o *CapError) SetMax(v int) *CapError {
	o.max = v
	return o
}

const MaxFinalizers = maxFinalizers

type SelectorOp = selectorOp

const In = opIn

const NotIn = opNotIn

func (r *SlotSet) Has(a0 int) bool { return r.has(a0) }

func (o *Options[S, T]) SetLogger(v *slog.Logger) *Options[S, T] {
	o.logger = v
	return o
}
