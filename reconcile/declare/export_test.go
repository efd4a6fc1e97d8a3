package declare

import (
	"github.com/tendhq/tend/reconcile"
)

func (o *Options[S, T]) SetController(v *reconcile.Options[reconcile.Request]) *Options[S, T] {
	o.controller = v
	return o
}
