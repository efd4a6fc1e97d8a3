package store

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/tendhq/tend/internal/wall"
	"github.com/tendhq/tend/store/internal/shape"
)

// Phase sums an object up in one word.
type Phase string

// The phases. The empty Phase means that nothing has reconciled the object yet.
const (
	PhaseReady       Phase = "Ready"
	PhaseProgressing Phase = "Progressing"
	PhaseTerminating Phase = "Terminating"
)

// The condition types that tend itself writes.
const (
	// ConditionReady says whether the thing declared is in place and usable.
	ConditionReady = "Ready"
	// ConditionSynced says whether the last reconcile could do its work.
	ConditionSynced = "Synced"
)

// ConditionStatus is "True", "False" or "Unknown".
type ConditionStatus string

// The values of a condition.
const (
	True             ConditionStatus = "True"
	False            ConditionStatus = "False"
	conditionUnknown ConditionStatus = "Unknown"
)

// MaxMessage is the longest Reason or Message of a condition, in bytes. What is
// longer is cut, and what is not UTF-8 becomes U+FFFD: error texts come from
// external systems and have no bound of their own.
const MaxMessage = 1024

// MaxConditions is how many conditions an object may have.
const MaxConditions = 64

// Condition is one named statement about an object. A write of an object with a
// condition of an empty Type, with two of one Type, or with more than [MaxConditions]
// is [ErrInvalid].
type Condition struct {
	Type    string          `json:"type"`
	Status  ConditionStatus `json:"status"`
	Reason  string          `json:"reason,omitempty"`
	Message string          `json:"message,omitempty"`
	// ObservedGeneration is the generation that the statement is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Since is when Status last changed, in UTC.
	Since time.Time `json:"since,omitzero"`
}

// Condition returns the condition of that type, if there is one.
func (o *Object[S, T]) Condition(typ string) (Condition, bool) { return conditionOf(o.Conditions, typ) }

func conditionOf(all []Condition, typ string) (Condition, bool) {
	for _, c := range all {
		if c.Type == typ {
			return c, true
		}
	}
	return Condition{}, false
}

// SetCondition adds the condition or replaces the one of its type, for the
// present generation, and reports whether anything but Since differs. Since is
// kept while Status is the same; otherwise it is the one given or, if zero, now.
// Reason and Message are cut to [MaxMessage], and made valid UTF-8.
func (o *Object[S, T]) SetCondition(c Condition) (changed bool) {
	return setCondition(&o.Conditions, c, o.Generation)
}

func setCondition(all *[]Condition, c Condition, generation int64) (changed bool) {
	c.Reason, c.Message = cut(c.Reason), cut(c.Message)
	c.ObservedGeneration = generation
	i := slices.IndexFunc(*all, func(x Condition) bool { return x.Type == c.Type })
	if i >= 0 && (*all)[i].Status == c.Status {
		c.Since = (*all)[i].Since
	}
	if c.Since.IsZero() {
		c.Since = now()
	}
	c.Since = storedTime(c.Since)
	if i < 0 {
		*all = append(slices.Clip(*all), c)
		return true
	}
	was := (*all)[i]
	was.Since = c.Since
	(*all)[i] = c
	return was != c
}

// SetReady says that all is in place: phase Ready, Ready=True, for the present
// generation.
func (o *Object[S, T]) SetReady() {
	o.setPhase(PhaseReady, Condition{Type: ConditionReady, Status: True, Reason: string(PhaseReady)})
}

// SetProgressing says that the object is being created or changed: phase
// Progressing, Ready=False with the reason and message.
func (o *Object[S, T]) SetProgressing(reason, message string) {
	o.setPhase(PhaseProgressing, Condition{Type: ConditionReady, Status: False, Reason: reason, Message: message})
}

// SetTerminating says that the object is being torn down: phase Terminating,
// Ready=False with the reason and message.
func (o *Object[S, T]) SetTerminating(reason, message string) {
	o.setPhase(PhaseTerminating, Condition{Type: ConditionReady, Status: False, Reason: reason, Message: message})
}

// Ready reports whether the object is Ready in its present generation.
func (o *Object[S, T]) Ready() bool { return ReadyAt(&o.Meta, o.Conditions, o.Generation) }

// ReadyAt reports whether an object with these conditions is as declared in that generation:
// the condition Ready is True for it or a later one. The phase does not count. An object of a
// newer version ([Meta].Newer) is not: what of it this program does not know may differ.
// Whether an object is as declared to metrics, pages and programs depends on this, and
// on whether it is being deleted or fails.
func ReadyAt(m *Meta, conditions []Condition, generation int64) bool {
	return !m.Newer && slices.ContainsFunc(conditions, func(c Condition) bool {
		return c.Type == ConditionReady && c.Status == True && c.ObservedGeneration >= generation
	})
}

func (o *Object[S, T]) setPhase(p Phase, c Condition) {
	o.Phase = p
	o.ObservedGeneration = o.Generation
	o.SetCondition(c)
}

// cut replaces what is not UTF-8 and shortens s to MaxMessage bytes without splitting
// a rune.
func cut(s string) string {
	if s = shape.ValidText(s); len(s) <= MaxMessage {
		return s
	}
	i := MaxMessage - len("…")
	for i > 0 && !utf8.RuneStart(s[i]) {
		i--
	}
	return s[:i] + "…"
}

// storedTime is t as it is stored: UTC, and without the monotonic reading that
// no encoding keeps.
func storedTime(t time.Time) time.Time { return t.UTC().Round(0) }

// now is the time of day that a record gets. Nothing is decided by it: whether an
// object is in deletion depends on Deleted being set, not on when.
func now() time.Time { return wall.Now() }

func cloneConditions(cs []Condition) []Condition { return slices.Clone(cs) }

// sameConditions compares times as instants, since an encoding may give a time
// another representation.
func sameConditions(a, b []Condition) bool {
	return slices.EqualFunc(a, b, func(x, y Condition) bool {
		same := x.Since.Equal(y.Since)
		x.Since, y.Since = time.Time{}, time.Time{}
		return same && x == y
	})
}

// writableConditions returns cs, or a copy with texts and times as
// [Object.SetCondition] stores them. The error is [ErrInvalid].
func writableConditions(cs []Condition) ([]Condition, error) {
	if len(cs) > MaxConditions {
		return nil, fmt.Errorf("%w: %d conditions, at most %d", ErrInvalid, len(cs), MaxConditions)
	}
	mended := cs
	for i := range cs {
		c := cs[i]
		if err := checkCondition(c, cs[:i]); err != nil {
			return nil, err
		}
		c.Reason, c.Message, c.Since = cut(c.Reason), cut(c.Message), storedTime(c.Since)
		if c != cs[i] {
			if &mended[0] == &cs[0] {
				mended = slices.Clone(cs)
			}
			mended[i] = c
		}
	}
	return mended, nil
}

func checkCondition(c Condition, before []Condition) error {
	if err := checkName("condition type", c.Type); err != nil {
		return err
	}
	if err := checkText("status of condition "+c.Type, string(c.Status), MaxLabel); err != nil {
		return err
	}
	if y := c.Since.UTC().Year(); y < 0 || y > 9999 {
		return fmt.Errorf("%w: condition %s since the year %d", ErrInvalid, c.Type, y)
	}
	for i := range before {
		if before[i].Type == c.Type {
			return fmt.Errorf("%w: condition %s twice", ErrInvalid, c.Type)
		}
	}
	return nil
}
