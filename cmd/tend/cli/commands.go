package cli

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/tendhq/tend/reconcile/inspect"
)

// verb is one command.
type verb struct {
	args  string // what it needs, as help shows it; in brackets: may be missing
	flags string // that it takes, besides generalFlags
	says  string
	do    func(r *command, ctx context.Context, args []string) error
	alone bool // it uses no service and no store, or opens its own
}

// generalFlags are those of the commands that use a service or a store.
var generalFlags = []string{"server", "store", "timeout"}

var verbs map[string]verb

func init() { // not in the declaration: help and completion refer to it
	verbs = map[string]verb{
		"status":           {args: "", flags: "o debug", says: "says whether all is well, and if not, what is wrong", do: (*command).status},
		"kinds":            {args: "", flags: "o debug", says: "lists the kinds, with how many objects there are", do: (*command).listKinds},
		"events":           {args: "[KIND] [KEY]", flags: "o n debug", says: "shows what the service recorded, the newest first", do: (*command).events},
		"get":              {args: "KIND [KEY]", flags: "o n l state debug show-secrets", says: "shows objects in a table, or one; KIND all: of all kinds", do: (*command).get},
		"describe":         {args: "KIND KEY", flags: "o n show-secrets", says: "shows one object whole", do: (*command).describe},
		"watch":            {args: "KIND", flags: "o n revision show-secrets", says: "shows what is not as declared, then changes as they come", do: (*command).watch},
		"apply":            {args: "-f FILE", flags: "f n force", says: "creates or changes what a file declares", do: (*command).apply},
		"edit":             {args: "KIND KEY", flags: "n revision show-secrets", says: "opens an object in $EDITOR", do: (*command).edit},
		"delete":           {args: "[KIND] [KEY] ...", flags: "n l f revision", says: "asks for the deletion of objects: by key, -l or -f", do: each((*command).remove)},
		"kick":             {args: "[KIND] [KEY] ...", flags: "n l f", says: "has objects reconciled now: by key, -l or -f", do: each((*command).kick)},
		"pause":            {args: "[KIND] [KEY] ...", flags: "n l f", says: "pauses objects on every server: by key, -l or -f", do: each(act("pause", "is paused"))},
		"resume":           {args: "[KIND] [KEY] ...", flags: "n l f", says: "ends a pause: by key, -l or -f", do: each(act("resume", "is not paused"))},
		"remove-finalizer": {args: "KIND KEY NAME", flags: "n", says: "takes a finalizer away by force", do: (*command).removeFinalizer},
		"created":          {args: "KIND KEY NAME", flags: "n", says: "says that the create of unknown outcome made the resource of that name", do: (*command).created},
		"not-created":      {args: "KIND KEY", flags: "n", says: "says that the create of unknown outcome made no resource", do: (*command).notCreated},
		"adopt":            {args: "KIND [KEY] [ID]", flags: "f n yes", says: "has objects take over resources that exist: one, or those of a file", do: (*command).adopt},
		"forget-location":  {args: "KIND KEY", flags: "n", says: "forgets where an object's resource lies", do: (*command).forgetLocation},
		"outputs-restored": {args: "KIND KEY", flags: "n", says: "says that lost outputs were replaced by hand", do: (*command).outputsRestored},
		"why":              {args: "KIND KEY", flags: "o n debug", says: "says why an object is not as declared, or not run", do: (*command).why},
		"rewrite":          {args: "KIND", says: "stores objects of earlier versions, or under older keys, again", do: (*command).rewrite},
		"copy":             {args: "FROM TO KIND ...", says: "copies kinds from one store to another, as they are stored", do: (*command).copy, alone: true},
		"completion":       {args: "SHELL", says: "prints a script for bash, zsh or fish", do: (*command).completion, alone: true},
		"version":          {args: "", says: "prints the version of this command", do: (*command).version, alone: true},
		"help":             {args: "[COMMAND]", says: "lists the commands, or shows the flags of one", do: (*command).help, alone: true},
	}
}

func verbNames() []string { return slices.Sorted(maps.Keys(verbs)) }

// takes reports whether the command has the flag.
func (v verb) takes(name string) bool {
	return slices.Contains(strings.Fields(v.flags), name) || !v.alone && slices.Contains(generalFlags, name)
}

// check reports whether it is a number of words that may follow the command.
func (v verb) check(words []string) bool {
	fewest, most := 0, 0
	if !strings.HasPrefix(v.args, "-") {
		for word := range strings.FieldsSeq(v.args) {
			if word == "..." { // any number of the word before
				most = len(words)
				break
			}
			most++
			if !strings.HasPrefix(word, "[") {
				fewest++
			}
		}
	}
	return fewest <= len(words) && len(words) <= most
}

// takesKind reports whether the first word after the command is a kind.
func (v verb) takesKind() bool { return strings.HasPrefix(strings.Trim(v.args, "["), "KIND") }

// flagSet has the flags of all commands.
func (r *command) flagSet() *flag.FlagSet {
	f := flag.NewFlagSet(r.Name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&r.server, "server", "", "`URL` of the service's objects, such as http://localhost:8085/objects")
	f.StringVar(&r.store, "store", "", "`ADDRESS` of a store, in place of a service that is down")
	f.StringVar(&r.debug, "debug", "", "`URL` of the service's debug page, where that is not beside its objects")
	f.StringVar(&r.output, "o", "table", "`FORM` of the output: table, json or yaml")
	f.StringVar(&r.namespace, "n", "", "`NAMESPACE` of lists, and of keys that name none")
	f.StringVar(&r.labels, "l", "", "`LABELS` of the objects, such as tier=gold")
	f.StringVar(&r.states, "state", "", "`STATES` of the objects, with commas between: "+strings.Join(inspect.States(), ", "))
	f.StringVar(&r.file, "f", "", "`FILE` that names the objects; -: standard input")
	f.Uint64Var(&r.revision, "revision", 0, "`REVISION` that the object must have, or after which a watch begins")
	f.DurationVar(&r.timeout, "timeout", defaultTimeout, "how `LONG` the service may take to begin an answer; 0: for ever")
	f.BoolVar(&r.showSecrets, "show-secrets", false, "show specs whose secrets are not known")
	f.BoolVar(&r.force, "force", false, "take over fields that others own")
	f.BoolVar(&r.yes, "yes", false, "do what is planned")
	return f
}

// help prints the commands, or how one of them is used.
func (r *command) help(_ context.Context, args []string) error {
	if len(args) == 0 {
		r.helpAll()
		return nil
	}
	v, known := verbs[args[0]]
	if !known {
		return r.noCommand(args[0])
	}
	fmt.Fprintf(r.Stdout, "%s\n\n  %s\n", wrapped(r.Name+" "+args[0]+" "+v.says, helpWidth, "  "), strings.TrimSpace(strings.Join([]string{r.Name, args[0], v.args}, " ")))
	r.helpFlags(v.takes)
	return nil
}

func (r *command) noCommand(name string) error {
	return usage("there is no command %q%s", name, didYouMean(name, verbNames()))
}

func (r *command) helpFlags(has func(name string) bool) {
	t := table{width: helpWidth}
	r.flagSet().VisitAll(func(f *flag.Flag) {
		if has(f.Name) {
			value, says := flag.UnquoteUsage(f)
			t.add("", "-"+strings.TrimSpace(f.Name+" "+value), says)
		}
	})
	if len(t.rows) > 0 {
		fmt.Fprintln(r.Stdout, "\nFlags, before or after the command:")
		t.write(r.Stdout)
	}
}

// helpWidth is how wide help is, on a terminal or not.
const helpWidth = 80

func (r *command) helpAll() {
	fmt.Fprintf(r.Stdout, "%s shows and mends the objects of a service.\n\n  %s [FLAGS] COMMAND\n\nCommands:\n", r.Name, r.Name)
	t := table{width: helpWidth}
	for _, name := range verbNames() {
		t.add("", strings.TrimSpace(name+" "+verbs[name].args), verbs[name].says)
	}
	t.write(r.Stdout)
	r.helpFlags(func(string) bool { return true })
	fmt.Fprintf(r.Stdout, "\n%s\n", wrapped(fmt.Sprintf(`URL and ADDRESS may stand in TEND_SERVER and TEND_STORE, and a bearer token in TEND_TOKEN. `+
		`ADDRESS is file:PATH, etcd:[https://]HOST:PORT,.../PREFIX (ETCDCTL_* as for etcdctl) or postgres:DSN (PG* as for psql). `+
		`A terminal gets colours, unless NO_COLOR is set.

Exit codes: %d done, %d error (of status: it is not well), %d usage, %d not found, %d conflict, %d not allowed, %d invalid, %d unreachable, %d the kind's type is needed.`,
		Done, Failed, Usage, NotFound, Conflict, NotAllowed, Invalid, Unreachable, NeedsType), helpWidth, ""))
}

// version prints what this command was built from.
func (r *command) version(context.Context, []string) error {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		fmt.Fprintln(r.Stdout, r.Name+" of an unknown version")
		return nil
	}
	words := []string{r.Name, b.Main.Version}
	for _, s := range b.Settings {
		if s.Key == "vcs.revision" && !strings.Contains(b.Main.Version, s.Value[:min(12, len(s.Value))]) {
			words = append(words, s.Value)
		}
	}
	_, err := fmt.Fprintln(r.Stdout, strings.Join(append(words, b.GoVersion), " "))
	return err
}
