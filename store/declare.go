package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tendhq/tend/store/internal/shape"
)

// ApplyFields declares fields of one object: what [Store.Apply] does for each object of its set, without the label,
// so that another's declaration of the object does not forbid it. It creates the object if there is none,
// and never deletes one. With force it takes over the fields that others own. It returns the object as it is
// stored then, together with [ErrOwned] if fields were not written; an object that is being deleted is
// [ErrDeleting], and one without an owner that o has in Meta.Owners is [ErrExists], as it is not the one that is meant.
// With a uid in o the object of that uid is meant: another one is [ErrExists], and where none is it creates none ([ErrNotFound]).
// Conflicts of revisions aside it fails like [Store.Create] and [Store.Update].
func (s *Store[S, T]) ApplyFields(ctx context.Context, o *Object[S, T], owner string, force bool) (*Object[S, T], error) {
	return typed[S, T](s.core.applyFields(ctx, o, owner, force))
}

func (s *core) applyFields(ctx context.Context, o object, owner string, force bool) (object, error) {
	if err := checkOwner(owner); err != nil {
		return nil, err
	}
	want, err := s.asWritten(o)
	if err != nil {
		return nil, err
	}
	d := declaring{s: s, want: want, by: owner, force: force, check: func(m *Meta) error {
		if m.Deleting() {
			return fmt.Errorf("%w: %s %s", ErrDeleting, s.kind, m.Key())
		}
		if uid := want.meta().UID; uid != "" && uid != m.UID {
			return fmt.Errorf("%w: %s %s has another uid", ErrExists, s.kind, m.Key())
		}
		for _, x := range want.meta().Owners {
			if !slices.Contains(m.Owners, x) {
				return fmt.Errorf("%w: %s %s is not owned by this %s %s", ErrExists, s.kind, m.Key(), x.Kind, x.Key)
			}
		}
		return nil
	}}
	for {
		now, err := d.mutate(ctx)
		if errors.Is(err, ErrNotFound) && want.meta().UID == "" {
			if now, err = d.create(ctx); errors.Is(err, ErrExists) {
				continue // since
			}
		}
		if err == nil {
			err = d.refused
		}
		return now, err
	}
}

func checkOwner(owner string) error {
	if owner == "" || checkLabel(LabelOwner, owner) != nil {
		return fmt.Errorf("%w: owner %.32q of a declaration", ErrInvalid, owner)
	}
	return nil
}

// Disown ends what owner declared of the object: its fields stay as they are, and those that no other declarer has are
// owned by none from then on. To unset them declare none of them ([Store.ApplyFields]). It returns and fails like
// [Store.Update].
func (s *Store[S, T]) Disown(ctx context.Context, o *Object[S, T], owner string) (*Object[S, T], error) {
	return typed[S, T](s.core.disown(ctx, o, owner))
}

func (s *core) disown(ctx context.Context, o object, owner string) (object, error) {
	return s.edit(ctx, o, func(s *core, next, _ object) (c changed, err error) {
		p := next.parts()
		stored, err := s.trees(next)
		of := p.owners.of(p.Generation, stored.hidden, stored.orders)
		if _, owns := of[owner]; err != nil || !owns {
			return c, err
		}
		delete(of, owner)
		*p.owners = of.record(p.Generation, stored.hidden)
		return changed{rest: true, owned: true}, nil
	})
}

// FillIn puts into o, an object as it was read, the values of filled in the fields of the spec that have no
// declarer: for what a client learns of an external system. Filled began as a copy of o.
func (s *Store[S, T]) FillIn(o, filled *Object[S, T]) error { return s.core.fillIn(o, filled) }

func (s *core) fillIn(o, filled object) error {
	p := o.parts()
	if *p.owners == "" {
		s.spec.Copy(p.spec, filled.parts().spec)
		return nil
	}
	return s.accept(filled, func() error {
		stored, err := s.trees(o)
		if err != nil {
			return err
		}
		found, err := s.trees(filled)
		if err != nil {
			return err
		}
		of, e := p.owners.of(p.Generation, stored.hidden, stored.orders), edits{}
		for _, path := range s.changedPaths(o, filled, stored.plain, found.plain) {
			itself, _ := shape.CutItself(path)
			if len(of.others(itself, "")) == 0 {
				e.add(path, valueAt(found.plain, path) == nil)
			}
		}
		return s.editSpec(o, stored, e, found)
	})
}

// Declares reports whether o has the fields, labels and annotations that want declares, as [Store.Apply] would store them: with the values
// of those that stand before its declarer in [Options].Precedence, which is the one of the label [LabelOwner] of want, or of o. What
// it declares no longer is not looked for.
func (s *Store[S, T]) Declares(want, o *Object[S, T]) bool { return s.core.declares(want, o) }

func (s *core) declares(want, o object) (is bool) {
	err := s.call(func() error {
		if m, has := want.meta(), o.meta(); !declaresAll(has.Labels, m.Labels) || !declaresAll(has.Annotations, m.Annotations) {
			return nil
		}
		spec, err := writable(&s.spec, want.parts().spec, false)
		if err != nil {
			return err
		}
		p := o.parts()
		is = s.spec.Covers(p.spec, spec)
		if is && *want.parts().owners == "" || !is && (len(s.precedence) == 0 || *p.owners == "") {
			return nil
		}
		w := want.copied()
		s.spec.Assign(w.parts().spec, spec)
		d, err := s.declared(w, cmp.Or(w.meta().Labels[LabelOwner], p.Labels[LabelOwner]), false)
		if err != nil {
			return err
		}
		stored, err := s.trees(o)
		of := p.owners.of(p.Generation, stored.hidden, stored.orders)
		is = err == nil && !slices.ContainsFunc(d.paths, func(path string) bool {
			if sameJSON(valueAt(stored.plain, path), valueAt(d.spec.plain, path)) {
				return false
			}
			_, yields := s.precedence.against(d.by, of.others(path, d.by))
			return !yields
		})
		return err
	})
	return is && err == nil
}

// declaresAll reports whether all that is declared is there.
func declaresAll(is, declared map[string]string) bool {
	for k, v := range declared {
		if has, there := is[k]; !there || has != v {
			return false
		}
	}
	return true
}

// specJSON is the JSON of a spec: as it is written, decoded, and decoded with what is tagged as secret in one piece. Lists
// whose elements have keys are objects in all three.
type specJSON struct {
	raw           json.RawMessage
	plain, hidden any
	orders        shape.Orders // of the lists
	clash         error        // a list has two elements of one key
}

func (s *core) trees(o object) (j specJSON, err error) {
	j.raw, err = encodeJSON(o.parts().spec)
	if j.plain, err = treeOf(j.raw, err); err != nil {
		return j, s.redactError(err, o)
	}
	if j.hidden = j.plain; s.secret {
		if j.hidden, err = treeOf(j.raw, nil); err == nil {
			j.hidden = s.spec.Hide(o.parts().spec, j.hidden, Redacted)
		}
	}
	if lists := s.spec.Lists(); lists != nil && err == nil {
		j.plain, j.orders, j.clash = lists.Keyed(j.plain)
		j.hidden, _, _ = lists.Keyed(j.hidden)
		j.raw, err = json.Marshal(j.plain)
	}
	return j, s.redactError(err, o)
}

// editSpec edits the spec of o, whose JSON is given.
func (s *core) editSpec(o object, spec specJSON, e edits, values specJSON) error {
	if len(e) == 0 {
		return nil
	}
	data, err := e.of(spec.raw, values.raw)
	if lists := s.spec.Lists(); lists != nil && err == nil {
		var tree any
		if tree, err = treeOf(data, nil); err == nil {
			data, err = json.Marshal(lists.Unkeyed(tree, spec.orders, values.orders))
		}
	}
	if err != nil {
		return err
	}
	next := s.none.fresh()
	if err := decodeJSON(data, next.parts().spec); err != nil {
		return fmt.Errorf("%w: %s %s: the merged spec: %w", ErrInvalid, s.kind, o.meta().Key(), s.hideDecode(err))
	}
	s.spec.Assign(o.parts().spec, next.parts().spec)
	return nil
}

// declared is what an object declares.
func (s *core) declared(want object, by string, force bool) (d fieldsDeclared, err error) {
	p := want.parts()
	d = fieldsDeclared{by: by, force: force, order: s.precedence, paths: s.spec.Set(p.spec)}
	for _, path := range p.owners.record().By[""].Fields {
		if !slices.ContainsFunc(d.paths, func(set string) bool { return overlap(set, path) }) {
			d.paths = append(d.paths, path)
		}
	}
	if d.spec, err = s.trees(want); err == nil && d.spec.clash != nil {
		err = s.clashes(want, d.spec)
	}
	return d, err
}

func (s *core) clashes(o object, j specJSON) error {
	return fmt.Errorf("%w: %s %s: %w", ErrInvalid, s.kind, o.meta().Key(), j.clash)
}

// declaring is what one declares of one object, while it is written.
type declaring struct {
	s     *core
	want  object
	by    string
	force bool
	check func(m *Meta) error // whether the object is written

	before  Revision // the stored object is at
	same    bool     // nothing changes, the owners neither
	owners  owners   // that are to be
	refused error    // names the fields that others own
}

// fresh is the object as it is stored where none is.
func (d *declaring) fresh() (typedValue, error) {
	s := d.s
	v, err := s.fresh(d.want)
	if err != nil {
		return nil, err
	}
	o, _ := v.parts()
	return v, s.accept(o, func() error {
		fields, err := s.declared(d.want, d.by, d.force)
		if err != nil {
			return err
		}
		stored, err := s.trees(o)
		*o.parts().owners = owners{d.by: fields.paths}.record(o.meta().Generation, stored.hidden)
		return err
	})
}

// create stores the object where none is.
func (d *declaring) create(ctx context.Context) (object, error) {
	v, err := d.fresh()
	if err != nil {
		return nil, err
	}
	return d.s.insert(ctx, v)
}

// mutate writes the declared fields of the stored object.
func (d *declaring) mutate(ctx context.Context) (object, error) {
	wanted := d.want.meta()
	return d.s.mutateBy(ctx, wanted.Key(), func(o object) error {
		m := o.meta()
		d.before = m.Revision
		if err := d.check(m); err != nil {
			return err
		}
		m.Labels = union(m.Labels, wanted.Labels)
		m.Annotations = union(m.Annotations, wanted.Annotations)
		return d.s.accept(d.want, func() error { return d.merge(o) })
	}, d.take)
}

// merge puts the declared fields into a copy of the stored object.
func (d *declaring) merge(o object) error {
	s, p, want := d.s, o.parts(), d.want.parts()
	d.refused = nil
	all := ownersRecord{p.Generation, map[string]ownedBy{d.by: {}}}.text()
	if d.same = *p.owners == all && *want.owners == "" && s.spec.Equal(p.spec, want.spec); d.same {
		return nil
	}
	fields, err := s.declared(d.want, d.by, d.force)
	if err != nil {
		return err
	}
	stored, err := s.trees(o)
	if err != nil {
		return err
	}
	if stored.clash != nil && !d.force { // by force the list becomes what is declared
		return s.clashes(o, stored)
	}
	d.owners = p.owners.of(p.Generation, stored.hidden, stored.orders)
	e, refused := fields.over(stored.plain, d.owners)
	if len(refused) > 0 {
		d.refused = s.ownedError(d, o, refused)
	}
	return s.editSpec(o, stored, e, fields.spec)
}

// take is the change that stores what merge made, with the owners.
func (d *declaring) take(s *core, next, o object) (changed, error) {
	c, err := s.takeBoth(next, o)
	if c.owned = true; err != nil || d.same {
		return c, err
	}
	p := next.parts()
	generation := p.Generation
	if c.spec {
		generation++
	}
	now, err := s.trees(next)
	if record := d.owners.record(generation, now.hidden); record != *p.owners {
		*p.owners, c.rest = record, true
	}
	return c, err
}

// ownedError names the fields that were not written, their owners, and the values but secret ones.
func (s *core) ownedError(d *declaring, o object, refused []owned) error {
	shown := func(o object) any {
		tree, err := treeOf(s.shown(o))
		if err != nil {
			return nil
		}
		tree, _, _ = s.spec.Lists().Keyed(asMap(tree)["spec"])
		return tree
	}
	is, wanted := shown(o), shown(d.want)
	var all []string
	for _, r := range refused {
		all = append(all, fmt.Sprintf("%s: %s has %s, %s declares %s",
			Clip(s.redact(r.path, o, d.want)), strings.Join(r.by, ", "), s.textAt(is, r.path, o, d.want), d.by, s.textAt(wanted, r.path, o, d.want)))
	}
	slices.Sort(all)
	return fmt.Errorf("%w: %s %s: %s", ErrOwned, s.kind, o.meta().Key(), strings.Join(all, "; "))
}

// textAt is a value in what is shown of objects, clipped.
func (s *core) textAt(tree any, path string, objects ...object) string {
	for _, name := range shape.SplitPath(path) {
		parts, ok := tree.(map[string]any)
		if !ok || name == shape.Itself {
			break // the whole of it is a secret
		}
		tree = parts[name]
	}
	if tree == nil {
		return "unset"
	}
	data, err := json.Marshal(tree)
	if err != nil {
		return ""
	}
	return Clip(s.redact(string(data), objects...)) // a secret of one may stand elsewhere in the other
}

// carryOwners keeps the record true over a write that is no declaration.
func (s *core) carryOwners(f found, next object, c changed) error {
	was, m := f.object.parts().owners, next.meta()
	before, now := f.Labels[LabelOwner], m.Labels[LabelOwner]
	handed := before != now && before != ""
	byHand := c.byHand && c.spec
	if c.owned || !c.spec && !handed || *was == "" && !(byHand && now != "") {
		return nil
	}
	stored, err := s.trees(f.object)
	if err != nil {
		return err
	}
	edited, err := s.trees(next)
	if err != nil {
		return err
	}
	of := was.of(f.Generation, stored.hidden, stored.orders)
	if handed {
		if fields := of[before]; now != "" && len(fields) > 0 {
			of[now] = append(slices.Clip(of[now]), fields...)
		}
		delete(of, before)
	}
	if byHand {
		for _, path := range s.changedPaths(f.object, next, stored.plain, edited.plain) {
			path = inOnePiece(inOnePiece(path, stored.hidden), edited.hidden)
			for _, name := range of.others(path, editOwner) {
				of.take(path, name)
			}
			of[editOwner] = append(slices.Clip(of[editOwner]), path)
		}
	}
	*next.parts().owners = of.record(m.Generation, edited.hidden)
	return nil
}

// inOnePiece cuts a path where the decoded JSON of a spec has one secret.
func inOnePiece(path string, hidden any) string {
	escaped := strings.Split(path, ".")
	for i, name := range shape.SplitPath(path) {
		parts, ok := hidden.(map[string]any)
		if !ok && hidden != nil {
			return strings.Join(escaped[:i], ".")
		}
		hidden = parts[name]
	}
	return path
}
