package metrics

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tendhq/tend/store"
)

// Measure returns a backend that does what b does and is measured: how long each
// call took and how it ended, and the writes that were fenced. Make stores,
// leases and caches of what it returns, not of b: backends are told apart by
// identity. It offers leases if b does. A measured call reads the clock twice and
// allocates nothing, unless it has an exemplar. Measure fails on nil, on a name that was measured before, and on
// one that is not UTF-8, which Prometheus does not take.
func (c *Collector) Measure(name string, b store.Backend) (store.Backend, error) {
	if b == nil {
		return nil, errors.New("metrics: Measure: nil backend")
	}
	if !utf8.ValidString(name) {
		return nil, fmt.Errorf("metrics: Measure: the name %q is not UTF-8", name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.backends {
		if o.name == name {
			return nil, fmt.Errorf("metrics: Measure: there is a backend %q already", name)
		}
	}
	m := &measured{Backend: b, name: name, times: c.times, exemplar: &c.exemplar}
	c.backends = append(c.backends, m)
	if l, ok := b.(store.Leaser); ok {
		return &measuredLeaser{measured: m, Leaser: l}, nil
	}
	return m, nil
}

// measured is a backend with its calls counted.
type measured struct {
	store.Backend // Watch and Close pass through: they have no duration
	name          string
	times         *prometheus.HistogramVec
	exemplar      *traces
	timings       [operations][outcomes]atomic.Pointer[prometheus.Observer] // of times; nil: did not occur
	refused       atomic.Uint64                                             // writes that were fenced
}

// Health implements store.HealthChecker.
func (m *measured) Health() error { return store.Health(m.Backend) }

// String names the backend for people, as it does itself if it can.
func (m *measured) String() string {
	if named, ok := m.Backend.(fmt.Stringer); ok {
		return named.String()
	}
	return m.name
}

// ListSlots implements store.SlotReader.
func (m *measured) ListSlots(ctx context.Context, kind string, slots store.SlotSet, o store.ListOptions) (store.Page, error) {
	begun := time.Now()
	p, err := store.ListSlots(ctx, m.Backend, kind, slots, o)
	m.observe(ctx, opList, begun, err)
	return p, err
}

// WatchSlots implements store.SlotReader. Like Watch it has no duration.
func (m *measured) WatchSlots(ctx context.Context, kind string, slots store.SlotSet, after store.Revision) iter.Seq2[store.Batch, error] {
	return store.WatchSlots(ctx, m.Backend, kind, slots, after)
}

type measuredLeaser struct {
	*measured
	store.Leaser
}

type operation uint8

const (
	opGet operation = iota
	opList
	opCommit
	opGrant
	opRenew
	opRevoke
	operations
)

func (o operation) String() string {
	return [...]string{"get", "list", "commit", "grant", "renew", "revoke"}[o]
}

type outcome uint8

const (
	outcomeOK outcome = iota
	outcomeNotFound
	outcomeConflict
	outcomeFenced
	outcomeUnknown
	outcomeCompacted
	outcomeInvalid
	outcomeClosed
	outcomeLeaseGone
	outcomeCanceled
	outcomeError
	outcomes
)

func (o outcome) String() string {
	return [...]string{
		"ok", "not_found", "conflict", "fenced", "unknown", "compacted", "invalid", "closed", "lease_gone", "canceled", "error",
	}[o]
}

// sentinels are asked in this order: an outcome that is not known wraps what made
// it so.
var sentinels = [...]struct {
	err error
	outcome
}{
	{store.ErrUnknownOutcome, outcomeUnknown},
	{store.ErrNotFound, outcomeNotFound},
	{store.ErrConflict, outcomeConflict},
	{store.ErrFenced, outcomeFenced},
	{store.ErrCompacted, outcomeCompacted},
	{store.ErrInvalid, outcomeInvalid},
	{store.ErrClosed, outcomeClosed},
	{store.ErrLeaseGone, outcomeLeaseGone},
}

func outcomeOf(ctx context.Context, err error) outcome {
	if err == nil {
		return outcomeOK
	}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			return s.outcome
		}
	}
	if ctx.Err() != nil {
		return outcomeCanceled // the error may have any cause, and context.DeadlineExceeded be of a limit of the store's own
	}
	return outcomeError
}

// Get implements store.Backend.
func (m *measured) Get(ctx context.Context, kind string, key store.Key) (store.Record, error) {
	begun := time.Now()
	r, err := m.Backend.Get(ctx, kind, key)
	m.observe(ctx, opGet, begun, err)
	return r, err
}

// List implements store.Backend.
func (m *measured) List(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
	begun := time.Now()
	p, err := m.Backend.List(ctx, kind, o)
	m.observe(ctx, opList, begun, err)
	return p, err
}

// Commit implements store.Backend.
func (m *measured) Commit(ctx context.Context, t store.Txn) (store.Revision, error) {
	begun := time.Now()
	r, err := m.Backend.Commit(ctx, t)
	m.observe(ctx, opCommit, begun, err)
	return r, err
}

// Grant implements store.Leaser.
func (m *measuredLeaser) Grant(ctx context.Context, ttl time.Duration) (store.LeaseID, error) {
	begun := time.Now()
	id, err := m.Leaser.Grant(ctx, ttl)
	m.observe(ctx, opGrant, begun, err)
	return id, err
}

// Renew implements store.Leaser.
func (m *measuredLeaser) Renew(ctx context.Context, id store.LeaseID) error {
	begun := time.Now()
	err := m.Leaser.Renew(ctx, id)
	m.observe(ctx, opRenew, begun, err)
	return err
}

// Revoke implements store.Leaser.
func (m *measuredLeaser) Revoke(ctx context.Context, id store.LeaseID) error {
	begun := time.Now()
	err := m.Leaser.Revoke(ctx, id)
	m.observe(ctx, opRevoke, begun, err)
	return err
}

// newStoreTimes makes the histograms of all backends. Their bounds go from a
// microsecond, which only a store in memory takes, to ten seconds.
func newStoreTimes() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: storeTimeName, Help: storeTimeHelp,
		Buckets: []float64{
			1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4,
			0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 10,
		},
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  nativeBuckets,
		NativeHistogramMinResetDuration: time.Hour,
	}, storeTimeLabels)
}

func (m *measured) observe(ctx context.Context, op operation, begun time.Time, err error) {
	took, out := time.Since(begun), outcomeOf(ctx, err)
	at := &m.timings[op][out]
	h := at.Load()
	if h == nil {
		made := m.times.WithLabelValues(m.name, op.String(), out.String())
		h = &made
		at.Store(h) // a goroutine that was faster stored the same histogram
	}
	if labels := m.exemplar.of(ctx); labels != nil {
		(*h).(prometheus.ExemplarObserver).ObserveWithExemplar(took.Seconds(), labels)
	} else {
		(*h).Observe(took.Seconds())
	}
	if out == outcomeFenced {
		m.refused.Add(1)
	}
}
