package cli

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tendhq/tend/reconcile/inspect"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/objects"
)

// completes is the word by which the scripts ask what the last of the words may be.
const completes = "__complete"

// completion prints a script that completes commands, kinds, keys and flags.
func (r *command) completion(_ context.Context, args []string) error {
	name, words := r.Name, strings.Join(verbNames(), " ")
	const bash = `_%[2]s() {
  local word=${COMP_WORDS[COMP_CWORD]} line
  if [ "$COMP_CWORD" -eq 1 ] && [ "${word#-}" = "$word" ]; then
    COMPREPLY=($(compgen -W "%[3]s" -- "$word"))
    return
  fi
  COMPREPLY=()
  while IFS= read -r line; do # not compgen -W: it would run what stands in a name
    case $line in
      "$word"*) COMPREPLY+=("$(printf %%q "$line")") ;;
    esac
  done < <(%[1]s ` + completes + ` "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _%[2]s %[1]s
`
	function := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			return c
		}
		return '_'
	}, name)
	switch args[0] {
	case "bash":
		fmt.Fprintf(r.Stdout, bash, name, function, words)
	case "zsh":
		fmt.Fprintf(r.Stdout, "autoload -U +X bashcompinit && bashcompinit\n"+bash, name, function, words)
	case "fish":
		fmt.Fprintf(r.Stdout, "complete -c %[1]s -f\ncomplete -c %[1]s -n '__fish_use_subcommand' -a '%[2]s'\ncomplete -c %[1]s -n 'not __fish_use_subcommand' -a '(%[1]s "+completes+" (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'\n", name, words)
	default:
		return usage("completion is for bash, zsh and fish")
	}
	return nil
}

const (
	completeTime = 3 * time.Second // a shell waits
	maxComplete  = 200             // more are of no use
)

// complete prints what the last word may be, a line each; what cannot be asked is left out.
func (r *command) complete(ctx context.Context, words []string) error {
	if len(words) == 0 {
		return nil
	}
	split := words[len(words)-1] // what bash takes for the word
	words = joined(words)
	word, before := words[len(words)-1], words[:len(words)-1]
	ctx, cancel := context.WithTimeout(ctx, completeTime)
	defer cancel()
	for _, text := range r.candidates(ctx, before, word) {
		if strings.HasPrefix(text, word) && printable(text) == text && !strings.Contains(text, "\n") {
			fmt.Fprintln(r.Stdout, strings.TrimPrefix(text, strings.TrimSuffix(word, split)))
		}
	}
	return nil
}

// joined undoes that bash breaks words at colons and equals signs.
func joined(words []string) (all []string) {
	glue := false
	for _, w := range words {
		sign := w == ":" || w == "="
		if (glue || sign) && len(all) > 0 {
			all[len(all)-1] += w
		} else {
			all = append(all, w)
		}
		glue = sign
	}
	return all
}

func (r *command) candidates(ctx context.Context, before []string, word string) []string {
	if n := len(before); n > 0 && strings.HasPrefix(before[n-1], "-") {
		name := strings.TrimLeft(before[n-1], "-")
		switch f := r.flagSet().Lookup(name); {
		case f == nil: // it has its value, or is none
		case name == "o":
			return forms
		case name == "state":
			return inspect.States()
		case f.Value.String() != "false": // it takes a value
			return nil
		}
	}
	words, err := r.parse(before)
	switch {
	case err != nil:
		return nil
	case strings.HasPrefix(word, "-"):
		return r.flagNames(words)
	case len(words) == 0, len(words) == 1 && words[0] == "help":
		return verbNames()
	case len(words) == 1 && words[0] == "completion":
		return []string{"bash", "zsh", "fish"}
	case !verbs[words[0]].takesKind():
		return nil
	}
	if r.connect(ctx) != nil {
		return nil
	}
	defer r.http.CloseIdleConnections()
	if r.backend != nil {
		defer r.backend.Close()
	}
	if len(words) == 1 {
		names, _ := r.kindNames(ctx)
		return names
	}
	if !strings.Contains(verbs[words[0]].args, "KEY") || !verbs[words[0]].check(append(words[1:], "")) {
		return nil
	}
	return r.keyNames(ctx, words[1], word)
}

// flagNames are the flags of the command, or of all if none stands there yet.
func (r *command) flagNames(words []string) (all []string) {
	r.flagSet().VisitAll(func(f *flag.Flag) {
		if len(words) == 0 || verbs[words[0]].takes(f.Name) {
			all = append(all, "-"+f.Name)
		}
	})
	return all
}

// keyNames are the keys of a kind that begin with a text.
func (r *command) keyNames(ctx context.Context, kind, begin string) (all []string) {
	k, err := r.kind(kind)
	if err != nil {
		return nil
	}
	q := objects.Query{Selector: store.Selector{Namespace: r.namespace}, Contains: begin, Limit: maxComplete}
	page, _, _ := objects.List(ctx, k, q)
	for _, o := range page {
		key := o.Key()
		if r.namespace != "" && !strings.Contains(begin, "/") {
			all = append(all, key.Name)
			continue
		}
		all = append(all, key.String())
	}
	slices.Sort(all)
	return all
}
