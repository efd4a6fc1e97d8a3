package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/objects"
)

// target is an object that a command changes.
type target struct {
	of  objects.Kind
	key store.Key
}

// each returns the command that does something to each object that it names: by keys, by labels
// or by a file. One that fails does not keep the others from it.
func each(do func(r *command, ctx context.Context, t target) error) func(*command, context.Context, []string) error {
	return func(r *command, ctx context.Context, args []string) error {
		all, err := r.targets(ctx, args)
		switch {
		case err != nil:
			return err
		case len(all) == 0:
			fmt.Fprintln(r.Stdout, "no object matches")
		case len(all) > 1 && r.revision != 0:
			return usage("-revision is for one object")
		}
		var failed []error
		for _, t := range all {
			err := do(r, ctx, t)
			if err != nil && len(all) > 1 {
				err = fmt.Errorf("%s %s: %w", t.of.Kind(), t.key, err)
			}
			if err != nil {
				failed = append(failed, err)
			}
			if ctx.Err() != nil {
				break
			}
		}
		return errors.Join(failed...)
	}
}

// targets are the objects that the command line names. It is understood as a whole before the
// first is changed.
func (r *command) targets(ctx context.Context, args []string) (all []target, err error) {
	labels := slices.Contains(r.given, "l")
	switch {
	case r.file != "" && len(args) == 0 && !labels:
		return r.declared()
	case r.file == "" && labels && len(args) == 1:
		return r.selected(ctx, args[0])
	case r.file != "" || labels || len(args) < 2:
		return nil, usage("name the objects by KIND KEY ..., by KIND -l LABELS, or by -f FILE")
	}
	for _, printed := range args[1:] {
		k, key, err := r.named([]string{args[0], printed})
		if err != nil {
			return nil, err
		}
		all = append(all, target{k, key})
	}
	return all, nil
}

// declared are the objects that the file of -f names. It may be the one of apply.
func (r *command) declared() (all []target, err error) {
	file, err := r.declarations()
	if err != nil {
		return nil, err
	}
	for _, d := range file {
		k, err := r.kind(d.Kind)
		if err != nil {
			return nil, err
		}
		all = append(all, target{k, d.key(r.namespace)})
	}
	return all, nil
}

// selected are the objects that have the labels of -l.
func (r *command) selected(ctx context.Context, kind string) (all []target, err error) {
	if strings.TrimSpace(r.labels) == "" { // of a variable that is not set: it would select all
		return nil, usage("-l is empty")
	}
	k, err := r.kind(kind)
	if err != nil {
		return nil, err
	}
	sel, err := store.ParseSelector(r.labels)
	if err != nil {
		return nil, usage("-l: %v", err)
	}
	sel.Namespace = r.namespace
	page, _, err := objects.List(ctx, k, objects.Query{Selector: sel})
	for _, o := range page {
		all = append(all, target{k, o.Key()})
	}
	return all, err
}
