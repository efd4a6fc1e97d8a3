package external_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/store"
)

// bulkClient is a diskClient of a cloud that observes and deletes many disks by one call.
type bulkClient struct {
	diskClient
	quota *quota.Quota

	mu       sync.Mutex // guards what follows
	observes []int      // the sizes of the batches
	deletes  []int
	refuse   string // the name of a disk that cannot be deleted
}

func (c *bulkClient) ObserveBatch(ctx context.Context, objects []*disk) []external.Outcome[external.Observation] {
	c.mu.Lock()
	c.observes = append(c.observes, len(objects))
	c.mu.Unlock()
	all := make([]external.Outcome[external.Observation], len(objects))
	err := c.quota.Do(ctx, quota.Read, func(context.Context) error { return nil })
	for i, o := range objects {
		if all[i].Err = err; err == nil {
			all[i].Value, all[i].Err = c.diskClient.Observe(ctx, o)
		}
	}
	return all
}

func (c *bulkClient) DeleteBatch(ctx context.Context, objects []*disk) []error {
	c.mu.Lock()
	c.deletes = append(c.deletes, len(objects))
	refuse := c.refuse
	c.mu.Unlock()
	all := make([]error, len(objects))
	err := c.quota.Do(ctx, quota.Write, func(context.Context) error { return nil })
	for i, o := range objects {
		switch {
		case err != nil:
			all[i] = err
		case o.Name == refuse:
			all[i] = errors.New("protected")
		default:
			all[i] = c.diskClient.Delete(ctx, o)
		}
	}
	return all
}

func sum(all []int) (n int) {
	for _, one := range all {
		n += one
	}
	return n
}

// 400 looks and 400 deletions go out in batches of 100, each paid once, and one that
// cannot be deleted fails alone.
//
// Negative control: with batches of one the test fails, with a call for each look.
func TestManyAreObservedAndDeletedByFewCalls(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const n, most = 400, 100
		q := newQuota(quota.Rate{PerSecond: 10, Burst: 5}, quota.Rate{PerSecond: 10, Burst: 5})
		bulk := &bulkClient{diskClient: w.client, quota: q}
		keys := w.populate(n)
		w.with(external.Always(must(external.Gather[diskSpec, diskStatus](bulk, &external.BatchOptions{Most: most}))))
		o := reconcile.Options[reconcile.Request]{Workers: most, Backoff: queue.Backoff{Base: time.Second, Max: time.Minute}}
		limited, err := quota.Limit(alwaysQuota(q), &o)
		if err != nil {
			t.Fatal(err)
		}
		stop := w.startWith(*limited)
		defer stop()
		time.Sleep(10 * time.Second)
		bulk.mu.Lock()
		if got := len(bulk.observes); sum(bulk.observes) < n || got > 2*n/most+2 {
			t.Errorf("%d looks by %d calls, want %d by about %d", sum(bulk.observes), got, n, n/most)
		}
		bulk.refuse = keys[7].Name
		bulk.mu.Unlock()
		for _, k := range keys {
			if err := w.store.Delete(t.Context(), must(w.store.Get(t.Context(), k))); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(20 * time.Second)
		bulk.mu.Lock()
		defer bulk.mu.Unlock()
		if got := len(bulk.deletes); sum(bulk.deletes) < n || got > n/most+12 { // the one that fails is tried again
			t.Errorf("%d deletes by %d calls, want %d by %d and some for the one that fails", sum(bulk.deletes), got, n, n/most)
		}
		left := must(w.store.List(t.Context(), store.Selector{}))
		if len(left) != 1 || left[0].Name != bulk.refuse || len(w.cloud.Truth()) != 1 {
			t.Fatalf("%d objects and %d disks are left, want the one that is protected", len(left), len(w.cloud.Truth()))
		}
		if c, _ := left[0].Condition(store.ConditionSynced); !strings.Contains(c.Message, "protected") {
			t.Errorf("its condition is %+v, want its own error", c)
		}
	})
}

// A batch goes out when its time is over or when it is full, whichever is first, and the
// end of one caller is not that of the others. No call is made for a caller that has ended
// before: its key may be another server's by then.
//
// promise E2
func TestBatchWaitsForItsTimeOrItsSize(t *testing.T) {
	bubble(t, func(t *testing.T, _ *world) {
		var sizes []int
		b := must(external.NewBatch(func(_ context.Context, items []int) []external.Outcome[string] {
			sizes = append(sizes, len(items))
			all := make([]external.Outcome[string], len(items))
			for i, n := range items {
				all[i].Value = fmt.Sprint(n)
			}
			return all
		}, &external.BatchOptions{Wait: time.Second, Most: 3}))
		begun := time.Now()
		call := func(ctx context.Context, n int, after time.Duration) {
			got, err := b(ctx, n)
			if err != nil || got != fmt.Sprint(n) || time.Since(begun) != after {
				t.Errorf("item %d: %q, %v after %v, want it after %v", n, got, err, time.Since(begun), after)
			}
		}
		for n := range 3 {
			go call(t.Context(), n, 0)
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			if _, err := b(ctx, 4); !errors.Is(err, context.Canceled) {
				t.Errorf("%v, want the caller's own end", err)
			}
		}()
		synctest.Wait()
		go call(t.Context(), 5, time.Second)
		synctest.Wait()
		cancel()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if fmt.Sprint(sizes) != "[3 1]" {
			t.Errorf("batches of %v, want 3, and 1 without the item of the caller that ended", sizes)
		}
	})
}

// A call that panics, or has not one outcome for each item, fails for each of its items and for
// no other: which outcome is whose is not known.
//
// promise E2. Negative control: mutant "a batch with too many outcomes is believed".
func TestBatchThatFailsFailsForEachOfItsItems(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		for name, call := range map[string]func(context.Context, []int) []external.Outcome[int]{
			"panic":   func(context.Context, []int) []external.Outcome[int] { panic("boom") },
			"outcome": func(context.Context, []int) []external.Outcome[int] { return nil },
			"another": func(context.Context, []int) []external.Outcome[int] { return make([]external.Outcome[int], 2) },
		} {
			b := must(external.NewBatch(call, nil))
			if _, err := b(t.Context(), 1); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
		ended, cancel := context.WithCancel(t.Context())
		b := must(external.NewBatch(func(_ context.Context, items []int) []external.Outcome[int] {
			t.Errorf("a batch of %v was called, and all its callers have ended", items)
			return nil
		}, nil))
		cancel()
		_, _ = b(ended, 1)
		time.Sleep(time.Second)
		if _, err := external.NewBatch[int, int](nil, nil); err == nil {
			t.Error("a batch without a call was accepted")
		}
		if _, err := external.Gather[diskSpec, diskStatus](&bulkClient{}, &external.BatchOptions{Most: -1}); err == nil {
			t.Error("a negative size was accepted")
		}
		plain := external.Client[diskSpec, diskStatus](w.client)
		if c := must(external.Gather(plain, nil)); c != plain {
			t.Errorf("a client without batches became %T", c)
		}
	})
}

// A call that ends its goroutine, as t.FailNow does, leaves no caller waiting.
//
// Negative control: mutant "a batch that ends its goroutine is waited for".
func TestBatchThatEndsItsGoroutineFails(t *testing.T) {
	bubble(t, func(t *testing.T, _ *world) {
		b := must(external.NewBatch(func(context.Context, []int) []external.Outcome[int] {
			runtime.Goexit()
			return nil
		}, nil))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := b(ctx, 1); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the call ended with %v, want what became of the batch", err)
		}
	})
}

// statusClient observes by batches, and edits the status.
type statusClient struct {
	external.Client[diskSpec, diskStatus]
	during func()
}

func (c statusClient) ObserveBatch(_ context.Context, objects []*disk) []external.Outcome[external.Observation] {
	c.during()
	all := make([]external.Outcome[external.Observation], len(objects))
	for i, o := range objects {
		o.Status.ID = "seen"
		all[i].Value = external.Observation{Exists: true, UpToDate: true}
	}
	return all
}

// endedContext has ended, and nothing waits for that: the batch's answer is always first.
type endedContext struct {
	context.Context
	ended *atomic.Bool
}

func (c endedContext) Err() error {
	if c.ended.Load() {
		return context.Canceled
	}
	return nil
}

// A look whose caller ends just when the batch answers fails: its object has no status.
func TestLookOfABatchSucceedsWithItsStatusOrNotAtAll(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var ended atomic.Bool
		c := must(external.Gather[diskSpec, diskStatus](statusClient{w.client, func() { ended.Store(true) }}, nil))
		o := new(disk)
		if _, err := c.Observe(endedContext{t.Context(), &ended}, o); !errors.Is(err, context.Canceled) || o.Status.ID != "" {
			t.Errorf("Observe = %v with the status %+v, want an error and no status", err, o.Status)
		}
		ended.Store(false)
		c = must(external.Gather[diskSpec, diskStatus](statusClient{w.client, func() {}}, nil))
		if _, err := c.Observe(t.Context(), o); err != nil || o.Status.ID != "seen" {
			t.Errorf("Observe = %v with the status %+v", err, o.Status)
		}
	})
}

// lateClient looks and deletes by batches, which go on for as long as their gate is shut.
type lateClient struct {
	diskClient
	gate, over chan struct{}
	slow       string // the batches that are late
}

func (c lateClient) late(what string, objects []*disk) {
	if c.slow != what {
		return
	}
	<-c.gate
	for _, o := range objects {
		o.Annotations["late"] = "yes"
	}
	close(c.over)
}

func (c lateClient) ObserveBatch(ctx context.Context, objects []*disk) []external.Outcome[external.Observation] {
	c.late("looks", objects)
	all := make([]external.Outcome[external.Observation], len(objects))
	for i, o := range objects {
		all[i].Value, all[i].Err = c.Observe(ctx, o)
	}
	return all
}

func (c lateClient) DeleteBatch(_ context.Context, objects []*disk) []error {
	c.late("deletions", objects)
	return make([]error, len(objects))
}

// seesObjects keeps the object of the last call.
type seesObjects struct {
	external.Client[diskSpec, diskStatus]
	last **disk
}

func (c seesObjects) Observe(ctx context.Context, o *disk) (external.Observation, error) {
	*c.last = o
	return c.Client.Observe(ctx, o)
}

func (c seesObjects) Delete(ctx context.Context, o *disk) error {
	*c.last = o
	return c.Client.Delete(ctx, o)
}

// A run may be over before its batch is. What it had belongs to others then: its status is
// written, and its secrets are looked for.
//
// Negative control: mutant "a batch has the object of its run".
func TestBatchThatIsLateEditsNoObjectOfARun(t *testing.T) {
	for _, slow := range []string{"looks", "deletions"} {
		bubble(t, func(t *testing.T, w *world) {
			w.converged(func(o *disk) { o.Annotations = map[string]string{"a": "b"} })
			c := lateClient{w.client, make(chan struct{}), make(chan struct{}), slow}
			var last *disk
			w.with(external.Always[diskSpec, diskStatus](seesObjects{must(external.Gather[diskSpec, diskStatus](c, nil)), &last}))
			if slow == "deletions" {
				w.delete()
			}
			_ = w.fails() // its time is over
			close(c.gate)
			<-c.over
			if last.Annotations["late"] != "" {
				t.Errorf("%s: the run's object was edited: %v", slow, last.Annotations)
			}
		})
	}
}

// refusing fails its calls. observesMany and deletesMany make one of them by batches.
type (
	refusing struct {
		external.Client[diskSpec, diskStatus]
	}
	observesMany struct{ refusing }
	deletesMany  struct{ refusing }
	refusingBoth struct {
		observesMany
		many deletesMany
	}
)

var errRefusing = errors.New("refused")

func (refusing) Observe(context.Context, *disk) (external.Observation, error) {
	return external.Observation{}, errRefusing
}
func (refusing) Delete(context.Context, *disk) error { return errRefusing }

func (observesMany) ObserveBatch(_ context.Context, objects []*disk) []external.Outcome[external.Observation] {
	return slices.Repeat([]external.Outcome[external.Observation]{{Err: errRefusing}}, len(objects))
}

func (deletesMany) DeleteBatch(_ context.Context, objects []*disk) []error {
	return slices.Repeat([]error{errRefusing}, len(objects))
}

func (c refusingBoth) DeleteBatch(ctx context.Context, objects []*disk) []error {
	return c.many.DeleteBatch(ctx, objects)
}

// The errors of a client are those of the gathered one, whichever of its calls are made by
// batches.
//
// promise E2. Negative control: mutant "a deletion beside batches of looks always succeeds".
func TestErrorsOfAGatheredClientAreItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		plain := refusing{w.client}
		for _, c := range []external.Client[diskSpec, diskStatus]{
			plain, observesMany{plain}, deletesMany{plain}, refusingBoth{observesMany{plain}, deletesMany{plain}},
		} {
			g := must(external.Gather(c, nil))
			if _, err := g.Observe(t.Context(), new(disk)); !errors.Is(err, errRefusing) {
				t.Errorf("%T: Observe: %v, want %v", c, err, errRefusing)
			}
			if err := g.Delete(t.Context(), new(disk)); !errors.Is(err, errRefusing) {
				t.Errorf("%T: Delete: %v, want %v", c, err, errRefusing)
			}
		}
	})
}

// funcsInBulk is a client of funcs that observes many by one call.
type funcsInBulk struct {
	external.ClientFuncs[diskSpec, diskStatus]
}

func (funcsInBulk) ObserveBatch(_ context.Context, objects []*disk) []external.Outcome[external.Observation] {
	return make([]external.Outcome[external.Observation], len(objects))
}

// What a gathered client lacks is found out before anything is stored for it.
func TestWhatAGatheredClientLacksIsFoundOutFirst(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.with(external.Always(must(external.Gather[diskSpec, diskStatus](funcsInBulk{}, nil))))
		w.declare()
		if err := w.fails(); !errors.Is(err, reconcile.ErrTerminal) || !strings.Contains(err.Error(), "CreateFunc") {
			t.Errorf("got error %v, want a terminal one that names what is missing", err)
		}
		if o := w.get(); len(o.Finalizers) > 0 || o.Intent != (store.Intent{}) {
			t.Errorf("it has the finalizers %v and the intent %+v, want none", o.Finalizers, o.Intent)
		}
	})
}

// The outcomes of a batch of deletions are those of its items, each of its own.
//
// promise E2. Negative control: mutant "a batch of deletions tells the first error alone".
func TestDeletionsOfABatchFailEachForItself(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		bulk := &bulkClient{diskClient: w.client, quota: newQuota(quota.Rate{PerSecond: 10, Burst: 5}, quota.Rate{PerSecond: 10, Burst: 5}), refuse: "d00001"}
		c := must(external.Gather[diskSpec, diskStatus](bulk, &external.BatchOptions{Most: 3}))
		for _, k := range w.populate(3) {
			go func() {
				err := c.Delete(t.Context(), must(w.store.Get(t.Context(), k)))
				if (err != nil) != (k.Name == bulk.refuse) {
					t.Errorf("the deletion of %s: %v", k.Name, err)
				}
			}()
			synctest.Wait() // it waits in the batch
		}
		if fmt.Sprint(bulk.deletes) != "[3]" {
			t.Errorf("batches of %v, want one of three", bulk.deletes)
		}
	})
}

// vaultsInBulk is a client of vaults whose calls for many fail, and quote what was sent.
type vaultsInBulk struct {
	external.ClientFuncs[vaultSpec, diskStatus]
	fails string // one of the cases
}

// sent is an error that quotes the keys of vaults. It clears them, as a client may.
func (c vaultsInBulk) sent(objects []*vault) error {
	text := "refused:"
	for _, o := range objects {
		text += " " + o.Spec.Key
		o.Spec.Key = ""
	}
	return fmt.Errorf("%s: %w", text, errRefusing)
}

// refusals is an error that cannot be compared with another.
type refusals []error

func (r refusals) Error() string { return fmt.Sprint([]error(r)) }

func (r refusals) Unwrap() []error { return r }

func (c vaultsInBulk) ObserveBatch(_ context.Context, objects []*vault) []external.Outcome[external.Observation] {
	all := make([]external.Outcome[external.Observation], len(objects))
	switch c.fails {
	case "look":
		err := c.sent(objects)
		for i := range all {
			all[i].Err = err
		}
	case "look by an error that cannot be compared":
		all[0].Err = refusals{c.sent(objects)}
		all[1].Err = all[0].Err
	case "look of each":
		err := c.sent(objects)
		for i, o := range objects {
			all[i].Err = fmt.Errorf("%s: %w", o.Name, err)
		}
	case "panic":
		panic(c.sent(objects))
	default:
		for i := range all {
			all[i].Value = external.Observation{Exists: true, UpToDate: true}
		}
	}
	return all
}

func (c vaultsInBulk) DeleteBatch(_ context.Context, objects []*vault) []error {
	return slices.Repeat([]error{c.sent(objects)}, len(objects))
}

// An error of a call for many may quote the secrets of all its objects. The run of each knows
// its own only, and told, logged and stored those of the others.
//
// Negative control: mutants "a batch tells the secrets of others" and "a batch tells
// the secrets that its client cleared".
func TestErrorOfABatchTellsNoSecretOfAnotherObject(t *testing.T) {
	for _, fails := range []string{"look", "look by an error that cannot be compared", "look of each", "panic", "deletion"} {
		bubble(t, func(t *testing.T, w *world) {
			vaults := must(store.New[vaultSpec, diskStatus](w.backend, "vault", nil))
			client := must(external.Gather[vaultSpec, diskStatus](vaultsInBulk{
				external.ClientFuncs[vaultSpec, diskStatus]{DeleteFunc: func(context.Context, *vault) error { return nil }}, fails,
			}, nil))
			rec := must(external.New(vaults, external.Always(client), nil))
			names := []string{"v", "w"}
			for _, name := range names {
				must(vaults.Create(t.Context(), &vault{Meta: store.Meta{Name: name}, Spec: vaultSpec{Key: "open-sesame-" + name}}))
			}
			run := func() []error {
				errs := make([]error, len(names))
				var runs sync.WaitGroup
				for i, name := range names {
					runs.Go(func() { _, errs[i] = rec.Reconcile(t.Context(), store.Key{Name: name}) })
				}
				runs.Wait()
				return errs
			}
			if fails == "deletion" {
				run()
				for _, name := range names {
					must(0, vaults.Delete(t.Context(), must(vaults.Get(t.Context(), store.Key{Name: name}))))
				}
			}
			for i, err := range run() {
				if err == nil || !strings.Contains(err.Error(), "refused: (secret) (secret)") || fails != "panic" && !errors.Is(err, errRefusing) {
					t.Errorf("%s: the run of %s ends with %v", fails, names[i], err)
				}
				o := must(vaults.Get(t.Context(), store.Key{Name: names[i]}))
				if text := fmt.Sprint(o.Conditions); strings.Contains(text, "sesame") || !strings.Contains(text, "(secret)") {
					t.Errorf("%s: the conditions of %s are %s", fails, names[i], text)
				}
			}
		})
	}
}

// touchy is a secret whose method panics when it is armed.
type touchy string

var armed atomic.Bool

func (s touchy) MarshalText() ([]byte, error) {
	if armed.CompareAndSwap(true, false) {
		panic("a bug")
	}
	return []byte(s), nil
}

type touchySpec struct {
	Key touchy `tend:"secret"`
}

// touchyInBulk is a client whose looks fail when the secrets have been armed.
type touchyInBulk struct {
	external.ClientFuncs[touchySpec, diskStatus]
}

func (touchyInBulk) ObserveBatch(_ context.Context, objects []*store.Object[touchySpec, diskStatus]) []external.Outcome[external.Observation] {
	armed.Store(true)
	return slices.Repeat([]external.Outcome[external.Observation]{{Err: fmt.Errorf("refused %s", objects[0].Spec.Key)}}, len(objects))
}

// A method of a secret that panics beside a batch fails the runs, of whose error nothing is shown:
// which part of it is secret is not known.
//
// promise R6
func TestPanicOfASecretBesideABatchFailsItsRuns(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := must(store.New[touchySpec, diskStatus](w.backend, "touchy", nil))
		must(s.Create(t.Context(), &store.Object[touchySpec, diskStatus]{Meta: store.Meta{Name: "v"}, Spec: touchySpec{"open-sesame"}}))
		rec := must(external.New(s, external.Always(must(external.Gather[touchySpec, diskStatus](touchyInBulk{}, nil))), nil))
		if _, err := rec.Reconcile(t.Context(), store.Key{Name: "v"}); err == nil || !strings.Contains(err.Error(), "a secret panicked") {
			t.Errorf("the run ends with %v", err)
		}
	})
}
