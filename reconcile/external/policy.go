package external

import (
	"errors"
	"fmt"
	"strings"
)

// Policy says what may be done about a resource: a set of permissions. It is
// validated before anything is done, and one that is not valid permits
// nothing: an unknown word never turns into a deletion, and never into a
// resource left behind.
type Policy uint8

// The permissions. Every set but the empty one holds Observe.
const (
	Observe  Policy = 1 << iota // look at the resource
	Create                      // create it when it is missing
	Update                      // change it when it differs
	LateInit                    // store what Observe filled into the spec
	Delete                      // delete it with its object; without it the resource is left behind
	Adopt                       // take over a resource that carries no ownership mark

	known = Observe | Create | Update | LateInit | Delete | Adopt
)

// The usual sets. A set without [Delete] leaves the resource where it is when
// its object is deleted. It keeps its mark, so that a later [Inventory.Prune] deletes it.
const (
	// All is the default: everything but taking over what is not marked as
	// ours. (A client that reports no ownership owns whatever it finds.)
	All = Observe | Create | Update | LateInit | Delete
	// observeOnly looks and tells, and never touches.
	observeOnly = Observe
	// Paused, the empty set, does nothing at all, deletion included. It is a pause by the
	// policy; the object's own Meta.Paused does the same, whatever the policy is.
	Paused Policy = 0
)

// errPolicy is wrapped by every error about a policy that cannot be followed.
var errPolicy = errors.New("external: unknown policy")

// words are the texts of the single permissions, in the order of their bits.
var words = [...]string{"observe", "create", "update", "late-init", "delete", "adopt"}

// has reports whether everything in q is permitted.
func (p Policy) has(q Policy) bool { return p&q == q }

// validate returns an error that wraps errPolicy for a set with an unknown
// bit, and for one that permits something but not Observe: what is done rests
// on what was seen. The empty set is valid; it is a pause.
func (p Policy) validate() error {
	if p&^known != 0 {
		return fmt.Errorf("%w: bits %#x", errPolicy, uint8(p&^known))
	}
	if p != Paused && !p.has(Observe) {
		return fmt.Errorf("%w: %q lacks observe, on which all else rests: write \"observe,%s\"", errPolicy, p, p)
	}
	return nil
}

// String is the text that [ParsePolicy] reads.
func (p Policy) String() string {
	if p == Paused {
		return "paused"
	}
	var set []string
	for i, w := range words {
		if p.has(1 << i) {
			set = append(set, w)
		}
	}
	if rest := p &^ known; rest != 0 {
		set = append(set, fmt.Sprintf("%#x", uint8(rest)))
	}
	return strings.Join(set, ",")
}

// ParsePolicy reads a policy from text: the words observe, create, update,
// late-init, delete and adopt, separated by commas; or "all" (which may stand
// among them) or "paused" alone. An unknown word, an empty text or a set that
// is not valid is an error.
func ParsePolicy(text string) (Policy, error) {
	if strings.TrimSpace(text) == "paused" {
		return Paused, nil
	}
	var p Policy
	for word := range strings.SplitSeq(text, ",") {
		bit, err := parseWord(strings.TrimSpace(word))
		if err != nil {
			return 0, err
		}
		p |= bit
	}
	if err := p.validate(); err != nil {
		return 0, err
	}
	return p, nil
}

func parseWord(word string) (Policy, error) {
	if word == "all" {
		return All, nil
	}
	for i, w := range words {
		if w == word {
			return 1 << i, nil
		}
	}
	return 0, fmt.Errorf("%w: %q is none of %s, all, paused", errPolicy, word, strings.Join(words[:], ", "))
}
