package quota

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/store"
	"golang.org/x/time/rate"
)

// Name says whose calls a quota counts. Parts that a cloud does not tell apart
// stay empty.
type Name struct {
	Account string
	Region  string
	API     string
}

// String is the parts that are there, with slashes: "acme/eu-central-1/s3".
func (n Name) String() string {
	parts := slices.DeleteFunc([]string{n.Account, n.Region, n.API}, func(s string) bool { return s == "" })
	return strings.Join(parts, "/")
}

// key is the name as servers store it and tell it to each other. It is the text, or for a
// text with slashes, which several names may have, begins with one.
func (n Name) key() string {
	if text := n.String(); !strings.Contains(text, "/") {
		return text
	}
	return "/" + url.PathEscape(n.Account) + "/" + url.PathEscape(n.Region) + "/" + url.PathEscape(n.API)
}

// compare orders names by account, region and API.
func (n Name) compare(o Name) int {
	return cmp.Or(strings.Compare(n.Account, o.Account), strings.Compare(n.Region, o.Region), strings.Compare(n.API, o.API))
}

// Op is what a call does: it reads, or it changes something.
type Op uint8

// The ops.
const (
	Read Op = iota
	Write
)

func (o Op) String() string {
	if o == Write {
		return "write"
	}
	return "read"
}

// Rate is what one budget allows, to all servers together.
type Rate struct {
	// PerSecond is the calls per second; with a Ceiling, those to begin with.
	PerSecond rate.Limit
	// Burst is how many calls may be made at once after a rest; zero: a second's
	// worth of PerSecond, at least 1. So Burst+PerSecond calls may fall into one second:
	// where the cloud counts by the second, a Burst of 1 keeps to it.
	Burst int
	// Ceiling lets the rate follow what the cloud takes: down to four fifths for
	// an answer that says "too many", to a half for another one soon after, at
	// least to a hundredth of Ceiling; and up again while the budget is used up and nothing is
	// refused, soon to what it was before, then slowly, then ever faster: from a
	// tenth of Ceiling to all of it within a minute. Zero: the rate stays as it
	// is, and is never exceeded; set it where the quota is known.
	Ceiling rate.Limit
}

// floor is the least that a rate with a Ceiling comes down to.
func (r Rate) floor() rate.Limit { return min(r.Ceiling/100, r.PerSecond) }

func (r Rate) complete() (Rate, error) {
	switch {
	case !(r.PerSecond > 0) || math.IsInf(float64(r.PerSecond), 0):
		return r, fmt.Errorf("PerSecond is %v, want more than zero", r.PerSecond)
	case r.Burst < 0:
		return r, fmt.Errorf("Burst is %d, want zero or more", r.Burst)
	case r.Ceiling != 0 && (!(r.Ceiling >= r.PerSecond) || math.IsInf(float64(r.Ceiling), 0)):
		return r, fmt.Errorf("Ceiling is %v, want zero or at least PerSecond, which is %v", r.Ceiling, r.PerSecond)
	}
	if r.Burst == 0 {
		r.Burst = wholeBurst(float64(r.PerSecond))
	}
	return r, nil
}

// wholeBurst is a burst of so many tokens; what no int can hold is one that never ends.
func wholeBurst(tokens float64) int { return max(1, int(min(tokens, math.MaxInt32))) }

// Limits is what a cloud grants under one [Name].
type Limits struct {
	// Read is the budget of calls that read. Required.
	Read Rate
	// Write is the budget of calls that change something. Zero: reads and writes
	// share the one budget.
	Write Rate
	// Judge says what the end of a call tells of the endpoint; err is what the
	// call returned, and may be nil. [Judge] judges errors of HTTP clients. Required:
	// without it [Set.Get] fails, since no refusal would be noticed. Where there is nothing to tell, it returns a zero [Verdict].
	Judge func(err error) Verdict
}

// Quota is the budgets that a cloud grants under one name. All calls to that
// API go through [Quota.Do], from any number of controllers. Made by [Set.Get].
// Safe for concurrent use.
type Quota struct {
	name    Name
	judge   func(error) Verdict
	budgets [2]*budget // by Op; the same one twice, if they share
	set     *Set
	logger  *slog.Logger
	made    time.Time
	used    atomic.Int64 // when, in nanoseconds since made
	resting atomic.Bool  // the Set does not hold it
}

func newQuota(name Name, l Limits, logger *slog.Logger) (*Quota, error) {
	if l.Judge == nil {
		return nil, fmt.Errorf("quota: %s: Limits.Judge is required", name)
	}
	q := &Quota{name: name, judge: l.Judge, logger: cmp.Or(logger, slog.Default()), made: time.Now()}
	read, err := newBudget(name.String()+"/read", l.Read)
	if err != nil {
		return nil, fmt.Errorf("quota: %s: Limits.Read: %w", name, err)
	}
	read.key = name.key() + "/read"
	q.budgets = [2]*budget{read, read}
	if l.Write == (Rate{}) {
		return q, nil
	}
	if q.budgets[Write], err = newBudget(name.String()+"/write", l.Write); err != nil {
		return nil, fmt.Errorf("quota: %s: Limits.Write: %w", name, err)
	}
	q.budgets[Write].key = name.key() + "/write"
	return q, nil
}

// String is the name as text.
func (q *Quota) String() string { return q.name.String() }

// ErrNoBudget is wrapped by the error of a call that was not made because its
// budget was used up, its bucket paused or its breaker open. The error is one of
// [ratelimit.Throttled]: it counts as no failure.
var ErrNoBudget = errors.New("quota: no budget")

// Do makes one call to the cloud, paid from the budget of op, and takes note of
// how it ended.
//
// In a run of a controller that is limited by [Limit], the run's first call of
// each op is made at once or refused with [ErrNoBudget]: the run has to end with
// that error, and comes again when the call is paid for, in the order of the
// queue. Further calls of the run, and calls outside of such runs (lists, for
// example), wait for their turn, unless ctx would end before: then they are
// refused too.
//
// An answer that says "too many" pauses the bucket for all that share it and
// makes Do's error one of [ratelimit.Throttled]. Otherwise Do returns what call did.
func (q *Quota) Do(ctx context.Context, op Op, call func(context.Context) error) error {
	return q.do(ctx, op, func(err error) (Verdict, error) { return q.judge(err), err }, call)
}

// do is Do with a judge that gives, besides, what is wrong with the answer.
func (q *Quota) do(ctx context.Context, op Op, judge func(error) (v Verdict, says error), call func(context.Context) error) error {
	q.use()
	defer q.use() // what the call's end tells is to be remembered
	b := q.budgets[op]
	if err := q.pay(ctx, op); err != nil {
		return err
	}
	c, err := b.begin()
	if err != nil {
		return err
	}
	err = call(ctx)
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return err // we hung up, which says nothing of the endpoint; nor does a panic
	}
	v, says := judge(err)
	c.says = says
	switch opened, closed, after := b.end(c, v); {
	case opened:
		q.logger.WarnContext(ctx, "quota: endpoint is down, and is asked by one call at a time until it answers", "budget", b.bucket.Name(), "err", store.Brief(says))
	case closed:
		q.logger.InfoContext(ctx, "quota: endpoint answers again", "budget", b.bucket.Name(), "after", after)
	}
	if v.Throttled {
		return ratelimit.Throttled(nil, time.Now().Add(v.pause()), says) // end has paused the bucket
	}
	return err
}

// pay makes sure of a token for one call.
func (q *Quota) pay(ctx context.Context, op Op) error {
	b := q.budgets[op]
	t := ticketOf(ctx)
	if t == nil || t.quota != q {
		return b.wait(ctx)
	}
	if first, err := t.spend(op); first || err != nil {
		return err
	}
	return b.wait(ctx)
}

// Admit makes sure that the first call of op in this run is paid for, before
// something is done that only makes sense with the call (a create's intent is
// stored, for example). Its error is that of [Quota.Do]. Outside of a run that
// is limited by [Limit] it does nothing.
func Admit(ctx context.Context, op Op) error {
	if t := ticketOf(ctx); t != nil {
		return t.admit(op)
	}
	return nil
}

func refuse(b *budget, until time.Time, why string) error {
	return ratelimit.Throttled(nil, until, fmt.Errorf("%w: %s: %s", ErrNoBudget, b.bucket.Name(), why))
}
