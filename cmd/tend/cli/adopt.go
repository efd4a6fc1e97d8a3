package cli

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/objects"
)

// adopt has an object, or those of a file, take over resources that exist.
func (r *command) adopt(ctx context.Context, args []string) error {
	switch {
	case r.file != "" && len(args) == 1:
		return r.adoptAll(ctx, args[0])
	case r.file != "" || len(args) != 3 || args[2] == "" || r.yes: // the id may be of a variable that is not set
		return usage("%s adopt KIND KEY ID, or %s adopt KIND -f FILE [-yes]", r.Name, r.Name)
	}
	return r.answer(ctx, args, objects.Adopt, args[2], "it is to take over "+word(args[2]))
}

// adoption is one line of a file.
type adoption struct {
	key  store.Key
	id   string
	done bool // the object has it, or is told to take it over
}

// adoptAll shows what a file would have done and, with -yes, does it. If one line cannot be done,
// none is.
func (r *command) adoptAll(ctx context.Context, kind string) error {
	lines, err := r.adoptions()
	if err != nil {
		return err
	}
	k, err := r.kind(kind)
	if err != nil {
		return err
	}
	var first error
	refused := 0
	for i := range lines {
		l := &lines[i]
		o, err := k.Get(ctx, l.key)
		if err == nil {
			told := o.Intent.ExternalName == "" && o.Annotations[store.AnnotationAdopt] == l.id // else it is not heeded
			if l.done = o.Intent.ExternalName == l.id || told; !l.done {
				err = objects.Adopt.Check(o, l.id)
			}
		}
		said := "would take over " + word(l.id)
		switch {
		case err != nil:
			said = "cannot take over " + word(l.id) + ": " + err.Error()
			if refused++; first == nil {
				first = fmt.Errorf("%s %s: %w", kind, l.key, err)
			}
		case l.done:
			said = "has " + word(l.id) + ", or is told to"
		}
		fmt.Fprintf(r.Stdout, "%s %s: %s\n", word(kind), word(l.key.String()), printable(said))
	}
	if first != nil {
		return fmt.Errorf("nothing is written, %d of %d cannot be done; the first: %w", refused, len(lines), first)
	}
	if !r.yes {
		fmt.Fprintln(r.Stdout, "nothing is written; -yes does it")
		return nil
	}
	for _, l := range lines {
		if l.done {
			continue
		}
		if err := r.answerOf(ctx, k, l.key, objects.Adopt, l.id, "it is to take over "+word(l.id)); err != nil {
			return fmt.Errorf("%s %s: %w", kind, l.key, err)
		}
	}
	return nil
}

// adoptions reads the lines "KEY ID" of a file. What is after a # at the begin of a line is for people.
func (r *command) adoptions() (lines []adoption, err error) {
	in, err := r.openFile()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	keys, ids := map[store.Key]bool{}, map[string]bool{}
	text := bufio.NewScanner(in)
	for n := 1; text.Scan(); n++ {
		line := strings.TrimSpace(text.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		printed, id, _ := strings.Cut(strings.ReplaceAll(line, "\t", " "), " ")
		key, err := store.ParseKey(printed)
		if id = strings.TrimSpace(id); err == nil && id == "" {
			err = fmt.Errorf("%w: want KEY ID", store.ErrInvalid)
		}
		if !strings.Contains(printed, "/") {
			key.Namespace = r.namespace
		}
		if err == nil && (keys[key] || ids[id]) {
			err = fmt.Errorf("%w: the key or the id is there twice", store.ErrInvalid)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		keys[key], ids[id] = true, true
		lines = append(lines, adoption{key: key, id: id})
	}
	if err := text.Err(); err != nil {
		return nil, err
	}
	if len(lines) == 0 {
		return nil, usage("the file names nothing to take over")
	}
	return lines, nil
}
