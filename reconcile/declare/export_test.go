package declare

import (
	"github.com/tendhq/tend/reconcile"
)

func (o *Options[S, T]) SetController(v *reconcile.Options[string]) *Options[S, T] {
	o.controller = v
	return o
}
