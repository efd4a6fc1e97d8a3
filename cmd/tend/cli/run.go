package cli

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tendhq/tend/reconcile/inspect"
	"github.com/tendhq/tend/reconcile/web/api"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/objects"
)

// Config is what a host's command differs in. The zero value is the plain command.
type Config struct {
	// Name is the command's, for its messages. Default "tend".
	Name string
	// Kinds makes the host's kinds on a store that was opened with -store. Default: none,
	// and metadata only is shown and changed.
	Kinds func(b store.Backend) ([]objects.Kind, error)
	// Open opens a store that is none of file:, etcd: and postgres:. Default: an error.
	Open func(ctx context.Context, address string) (store.Backend, error)
	// Edit changes a file. Its context does not end: an interrupt is the editor's. Default:
	// $VISUAL or $EDITOR on it, or vi.
	Edit func(ctx context.Context, path string) error
	// Stdin, Stdout and Stderr default to those of the process.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Getenv defaults to os.Getenv.
	Getenv func(string) string
}

// The exit codes of Run.
const (
	Done        = 0
	Failed      = 1
	Usage       = 2
	NotFound    = 3
	Conflict    = 4
	NotAllowed  = 5
	Invalid     = 6
	Unreachable = 7
	NeedsType   = 8
)

var (
	errUsage   = errors.New("usage")
	errNoKinds = errors.New("a store does not list its kinds; a server does (-server)")
)

func usage(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errUsage, fmt.Sprintf(format, args...))
}

// exitCode gives the exit code for an error.
func exitCode(err error) int {
	if err == nil {
		return Done
	}
	for _, c := range []struct {
		err  error
		code int
	}{
		{errUsage, Usage},
		{errNotWell, Failed},
		{api.ErrNotAllowed, NotAllowed},
		{api.ErrUnreachable, Unreachable},
		{errOpen, Unreachable},
		{objects.ErrBare, NeedsType},
		{objects.ErrNotPending, Conflict},
		{errNoKinds, NeedsType},
		{store.ErrConflict, Conflict},
		{store.ErrExists, Conflict},
		{store.ErrNotFound, NotFound},
		{store.ErrInvalid, Invalid},
	} {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	var unreachable interface{ Unreachable() bool }
	if errors.As(err, &unreachable) && unreachable.Unreachable() {
		return Unreachable
	}
	return Failed
}

// defaultTimeout is that of -timeout.
const defaultTimeout = time.Minute

// command is one run of the command.
type command struct {
	Config
	server, store, debug, output, namespace, labels, file, states string
	revision                                                      uint64
	showSecrets, yes                                              bool
	timeout                                                       time.Duration
	given                                                         []string  // the flags that were
	terminal                                                      io.Writer // Stdout itself, for an editor

	http    *http.Client
	client  *api.Client
	backend store.Backend
	kinds   []objects.Kind // of the host, on backend
}

// output remembers that something could not be written: what most commands print is the end
// of what they did.
type output struct {
	io.Writer
	err error // the first
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	o.err = cmp.Or(o.err, err)
	return n, err
}

// Run runs the command with arguments (without the program's name), and returns its
// exit code. It returns when ctx ends, and no editor runs.
func Run(ctx context.Context, args []string, c Config) int {
	r := &command{Config: c}
	r.Name = cmp.Or(c.Name, "tend")
	if r.Stdin == nil {
		r.Stdin = os.Stdin
	}
	if r.Stdout == nil {
		r.Stdout = os.Stdout
	}
	if r.Stderr == nil {
		r.Stderr = os.Stderr
	}
	if r.Getenv == nil {
		r.Getenv = os.Getenv
	}
	if r.Edit == nil {
		r.Edit = r.runEditor
	}
	out := &output{Writer: r.Stdout}
	r.terminal, r.Stdout = r.Stdout, out
	err := r.run(ctx, args)
	if errors.Is(err, flag.ErrHelp) {
		r.help(r.Stdout)
		err = nil
	}
	if err == nil && out.err != nil {
		err = fmt.Errorf("the output cannot be written: %w", out.err)
	}
	if err != nil {
		fmt.Fprintf(r.Stderr, "%s: %s\n", r.Name, printable(err.Error()))
	}
	if errors.Is(err, errUsage) {
		fmt.Fprintf(r.Stderr, "%s help lists the commands\n", r.Name)
	}
	return exitCode(err)
}

// verb is one command.
type verb struct {
	args  string // what it needs, as help shows it; in brackets: may be missing
	flags string // that it takes, besides generalFlags
	says  string
	do    func(r *command, ctx context.Context, args []string) error
}

// generalFlags are those of the commands that use a service or a store.
var generalFlags = []string{"server", "store", "timeout"}

var verbs map[string]verb

func init() { // not in the declaration: help and completion refer to it
	verbs = map[string]verb{
		"status":           {"", "o debug", "says whether all is well, and if not, what is wrong", (*command).status},
		"kinds":            {"", "o", "lists the kinds of the server", (*command).listKinds},
		"get":              {"KIND [KEY]", "o n l state debug show-secrets", "shows objects in a table, or one", (*command).get},
		"describe":         {"KIND KEY", "o n show-secrets", "shows one object whole", (*command).describe},
		"watch":            {"KIND", "o n revision show-secrets", "shows changes as they come", (*command).watch},
		"apply":            {"-f FILE", "f n", "creates or replaces what a file declares", (*command).apply},
		"edit":             {"KIND KEY", "n revision show-secrets", "opens an object in $EDITOR", (*command).edit},
		"delete":           {"KIND KEY", "n revision", "asks for an object's deletion", (*command).remove},
		"kick":             {"KIND KEY", "n", "has an object reconciled now", (*command).kick},
		"pause":            {"KIND KEY", "n", "pauses an object on every server", act("pause", "is paused")},
		"resume":           {"KIND KEY", "n", "ends a pause", act("resume", "is not paused")},
		"remove-finalizer": {"KIND KEY NAME", "n", "takes a finalizer away by force", (*command).removeFinalizer},
		"created":          {"KIND KEY NAME", "n", "says that the create of unknown outcome made the resource of that name", (*command).created},
		"not-created":      {"KIND KEY", "n", "says that the create of unknown outcome made no resource", (*command).notCreated},
		"adopt":            {"KIND [KEY] [ID]", "f n yes", "has objects take over resources that exist: one, or those of a file", (*command).adopt},
		"forget-location":  {"KIND KEY", "n", "forgets where an object's resource lies", (*command).forgetLocation},
		"why":              {"KIND KEY", "o n debug", "says why an object is not as declared, or not run", (*command).why},
		"rewrite":          {"KIND", "", "stores objects of earlier versions, or under older keys, again", (*command).rewrite},
		"copy":             {"FROM TO KIND ...", "", "copies kinds from one store to another, as they are stored", (*command).copy},
		"completion":       {"SHELL", "", "prints a script for bash, zsh or fish", (*command).completion},
	}
}

func (r *command) run(ctx context.Context, args []string) error {
	words, err := r.parse(args)
	if err != nil {
		return err
	}
	if len(words) == 0 {
		return usage("there is no command")
	}
	if words[0] == "help" {
		return flag.ErrHelp
	}
	v, known := verbs[words[0]]
	if !known {
		return usage("there is no command %q", words[0])
	}
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
	if n := len(words) - 1; n < fewest || n > most {
		return usage("%s %s %s", r.Name, words[0], v.args)
	}
	if strings.HasPrefix(v.args, "KIND") && words[1] == "" { // of a variable that is not set
		return usage("the kind is empty")
	}
	connects := words[0] != "completion" && words[0] != "copy"
	for _, name := range r.given { // one that is ignored would be taken for one that counts
		if !slices.Contains(strings.Fields(v.flags), name) && !(connects && slices.Contains(generalFlags, name)) {
			return usage("-%s is not for %s", name, words[0])
		}
	}
	if connects {
		if err := r.connect(ctx); err != nil {
			return err
		}
		defer r.http.CloseIdleConnections()
		if r.backend != nil {
			defer r.backend.Close()
		}
	}
	return v.do(r, ctx, words[1:])
}

// parse reads the flags, wherever they stand, and returns the other words.
func (r *command) parse(args []string) (words []string, err error) {
	f := flag.NewFlagSet(r.Name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&r.server, "server", "", "address of the service's objects")
	f.StringVar(&r.store, "store", "", "address of a store")
	f.StringVar(&r.debug, "debug", "", "address of the service's debug page")
	f.StringVar(&r.output, "o", "table", "table, json or yaml")
	f.StringVar(&r.namespace, "n", "", "namespace")
	f.StringVar(&r.labels, "l", "", "labels")
	f.StringVar(&r.states, "state", "", "states of objects, with commas between")
	f.StringVar(&r.file, "f", "", "file of declarations")
	f.Uint64Var(&r.revision, "revision", 0, "revision that the object must have")
	f.DurationVar(&r.timeout, "timeout", defaultTimeout, "how long the service may take to begin an answer")
	f.BoolVar(&r.showSecrets, "show-secrets", false, "show specs whose secrets are not known")
	f.BoolVar(&r.yes, "yes", false, "do what is planned")
	for {
		if err := f.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				return nil, err
			}
			return nil, usage("%v", err)
		}
		if f.NArg() == 0 {
			break
		}
		words, args = append(words, f.Arg(0)), f.Args()[1:]
	}
	f.Visit(func(f *flag.Flag) { r.given = append(r.given, f.Name) })
	if r.server == "" && r.store == "" {
		r.server, r.store = r.Getenv("TEND_SERVER"), r.Getenv("TEND_STORE")
		if r.server != "" {
			r.store = ""
		}
	}
	if r.timeout < 0 {
		return nil, usage("-timeout is %v, want a time, or 0 for none", r.timeout)
	}
	if !slices.Contains([]string{"table", "json", "yaml"}, r.output) {
		return nil, usage("-o is table, json or yaml")
	}
	return words, nil
}

func (r *command) help(w io.Writer) {
	fmt.Fprintf(w, "%s shows and mends the objects of a service.\n\n  %s [-server URL | -store ADDRESS] [-o table|json|yaml] [-n NAMESPACE] [-l LABELS] COMMAND\n\n", r.Name, r.Name)
	names := make([]string, 0, len(verbs))
	for name := range verbs {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(w, "  %-32s %s\n", name+" "+verbs[name].args, verbs[name].says)
	}
	fmt.Fprintf(w, `
URL is that of the service's objects, such as http://localhost:8085/objects; ADDRESS is file:PATH,
etcd:[https://]HOST:PORT,.../PREFIX (ETCDCTL_* as for etcdctl) or postgres:DSN (PG* as for psql). They may stand in TEND_SERVER and TEND_STORE, and a bearer
token in TEND_TOKEN.

STATES, of get -state, are one or more of %s, with commas between.

Exit codes: %d done, %d error (of status: it is not well), %d usage, %d not found, %d conflict, %d not allowed, %d invalid, %d unreachable,
%d the kind's type is needed.
`, strings.Join(inspect.States(), ", "), Done, Failed, Usage, NotFound, Conflict, NotAllowed, Invalid, Unreachable, NeedsType)
}

// connect makes the client, or opens the store.
func (r *command) connect(ctx context.Context) error {
	r.http = http.DefaultClient
	if t, ok := http.DefaultTransport.(*http.Transport); ok { // else the program has one of its own
		t = t.Clone()
		t.ResponseHeaderTimeout = r.timeout // not that of the whole: a watch has no end
		r.http = &http.Client{Transport: t}
	}
	switch {
	case r.server != "" && r.store != "":
		return usage("-server and -store exclude each other")
	case r.showSecrets && (r.server != "" || r.Kinds != nil):
		return usage("-show-secrets is for a store whose kinds are not known")
	case r.server != "":
		header := http.Header{}
		if token := r.Getenv("TEND_TOKEN"); token != "" {
			header.Set("Authorization", "Bearer "+token)
		}
		var err error
		if r.client, err = api.NewClient(r.server, r.http, header); err != nil {
			return usage("%v", err)
		}
		return nil
	case r.store != "":
		return r.open(ctx)
	}
	return usage("neither -server nor -store is given, nor TEND_SERVER or TEND_STORE set")
}

// kind is the kind of that name, of the server, of the host, or without its type.
func (r *command) kind(name string) (objects.Kind, error) {
	if r.client != nil {
		return r.client.Kind(name), nil
	}
	for _, k := range r.kinds {
		if k.Kind() == name {
			return k, nil
		}
	}
	if r.Kinds != nil {
		return nil, fmt.Errorf("%w: there is no kind %q", store.ErrNotFound, name)
	}
	return objects.Bare(r.backend, name, r.showSecrets)
}

// named is the kind and the key that two arguments name.
func (r *command) named(args []string) (objects.Kind, store.Key, error) {
	key, err := store.ParseKey(args[1])
	if err != nil {
		return nil, key, usage("%v", err)
	}
	if !strings.Contains(args[1], "/") { // "/name" has no namespace, and says so
		key.Namespace = r.namespace
	}
	k, err := r.kind(args[0])
	return k, key, err
}
