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
		{store.ErrOwned, Conflict},
		{store.ErrDeleting, Conflict},
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

// defaultTimeout is that of -timeout. A server that is frozen accepts connections and never answers: the user
// of status waits no longer to know.
const defaultTimeout = 20 * time.Second

// command is one run of the command.
type command struct {
	Config
	server, store, debug, output, namespace, labels, file, states string
	revision                                                      uint64
	showSecrets, yes, force                                       bool
	timeout                                                       time.Duration
	given, words                                                  []string  // the flags that were, and the other words
	screen                                                        screen    // that Stdout is
	terminal                                                      io.Writer // Stdout itself, for an editor

	told  map[string]objectSays // by kind and key, with -state
	parts []string              // kinds of which it was said that they are a part

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
	r.terminal, r.Stdout, r.screen = r.Stdout, out, screenOf(r.Stdout, r.Getenv)
	err := r.run(ctx, args)
	if err == nil && out.err != nil {
		err = fmt.Errorf("the output cannot be written: %w", out.err)
	}
	if err != nil {
		fmt.Fprintf(r.Stderr, "%s: %s\n", r.Name, printable(err.Error()))
	}
	if errors.Is(err, errUsage) {
		if len(r.words) > 0 && verbs[r.words[0]].do != nil {
			fmt.Fprintf(r.Stderr, "%s help %s shows how it is used\n", r.Name, r.words[0])
		} else {
			fmt.Fprintf(r.Stderr, "%s help lists the commands\n", r.Name)
		}
	}
	return exitCode(err)
}

func (r *command) run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == completes {
		return r.complete(ctx, args[1:])
	}
	words, err := r.parse(args)
	r.words = words
	switch {
	case errors.Is(err, flag.ErrHelp):
		return r.help(ctx, words)
	case err != nil:
		return err
	case len(words) == 0:
		return usage("there is no command")
	}
	v, known := verbs[words[0]]
	if !known {
		return r.noCommand(words[0])
	}
	if !v.check(words[1:]) {
		return usage("%s %s %s", r.Name, words[0], v.args)
	}
	if v.takesKind() && len(words) > 1 && words[1] == "" { // of a variable that is not set
		return usage("the kind is empty")
	}
	for _, name := range r.given { // one that is ignored would be taken for one that counts
		if !v.takes(name) {
			return usage("-%s is not for %s", name, words[0])
		}
	}
	if !v.alone {
		if err := r.connect(ctx); err != nil {
			return r.withHint(ctx, err)
		}
		defer r.http.CloseIdleConnections()
		if r.backend != nil {
			defer r.backend.Close()
		}
	}
	return r.withHint(ctx, v.do(r, ctx, words[1:]))
}

// parse reads the flags, wherever they stand, and returns the other words.
func (r *command) parse(args []string) (words []string, err error) {
	f := r.flagSet()
	for {
		if err := f.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				return words, err
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
	if !slices.Contains(forms, r.output) {
		return nil, usage("-o is table, json or yaml")
	}
	return words, nil
}

// forms are those of -o.
var forms = []string{"table", "json", "yaml"}

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
		var err error
		if r.client, err = api.NewClient(r.server, r.http, r.header()); err != nil {
			return usage("%v", err)
		}
		return nil
	case r.store != "":
		return r.open(ctx)
	case r.debug != "" && slices.Contains([]string{"status", "events"}, r.words[0]):
		return nil // they ask the page alone
	}
	return usage("neither -server nor -store is given, nor TEND_SERVER or TEND_STORE set")
}

// header is what requests to the service carry.
func (r *command) header() http.Header {
	header := http.Header{}
	if token := r.Getenv("TEND_TOKEN"); token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	return header
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
	key, err := r.key(args[1])
	if err != nil {
		return nil, key, err
	}
	k, err := r.kind(args[0])
	return k, key, err
}

// key is the key that an argument names.
func (r *command) key(arg string) (store.Key, error) {
	key, err := store.ParseKey(arg)
	if err != nil {
		return key, usage("%v", err)
	}
	if !strings.Contains(arg, "/") { // "/name" has no namespace, and says so
		key.Namespace = r.namespace
	}
	return key, nil
}
