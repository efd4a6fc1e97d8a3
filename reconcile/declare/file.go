package declare

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/internal/match"
	"github.com/tendhq/tend/reconcile/internal/ofobjects"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
)

// Options tune a File. Nil and zero fields mean the stated default.
type Options[S, T any] struct {
	// Decode reads the objects of the kind from the file's content. An error is final for
	// this content. Default: JSON, see the package's comment and JSON.
	Decode func(data []byte) ([]*store.Object[S, T], error)
	// Owner labels the objects, so that the file knows those that it declared before; two
	// files of one kind need two. At most store.MaxLabel bytes of UTF-8 without control characters,
	// as a label's value. Default: the file's name without its folder.
	Owner string
	// MaxDelete is how many objects one content may delete, where the store has so many
	// of this owner's. It is asked in each run: it may read what an operator has set for one
	// content, and sets back afterwards. Default: 10.
	MaxDelete func(stored int) int
	// Every is how often the file is looked at. Default 1 s.
	Every time.Duration
	// MaxBytes is how long the file may be. Default 64 MiB.
	MaxBytes int64
	// applied hears what a content came to when something was written, or the first time.
	// Its context is that of the run. Default: it is logged.
	applied func(ctx context.Context, did store.Applied, declared int)
	// controller is what the controller is told besides; its Workers is 1. Default:
	// reconcile's defaults.
	controller *reconcile.Options[reconcile.Request]
}

const (
	defaultEvery     = time.Second
	defaultMaxBytes  = 64 << 20
	defaultMaxDelete = 10
)

// A File is a file of declarations. It is a Part of a program: what is in the file and
// not yet in the store is left, and so is the file while it cannot be applied. Its
// methods are safe for concurrent use.
type File[S, T any] struct {
	store      *store.Store[S, T]
	cache      *cache.Cache[S, T]
	path       string
	key        reconcile.Request // of the controller: the file, by its name without the folder
	o          Options[S, T]
	controller *reconcile.Controller[reconcile.Request]
	inspection reconcile.Inspection // of the controller
	watch      watch                // belongs to the source's goroutine

	mu        sync.Mutex // guards what follows
	content   *content   // the latest that was taken; nil: none yet
	applied   *content   // the one that applying was tried of last
	declared  map[store.Key]*store.Object[S, T]
	unread    error // why the file cannot be read; nil: it can
	failed    error // why applied is not in force; nil: it is
	followers map[*follower]struct{}
	stopping  bool // the controller's Run is about to end
}

type follower struct{ changed func() }

// content is the content of the file at one moment.
type content struct {
	data []byte
	sum  [32]byte
}

// New makes a File for the objects of a store, with a cache of the same kind and backend.
// The controller is called for the file and the kind, such as "sites.json:site". It fails on
// what is missing, on another cache, and on options that make no sense; it does not look at
// the file, see Read.
func New[S, T any](s *store.Store[S, T], c *cache.Cache[S, T], path string, o *Options[S, T]) (*File[S, T], error) {
	if s == nil || c == nil || path == "" {
		return nil, errors.New("declare: New needs a store, a cache and a path")
	}
	if err := match.Check(s, c); err != nil {
		return nil, fmt.Errorf("declare: New(%s): %w", path, err)
	}
	f := &File[S, T]{store: s, cache: c, path: path, key: reconcile.Request{Name: filepath.Base(path)}, followers: make(map[*follower]struct{})}
	if o != nil {
		f.o = *o
	}
	if f.o.Every < 0 || f.o.MaxBytes < 0 {
		return nil, fmt.Errorf("declare: Options.Every is %v and MaxBytes %d, want 0 or more", f.o.Every, f.o.MaxBytes)
	}
	if f.o.Every == 0 {
		f.o.Every = defaultEvery
	}
	if f.o.MaxBytes == 0 {
		f.o.MaxBytes = defaultMaxBytes
	}
	if f.o.Owner == "" {
		f.o.Owner = filepath.Base(path)
	}
	if len(f.o.Owner) > store.MaxLabel || !utf8.ValidString(f.o.Owner) || strings.ContainsFunc(f.o.Owner, unicode.IsControl) {
		return nil, fmt.Errorf("declare: New(%s): the owner %.32q is no label: at most %d bytes of UTF-8 without control characters; set Options.Owner",
			path, f.o.Owner, store.MaxLabel)
	}
	if f.o.Decode == nil {
		f.o.Decode = JSON(s)
	}
	f.watch = watch{path: path, max: f.o.MaxBytes}
	var control reconcile.Options[reconcile.Request]
	if f.o.controller != nil {
		control = *f.o.controller
	}
	control.Workers = 1
	name := filepath.Base(path) + ":" + s.Kind()
	pace, err := ratelimit.NewBucket(name, 1, 30)
	if err != nil {
		return nil, err
	}
	// What wakes a file is no change of its own object's spec, so promise R5 is kept here: a program that
	// alters again what the file puts back is met thirty times at once, and then once a second.
	control.Queue.Buckets = func(_ reconcile.Request, dst []*ratelimit.Bucket) []*ratelimit.Bucket { return append(dst, pace) }
	f.controller, err = ofobjects.Controller(name, reconcile.Func[reconcile.Request](f.reconcile), &control)
	if err != nil {
		return nil, err
	}
	f.inspection, _ = reconcile.Inspect(f.controller)
	err = f.controller.Watch(
		reconcile.Source[reconcile.Request]{Name: "file", Run: f.follow},
		// Urgent, so that an edit that is in the way for days holds up nothing else for its backoff.
		reconcile.MapWith(c, f.altered, &reconcile.MapOptions[S, T]{Urgent: true, KeepAttempts: true}),
	)
	return f, err
}

// Controller is what keeps the store as the file says. Register it with a Manager.
func (f *File[S, T]) Controller() *reconcile.Controller[reconcile.Request] { return f.controller }

// Read reads the file now and returns what it declares, filled in by the kind's Default, and
// why it cannot be applied if that can be known without the store: for a program that does
// not start with a broken file. It changes nothing.
func (f *File[S, T]) Read() ([]*store.Object[S, T], error) {
	w := watch{path: f.path, max: f.o.MaxBytes}
	data, _, err := w.read()
	if err != nil {
		return nil, fmt.Errorf("declare: %w", err)
	}
	set, err := f.decode(data)
	for i := 0; err == nil && i < len(set); i++ {
		set[i], err = f.store.Filled(set[i])
	}
	return set, err
}

// byteOrderMark begins a file of UTF-8 that some editors save. It is no part of the text.
var byteOrderMark = []byte("\uFEFF")

// decode returns the content's objects as the file declares them: Default fills nothing in, as that
// is not declared. They are not nil if there are none.
func (f *File[S, T]) decode(data []byte) ([]*store.Object[S, T], error) {
	set, err := f.o.Decode(bytes.TrimPrefix(data, byteOrderMark))
	if err != nil {
		return nil, fmt.Errorf("declare: %s is broken: %w", f.path, err)
	}
	seen := make(map[store.Key]bool, len(set))
	for _, o := range set {
		if _, err := f.store.Filled(o); err != nil {
			return nil, fmt.Errorf("declare: %s is broken: %w", f.path, err)
		}
		if seen[o.Key()] {
			return nil, fmt.Errorf("declare: %s is broken: %s %s is declared twice", f.path, f.store.Kind(), o.Key())
		}
		seen[o.Key()] = true
	}
	return slices.Concat([]*store.Object[S, T]{}, set), nil
}

// follow is the source: it looks at the file until ctx ends.
func (f *File[S, T]) follow(ctx context.Context, to reconcile.Sink[reconcile.Request]) error {
	report, _ := to.(reconcile.Reporter)
	tick := time.NewTicker(f.o.Every)
	defer tick.Stop()
	defer func() { f.followed(errors.Is(context.Cause(ctx), reconcile.ErrShutdown)) }()
	f.watch.forget() // the lease may have been another server's meanwhile
	for synced := false; ; {
		next, err := f.watch.look()
		if f.setRead(next, err) && report != nil {
			report.Failed(err)
		}
		if next != nil {
			if err := to.Add(f.key, urgent); err != nil {
				return err
			}
			if !synced {
				synced = true
				to.Synced()
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// followed notes that the file is not looked at any more: the lease was lost, or the
// controller is stopping.
func (f *File[S, T]) followed(stopping bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopping = stopping
	f.notifyLocked()
}

// setRead keeps what a look came to and reports whether the error is news.
func (f *File[S, T]) setRead(next *content, err error) (news bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	news = (err == nil) != (f.unread == nil) || err != nil && err.Error() != f.unread.Error()
	f.unread = err
	if next != nil {
		f.content = next
	}
	if news || next != nil {
		f.notifyLocked()
	}
	return news
}

// altered wakes the file when an object is not as it declares, because others changed or
// deleted it, or because the object before it is gone at last; and when what was in the way is over.
func (f *File[S, T]) altered(_ context.Context, old, now *store.Object[S, T]) ([]reconcile.Request, error) {
	o := now
	if o == nil {
		o = old
	}
	f.mu.Lock()
	want, conflict := f.declared[o.Key()], errors.Is(f.failed, store.ErrOwned) || errors.Is(f.failed, store.ErrExists)
	f.mu.Unlock()
	switch {
	case want == nil, now != nil && now.Deleting():
		return nil, nil
	case now == nil || old == nil && !f.store.Declares(want, now):
		return []reconcile.Request{f.key}, nil
	case old == nil || sameDeclared(old, now):
		return nil, nil // such as a new status, of an object with a conflict too
	}
	if is := f.store.Declares(want, now); is && !(conflict && !f.store.Declares(want, old)) {
		return nil, nil
	}
	return []reconcile.Request{f.key}, nil
}

// sameDeclared reports whether nothing has changed that a file can declare.
func sameDeclared[S, T any](a, b *store.Object[S, T]) bool {
	return a.UID == b.UID && a.Generation == b.Generation && maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations)
}

// reconcile applies the latest content.
func (f *File[S, T]) reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	f.mu.Lock()
	latest, before := f.content, f.declared
	f.mu.Unlock()
	if latest == nil {
		return reconcile.Result{}, nil // the file has not been read on this server
	}
	set, err := f.decode(latest.data)
	if err != nil {
		return reconcile.Result{}, f.end(latest, before, reconcile.Terminal(err))
	}
	most, err := f.maxDelete(ctx)
	if err != nil {
		return reconcile.Result{}, f.end(latest, before, err)
	}
	f.declare(set) // first: others may alter what Apply has written before it returns
	did, err := f.store.Apply(ctx, set, f.o.Owner, max(most, 0))
	if tooMany, refused := errors.AsType[*store.CapError](err); refused {
		err = reconcile.Terminal(fmt.Errorf("%s: %w", f.path, tooMany))
	} else if errors.Is(err, store.ErrInvalid) {
		err = reconcile.Terminal(fmt.Errorf("%s: %w", f.path, err))
	}
	first := f.isFirst(latest)
	err = f.end(latest, before, err)
	if err == nil && (first || did.Created+did.Updated+did.Deleted > 0) {
		if f.o.applied != nil {
			f.o.applied(ctx, did, len(set))
		} else {
			reconcile.Logger(ctx).Info("declare: the file is applied", "path", f.path, "declared", len(set),
				"created", did.Created, "updated", did.Updated, "deleted", did.Deleted, "waiting", did.Waiting)
		}
	}
	return reconcile.Result{}, err
}

// maxDelete asks the host how many objects may go.
func (f *File[S, T]) maxDelete(ctx context.Context) (int, error) {
	if f.o.MaxDelete == nil {
		return defaultMaxDelete, nil
	}
	stored := 0
	for o, err := range f.store.All(ctx, store.Selector{}) {
		if err != nil {
			return 0, err
		}
		if o.Labels[store.LabelOwner] == f.o.Owner && !o.Deleting() {
			stored++
		}
	}
	return f.o.MaxDelete(stored), nil
}

func (f *File[S, T]) isFirst(c *content) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.applied == nil || f.applied.sum != c.sum
}

// declare makes the set what is declared.
func (f *File[S, T]) declare(set []*store.Object[S, T]) {
	declared := make(map[store.Key]*store.Object[S, T], len(set))
	for _, o := range set {
		o = f.store.Clone(o)
		if o.Labels == nil {
			o.Labels = make(map[string]string, 1)
		}
		o.Labels[store.LabelOwner] = f.o.Owner // as Apply stores it
		declared[o.Key()] = o
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.declared = declared
}

// end keeps what applying came to. A content that was refused leaves what was declared
// before in force.
func (f *File[S, T]) end(c *content, before map[store.Key]*store.Object[S, T], err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.applied, f.failed = c, err; errors.Is(err, reconcile.ErrTerminal) {
		f.declared = before
	}
	f.notifyLocked()
	return err
}

func (f *File[S, T]) notifyLocked() {
	for w := range f.followers {
		w.changed()
	}
}

// Progress implements program.Part.
func (f *File[S, T]) Progress() program.Progress {
	p, _ := f.look()
	return p
}

// Left implements program.Part.
func (f *File[S, T]) Left() []program.Left {
	_, left := f.look()
	return left
}

// look compares what the file declares with what the cache has. What both have is the
// Kind's to count. A server that has lost the lease names nothing that is left: another one
// applies the file, as that one finds it. What was left here is not complete for that.
func (f *File[S, T]) look() (p program.Progress, left []program.Left) {
	lease, leased := f.inspection.LeaseOf(context.Background(), f.key.String())
	f.mu.Lock()
	defer f.mu.Unlock()
	problem := func(err error, stuck bool) {
		p.Declared++
		p.Failing++
		l := program.Left{Kind: "file " + filepath.Base(f.path), Why: store.Clip(err.Error()), Err: err, Failing: true, Stuck: stuck}
		if stuck {
			p.Stuck++
		}
		left = append(left, l)
	}
	p.Synced = f.applied != nil && f.content == f.applied
	switch {
	case f.unread != nil:
		problem(f.unread, false)
	case !p.Synced:
		left = append(left, program.Left{Kind: "file " + filepath.Base(f.path), Why: "it is not applied yet"})
	case f.failed != nil:
		problem(f.failed, errors.Is(f.failed, reconcile.ErrTerminal))
	}
	for key, want := range f.declared {
		l := program.Left{Kind: f.store.Kind(), Key: key, Why: "it is not yet as the file says"}
		switch o, there := f.cache.Get(key); {
		case !there:
			p.Declared++
		case o.Deleting():
			p.Declared++
			l.Why = "it waits until the object of this name is deleted"
		case f.store.Declares(want, o):
			continue
		default: // the Kind counts it, and may find it done
			p.Synced = false
		}
		left = append(left, l)
	}
	for o := range f.cache.All() {
		if f.failed == nil && f.declared[o.Key()] == nil && o.Labels[store.LabelOwner] == f.o.Owner && !o.Deleting() {
			p.Synced = false // its deletion is not in the cache yet
		}
	}
	if leased && !lease.Held && !lease.Running && !f.stopping && (f.content != nil || f.unread != nil) {
		return program.Progress{Synced: p.Synced && len(left) == 0}, nil
	}
	return p, left
}

// Follow implements program.Part.
func (f *File[S, T]) Follow(ctx context.Context, changed func()) {
	w := &follower{changed}
	f.mu.Lock()
	f.followers[w] = struct{}{}
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.followers, w)
		f.mu.Unlock()
	}()
	for _, err := range f.cache.Changes(ctx, nil) {
		if err != nil {
			return // ctx ended
		}
		changed()
	}
}
