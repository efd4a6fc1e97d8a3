package reconcile

import (
	"cmp"
	"context"
	"encoding"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile/internal/recent"
	"github.com/tendhq/tend/store"
)

// An Inspection is a controller as pages and tools see it that do not know the type of its
// keys: keys go in and out in their printed form, which is that of fmt.Sprint, and no other text
// of a key is taken. [Inspect] gives it. Its methods are safe for concurrent use; those with a
// context may take long where there are many keys.
type Inspection interface {
	// Keys gives some of the keys in the queue: those whose printed form contains a text,
	// and with o.Failed those that are Failing. What it costs is said at
	// queue.Queue.Page; ctx bounds it.
	Keys(ctx context.Context, contains string, o *queue.PageOptions) (queue.Page[KeySnapshot], error)
	// Key is one key of the queue; not ok: the queue does not know it, because there
	// is nothing to run for it.
	Key(ctx context.Context, printed string) (k KeySnapshot, ok bool)
	// Do carries an action out on a printed key; an empty one means the controller as
	// a whole, which can be paused and resumed. Why is shown as the reason. It fails
	// with ErrNoKey if the key cannot be found or read, and as Controller.Kick does.
	Do(ctx context.Context, a Action, printed, why string) error
	// Inspector is what the page and the metrics of tend ask besides, and changes with them.
	introspect.Inspector
}

func (m *machine[K]) inspect() Inspection { return inspection[K]{m} }

// inspection implements Inspection.
type inspection[K comparable] struct{ of *machine[K] }

func (c inspection[K]) Name() string                    { return c.of.Name() }
func (c inspection[K]) Counts() introspect.Counts       { return c.of.counts() }
func (c inspection[K]) SetWorkers(n int) error          { return c.of.SetWorkers(n) }
func (c inspection[K]) Snapshot() introspect.Controller { return c.of.condition().Controller }

// QueueStats implements Inspection.
func (c inspection[K]) QueueStats() queue.Stats { return c.of.Queue().Stats() }

// ErrNoKey says that a controller's queue has no key that is printed like that.
var ErrNoKey = errors.New("no such key")

// KeySnapshot is one key, its state, and why it does not run.
type KeySnapshot struct {
	Key      string    `json:"key"`
	State    string    `json:"state"`
	Why      string    `json:"why,omitempty"` // it does not run although it could
	Since    time.Time `json:"since"`         // in that state
	Next     time.Time `json:"next,omitzero"` // when it runs, if that is known
	Attempts int       `json:"attempts,omitempty"`
	// Failing says that the last run returned an error, those not counted that were asked to
	// wait. A run that asks for Result.Requeue raises Attempts and is no failure.
	Failing bool `json:"failing,omitempty"`
	// FailingSince is when the first of the failures in a row was, however often the key was
	// kicked or asked to wait since. Zero: it does not fail, or more than 100,000 keys do.
	FailingSince time.Time `json:"failingSince,omitzero"`
	Panicked     bool      `json:"panicked,omitempty"` // the last failure was a panic
	// Newer says that the runs stand off because a newer version of the program stored the
	// object, see [CheckNewer].
	Newer bool `json:"newer,omitempty"`
	// Paused says that ActionPause holds the key, or one hold of the program's own.
	Paused bool `json:"paused,omitempty"`
	// Throttled says that the last run ended because what it calls asked for a pause,
	// which counts as no failure; Error has the text.
	Throttled bool     `json:"throttled,omitempty"`
	Error     string   `json:"error,omitempty"` // of the last run, until one succeeds
	Reasons   []string `json:"reasons,omitempty"`
	Priority  int      `json:"priority,omitempty"`
	Tenant    string   `json:"tenant,omitempty"`
}

// Keys implements Inspection.
func (c inspection[K]) Keys(ctx context.Context, contains string, o *queue.PageOptions) (page queue.Page[KeySnapshot], err error) {
	var opts queue.PageOptions
	if o != nil {
		opts = *o
	}
	var match func(K) bool
	if contains != "" {
		match = containing[K](contains)
	}
	for {
		p, err := c.of.Queue().Page(ctx, match, &opts)
		if err != nil {
			return queue.Page[KeySnapshot]{}, fmt.Errorf("reconcile: controller %q: keys: %w", c.of.Name(), err)
		}
		page.Next, page.More, page.Looked = p.Next, p.More, max(page.Looked, p.Looked)
		for _, e := range p.Entries {
			if !opts.Failed || failed(e.LastError) {
				page.Entries = append(page.Entries, c.keySnapshot(e))
			}
		}
		// The queue takes keys that were asked to wait for failed ones: a page of those alone goes on.
		if !p.More || len(page.Entries) > 0 || ctx.Err() != nil {
			return page, nil //nolint:nilerr // what was found until then, and where to go on
		}
		opts.From = p.Next
	}
}

// Key implements Inspection.
func (c inspection[K]) Key(ctx context.Context, printed string) (k KeySnapshot, ok bool) {
	key, err := c.keyOf(ctx, printed)
	if err != nil {
		return k, false
	}
	e, ok := c.of.Queue().Lookup(key)
	if ok {
		k = c.keySnapshot(e)
	}
	return k, ok // what is not there is in no state, also not in that of an Entry that is zero
}

func (c inspection[K]) keySnapshot(e queue.Entry[K]) KeySnapshot {
	s := KeySnapshot{
		Key: fmt.Sprint(e.Key), State: e.State.String(), Why: e.Why, Since: e.Since, Next: e.Next,
		Attempts: e.Attempts, Reasons: e.Reasons, Priority: e.Priority.Int(), Tenant: e.Tenant,
	}
	if e.LastError != nil {
		s.Error = fmt.Sprint(e.LastError) // survives an Error method that panics
		s.Throttled, s.Failing = askedToWait(e.LastError), failed(e.LastError)
		_, s.Panicked = errors.AsType[*PanicError](failureOf(e.LastError))
		s.Newer = s.Failing && errors.Is(e.LastError, store.ErrNewer)
	}
	if s.Failing {
		s.FailingSince = c.of.k.fails.since(e.Key)
	}
	s.Paused = e.State == queue.StateHeld && !strings.Contains(e.Why, waitingForCache)
	return s
}

// containing compares without printing, where that is possible: a page looks at
// every key.
func containing[K comparable](text string) func(K) bool {
	if f, ok := any(func(k store.Key) bool { return keyContains(k, text) }).(func(K) bool); ok {
		return f
	}
	if f, ok := any(func(k string) bool { return strings.Contains(k, text) }).(func(K) bool); ok {
		return f
	}
	return func(k K) bool { return strings.Contains(fmt.Sprint(k), text) }
}

// keyContains is strings.Contains(k.String(), text), without making that string.
func keyContains(k store.Key, text string) bool {
	if strings.Contains(k.Name, text) || strings.Contains(k.Namespace, text) {
		return true
	}
	// A namespace has no slash, so the first one in text is the one between, if it is printed.
	before, after, slash := strings.Cut(text, "/")
	return slash && (k.Namespace != "" || strings.Contains(k.Name, "/")) &&
		strings.HasSuffix(k.Namespace, before) && strings.HasPrefix(k.Name, after)
}

// keyOf reads a printed key. A key that cannot be read from its printed form has to be in
// the queue, and is looked for there.
func (c inspection[K]) keyOf(ctx context.Context, printed string) (key K, err error) {
	switch k := any(&key).(type) {
	case *string:
		*k = printed
		return key, nil
	case encoding.TextUnmarshaler:
		err := k.UnmarshalText([]byte(printed))
		// Another text of the key may have been compared with that of keys that are not allowed.
		if err == nil && fmt.Sprint(key) == printed {
			return key, nil
		}
		if _, ours := any(key).(store.Key); ours {
			return key, fmt.Errorf("%w: %w", ErrNoKey, cmp.Or(err, errors.New("it is not printed like that")))
		}
	}
	p, err := c.of.Queue().Page(ctx, func(k K) bool { return fmt.Sprint(k) == printed }, &queue.PageOptions{Limit: 1})
	switch {
	case err != nil:
		return key, err
	case len(p.Entries) == 0:
		return key, ErrNoKey
	}
	return p.Entries[0].Key, nil
}

// An Action is what an operator asks of a controller, or of one of its keys.
type Action string

// The actions.
const (
	// ActionKick runs the key at once: it ends a backoff and a park.
	ActionKick Action = "kick"
	// ActionForget takes the key out of the queue, and its attempts with it. It
	// comes back as soon as a source names it.
	ActionForget Action = "forget"
	// ActionPause keeps the key, or all of them, from running until ActionResume.
	// It is a pause of this process, not the lasting one of an object.
	ActionPause Action = "pause"
	// ActionResume ends ActionPause.
	ActionResume Action = "resume"
)

// heldByOperator is the name of the holds that ActionPause makes.
const heldByOperator = "operator"

// Do implements Inspection.
func (c inspection[K]) Do(ctx context.Context, a Action, printed, why string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("reconcile: controller %q: %s %.200s: %w", c.of.Name(), a, printed, err)
		}
	}()
	var key K
	scope := c.of.Queue().Whole()
	if printed != "" {
		if key, err = c.keyOf(ctx, printed); err != nil {
			return err
		}
		scope = c.of.Queue().OfKey(key)
	} else if a != ActionPause && a != ActionResume {
		return errors.New("needs a key")
	}
	switch a {
	case ActionKick:
		return c.of.add(key, kick)
	case ActionForget:
		if !c.of.Queue().Remove(key) {
			return ErrNoKey
		}
	case ActionPause:
		c.of.Queue().Hold(scope, queue.Hold{Name: heldByOperator, Reason: why})
	case ActionResume:
		if !c.of.Queue().Release(scope, heldByOperator) {
			return errors.New("it was not paused")
		}
	default:
		return errors.New("there is no such action")
	}
	return nil
}

// Leases implements Inspection.
func (c inspection[K]) Leases() []introspect.Lease {
	v := c.of.k.view.Load()
	if !v.leased {
		return nil
	}
	p := ungrouped(v.place)
	holder, _ := p.(interface {
		Holder(shard int) (string, bool)
	})
	list := make([]introspect.Lease, len(v.holds))
	for i := range list {
		l := p.Lease(i)
		_, held := l.Held()
		list[i] = introspect.Lease{Shard: i, Name: l.Name(), Held: held, Running: v.holds[i].Load() != nil}
		if holder != nil {
			list[i].Holder, _ = holder.Holder(i)
		}
	}
	return list
}

// LeaseOf implements Inspection.
func (c inspection[K]) LeaseOf(ctx context.Context, printed string) (l introspect.Lease, ok bool) {
	leases := c.Leases()
	if len(leases) == 1 {
		return leases[0], true // no key is another's
	}
	key, err := c.keyOf(ctx, printed)
	if len(leases) == 0 || err != nil {
		return l, false
	}
	shard, ok := c.of.k.shardOf(key)
	if !ok {
		return l, false
	}
	return leases[shard], true
}

var runResults = [resultKinds]string{
	resultSuccess: introspect.RunSucceeded, resultRequeue: introspect.RunSucceeded, resultRequeueAfter: introspect.RunSucceeded,
	resultError: introspect.RunFailed, resultTerminal: introspect.RunParked, resultThrottled: introspect.RunThrottled, resultCanceled: introspect.RunCanceled,
}

// KeepRuns implements Inspection.
func (c inspection[K]) KeepRuns() {
	c.of.k.changeView(func(v *view[K]) {
		if v.recent == nil {
			v.recent = recent.New[K](c.of.k.epoch)
		}
	})
}

// RecentRuns implements Inspection.
func (c inspection[K]) RecentRuns(ctx context.Context, printed string) (all []introspect.Ended) {
	kept := c.of.k.view.Load().recent
	if kept == nil {
		return nil
	}
	key, err := c.keyOf(ctx, printed)
	if err != nil {
		var found bool
		if key, found = kept.Printed(printed); !found {
			return nil
		}
	}
	for _, r := range kept.Of(key) {
		all = append(all, introspect.Ended{Ended: r.Ended, Took: r.Took, Result: runResults[r.Kind]})
	}
	return all
}
