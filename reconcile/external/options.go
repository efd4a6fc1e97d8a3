package external

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/reconcile/internal/object"
	"github.com/tendhq/tend/store"
)

// Options tunes a [Reconciler]. Nil and zero fields mean the stated default;
// New copies them.
//
// All workers call its functions, each for the object of its run, so they must be safe for
// concurrent use. One that blocks holds its worker. [Reconciler.Plan] calls Policy and
// Location too.
type Options[S, T any] struct {
	// Policy says what may be done about an object's resource; nil: [All], or
	// what the object's [PolicyAnnotation] says. An error, or a set that is not
	// valid, permits nothing and is shown; the empty set, [Paused], has the object left
	// alone, and Policy is called again at its poll interval. It is called at the same time for
	// several objects.
	Policy func(o *store.Object[S, T]) (Policy, error) // o is read-only
	// Naming says how a create of unknown outcome is resolved; zero: [ByCloud],
	// that is, by a human.
	Naming Naming
	// ExclusiveCreate declares of the client's Create that it makes the resource in
	// one call, with its ownership mark, and that it fails with an error that wraps
	// [ErrExists] where the name is taken, be it by a resource of our own. Then a
	// create is a question as good as a look: where the list of an [Inventory] says
	// that the resource is missing, no single look comes before the create. It needs
	// [ByUs]. False: each create is preceded by a look at the resource itself, as is
	// necessary where a create overwrites what is there, or succeeds on it.
	ExclusiveCreate bool
	// Location says where the object's resource lies by its spec, for people: "account red,
	// eu-1, zone-17". Nil: that is not looked at.
	//
	// The text is recorded with the create, or once when a resource that has none on record is
	// found to be the object's, and as declared. From then on a spec that says another location
	// stops the object with [ErrLocationChanged]: calls would go there, find nothing, and
	// create a second resource. As long as none is on record (Intent.Location of the stored
	// object) an edit is not noticed.
	//
	// The text names all that decides where calls go, defaults included, and each location
	// always by the same words: one that is only spelt otherwise is another. It leaves out what
	// does not decide it, such as the region of a bucket whose name leads to it from every
	// region, and secrets. It must not depend on the status. Empty means that the location is not
	// known, and that the resource is found wherever it lies, as in a zone that the cloud chooses
	// and Observe fills in: it is compared with nothing. O is read-only. It is called at the
	// same time for several objects.
	Location func(o *store.Object[S, T]) string
	// CreationGrace is how long a resource may take to become visible after it
	// was created; zero: 30 s. Until it is over the resource is neither created
	// again nor, in a deletion, taken for gone. It is measured by this process's
	// own monotonic clock, from when the process learned of the create: after a
	// restart, or where another server had the key, from its first look at the
	// object. Wall clocks, which may differ and jump, have no part in it. With an
	// [Inventory] set it to no less than its Settle: only what is looked for by its mark is
	// waited for so long by itself.
	CreationGrace time.Duration

	// Poll is the time from a success to the next look at the resource; zero:
	// 1 minute.
	Poll time.Duration
	// PollJitter is added to or taken from it at random; zero: a tenth of Poll;
	// negative: none.
	PollJitter time.Duration
	// PollPhase gives every object its own moment in each interval, a hash of its
	// key, in place of the jitter. A restarted process then does not look at
	// everything at once: an object that was in order waits for its moment, while
	// one that was edited or deleted meanwhile, or was not in order, is looked at
	// at once. During its first interval a process takes what wakes an object
	// that is in order (a webhook, say) for the restart; the annotation
	// [store.AnnotationReconcileNow] is heard at any time. A run that waits for its
	// moment has not looked, and package program does not count it: a program that ends when
	// all is as declared takes up to an interval with it.
	PollPhase bool
	// MinPoll is the least that an object's own interval may ask for, its annotation "tend.poll";
	// zero: 10 s, or Poll if that is less.
	MinPoll time.Duration
	// PollHook changes the interval of an object, before the jitter: more often
	// before maintenance, seldom at night. What it returns is final; zero or
	// less: no poll. It is called at the same time for several objects. Nil: none.
	PollHook func(o *store.Object[S, T], d time.Duration) time.Duration

	// Timeout bounds all calls of one run to the client and the connector
	// together; zero: 1 minute. Writes to the store go by the run's own
	// deadline, so that a timeout can still be recorded.
	Timeout time.Duration
	// Finalizer is put on every object before anything is done outside; empty:
	// [lifecycle.FinalizerName] of the kind and "external".
	Finalizer string
	// Persist writes what must not be lost, the outcome of a create: it applies
	// edit to the object as stored, and nothing else. Nil: compare-and-swap,
	// again after conflicts and failures, on a context that survives the run's
	// cancellation and is bounded by 30 s. It is called at the same time for several objects.
	Persist func(ctx context.Context, key store.Key, edit func(*store.Object[S, T]) error) error

	// DeleteLimit is how many resources one process may delete with their objects within an
	// hour; a deletion that is tried again counts once. What goes beyond it waits, on every
	// server, also on processes that start later, for [Reconciler.AllowDeletes] or
	// [Reconciler.ResumeDeletes]. Zero: there is no limit.
	//
	// Each process counts its own deletions, in memory. The count begins at zero with each
	// start of the process, and a server that takes keys over does not know what the one
	// before deleted: n servers delete up to n times as many in an hour, and more after restarts.
	DeleteLimit int

	// Depends says what the objects need: an object is looked at and brought about when
	// its needs are met, says in its conditions what it waits for until then, and runs
	// again when they change; [Reconciler.Controller] watches for that. Nil: they need
	// nothing. Whatever is set, an object in deletion that others use waits until they
	// have gone.
	Depends *depend.Tracker[S, T]

	// Publisher hands on what a client sets as o.Intent.Outputs, and withdraws it before the object goes.
	// Nil: outputs are dropped, which a warning in the log says.
	//
	// What a create returned is lost if the process ends on the way to the store, or if its outcome
	// was unknown, it set none with its error, and the resource is found later. Then the object is not Ready,
	// with the reason OutputsLost, until a client that is a [Rotator] has replaced it, an Update has set
	// outputs, the resource was removed and is created again, or a person says that it replaced them
	// ("tend outputs-restored", [objects.OutputsRestored]). Resources that were taken over, or made while
	// there was no Publisher, have nothing to lose.
	Publisher Publisher[S, T]

	// Changes is told of each create, update and delete that was tried, with
	// what was seen before it; an error of [ratelimit.Throttled] says that the call was put
	// off, and is made again. It is called during the run, at the same time by
	// several runs, and the run's worker waits for it: a send to a channel that
	// nothing drains stops all workers. A panic in it is logged. Nil: there is none.
	Changes func(ctx context.Context, c Change)
}

// PolicyAnnotation on an object is its own policy, as [ParsePolicy] reads it.
// An edit of it runs the object, as an edit of the spec does.
const PolicyAnnotation = "tend.policy"

// errTimeout is why a client's context ended, when it was our doing.
var errTimeout = fmt.Errorf("external: the calls of this run took longer than Options.Timeout: %w", context.DeadlineExceeded)

const (
	defaultGrace   = 30 * time.Second
	defaultPoll    = time.Minute
	defaultMinPoll = 10 * time.Second
	defaultTimeout = time.Minute
)

// complete fills in the defaults and refuses what cannot work.
func (o *Options[S, T]) complete(kind string) error {
	for name, d := range map[string]time.Duration{
		"CreationGrace": o.CreationGrace, "Poll": o.Poll, "MinPoll": o.MinPoll, "Timeout": o.Timeout,
	} {
		if d < 0 {
			return fmt.Errorf("external: Options.%s is %v, want zero or more", name, d)
		}
	}
	if o.Naming > lastNaming {
		return fmt.Errorf("external: Options.Naming is %d, which is none of ByCloud, ByUs, ByMark", o.Naming)
	}
	if o.DeleteLimit < 0 {
		return fmt.Errorf("external: Options.DeleteLimit is %d, want zero or more", o.DeleteLimit)
	}
	if o.ExclusiveCreate && o.Naming != ByUs {
		return errors.New("external: Options.ExclusiveCreate needs Naming ByUs: only a name that is chosen before the create can be taken")
	}
	o.CreationGrace = cmp.Or(o.CreationGrace, defaultGrace)
	o.Poll = cmp.Or(o.Poll, defaultPoll)
	o.PollJitter = cmp.Or(o.PollJitter, o.Poll/10)
	o.MinPoll = cmp.Or(o.MinPoll, min(defaultMinPoll, o.Poll))
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	if o.PollJitter > o.Poll {
		return fmt.Errorf("external: Options.PollJitter is %v, more than Poll, which is %v", o.PollJitter, o.Poll)
	}
	if o.Depends != nil && o.Depends.Kind() != kind {
		return fmt.Errorf("external: Options.Depends is of kind %q, want %q", o.Depends.Kind(), kind)
	}
	if o.Policy == nil {
		o.Policy = annotatedPolicy[S, T]
	}
	return o.completeFinalizer(kind)
}

func (o *Options[S, T]) completeFinalizer(kind string) (err error) {
	if o.Finalizer == "" {
		o.Finalizer, err = object.FinalizerName(kind, "external")
		return err
	}
	return object.CheckFinalizer(o.Finalizer)
}

func annotatedPolicy[S, T any](o *store.Object[S, T]) (Policy, error) {
	if text, ok := o.Annotations[PolicyAnnotation]; ok {
		return ParsePolicy(text)
	}
	return All, nil
}

// Change is something that was done to the outside, or tried.
type Change struct {
	Kind   string
	Key    store.Key
	UID    string
	Action string // "create", "update", "rotate" or "delete"
	// Before is what Observe saw just before, with the diff that led to the
	// change.
	Before Observation
	// ExternalName is what the resource is called outside, where it is known.
	ExternalName string
	Attempt      int // of the create; zero for the others
	Start        time.Time
	Took         time.Duration
	Err          error // nil: it succeeded
}

// LogChanges is a [Options.Changes] that writes each change as one line, at
// level info, warn if it failed, or debug if it was put off ([ratelimit.Throttled]). Nil is
// slog.Default().
func LogChanges(log *slog.Logger) func(context.Context, Change) {
	return func(ctx context.Context, c Change) {
		level := slog.LevelInfo
		args := []any{
			"action", c.Action, "kind", c.Kind, "key", c.Key, "uid", c.UID, "external", c.ExternalName,
			"took", c.Took, "existed", c.Before.Exists,
		}
		if c.Before.Diff != "" {
			args = append(args, "diff", store.Clip(c.Before.Diff))
		}
		if c.Err != nil {
			if level = slog.LevelWarn; ratelimit.IsThrottled(c.Err) {
				level = slog.LevelDebug
			}
			args = append(args, "err", store.Brief(c.Err))
		}
		cmp.Or(log, slog.Default()).Log(ctx, level, "external change", args...)
	}
}

var (
	errNoStore     = errors.New("external: the store is nil")
	errNoConnector = errors.New("external: the connector is nil; Nop is one that does nothing")
)
