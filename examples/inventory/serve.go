package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/reconcile/web/debug"
)

// debugPage is what /debug shows besides the program: what this one knows. It has no
// actions: no user is authenticated here.
func (a *app) debugPage() *debug.Options {
	return &debug.Options{Title: "inventory", Sections: []debug.Section{{Title: "This program", Rows: a.about}}}
}

// about is what the program says of itself.
func (a *app) about() [][2]string {
	var calls []string
	made := a.meter.Calls()
	for _, name := range slices.Sorted(maps.Keys(made)) {
		calls = append(calls, fmt.Sprintf("%s %d", name, made[name]))
	}
	rows := [][2]string{
		{"installation", a.o.Installation},
		{"endpoint", a.buckets.endpoint.String()},
		{"buckets are marked by", a.buckets.ownership.String()},
		{"the inventory", program.ProgressOf(a.parts...).String()},
		{"changes", a.done.String()},
		{"calls", strings.Join(calls, ", ")},
	}
	if down := a.meter.Down(); down != "" {
		rows = append(rows, [2]string{"the endpoint is no use", down})
	}
	return rows
}
