package queue

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"reflect"
	"runtime"
	"time"

	"github.com/tendhq/tend/queue/ratelimit"
)

// Errors of Add and Get.
var (
	// ErrStopped says that the queue takes no more keys, or gives none any more.
	ErrStopped = errors.New("queue: stopped")
	// ErrFull says that Options.MaxKeys keys are in the queue. Keys that are in it
	// can still be added; a source that gets ErrFull lists again later.
	ErrFull = errors.New("queue: full")
)

// Priority is a band from -128 to 127; keys of a higher band run first. The
// zero Priority means keep: what the key has, or At(0) for a new key.
type Priority struct {
	n int16 // band + 1, 0: keep
}

// At is the priority n.
func At(n int8) Priority { return Priority{int16(n) + middle + 1} }

func atBand(b uint8) Priority { return Priority{int16(b) + 1} }

// Int is the number the priority was made from, 0 for the zero Priority.
func (p Priority) Int() int {
	if p.n == 0 {
		return 0
	}
	return int(p.n) - middle - 1
}

// isZero tells whether p means keep.
func (p Priority) isZero() bool { return p.n == 0 }

func (p Priority) String() string {
	if p.n == 0 {
		return "keep"
	}
	return fmt.Sprint(p.Int())
}

// band is that of a priority that is not zero.
func (p Priority) band() uint8 { return uint8(p.n - 1) }

// AddOptions says how a key is added. The zero value is what Add does.
type AddOptions struct {
	// After is how long the key does not run yet; zero or less: it runs at once.
	After time.Duration
	// Priority is the band; zero: keep. Of two adds the higher one counts.
	Priority Priority
	// Urgent says that something besides the key's own runs wants it to run: its
	// spec changed, its deletion was asked for, an operator asked. An urgent add
	// ends a backoff and a park and starts the attempts again from 0. A key's own
	// writes are never urgent.
	Urgent bool
	// KeepAttempts makes an urgent add leave the attempts as they are: it ends a
	// backoff and a park, and the next failure waits for as long as it would have
	// without it. It is for what may be the cure of a failure and comes again and
	// again, such as a dependency that becomes ready. Without Urgent it means nothing.
	KeepAttempts bool
	// Replace makes this time and this priority win over those the key has: a key
	// that is ready can be put off. Of a running key only what comes after the run
	// is replaced. Unless Urgent is set too, a backoff can be put off and not
	// shortened.
	Replace bool
	// Reason is shown by Snapshot until the key runs. Use few different ones: a
	// queue tells 31 apart, further ones are shown as "other".
	Reason string
}

// Options configures New. A nil *Options and zero fields mean what is said
// beside the field. They are copied.
type Options[K comparable] struct {
	// Name is shown by String, Stats and errors. Default "queue".
	Name string
	// Policy gives the delay after a failure. Default Backoff{}.Policy().
	// It is called without a lock, from several goroutines.
	Policy Policy
	// MaxAttempts parks a key that has failed so often in a row. Default 0:
	// never.
	MaxAttempts int
	// MaxKeys bounds the keys in the queue, running ones included: one more is
	// ErrFull. Default 0: no bound. A key that only came in by Hold counts, but is
	// not refused.
	MaxKeys int
	// Shards is how many locks share the keys; each has an order of its own.
	// 1 gives one order. Default 0: four for each processor but at most 16, one if
	// there is one processor, and 1 when Tenant or Buckets is set, which need one
	// order. At most 64; it is rounded up to a power of two.
	Shards int
	// Tenant names the tenant of a key. Tenants take turns inside a band, and in
	// the line of a bucket. Default nil: all keys are alike. It is called without
	// a lock.
	Tenant func(key K) string
	// TenantWeight is how many keys of a tenant run in a turn. Default nil, and
	// what it gives below 1: 1. It is called without a lock, with each add. It needs
	// Tenant.
	TenantWeight func(tenant string) int
	// TenantRunning caps how many keys of one tenant run at once. Default 0:
	// no cap. It needs Tenant.
	TenantRunning int
	// Buckets appends to dst the buckets that a run of key takes a token from, all
	// of them or none; nil ones do not count, and one that is there twice counts once. It
	// is called without a lock, each time the key is about to run. If it panics, so does
	// Get or GetBatch, and the keys that it was about to give back off for a second; no
	// token is taken for them. Default nil: no bucket.
	Buckets func(key K, dst []*ratelimit.Bucket) []*ratelimit.Bucket
	// Hooks are called when something happens. Default nil: none is.
	Hooks *Hooks[K]
	// UncheckedKeys lets New accept a key type that holds a pointer, an interface
	// or a float. Two such keys can look alike and be different, or never be found
	// again (NaN); it is for code that has such keys already, as that of package
	// workqueue.
	UncheckedKeys bool
}

// Hooks are called when something happens. Any may be nil. They are called without
// a lock and may call the queue; but HoldExpired must not wait in Drain or Stop,
// which wait for it.
type Hooks[K comparable] struct {
	// Parked: the key was parked by Item.Park.
	Parked func(key K, attempts int, err error)
	// Exhausted: the key was parked because the policy or MaxAttempts gave up.
	Exhausted func(key K, attempts int, err error)
	// HoldExpired: a hold reached its maximum and counts no more.
	HoldExpired func(over Scope[K], reason string)
}

// complete checks the options and fills in the defaults.
func (o *Options[K]) complete() error {
	o.Name = cmp.Or(o.Name, "queue")
	if o.Policy == nil {
		o.Policy = Backoff{}.Policy()
	}
	hooks := *cmp.Or(o.Hooks, new(Hooks[K]))
	o.Hooks = &hooks
	oneOrder := o.Tenant != nil || o.Buckets != nil
	for _, c := range []struct {
		bad  bool
		what string
		is   any
	}{
		{o.MaxAttempts < 0, "MaxAttempts is %d, want 0 or more", o.MaxAttempts},
		{o.MaxKeys < 0 || o.MaxKeys > math.MaxInt32, "MaxKeys is %d, want 0 to 2147483647", o.MaxKeys},
		{o.Shards < 0 || o.Shards > maxShards, "Shards is %d, want 0 to 64", o.Shards},
		{o.Shards > 1 && oneOrder, "Shards is %d, but Tenant and Buckets need one order: leave it 0 or 1", o.Shards},
		{o.TenantRunning < 0, "TenantRunning is %d, want 0 or more", o.TenantRunning},
		{o.TenantRunning > 0 && o.Tenant == nil, "TenantRunning is %d, but Tenant is not set", o.TenantRunning},
		{o.TenantWeight != nil && o.Tenant == nil, "TenantWeight is set, but Tenant is %v", nil},
	} {
		if c.bad {
			return fmt.Errorf("queue: %s: "+c.what, o.Name, c.is)
		}
	}
	if t := reflect.TypeFor[K](); !o.UncheckedKeys {
		if why := unfit(t); why != "" {
			return fmt.Errorf("queue: %s: key type %v holds %s: keys are compared by value, so use strings and integers, or structs of them", o.Name, t, why)
		}
	}
	switch n := runtime.GOMAXPROCS(0); {
	case oneOrder || o.Shards == 0 && n == 1:
		o.Shards = 1
	case o.Shards == 0:
		o.Shards = min(4*n, mostShards)
	}
	o.Shards = 1 << bits.Len(uint(o.Shards-1))
	return nil
}

const (
	maxShards = 64
	// mostShards is how many shards a queue has by default at most: they serve more
	// than any number of workers asks for, and each that is used keeps some 70 KB.
	mostShards = 16
)

// unfit says what a key type holds whose values can look alike and be different.
func unfit(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer, reflect.UnsafePointer:
		return "a pointer"
	case reflect.Chan:
		return "a channel"
	case reflect.Interface:
		return "an interface"
	case reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return "a float"
	case reflect.Array:
		return unfit(t.Elem())
	case reflect.Struct:
		for f := range t.Fields() {
			if why := unfit(f.Type); why != "" {
				return why + " in " + f.Name
			}
		}
	}
	return ""
}

// Policy gives the delay before a failed key runs again. attempt counts the
// failures before this one, from 0; err is what Retry was given and may be nil.
// A negative delay parks the key.
type Policy func(attempt int, err error) time.Duration

// Backoff doubles the delay with each failure: the n-th, from 0, is drawn from
// (0, min(Max, Base·2ⁿ)], so that keys that failed together do not come back together.
type Backoff struct {
	Base     time.Duration // first bound; default 100 ms
	Max      time.Duration // largest bound; default 5 min
	NoJitter bool          // the delay is min(Max, Base·2ⁿ)
}

// Defaults of Backoff.
const (
	DefaultBase = 100 * time.Millisecond
	DefaultMax  = 5 * time.Minute
)

// Policy makes a policy of b. Base or Max of zero or less means its default;
// a Max below Base means Base.
func (b Backoff) Policy() Policy {
	b.Base = cmp.Or(max(b.Base, 0), DefaultBase)
	b.Max = max(cmp.Or(max(b.Max, 0), DefaultMax), b.Base)
	return func(attempt int, _ error) time.Duration {
		d := doubled(b.Base, attempt, b.Max)
		if b.NoJitter {
			return d
		}
		return 1 + rand.N(d)
	}
}

// doubled is base·2ⁿ, at most limit, without overflow for any n.
func doubled(base time.Duration, n int, limit time.Duration) time.Duration {
	if n >= 63 || base > limit>>n {
		return limit
	}
	return base << n
}

// ExponentialRetry waits initial·2ⁿ after the n-th failure, from 0, without
// jitter, and gives up once n is beyond maxAttempts: ExponentialRetry(5s, 5)
// retries after 5, 10, 20, 40, 80 and 160 seconds.
func ExponentialRetry(initial time.Duration, maxAttempts int) Policy {
	return func(attempt int, _ error) time.Duration {
		if attempt > maxAttempts {
			return -1
		}
		return doubled(initial, attempt, 1<<62)
	}
}
