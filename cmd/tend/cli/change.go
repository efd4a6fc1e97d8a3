package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/objects"
)

// decode reads a JSON object, and keeps numbers as they are.
func decode(data []byte) (tree map[string]any, err error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	err = dec.Decode(&tree)
	return tree, err
}

// toYAML writes JSON as YAML.
func toYAML(data []byte) (string, error) {
	var v any
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return "", err
	}
	text, err := yaml.Marshal(forYAML(v))
	return string(text), err
}

// forYAML gives the numbers of decoded JSON the types that YAML prints as numbers, and
// puts texts that do not print into quotes: printable replaces characters by escapes,
// which count only there.
func forYAML(v any) any {
	switch v := v.(type) {
	case string:
		if printable(v) != v {
			return quoted(v)
		}
	case json.Number:
		return numberForYAML(v)
	case []any:
		for i := range v {
			v[i] = forYAML(v[i])
		}
	case map[string]any:
		return mapForYAML(v)
	}
	return v
}

// mapForYAML is forYAML for a map. One with a key that does not print is a node, in
// which keys can be quoted.
func mapForYAML(v map[string]any) any {
	plain := true
	for k := range v {
		v[k] = forYAML(v[k])
		plain = plain && printable(k) == k
	}
	if plain {
		return v
	}
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, k := range slices.Sorted(maps.Keys(v)) {
		value := new(yaml.Node)
		if err := value.Encode(v[k]); err != nil {
			value = quoted(fmt.Sprint(v[k])) // decoded JSON can be encoded
		}
		n.Content = append(n.Content, quoted(k), value)
	}
	return n
}

// decodeYAML decodes a node, with its dates as the texts that stand there and its numbers with
// all their digits: a spec is JSON, which has no others.
func decodeYAML(n *yaml.Node) (tree any, err error) {
	mark := newMark()
	datesToTexts(n)
	markNumbers(n, mark)
	err = n.Decode(&tree)
	return unmarkNumbers(tree, mark), err
}

func datesToTexts(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!timestamp" {
		n.Tag = "!!str"
	}
	for _, c := range n.Content {
		datesToTexts(c)
	}
}

func quoted(s string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: s}
}

// declaration is one object of a file.
type declaration struct {
	Kind string
	Meta struct {
		Namespace           *string // nil: the command line's
		Name, UID           string
		Labels, Annotations map[string]string
	}
	Spec json.RawMessage // not any, whose numbers have 53 bits
}

// readDeclarations reads objects and lists of objects, in JSON or YAML. YAML's reader does
// not know all escapes of JSON.
func readDeclarations(in io.Reader) (all []declaration, err error) {
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	documents := yaml.NewDecoder(bytes.NewReader(text))
	next := func() (any, error) {
		var n yaml.Node
		if err := documents.Decode(&n); err != nil {
			return nil, err
		}
		return decodeYAML(&n)
	}
	if json.Valid(text) {
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		next = func() (tree any, err error) {
			err = dec.Decode(&tree)
			return tree, err
		}
	}
	for {
		tree, err := next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: declaration %d: %w", store.ErrInvalid, len(all)+1, err)
		}
		list, isList := tree.([]any)
		if one, isOne := tree.(map[string]any); !isList && (!isOne || len(one) > 0) && tree != nil { // else it is between two separators
			list = []any{tree}
		}
		for _, tree := range list {
			d, err := readDeclaration(tree)
			if err != nil {
				return nil, fmt.Errorf("%w: declaration %d: %w", store.ErrInvalid, len(all)+1, err)
			}
			all = append(all, d)
		}
	}
}

func readDeclaration(tree any) (d declaration, err error) {
	data, err := json.Marshal(tree)
	if err == nil {
		err = json.Unmarshal(data, &d)
	}
	switch {
	case err != nil:
	case d.Kind == "" || d.Meta.Name == "":
		err = errors.New("it needs a kind and a meta.name")
	}
	return d, err
}

// key is that of the object; a namespace that it does not name is the command line's.
func (d *declaration) key(namespace string) store.Key {
	key := store.Key{Namespace: namespace, Name: d.Meta.Name}
	if d.Meta.Namespace != nil {
		key.Namespace = *d.Meta.Namespace
	}
	return key
}

// declarations reads the file of -f.
func (r *command) declarations() ([]declaration, error) {
	in, err := r.openFile()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return readDeclarations(in)
}

func (r *command) openFile() (io.ReadCloser, error) {
	if r.file == "-" {
		return io.NopCloser(r.Stdin), nil
	}
	return os.Open(r.file)
}

func (r *command) apply(ctx context.Context, _ []string) error {
	if r.file == "" {
		return usage("%s apply -f FILE", r.Name)
	}
	all, err := r.declarations()
	if err != nil {
		return err
	}
	for i := range all { // all are looked at before the first is written
		if spec := all[i].Spec; len(spec) == 0 || string(spec) == "null" {
			return fmt.Errorf("%w: declaration %d: it needs a spec; an empty one is {}", store.ErrInvalid, i+1)
		}
	}
	var owned []error
	for _, d := range all {
		key := d.key(r.namespace)
		k, err := r.kind(d.Kind)
		if err != nil {
			return err
		}
		did, err := r.applyOne(ctx, k, key, d)
		if err != nil {
			err = fmt.Errorf("%s %s: %w", d.Kind, key, err)
		}
		if errors.Is(err, store.ErrOwned) {
			owned = append(owned, err)
		} else if err != nil {
			return errors.Join(append(owned, err)...)
		}
		fmt.Fprintf(r.Stdout, "%s %s: %s\n", word(d.Kind), word(key.String()), did)
	}
	return errors.Join(owned...)
}

// declarer is the name that fields are declared under: that of the label, or the file's, as package declare has it.
func (r *command) declarer(d declaration) string {
	if r.file == "-" {
		return cmp.Or(d.Meta.Labels[store.LabelOwner], "tend apply")
	}
	return cmp.Or(d.Meta.Labels[store.LabelOwner], filepath.Base(r.file))
}

// applyOne creates an object, or merges what is declared into it.
func (r *command) applyOne(ctx context.Context, k objects.Kind, key store.Key, d declaration) (did string, err error) {
	before, err := k.Get(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return "", err
	}
	meta := store.Meta{Namespace: key.Namespace, Name: key.Name, Labels: d.Meta.Labels, Annotations: d.Meta.Annotations}
	if before.Revision != 0 { // else what was printed of an object that is gone is declared again
		meta.UID = d.Meta.UID
	}
	data, err := json.Marshal(map[string]any{"meta": meta, "spec": d.Spec})
	if err != nil {
		return "", err
	}
	now, err := k.Apply(ctx, key, r.declarer(d), r.force, data)
	switch {
	case errors.Is(err, store.ErrOwned):
		did = "fields of others are left, and the rest is applied"
	case before.Revision == 0:
		did = "created"
	case now.Revision == before.Revision:
		did = "unchanged"
	default:
		did = "changed"
	}
	return did, err
}

// editTries is how often edit tries to write an object that is written meanwhile.
const editTries = 5

func writtenMeanwhile() error {
	return fmt.Errorf("%w: it was written by others meanwhile, %d times", store.ErrConflict, editTries)
}

func union[V any](a, b map[string]V) map[string]V {
	if len(b) == 0 {
		return a
	}
	all := make(map[string]V, len(a)+len(b))
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}

func (r *command) edit(ctx context.Context, args []string) error {
	k, key, err := r.named(args)
	if err != nil {
		return err
	}
	o, err := k.Get(ctx, key)
	if err != nil {
		return err
	}
	if at := store.Revision(r.revision); at != 0 && o.Revision != at {
		return fmt.Errorf("%w: it is at revision %d", store.ErrConflict, o.Revision)
	}
	data, err := o.JSON()
	if err != nil {
		return err
	}
	text, err := toYAML(data)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "tend-edit-")
	if err != nil {
		return err
	}
	file := filepath.Join(folder, "object.yaml")
	editing := context.WithoutCancel(ctx) // an interrupt of the terminal goes to the editor, too, and is its own
	edited, err := r.typed(editing, file, text)
	if ctx.Err() != nil { // there was one, or the process is to end: the edit is stored first
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(editing, cmp.Or(r.timeout, defaultTimeout))
		defer cancel()
	}
	if err == nil && edited == text {
		fmt.Fprintln(r.Stdout, "nothing was changed")
	} else if err == nil {
		err = r.storeEdit(ctx, k, o, data, []byte(edited))
	}
	if now, wrong := os.ReadFile(file); err != nil && wrong == nil && string(now) != text {
		return fmt.Errorf("%w; your edit is in %s", err, file)
	}
	if left, wrong := os.ReadDir(folder); err != nil && (wrong != nil || len(left) != 1) { // an editor that was killed saves what there was
		return fmt.Errorf("%w; what the editor left is in %s", err, folder)
	}
	return errors.Join(err, os.RemoveAll(folder))
}

// typed is what the user makes of a text in a file.
func (r *command) typed(ctx context.Context, file, text string) (string, error) {
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", err
	}
	if err := r.Edit(ctx, file); err != nil {
		return "", err
	}
	edited, err := os.ReadFile(file)
	return string(edited), err
}

// storeEdit stores what the user made of an object; data is its JSON before.
func (r *command) storeEdit(ctx context.Context, k objects.Kind, o objects.Object, data, edited []byte) error {
	tree, err := readEdit(edited)
	if err != nil {
		return err
	}
	text, err := toYAML(data)
	if err != nil {
		return err
	}
	was, err := readEdit([]byte(text)) // as YAML spells it
	if err != nil {
		return err
	}
	if data, err = json.Marshal(was); err != nil {
		return err
	}
	for _, name := range []string{"meta", "spec"} {
		if was[name] != nil && tree[name] == nil {
			return fmt.Errorf("%w: the edited object has no %s; nothing is stored", store.ErrInvalid, name)
		}
	}
	if err := onlyOthersWrite(was, tree); err != nil {
		return err
	}
	edit, err := json.Marshal(tree)
	if err != nil {
		return err
	}
	for range editTries {
		next, err := put(ctx, k, o.Key(), o.Revision, data, edit)
		if err == nil {
			fmt.Fprintf(r.Stdout, "%s %s: revision %d\n", word(o.Kind), word(o.Key().String()), next.Revision)
			return nil
		}
		if !errors.Is(err, store.ErrConflict) || r.revision != 0 {
			return err
		}
		now, wrong := k.Get(ctx, o.Key())
		if wrong != nil || !sameButStatus(now, o) {
			return err
		}
		o = now
	}
	return writtenMeanwhile()
}

// onlyOthersWrite refuses an edit of what an edit does not store, by its name.
func onlyOthersWrite(was, is map[string]any) error {
	differ := func(a, b any) bool { return !reflect.DeepEqual(a, b) }
	a, _ := was["meta"].(map[string]any)
	b, _ := is["meta"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(union(a, b))) {
		if differ(a[name], b[name]) && !slices.Contains([]string{"labels", "annotations", "finalizers", "owners", "paused"}, name) {
			return fmt.Errorf("%w: meta.%s cannot be edited; nothing is stored", store.ErrInvalid, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(union(was, is))) {
		if differ(was[name], is[name]) && name != "meta" && name != "spec" {
			return fmt.Errorf("%w: %s cannot be edited; nothing is stored", store.ErrInvalid, name)
		}
	}
	return nil
}

// readEdit reads what an editor was given, or what the user made of it.
func readEdit(text []byte) (map[string]any, error) {
	var n yaml.Node
	if err := yaml.Unmarshal(text, &n); err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	tree, err := decodeYAML(&n)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	object, ok := tree.(map[string]any)
	if !ok && tree != nil {
		return nil, fmt.Errorf("%w: the edited text is no object", store.ErrInvalid)
	}
	return object, nil
}

// sameButStatus tells whether only statuses were written between two reads of an object. A
// spec that changed has another generation.
func sameButStatus(a, b objects.Object) bool {
	a.Revision, a.Intent = b.Revision, b.Intent // neither is the editor's to change
	return reflect.DeepEqual(a.Meta, b.Meta)
}

// put replaces an object that is at a revision; was is its JSON before. Of a kind whose type
// is not known it replaces the metadata.
func put(ctx context.Context, k objects.Kind, key store.Key, at store.Revision, was, data []byte) (objects.Object, error) {
	next, err := k.Put(ctx, key, at, data)
	if !errors.Is(err, objects.ErrBare) {
		return next, err
	}
	before, wrong := decode(was)
	after, wrong2 := decode(data)
	if wrong = errors.Join(wrong, wrong2); wrong != nil {
		return next, fmt.Errorf("%w: %w", store.ErrInvalid, wrong)
	}
	for _, name := range []string{"spec", "status"} {
		a, _ := json.Marshal(before[name])
		b, _ := json.Marshal(after[name])
		if !bytes.Equal(a, b) {
			return next, err
		}
	}
	meta, wrong := objects.Parse(k.Kind(), data)
	if wrong != nil {
		return next, wrong
	}
	return k.Edit(ctx, key, at, func(m *store.Meta) error {
		m.Labels, m.Annotations, m.Finalizers, m.Owners, m.Paused = meta.Labels, meta.Annotations, meta.Finalizers, meta.Owners, meta.Paused
		return nil
	})
}

func (r *command) remove(ctx context.Context, t target) error {
	if err := t.of.Delete(ctx, t.key, store.Revision(r.revision)); err != nil {
		return err
	}
	o, err := t.of.Get(ctx, t.key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		r.did(t, "gone")
		return nil
	case err != nil:
		return fmt.Errorf("%s %s: its deletion is asked for; what it waits for cannot be read: %w", t.of.Kind(), t.key, err)
	}
	r.did(t, "in deletion, waits for "+word(strings.Join(o.Finalizers, ", ")))
	return nil
}

// act returns the command that does an action of objects.Do.
func act(action, did string) func(r *command, ctx context.Context, t target) error {
	return func(r *command, ctx context.Context, t target) error {
		_, err := objects.Do(ctx, t.of, t.key, action)
		if err == nil {
			r.did(t, did)
		}
		return err
	}
}

func (r *command) kick(ctx context.Context, t target) error {
	o, err := objects.Do(ctx, t.of, t.key, "reconcile")
	if err == nil {
		r.did(t, r.runs(o))
	}
	return err
}

// did prints what was done to an object.
func (r *command) did(t target, did string) {
	fmt.Fprintf(r.Stdout, "%s %s: %s\n", word(t.of.Kind()), word(t.key.String()), did)
}

// runs says when an object runs that was marked for it.
func (r *command) runs(o objects.Object) string {
	text := "runs now"
	if r.client == nil { // the service may be down
		text = "runs as soon as a service works on the store"
	}
	if o.Paused {
		text += ", but it is paused, and may be left alone until it is resumed"
	}
	return text
}

func (r *command) removeFinalizer(ctx context.Context, args []string) error {
	k, key, err := r.named(args)
	if err != nil {
		return err
	}
	if _, err := k.RemoveFinalizer(ctx, key, args[2]); err != nil {
		return err
	}
	fmt.Fprintf(r.Stdout, "%s %s: %s is removed\n", word(args[0]), word(key.String()), word(args[2]))
	return nil
}

func (r *command) created(ctx context.Context, args []string) error {
	if args[2] == "" { // of a variable that is not set
		return usage("the name of the resource is empty")
	}
	return r.answer(ctx, args, objects.Created, args[2], "its create made "+word(args[2]))
}

func (r *command) notCreated(ctx context.Context, args []string) error {
	return r.answer(ctx, args, objects.NotCreated, "", "its create made no resource")
}

func (r *command) forgetLocation(ctx context.Context, args []string) error {
	return r.answer(ctx, args, objects.ForgetLocation, "", "the location of its resource is forgotten")
}

func (r *command) outputsRestored(ctx context.Context, args []string) error {
	return r.answer(ctx, args, objects.OutputsRestored, "", "its lost outputs were replaced by hand")
}

// answer gives an answer that the object asks for, which then reads as did.
func (r *command) answer(ctx context.Context, args []string, a objects.Answer, externalName, did string) error {
	k, key, err := r.named(args)
	if err != nil {
		return err
	}
	return r.answerOf(ctx, k, key, a, externalName, did)
}

func (r *command) answerOf(ctx context.Context, k objects.Kind, key store.Key, a objects.Answer, externalName, did string) error {
	o, err := k.Answer(ctx, key, a, externalName)
	if err != nil {
		return err
	}
	fmt.Fprintf(r.Stdout, "%s %s: recorded that %s; it %s\n", word(k.Kind()), word(key.String()), did, r.runs(o))
	return nil
}

// rewrite brings the objects of a kind into the form of the host's version.
func (r *command) rewrite(ctx context.Context, args []string) error {
	if r.client != nil {
		return usage("rewrite works on a store: use -store")
	}
	k, err := r.kind(args[0])
	if err != nil {
		return err
	}
	typed, ok := k.(interface {
		Rewrite(ctx context.Context) (int, error)
	})
	if !ok {
		return fmt.Errorf("%w: rewrite %s", objects.ErrBare, args[0])
	}
	n, err := typed.Rewrite(ctx)
	fmt.Fprintf(r.Stdout, "%d rewritten\n", n)
	return err
}
