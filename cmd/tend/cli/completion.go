package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// completion prints a script that completes the commands, and the kinds of the server
// after them.
func (r *command) completion(_ context.Context, args []string) error {
	names := make([]string, 0, len(verbs))
	for name := range verbs {
		names = append(names, name)
	}
	slices.Sort(names)
	name, words := r.Name, strings.Join(names, " ")
	const bash = `_%[2]s() {
  local word=${COMP_WORDS[COMP_CWORD]}
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "%[3]s" -- "$word"))
  elif [ "$COMP_CWORD" -eq 2 ] && [ "${COMP_WORDS[1]}" != copy ]; then # which takes addresses
    COMPREPLY=()
    local kind
    while IFS= read -r kind; do # not compgen -W: it would run what stands in a name
      case $kind in
        "$word"*) COMPREPLY+=("$(printf %%q "$kind")") ;;
      esac
    done < <(%[1]s kinds 2>/dev/null)
  fi
}
complete -F _%[2]s %[1]s
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
		fmt.Fprintf(r.Stdout, "complete -c %[1]s -f\ncomplete -c %[1]s -n '__fish_use_subcommand' -a '%[2]s'\ncomplete -c %[1]s -n 'not __fish_use_subcommand; and not __fish_seen_subcommand_from copy' -a '(%[1]s kinds 2>/dev/null)'\n", name, words)
	default:
		return usage("completion is for bash, zsh and fish")
	}
	return nil
}
