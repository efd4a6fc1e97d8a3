package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/tendhq/tend/reconcile/inspect"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/objects"
)

// printable replaces what does not print by its number: keys and messages are text
// that anybody may have chosen, and a terminal obeys control characters. What stands in
// double quotes in YAML means the same afterwards.
func printable(s string) string {
	return escaped(s, func(c rune) string { return fmt.Sprintf(`\U%08x`, c) })
}

// printableJSON is printable for JSON, which means the same afterwards.
func printableJSON(s string) string {
	return escaped(s, func(c rune) string {
		high, low := utf16.EncodeRune(c)
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	})
}

// escaped replaces what does not print; long gives what replaces a character above U+FFFF.
func escaped(s string, long func(rune) string) string {
	var b strings.Builder
	for _, c := range s {
		switch {
		case c == '\n' || c == '\t' || unicode.IsPrint(c):
			b.WriteRune(c)
		case c < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteString(long(c))
		}
	}
	return b.String()
}

// word is printable text without the blanks that a table is made of.
func word(s string) string {
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(printable(s))
}

func (r *command) get(ctx context.Context, args []string) error {
	if len(args) == 2 {
		if r.labels != "" || r.states != "" || r.debug != "" {
			return usage("-l, -state and -debug are not for one object")
		}
		k, key, err := r.named(args)
		if err != nil {
			return err
		}
		o, err := k.Get(ctx, key)
		if err != nil {
			return err
		}
		if r.output != "table" {
			return r.printObject(o)
		}
		return r.table([]objects.Object{o}, false)
	}
	if r.debug != "" && r.states == "" {
		return usage("-debug is not for get without -state")
	}
	sel, err := store.ParseSelector(r.labels)
	if err != nil {
		return usage("-l: %v", err)
	}
	sel.Namespace = r.namespace
	kinds := args[:1]
	if args[0] == allKinds {
		if kinds, err = r.kindNames(ctx); err != nil {
			return err
		}
	}
	var all []objects.Object
	for _, name := range kinds {
		page, err := r.list(ctx, name, sel)
		if err != nil {
			return err
		}
		all = append(all, page...)
	}
	if r.output == "table" {
		return r.table(all, args[0] == allKinds)
	}
	trees := make([]any, 0, len(all))
	var broken []error
	for _, o := range all {
		tree, err := treeOf(o)
		if err != nil {
			broken = append(broken, fmt.Errorf("%s %s: %w", o.Kind, o.Key(), err))
			continue
		}
		trees = append(trees, tree)
	}
	return errors.Join(r.print(trees), errors.Join(broken...))
}

// allKinds is the word that stands for every kind, of get.
const allKinds = "all"

// list is the objects of a kind that are asked for.
func (r *command) list(ctx context.Context, kind string, sel store.Selector) ([]objects.Object, error) {
	k, err := r.kind(kind)
	if err != nil {
		return nil, err
	}
	page, _, err := objects.List(ctx, k, objects.Query{Selector: sel})
	if err == nil && r.states != "" {
		page, err = r.inStates(ctx, kind, page)
	}
	return page, err
}

// table shows objects; kinds says that it names their kinds.
func (r *command) table(all []objects.Object, kinds bool) error {
	t := table{screen: r.screen, at: 2}
	add := func(look, kind string, row ...string) {
		if kinds {
			row = append([]string{kind}, row...)
		}
		t.add(look, row...)
	}
	if kinds {
		t.at++
	}
	states := r.states != ""
	row := func(look, kind, key, state string, rest ...string) {
		if states {
			rest = append([]string{state}, rest...)
		}
		add(look, kind, append([]string{key}, rest...)...)
	}
	row("", "KIND", "KEY", "STATE", "PHASE", "READY", "GENERATION", "SEEN", "AGE", "REMARKS")
	for _, o := range all {
		told, key := r.told[o.Kind+"\x00"+o.Key().String()], word(o.Key().String())
		told.State = cmp.Or(told.State, inspect.StateOf(o))
		if o.Err != nil {
			row(bad, word(o.Kind), key, word(told.State), "-", "-", "-", "-", "-", word(o.Err.Error()))
			continue
		}
		ready, says := readiness(o)
		says = append(remarks(o), says...)
		if !slices.ContainsFunc(says, func(s string) bool { return strings.Contains(s, told.LastError) }) && told.LastError != "" {
			says = append(says, told.LastError)
		}
		row(lookOf(told.State), word(o.Kind), key, word(told.State), word(cmp.Or(string(o.Phase), "-")), word(ready),
			fmt.Sprint(o.Generation), fmt.Sprint(o.ObservedGeneration), age(o.Created), word(strings.Join(says, "; ")))
	}
	t.write(r.Stdout)
	return nil
}

// ready is the state of inspect that is as declared.
const ready = "ready"

// lookOf is the colour of a state.
func lookOf(state string) string {
	switch state {
	case ready:
		return good
	case "failing", "given up", "stuck", "undecodable", "standing off":
		return bad
	}
	return warn
}

func age(t time.Time) string {
	d := max(time.Since(t), 0)
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

// readiness is the status of Ready, and why it is not True of the object as it is now.
func readiness(o objects.Object) (ready string, says []string) {
	at := slices.IndexFunc(o.Conditions, func(c store.Condition) bool { return c.Type == store.ConditionReady })
	if at < 0 {
		return "-", nil
	}
	c := o.Conditions[at]
	if c.Status != store.True && c.Reason+c.Message != "" {
		says = append(says, fmt.Sprintf("%.160s", strings.Trim(c.Reason+": "+c.Message, ": ")))
	}
	if c.ObservedGeneration != o.Generation {
		says = append(says, fmt.Sprintf("Ready is of generation %d", c.ObservedGeneration))
	}
	return string(c.Status), says
}

// remarks are what is out of the ordinary.
func remarks(o objects.Object) (says []string) {
	if o.Deleting() {
		says = append(says, "in deletion for "+age(o.Deleted)+", waits for "+cmp.Or(strings.Join(o.Finalizers, ", "), "nothing"))
	}
	switch {
	case o.Paused && o.PausedSince.IsZero():
		says = append(says, "paused")
	case o.Paused:
		says = append(says, "paused for "+age(o.PausedSince))
	}
	return says
}

// print writes a value as JSON or YAML.
func (r *command) print(v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	text := printableJSON(string(data)) + "\n"
	if r.output == "yaml" {
		if text, err = toYAML(data); err != nil {
			return err
		}
		text = printable(text)
	}
	_, err = io.WriteString(r.Stdout, text)
	return err
}

// treeOf is the object's JSON with its kind, as apply reads it.
func treeOf(o objects.Object) (map[string]any, error) {
	data, err := o.JSON()
	if err != nil {
		return nil, err
	}
	tree, err := decode(data)
	if err == nil {
		tree["kind"] = o.Kind
	}
	return tree, err
}

func (r *command) printObject(o objects.Object) error {
	tree, err := treeOf(o)
	if err != nil {
		return err
	}
	return r.print(tree)
}

func (r *command) describe(ctx context.Context, args []string) error {
	k, key, err := r.named(args)
	if err != nil {
		return err
	}
	o, err := k.Get(ctx, key)
	if err != nil {
		return err
	}
	if r.output != "table" {
		return r.printObject(o)
	}
	t := table{screen: r.screen}
	line := func(name, text string) {
		if text != "" {
			t.add("", name, word(text))
		}
	}
	line("kind", o.Kind)
	line("key", o.Key().String())
	line("uid", o.UID)
	line("revision", o.Revision.String())
	line("generation", fmt.Sprintf("%d, reconciled %d", o.Generation, o.ObservedGeneration))
	line("phase", cmp.Or(string(o.Phase), "not reconciled yet"))
	line("created", o.Created.Format(time.RFC3339))
	line("remarks", strings.Join(remarks(o), "; "))
	line("finalizers", strings.Join(o.Finalizers, ", "))
	for _, owner := range o.Owners {
		line("owner", owner.Kind+" "+owner.Key.String())
	}
	tree, err := treeOf(o)
	if err != nil {
		return err
	}
	if owners := tree["fieldOwners"]; owners != nil {
		text, _ := json.Marshal(owners) // it was decoded
		for name, fields := range store.FieldOwners(text).All(o.Generation) {
			line("fields of "+word(name), strings.Join(fields, ", "))
		}
	}
	for _, c := range o.Conditions {
		line("condition "+word(c.Type), conditionText(c))
	}
	t.write(r.Stdout)
	rest := map[string]any{}
	for _, name := range []string{"spec", "status"} {
		if x, ok := tree[name]; ok {
			rest[name] = x
		}
	}
	if len(rest) == 0 {
		return nil
	}
	r.output = "yaml"
	return r.print(rest)
}

func conditionText(c store.Condition) string {
	text := string(c.Status)
	if c.Reason != "" {
		text += " " + c.Reason
	}
	if c.Message != "" {
		text += ": " + c.Message
	}
	return text
}

func (r *command) watch(ctx context.Context, args []string) error {
	k, err := r.kind(args[0])
	if err != nil {
		return err
	}
	events := k.Watch(ctx, store.Revision(r.revision))
	if server, ok := k.(interface {
		WatchNamespace(ctx context.Context, namespace string, after store.Revision) iter.Seq2[objects.Event, error]
	}); ok { // which may allow a namespace, and not all
		events = server.WatchNamespace(ctx, r.namespace, store.Revision(r.revision))
	}
	all, left := 0, 0 // of the objects that there are at first
	for e, err := range events {
		if ctx.Err() != nil {
			return nil // it was interrupted
		}
		if err != nil {
			return err
		}
		if r.namespace != "" && e.Key.Namespace != r.namespace && e.Kind != store.BatchSnapshotEnd {
			continue
		}
		if r.output == "table" && e.Err == nil { // programs get what there is whole
			switch {
			case e.Kind == store.BatchSnapshotEnd:
				if _, err := fmt.Fprintf(r.Stdout, "%d of %d are not as declared; changes follow\n", left, all); err != nil {
					return err
				}
				continue
			case e.Kind == store.BatchSnapshot:
				all++
				if e.HasObject && inspect.StateOf(e.Object) == ready {
					continue
				}
				left++
			}
		}
		if err := r.showEvent(e); err != nil {
			return err
		}
	}
	return nil
}

func (r *command) showEvent(e objects.Event) error {
	what := "put"
	switch {
	case e.Err != nil:
		what = "broken"
	case e.Deleted:
		what = "deleted"
	case e.Kind == store.BatchSnapshot:
		what = "is"
	case e.Kind != store.BatchChanges:
		return nil
	}
	if r.output == "table" {
		_, err := fmt.Fprintf(r.Stdout, "%s  %s  revision %d  %s\n", what, word(e.Key.String()), e.Revision, word(strings.Join(eventRemarks(e), "; ")))
		return err
	}
	v := map[string]any{"type": what, "key": e.Key.String(), "revision": e.Revision.String()}
	if e.Err != nil {
		v["error"] = e.Err.Error()
	}
	if e.HasObject {
		tree, err := treeOf(e.Object)
		if err != nil {
			return err
		}
		v["object"] = tree
	}
	if r.output == "json" { // one line each, so that programs can read them as they come
		data, err := json.Marshal(v)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(r.Stdout, printableJSON(string(data)))
		return err
	}
	if _, err := io.WriteString(r.Stdout, "---\n"); err != nil {
		return err
	}
	return r.print(v)
}

func eventRemarks(e objects.Event) []string {
	if e.Err != nil {
		return []string{e.Err.Error()}
	}
	if !e.HasObject || e.Deleted {
		return nil
	}
	return append([]string{cmp.Or(string(e.Object.Phase), "not reconciled yet")}, remarks(e.Object)...)
}

// why tells from the object, and from the debug page if there is one, what an object
// waits for.
func (r *command) why(ctx context.Context, args []string) error {
	k, key, err := r.named(args)
	if err != nil {
		return err
	}
	o, err := k.Get(ctx, key)
	if err != nil {
		return err
	}
	says := remarks(o)
	silent := o.ObservedGeneration == 0 && o.Phase == "" && len(o.Conditions) == 0
	if !silent && o.ObservedGeneration != o.Generation {
		says = append(says, fmt.Sprintf("generation %d is not reconciled yet; the last was %d", o.Generation, o.ObservedGeneration))
	}
	for _, c := range o.Conditions {
		if c.Status != store.True {
			says = append(says, c.Type+" is "+conditionText(c))
		}
	}
	if len(says) == 0 && o.Phase == store.PhaseReady {
		says = append(says, fmt.Sprintf("it is Ready in generation %d", o.Generation))
	}
	state, queued, err := r.askQueues(ctx, o)
	switch {
	case silent && state == ready:
		says = append(says, "it is as declared; its runs store nothing about it")
	case silent:
		says = append(says, fmt.Sprintf("generation %d is not reconciled yet, or its runs store nothing about it", o.Generation))
	}
	if err != nil {
		queued = []string{"what the queues say is not known: " + err.Error()}
	}
	says = append(says, queued...)
	if len(says) == 0 {
		says = []string{"nothing is in its way"}
	}
	if r.output != "table" {
		return r.print(map[string]any{"kind": o.Kind, "key": o.Key().String(), "why": says})
	}
	for _, s := range says {
		fmt.Fprintln(r.Stdout, wrapped(word(s), r.screen.width, "  "))
	}
	return nil
}

// askQueues asks the debug page of the service.
func (r *command) askQueues(ctx context.Context, o objects.Object) (state string, says []string, err error) {
	var page struct {
		Object struct {
			State, RunsOn string
			Keys          []struct{ Controller, State, Because, Error string }
		}
		Servers []serverPage
	}
	if err := r.askPage(ctx, url.Values{"view": {"object"}, "kind": {o.Kind}, "key": {o.Key().String()}}, &page); err != nil {
		return "", nil, err
	}
	for _, k := range page.Object.Keys {
		text := fmt.Sprintf("controller %s: %s: %s", k.Controller, k.State, k.Because)
		if k.Error != "" {
			text += "; last error: " + k.Error
		}
		says = append(says, text)
	}
	for _, s := range page.Servers {
		if s.Name == page.Object.RunsOn {
			says = append(says, "ask "+s.Name+": its page is "+s.Page)
		}
	}
	return page.Object.State, says, nil
}
