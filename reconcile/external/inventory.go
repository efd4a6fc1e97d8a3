package external

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/tendhq/tend/internal/endless"
	"github.com/tendhq/tend/internal/wall"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/store"
)

// InventoryOptions says how to list a kind of resources and what to make of
// them. S and T are the declaring kind's, R is a resource as a list shows it.
//
// Its functions are called at the same time by all workers of the controller, and by the
// callers of the Inventory's methods, so they must be safe for concurrent use: but for
// List, of which one at a time runs.
type InventoryOptions[S, T, R any] struct {
	// Store holds the declarations. Required.
	Store *store.Store[S, T]
	// Installation is the id that our marks carry; see [store.Installation].
	// Required.
	Installation string

	// List goes through all the resources there are, page by page. An error
	// ends it, and makes all of it worthless; [Pages] makes a List that reads a
	// page again before it gives up. Required.
	List func(ctx context.Context) iter.Seq2[R, error]
	// Get reads one resource by its id; false: there is none. It is asked about
	// what the list does not show, or may show as it was before a write.
	// Required.
	Get func(ctx context.Context, id string) (R, bool, error)
	// Detail reads what a list does not show of a resource that is on it, and
	// returns the whole resource, as Get does; false: it is gone. An S3 list, for
	// example, has no tags. Owner, Compare and Delete see only whole resources.
	// Nil: the list shows all there is to know.
	Detail func(ctx context.Context, r R) (R, bool, error)
	// ID is what the cloud knows a resource by. Required.
	ID func(r R) string
	// IDOf is the id of a declaration's resource; empty: it has none yet. Nil:
	// the external name in its Intent.
	//
	// With [ByMark] a resource without an id is looked for on the list by its mark, also before the
	// first create: it may have been made after the backup that the store was restored from, or be
	// what an earlier object of the key left behind ([Former]). So is one that is not found by its id
	// and would be created, whose id may be of such a backup; what a create of unknown
	// outcome made, since the id may be that of an earlier resource; and with [ByUs] where there is
	// no id. Where IDOf is nil, what is found becomes the external name; else Compare may set what
	// IDOf reads.
	//
	// With Detail a list has no marks. Nothing is looked for before a first create then, and an
	// object of which only the list could show what a create made stops with [ErrCreateIncomplete].
	IDOf func(o *store.Object[S, T]) string
	// Owner reads the mark of a resource; false: it carries none. Required.
	Owner func(r R) (Mark, bool)
	// Compare says how a resource stands to its declaration: UpToDate, Diff,
	// LateInitialized; Exists and Owner are filled in. It may edit the object
	// as Observe may, and must not call the cloud. Required.
	Compare func(o *store.Object[S, T], r R) Observation
	// Delete removes an orphan, for Prune; see [ErrInUse]. That it is gone already is no
	// error. Nil: Prune is refused.
	Delete func(ctx context.Context, r R) error

	// Found is told of every report, those that Prune makes included, before
	// anything is deleted: to raise an alarm, open a ticket, or call Hold. It is
	// called on the goroutine that asked for the report, so that of two reports may call it
	// at the same time; a panic in it ends the report, and the
	// prune, with an error. Nil: it is not reported.
	Found func(ctx context.Context, r Report)

	// Settle is how long the cloud takes at most to show a write everywhere;
	// zero: 30 s. What is read of a resource sooner after a write of ours is used
	// once, and not again. A deletion that succeeded is not repeated sooner. A list of sooner
	// does not show that a create made nothing, where only its mark can show what it made, even
	// if [Options.CreationGrace] is shorter.
	Settle time.Duration
	// Fresh is how old what is shown may be, from the moment its list was begun;
	// zero: 1 minute. Set it to about the poll interval: then the looks of one
	// interval are served by one list.
	Fresh time.Duration
	// DetailFresh is how old what Detail read may be; zero: Fresh. It is read
	// again sooner if a list shows the resource otherwise than before, in
	// whatever part, and before an update or a deletion if it is older than Fresh.
	// What no list shows may have been changed by others for so long before
	// that is noticed.
	DetailFresh time.Duration
	// Letters says whether ids and marks that differ in case, or in space around, only are of one
	// resource; zero: that is not known.
	Letters Letters
	// Cap bounds what one Prune may delete; zero: 10 resources or a tenth of
	// ours, whichever is less.
	Cap Cap
}

// Inventory answers many Observes from one paged list of the cloud: with
// 100,000 resources and pages of 1,000 that is 100 calls in an interval, and
// not 100,000.
//
//	list, begun 12:00 ─▶ ┌ id ─ resource ┐    Look(id): the list, unless
//	                     └───────────────┘      it is older than Fresh             → list again
//	Invalidate(id) ────▶ written[id] = 12:01    begun before the write had settled → Get
//	Get ───────────────▶ single[id]             it does not show id                → Get
//	Detail ────────────▶ detail[id]             it shows but a part of it          → Detail
//
// A list that was under way when a resource was written, or begun soon after,
// may show either side of the write, and so may a Get; so neither is used again
// for that resource. What the write itself answered is ([Inventory.Wrote]). That
// there is no resource is answered from memory only where a create follows that
// would refuse a name that is taken ([Options.ExclusiveCreate]): never for the end of
// a deletion.
//
// The list is made by the look that needs it first, within its context:
// [Options.Timeout] has to leave the time for a whole one. Where that is too long,
// call [Inventory.Report] more often than Fresh, with a context of its own.
//
// From the same list fall out what is missing, what differs and what is not
// declared ([Inventory.Report]), and what may be deleted of that
// ([Inventory.Prune]). Safe for concurrent use; it starts no goroutine.
type Inventory[S, T, R any] struct {
	o     InventoryOptions[S, T, R]
	named bool // ids are external names
	made  time.Time

	mu      sync.Mutex // guards what follows; not held during calls
	list    snapshot[R]
	failed  time.Time // when a list last failed
	listing *listing
	written map[ident]time.Time // by id: when, or Settle before it was found gone, if a list may not show it yet
	deleted map[deletedFor]time.Time
	single  map[ident]single[R] // what the list does not show, or not reliably
	detail  map[ident]detail[R] // what the list shows in part; empty without Detail
	held    string              // by Hold
	history history
	last    *Report
	// compared is how many reports under way rest on the list begun then.
	compared map[time.Time]int
	calls    struct{ lists, failed, gets, served uint64 }
	changed  []*changedKeys          // of the sources that run; see Changed
	waiting  map[store.Key]time.Time // objects whose runs ended for want of a list, and when
	back     map[store.Key]time.Time // those whose list has come, and that have not run since
}

// deletedFor is a resource that was deleted, and the uid of the object for which.
type deletedFor struct {
	uid string
	id  ident
}

// snapshot is what one complete list showed.
type snapshot[R any] struct {
	begun time.Time // zero: there was none
	byID  map[ident]R
	// The ids by mark, without UID and Declared, and what is there by folded letters; each is
	// read at the first call.
	marks  func() map[Mark][]string
	folded func() folded
}

// single is what Get showed of one resource.
type single[R any] struct {
	begun  time.Time
	r      R
	answer bool // it is what a write of ours answered: it shows that write, however young it is
}

// detail is what Detail showed of a resource that the list shows as it did then.
type detail[R any] struct {
	begun time.Time
	r     R
}

// listing is a list under way, which others wait for.
type listing struct {
	done     chan struct{}
	complete bool // read after done, as what follows is
	err      error
	took     time.Duration
	late     bool // the caller that listed had no more time
}

const (
	defaultFresh  = time.Minute
	defaultSettle = 30 * time.Second
)

// NewInventory makes an inventory. It calls nothing yet. It returns an error
// that names the option that is missing or cannot be.
func NewInventory[S, T, R any](given *InventoryOptions[S, T, R]) (*Inventory[S, T, R], error) {
	var o InventoryOptions[S, T, R]
	if given != nil {
		o = *given
	}
	for name, missing := range map[string]bool{
		"Store": o.Store == nil, "Installation": o.Installation == "", "List": o.List == nil, "Get": o.Get == nil,
		"ID": o.ID == nil, "Owner": o.Owner == nil, "Compare": o.Compare == nil,
	} {
		if missing {
			return nil, fmt.Errorf("external: InventoryOptions.%s is required", name)
		}
	}
	if o.Letters > lastLetters {
		return nil, fmt.Errorf("external: InventoryOptions.Letters is %d, which is none of LettersUnknown, LettersKeep, LettersFold", o.Letters)
	}
	if o.Fresh < 0 || o.Settle < 0 || o.DetailFresh < 0 {
		return nil, fmt.Errorf("external: InventoryOptions.Fresh is %v, Settle %v and DetailFresh %v, want zero or more", o.Fresh, o.Settle, o.DetailFresh)
	}
	named := o.IDOf == nil
	if named {
		o.IDOf = func(o *store.Object[S, T]) string { return o.Intent.ExternalName }
	}
	o.Fresh, o.Settle = cmp.Or(o.Fresh, defaultFresh), cmp.Or(o.Settle, defaultSettle)
	o.DetailFresh = cmp.Or(o.DetailFresh, o.Fresh)
	o.Cap = o.Cap.orDefault()
	return &Inventory[S, T, R]{
		o: o, named: named, made: wall.Now(), written: map[ident]time.Time{}, deleted: map[deletedFor]time.Time{}, single: map[ident]single[R]{}, detail: map[ident]detail[R]{},
		compared: map[time.Time]int{},
	}, nil
}

// lookAsOf is the resource of that id for a caller that asked at that time: from the list if that
// is recent enough; see [Inventory]. It may list the whole cloud; callers that come meanwhile wait
// for the same list. If the list fails, the one resource is read instead. How old things are is
// asked as of then: a list that takes longer than Fresh would otherwise serve no caller that waited
// for it.
func (v *Inventory[S, T, R]) lookAsOf(ctx context.Context, id string, at time.Time) (r R, exists bool, err error) {
	if freshened(ctx) {
		return v.get(ctx, id)
	}
	r, known := v.recall(id, at)
	if known == nothing && !v.failing(at) {
		if err := v.refresh(ctx, at); err != nil && ctx.Err() != nil {
			return r, false, err
		}
		r, known = v.recall(id, at)
	}
	switch why := absenceOf(ctx); {
	case known == whole:
		return r, true, nil
	case known == inPart:
		return v.look(ctx, r)
	case known == absent && why.proof == listSuffices && v.absentSince(id, at, why.since) && v.twin(id) == "":
		return r, false, nil
	case known == absent && why.proof != byLook:
		// Before the look, or a create that has to wait for its budget costs two.
		if err := quota.Admit(ctx, quota.Write); err != nil {
			return r, false, err
		}
	}
	return v.get(ctx, id)
}

// knowledge is how much of a resource is known.
type knowledge uint8

const (
	nothing knowledge = iota
	absent            // a list that counts for it does not show it
	inPart            // as the list shows it; the rest is for Detail to read
	whole
)

// recall answers from what is known, if that may be shown to a caller that asked at that
// time.
func (v *Inventory[S, T, R]) recall(id string, at time.Time) (R, knowledge) {
	v.mu.Lock()
	defer v.mu.Unlock()
	r, known := v.recallLocked(v.o.Letters.id(id), at)
	if known == whole {
		v.calls.served++
	}
	return r, known
}

// absentSince says whether a list that was begun at that time or later shows that there is
// no such resource.
func (v *Inventory[S, T, R]) absentSince(id string, at, since time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, known := v.recallLocked(v.o.Letters.id(id), at)
	return known == absent && !v.list.begun.Before(since)
}

func (v *Inventory[S, T, R]) recallLocked(id ident, at time.Time) (r R, known knowledge) {
	if s, ok := v.single[id]; ok && (s.answer && recent(s.begun, v.o.Fresh, at) || v.usableLocked(id, s.begun, v.o.Fresh, at)) {
		return s.r, whole
	}
	if !v.usableLocked(id, v.list.begun, v.o.Fresh, at) {
		return r, nothing
	}
	r, on := v.list.byID[id]
	switch {
	case !on:
		return r, absent
	case v.o.Detail == nil:
		return r, whole
	}
	if d, ok := v.detail[id]; ok && v.usableLocked(id, d.begun, v.o.DetailFresh, at) {
		return d.r, whole
	}
	return r, inPart
}

// usableLocked says whether what was read of a resource at some time may be
// shown to a caller that asked at another: it is recent, and was read after the last write
// had settled.
func (v *Inventory[S, T, R]) usableLocked(id ident, begun time.Time, fresh time.Duration, at time.Time) bool {
	return v.settledLocked(id, begun) && recent(begun, fresh, at)
}

// settledLocked says whether what was read of a resource at some time shows the last
// write to it.
func (v *Inventory[S, T, R]) settledLocked(id ident, begun time.Time) bool {
	return !begun.Before(v.written[id].Add(v.o.Settle)) // since the zero time, if it was not written
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func recent(t time.Time, fresh time.Duration, at time.Time) bool {
	return !t.IsZero() && at.Sub(t) <= fresh
}

// failing says whether a look that was asked for at that time should not list: while
// lists fail they are tried a few times per interval, not once per look.
func (v *Inventory[S, T, R]) failing(at time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return recent(v.failed, v.o.Fresh/4, at)
}

func (v *Inventory[S, T, R]) get(ctx context.Context, spelt string) (R, bool, error) {
	got, id := single[R]{begun: time.Now()}, v.o.Letters.id(spelt)
	r, exists, err := v.o.Get(ctx, spelt)
	err = endless.Cut(err)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.calls.gets++
	switch {
	case err != nil:
		return r, false, fmt.Errorf("external: inventory: get %q: %w", spelt, err)
	case !v.settledLocked(id, got.begun): // used once: it may show either side of a write
	case !exists:
		delete(v.single, id)
		if _, on := v.list.byID[id]; on || v.listing != nil {
			// A list that was begun before may show it, and does not count for it any more:
			// else what is known to be gone would be there again.
			v.written[id] = later(v.written[id], got.begun.Add(-v.o.Settle))
		}
	case !got.begun.Before(v.single[id].begun):
		got.r = r
		v.single[id] = got
	}
	return r, exists, nil
}

// look reads what the list does not show of a resource.
func (v *Inventory[S, T, R]) look(ctx context.Context, listed R) (R, bool, error) {
	d, id := detail[R]{begun: time.Now()}, v.id(listed)
	r, exists, err := v.o.Detail(ctx, listed)
	err = endless.Cut(err)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.calls.gets++
	switch now, on := v.list.byID[id]; {
	case err != nil:
		return r, false, fmt.Errorf("external: inventory: read the details of %q: %w", v.o.ID(listed), err)
	case !exists:
		delete(v.detail, id)
	case !v.settledLocked(id, d.begun): // used once; of a newer list's settling it knows nothing
	case on && reflect.DeepEqual(now, listed) && !d.begun.Before(v.detail[id].begun):
		d.r = r
		v.detail[id] = d
	}
	return r, exists, nil
}

// Invalidate says that the resource was just written, or may have been: what is
// known of it no longer counts. Clients made by [Inventory.Client] do this
// themselves.
func (v *Inventory[S, T, R]) Invalidate(id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	is := v.o.Letters.id(id)
	v.written[is] = time.Now()
	delete(v.single, is)
	delete(v.detail, is)
}

// Wrote notes a resource as the answer of a write shows it, whole as Get does. It is for
// a Create or Update of a client made by [Inventory.Client] to call before it returns:
// then no look follows to see what the write did. It counts until a list that shows the
// write, at most for Fresh.
func (v *Inventory[S, T, R]) Wrote(r R) {
	v.mu.Lock()
	defer v.mu.Unlock()
	id, now := v.id(r), time.Now()
	v.written[id] = now
	v.single[id] = single[R]{begun: now, r: r, answer: true}
	delete(v.detail, id)
}

// refresh makes sure of a complete list that is recent to a caller that asked at that time.
// It waits for one that is under way, else it lists itself.
func (v *Inventory[S, T, R]) refresh(ctx context.Context, at time.Time) error {
	for {
		v.mu.Lock()
		if recent(v.list.begun, v.o.Fresh, at) {
			v.mu.Unlock()
			return nil
		}
		l := v.listing
		if l == nil {
			l = &listing{done: make(chan struct{})}
			v.listing = l
			v.mu.Unlock()
			return v.load(ctx, l)
		}
		v.mu.Unlock()
		select {
		case <-l.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		// That the other caller was cancelled is none of our business, and its list
		// may have been begun too long ago for us: then list again.
		if !l.complete && (!errors.Is(l.err, errCutShort) || l.tooLongFor(ctx)) {
			return l.err
		}
	}
}

// tooLongFor says that the caller that listed ran out of time, and that ctx leaves no more.
func (l *listing) tooLongFor(ctx context.Context) bool {
	end, bounded := ctx.Deadline()
	return l.late && bounded && time.Until(end) <= l.took
}

// errCutShort is a list that ended with its caller, not with the cloud.
var errCutShort = errors.New("external: inventory: the list was cut short")

// load lists, on the goroutine of the caller that came first.
func (v *Inventory[S, T, R]) load(ctx context.Context, l *listing) error {
	s := snapshot[R]{begun: time.Now(), byID: map[ident]R{}}
	s.marks = sync.OnceValue(func() map[Mark][]string { return v.marks(s.byID) })
	s.folded = sync.OnceValue(func() folded { return v.fold(s.byID) })
	l.err = errCutShort // what others hear after a panic in List
	panicked := true
	tell := func() {}
	defer func() { tell() }() // after the list was adopted, or the objects would be run by the old one
	defer func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.calls.lists++
		l.took, l.late = time.Since(s.begun), errors.Is(ctx.Err(), context.DeadlineExceeded)
		switch {
		case l.complete:
			v.adoptLocked(s)
		case ratelimit.IsThrottled(l.err): // a list without budget says nothing of the lists
		case !errors.Is(l.err, errCutShort) || l.late || panicked:
			v.calls.failed++
			v.failed = time.Now()
			v.forgetLocked()
		}
		v.listing = nil
		close(l.done)
	}()
	if v.noteStore(ctx) == nil { // one that cannot be read is not pruned either
		_ = v.keepHold(ctx) // a process that prunes tries again
	}
	for r, err := range v.o.List(ctx) {
		if err != nil {
			l.err = fmt.Errorf("external: inventory: list: %w", endless.Cut(err))
			break
		}
		id := v.id(r)
		if other, on := s.byID[id]; on && v.o.ID(other) != v.o.ID(r) {
			l.err = fmt.Errorf("external: inventory: list: it shows %q and %q, which InventoryOptions.Letters says are one", v.o.ID(other), v.o.ID(r))
			break
		}
		s.byID[id] = r
	}
	panicked = false
	switch {
	case ctx.Err() != nil: // a List may end quietly, too, when it is cancelled
		l.err = fmt.Errorf("%w: %w", errCutShort, context.Cause(ctx))
	case errors.Is(l.err, errCutShort):
		were := v.difference(s)
		l.complete, l.err = true, nil
		tell = func() { v.tell(ctx, were) }
	}
	return l.err
}

// adoptLocked takes over a complete list and forgets what it makes old.
func (v *Inventory[S, T, R]) adoptLocked(s snapshot[R]) {
	v.forgetDeletedLocked()
	was := v.list.byID
	v.list, v.failed = s, time.Time{}
	oldest := s.begun // of the lists that reports go by
	for begun := range v.compared {
		if begun.Before(oldest) {
			oldest = begun
		}
	}
	v.written = without(v.written, func(_ ident, at time.Time) bool { return !oldest.Before(at.Add(v.o.Settle)) })
	v.single = without(v.single, func(id ident, one single[R]) bool {
		return !s.begun.Before(one.begun) && (!one.answer || v.settledLocked(id, s.begun))
	})
	// Another resource may have come under the same id: then the list shows it
	// otherwise (its date, its owner), and what was read of the first is of no use.
	v.detail = without(v.detail, func(id ident, d detail[R]) bool {
		listed, on := s.byID[id]
		return !on || !recent(d.begun, v.o.DetailFresh, s.begun) || !reflect.DeepEqual(listed, was[id])
	})
}

// without is m without the entries that gone reports true for. A map keeps the room of the
// most that it ever held, so one that loses half of its entries or more is copied.
func without[K comparable, V any](m map[K]V, gone func(K, V) bool) map[K]V {
	before := len(m)
	maps.DeleteFunc(m, gone)
	if len(m) > before/2 || before == 0 {
		return m
	}
	kept := make(map[K]V, len(m)) // maps.Clone keeps the room too
	maps.Copy(kept, m)
	return kept
}

// longestLook bounds how long a caller may wait for an answer, which has to be of after
// each write before it asked.
const longestLook = time.Hour

// forgetLocked forgets what is too old to be shown to anybody. A complete list does
// that better; without one it would grow for as long as lists fail.
func (v *Inventory[S, T, R]) forgetLocked() {
	v.forgetDeletedLocked()
	now := time.Now()
	v.written = without(v.written, func(_ ident, at time.Time) bool {
		at = at.Add(v.o.Settle).Add(max(v.o.Fresh, v.o.DetailFresh)) // a sum of durations may overflow
		return !recent(at, longestLook, now)
	})
	v.single = without(v.single, func(_ ident, one single[R]) bool { return !recent(one.begun, v.o.Fresh, now) })
	v.detail = without(v.detail, func(_ ident, d detail[R]) bool { return !recent(d.begun, v.o.DetailFresh, now) })
}

// Client makes a client for a [Reconciler] out of what writes: its Observe is
// answered by the inventory, and each write invalidates its resource. What
// ObserveFunc f has is not used. It is a Connector too, of itself.
func (v *Inventory[S, T, R]) Client(f ClientFuncs[S, T]) ClientFuncs[S, T] {
	f.inventory = v
	f.ObserveFunc = v.observe
	f.CreateFunc = v.writes(f.CreateFunc, func(ctx context.Context, err error) bool { return isUnknown(ctx, err) || errors.Is(err, ErrExists) })
	f.UpdateFunc = v.writes(f.UpdateFunc, func(context.Context, error) bool { return true })
	f.RotateFunc = v.writes(f.RotateFunc, func(context.Context, error) bool { return true })
	f.DeleteFunc = v.deletes(v.writes(f.DeleteFunc, func(context.Context, error) bool { return true }))
	return f
}

// deletes is f, which notes what it deleted.
func (v *Inventory[S, T, R]) deletes(f func(context.Context, *store.Object[S, T]) error) func(context.Context, *store.Object[S, T]) error {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, o *store.Object[S, T]) error {
		d := deletedFor{o.UID, v.o.Letters.id(v.o.IDOf(o))}
		err := f(ctx, o)
		if err == nil {
			v.mu.Lock()
			defer v.mu.Unlock()
			v.deleted[d] = time.Now()
		}
		return err
	}
}

// unsettled says that a deletion succeeded so shortly ago that the cloud may not show it yet.
func (v *Inventory[S, T, R]) unsettled(d deletedFor) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	at, known := v.deleted[d]
	return known && time.Since(at) < v.o.Settle
}

// forgetDeletedLocked forgets the deletions that have settled.
func (v *Inventory[S, T, R]) forgetDeletedLocked() {
	v.deleted = without(v.deleted, func(_ deletedFor, at time.Time) bool { return time.Since(at) >= v.o.Settle })
}

// writes is f, after which its resource is not known any more: unless f failed without
// effect, because it was throttled or by an error of which changed says so, or has told
// the inventory what it wrote.
func (v *Inventory[S, T, R]) writes(f func(context.Context, *store.Object[S, T]) error, changed func(context.Context, error) bool) func(context.Context, *store.Object[S, T]) error {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, o *store.Object[S, T]) error {
		// Afterwards, for the write settles from then on; deferred, for a panic;
		// and the id is asked for last, for a create learns it only then.
		begun, known := time.Now(), false
		defer func() {
			if id := v.o.IDOf(o); id != "" && !known {
				v.Invalidate(id)
			}
		}()
		err := endless.Cut(f(ctx, o))
		if err == nil {
			known = v.answeredSince(v.o.IDOf(o), begun)
		} else {
			known = ratelimit.IsThrottled(err) || !changed(ctx, err)
		}
		return err
	}
}

// answeredSince says whether Wrote was called for the resource since then.
func (v *Inventory[S, T, R]) answeredSince(id string, begun time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.single[v.o.Letters.id(id)]
	return s.answer && !s.begun.Before(begun)
}

func (v *Inventory[S, T, R]) observe(ctx context.Context, o *store.Object[S, T]) (Observation, error) {
	id := v.o.IDOf(o)
	why := absenceOf(ctx)
	// A create that may have taken effect, and that no other look would find: the id on record
	// while it is pending may be that of an earlier resource.
	phase, _ := phaseOf(o.Intent)
	onlyByMark := phase == pending && (why.byMark || why.last && id == "") || why.byMark && phase == succeeded && id == ""
	// The id may be that of an earlier resource, as of a backup: a create follows where nothing is found.
	byMark := onlyByMark || (id == "" && (why.byMark || phase == pending) || why.byMark && !why.last) && v.o.Detail == nil
	m, _ := ctx.Value(runKey{}).(*memory)
	if m != nil {
		m.byMark = true
	}
	if id == "" && !byMark {
		return Observation{}, nil
	}
	at := time.Now()
	if inRun(ctx) {
		var left bool
		if at, left = v.leave(o.Key(), id, freshened(ctx)); left {
			return Observation{}, errListing
		}
	}
	var r R
	var exists bool
	var err error
	if id != "" {
		r, exists, err = v.lookAsOf(ctx, id, at)
	}
	if byMark && !exists && err == nil {
		var ids []string
		var begun time.Time
		ids, begun, err = v.findByMark(ctx, o, at, id == "" && !why.located && (phase == untried || phase == failed))
		for i := 0; i < len(ids) && !exists && err == nil; i++ {
			if ids[i] == id {
				continue // it was found gone
			}
			if r, exists, err = v.lookAsOf(ctx, ids[i], at); exists && v.named {
				o.Intent.ExternalName = ids[i]
			}
		}
		// A list of before then does not show that there is none.
		since := later(why.since, why.learned.Add(v.o.Settle))
		if !exists && err == nil && onlyByMark && inRun(ctx) && begun.Before(since) {
			err = &notDueError{later(since, begun.Add(v.o.Fresh)).Add(minListWait)}
		}
	}
	if err != nil {
		return Observation{}, err
	}
	says, unclear := v.letterCase(o, id, r, exists, byMark, why.last)
	if unclear {
		return Observation{}, fmt.Errorf("%w: %s%s", errLetterCase, says, askLetters)
	}
	if !exists {
		return Observation{}, nil
	}
	if m != nil {
		m.caseOnly = says
		m.deleted = v.unsettled(deletedFor{o.UID, v.id(r)})
		m.old = !freshened(ctx) && v.restsOnOldDetail(v.id(r), at)
	}
	return v.compare(o, r), nil
}

// restsOnOldDetail says whether an answer of recall is by what Detail read longer than Fresh before.
func (v *Inventory[S, T, R]) restsOnOldDetail(id ident, at time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	d, known := v.detail[id]
	return known && !recent(d.begun, v.o.Fresh, at) && !recent(v.single[id].begun, v.o.Fresh, at)
}

// findByMark is the ids of what carries the mark of o by a list, and when that was begun. With
// former those come last that earlier objects of the key left behind, the newest first.
func (v *Inventory[S, T, R]) findByMark(ctx context.Context, o *store.Object[S, T], at time.Time, former bool) (ids []string, begun time.Time, err error) {
	if v.o.Detail != nil {
		return nil, begun, reconcile.Terminal(fmt.Errorf("%w: a list without details has no marks to find the resource by; look for it, then say what you found by \"tend created\" or \"tend not-created\"", ErrCreateIncomplete))
	}
	if v.failing(at) {
		return nil, begun, errors.New("external: inventory: only a list can show the resource, and the newest one failed")
	}
	if err := v.refresh(ctx, at); err != nil {
		return nil, begun, err
	}
	v.mu.Lock()
	list := v.list
	v.mu.Unlock()
	mark := v.o.Letters.mark(v.markFor(o))
	uid := mark.UID
	mark.UID, mark.Declared = "", 0
	owner := func(id string) Mark { m, _ := v.o.Owner(list.byID[v.o.Letters.id(id)]); return v.o.Letters.mark(m) }
	var unsaid, left []string
	for _, id := range list.marks()[mark] {
		switch owner(id).UID {
		case uid:
			ids = append(ids, id)
		case "": // there may have been no room for it
			unsaid = append(unsaid, id)
		default:
			left = append(left, id)
		}
	}
	if ids = append(ids, unsaid...); !former {
		return ids, list.begun, nil
	}
	slices.SortFunc(left, func(a, b string) int {
		return cmp.Or(cmp.Compare(owner(b).Declared, owner(a).Declared), cmp.Compare(a, b))
	})
	return append(ids, left...), list.begun, nil
}

// marks is the ids of those resources by their marks.
func (v *Inventory[S, T, R]) marks(byID map[ident]R) map[Mark][]string {
	ids := map[Mark][]string{}
	for _, r := range byID {
		if mark, marked := v.o.Owner(r); marked {
			mark = v.o.Letters.mark(mark)
			mark.UID, mark.Declared = "", 0
			ids[mark] = append(ids[mark], v.o.ID(r))
		}
	}
	return ids
}

func (v *Inventory[S, T, R]) compare(o *store.Object[S, T], r R) Observation {
	seen := v.o.Compare(o, r)
	seen.Diff = v.o.Store.Redact(seen.Diff, o)
	seen.Exists = true
	if seen.Owner == Unreported {
		mark, marked := v.o.Owner(r)
		seen.Owner, _ = v.o.Letters.compare(v.markFor(o), mark, marked)
	}
	return seen
}
