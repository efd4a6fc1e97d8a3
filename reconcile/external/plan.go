package external

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tendhq/tend/internal/ascii"
	"github.com/tendhq/tend/internal/wall"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/store"
)

// Plan is what would be done to the outside, and was not.
type Plan struct {
	Kind string `json:"kind"`
	// Steps are in the order of their keys. With [Options.Depends] a step comes after
	// those that it needs, and a deletion before those; see also [Sequence].
	Steps []Step `json:"steps"`
	Kept  int    `json:"kept"` // resources that are as declared
	// Needs are the objects that those of the steps need, by [Options.Depends].
	Needs map[store.Key][]depend.Ref `json:"needs,omitempty"`
}

// Step is one thing that would be done, or would be refused.
type Step struct {
	// Action is create, update, adopt, delete or prune, which change something
	// outside; or wait, refuse, stop or fail, which say why nothing would be
	// done.
	Action string    `json:"action"`
	Key    store.Key `json:"key"`
	ID     string    `json:"id,omitempty"`
	Diff   string    `json:"diff,omitempty"`
	Why    string    `json:"why,omitempty"`
	// Kind is set by [Sequence].
	Kind string `json:"kind,omitempty"`
}

// changes reports whether the step would change something outside.
func (s Step) changes() bool {
	return slices.Contains([]string{"create", "update", "rotate", "adopt", "delete", "prune"}, s.Action)
}

// Plan looks at the resource of every object and says what Reconcile would do
// about it next, by the same rules. It calls Connect, Observe and Close, and
// nothing else: neither the cloud nor the store is written. Orphans are those
// of a [Report], which a Prune would delete; they go to the end.
//
// It looks at one object after the other, each within [Options.Timeout]: without an
// [Inventory], 100,000 objects take 100,000 calls in a row. With one, the first look makes
// the list, within that time too, and if it fails the others look one by one. Call
// [Inventory.Report] before, with a context that leaves the time for a list.
//
// An object that cannot be looked at is a step of its own ("fail") and does not
// stop the plan. An error means that there is no plan.
func (r *Reconciler[S, T]) Plan(ctx context.Context, orphans ...Finding) (Plan, error) {
	p := Plan{Kind: r.kind, Steps: []Step{}}
	// All are read first: a store need not hold the instant of a list for as long as
	// the looks take.
	objects, err := r.store.List(ctx, store.Selector{})
	if err != nil {
		return Plan{}, fmt.Errorf("external: plan: read the objects: %w", err)
	}
	for _, o := range objects {
		switch s := r.foresee(ctx, o); s.Action {
		case "keep":
			p.Kept++
		case "nothing":
		default:
			p.Steps = append(p.Steps, s)
			noteNeeds(&p, r.o.Depends, o)
		}
		if ctx.Err() != nil {
			return Plan{}, fmt.Errorf("external: plan: %w", context.Cause(ctx))
		}
	}
	slices.SortFunc(p.Steps, func(a, b Step) int {
		return cmp.Or(strings.Compare(a.Key.Namespace, b.Key.Namespace), strings.Compare(a.Key.Name, b.Key.Name))
	})
	if r.o.Depends != nil {
		p.Steps = inOrder(r.kind, p.Steps, func(ref depend.Ref) []depend.Ref { return p.Needs[ref.Key] })
	}
	for _, f := range orphans {
		p.Steps = append(p.Steps, Step{Action: "prune", Key: f.Key, ID: f.ID, Why: "ours by its mark, and not declared"})
	}
	return p, nil
}

// noteNeeds is generic because a Plan is of no type of objects.
func noteNeeds[S, T any](p *Plan, d *depend.Tracker[S, T], o *store.Object[S, T]) {
	if d == nil {
		return
	}
	if p.Needs == nil {
		p.Needs = make(map[store.Key][]depend.Ref)
	}
	p.Needs[o.Key()] = d.Needs(o)
}

// foresee is what a run would do about one object.
func (r *Reconciler[S, T]) foresee(ctx context.Context, o *store.Object[S, T]) Step {
	step := Step{Key: o.Key(), ID: cmp.Or(o.Intent.ExternalName, o.Annotations[store.AnnotationAdopt])}
	v, err := r.inspect(ctx, o)
	if err != nil {
		step.Action, step.Why = "fail", store.Clip(err.Error())
		return step
	}
	step.Diff = v.seen.Diff
	step.Action, step.Why = describe(decide(v), v)
	return step
}

// Sequence puts the steps of several kinds into the order in which they can be done:
// first what is created or changed, each after what it needs, then what is deleted, each
// before what it needs, then the orphans, by kind in the reverse order of the plans: give
// the plans in the order of [depend.Graph.Kinds]. What is not to be done comes where its
// doing would. Steps of a cycle keep their order.
func Sequence(plans ...Plan) []Step {
	var steps, orphans []Step
	for _, p := range plans {
		for _, s := range p.Steps {
			s.Kind = p.Kind
			steps = append(steps, s)
		}
	}
	for _, p := range slices.Backward(plans) {
		for _, s := range p.Steps {
			if s.Kind = p.Kind; s.Action == "prune" {
				orphans = append(orphans, s)
			}
		}
	}
	steps = slices.DeleteFunc(steps, func(s Step) bool { return s.Action == "prune" })
	needs := make(map[string]map[store.Key][]depend.Ref, len(plans))
	for _, p := range plans {
		needs[p.Kind] = p.Needs
	}
	return append(inOrder("", steps, func(r depend.Ref) []depend.Ref { return needs[r.Kind][r.Key] }), orphans...)
}

// inOrder puts steps in the order of their needs, deletions last and in reverse. Kind is
// that of steps that have none.
func inOrder(kind string, steps []Step, needs func(depend.Ref) []depend.Ref) []Step {
	at := make(map[depend.Ref]int, len(steps))
	refs := make([]depend.Ref, 0, len(steps))
	for i, s := range steps {
		ref := depend.Ref{Kind: cmp.Or(s.Kind, kind), Key: s.Key}
		at[ref] = i
		refs = append(refs, ref)
	}
	order, _ := depend.Order(refs, needs)
	var forward, deletions []Step
	for _, r := range order {
		if s := steps[at[r]]; s.Action == "delete" {
			deletions = append(deletions, s)
		} else {
			forward = append(forward, s)
		}
	}
	slices.Reverse(deletions)
	return append(forward, deletions...)
}

func (r *Reconciler[S, T]) inspect(ctx context.Context, o *store.Object[S, T]) (view, error) {
	if err := reconcile.CheckNewer(&o.Meta); err != nil {
		return view{}, err
	}
	policy, err := r.policyOf(o)
	if err != nil && !o.Paused {
		return view{}, err
	}
	v := r.look(o, policy, r.seen.peek(o.Key(), o.UID, o.Intent))
	if v.adopt != "" && v.naming == ByUs {
		return v, errAdoptByUs
	}
	// To a process that has just begun, every record of a create is young. A plan
	// calls only those so that are young by their own time as well: it changes
	// nothing, so a clock that is wrong costs one word of it.
	_, since := phaseOf(o.Intent)
	v.young = v.young && wall.Now().Sub(since) < r.o.CreationGrace
	if decide(v) != doObserve {
		return v, nil
	}
	calls, cancel := context.WithTimeoutCause(ctx, r.o.Timeout, errTimeout)
	defer cancel()
	client, err := r.connect(calls, r.store.Clone(o))
	if err != nil {
		return v, fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = r.close(ctx, client) }()
	calls = context.WithValue(context.WithValue(calls, absenceKey{}, v.absence()), storeKey{}, r.store)
	for _, name := range []string{cmp.Or(r.nameOnRecord(o.Intent, v.phase), v.adopt), ""} {
		c := r.store.Clone(o)
		c.Intent.ExternalName = name
		if v.seen, err = client.Observe(calls, c); err != nil {
			return v, fmt.Errorf("observe: %w", cause(calls, err))
		}
		v.rotates = r.rotates(client, o, v.seen)
		if v.observed = true; decide(v) != doCreate || !r.missedByName(name, memory{}) {
			break
		}
	}
	return v, nil
}

// describe puts an action into the words of a plan.
func describe(a action, v view) (word, why string) {
	switch a {
	case doCreate, doDelete, doKeep, doRotate:
		return a.String(), ""
	case doUpdate:
		if w := v.seen.Owner; w == Former || w == Unmarked {
			return "adopt", w.says()
		}
		return "update", ""
	case doPause:
		return "wait", "paused"
	case doReject:
		return "fail", v.policy.validate().Error()
	case doMoved:
		return "stop", "the spec says another location: " + v.moved
	case doStop:
		return "stop", "a create was begun and its outcome is not known"
	case doAwait:
		return "wait", "others have to finish with the object first"
	case doWait:
		return "wait", "created a moment ago"
	case doMissing:
		if v.adopt != "" {
			return "refuse", v.nothingToAdopt()
		}
		return "refuse", "missing, and the policy forbids to create it"
	case doRefuse:
		return "refuse", v.seen.Owner.says()
	case doTolerate:
		return "refuse", "differs, and the policy forbids to update it"
	}
	return "nothing", "" // doRelease: only the object goes
}

// Changes is how many steps would change something outside.
func (p Plan) Changes() int {
	n := 0
	for _, s := range p.Steps {
		if s.changes() {
			n++
		}
	}
	return n
}

var signs = map[string]string{"create": "+", "update": "~", "rotate": "~", "adopt": "~", "delete": "-", "prune": "-"}

// WriteText writes the plan for reading, one line per step and the diffs
// indented below. Of characters of a cloud or an object that do not show, U+FFFD takes the
// place, so that none of them hides a step from the terminal.
func (p Plan) WriteText(w io.Writer) error {
	var b strings.Builder
	for _, s := range p.Steps {
		line := fmt.Sprintf("%s %s %s", cmp.Or(signs[s.Action], "!"), s.Action, s.Key)
		if s.ID != "" && s.ID != s.Key.Name {
			line += " (" + s.ID + ")"
		}
		if s.Why != "" {
			line += ": " + s.Why
		}
		fmt.Fprintln(&b, ascii.Line(line))
		for line := range strings.Lines(s.Diff) {
			fmt.Fprintf(&b, "    %s\n", ascii.Text(strings.TrimSuffix(line, "\n")))
		}
	}
	fmt.Fprintf(&b, "%s: %d to change, %d as declared, %d not to be done\n", p.Kind, p.Changes(), p.Kept, len(p.Steps)-p.Changes())
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteJSON writes the plan as one JSON object. Characters that do not print are escaped.
func (p Plan) WriteJSON(w io.Writer) error { return ascii.EncodeJSON(w, p, "  ") }

// ExitCode is what a command that plans should exit with: 0 if there is nothing
// to do, 2 if something would change, 1 if err is not nil or an object could
// not be looked at or needs a human.
func (p Plan) ExitCode(err error) int {
	stuck := slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Action == "fail" || s.Action == "stop" })
	switch {
	case err != nil || stuck:
		return 1
	case p.Changes() > 0:
		return 2
	}
	return 0
}
