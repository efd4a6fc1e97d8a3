package inspect

import (
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/store/objects"
)

// Levels of a Verdict.
const (
	Well     = "well"      // all is as declared, and nothing is in the way
	UnderWay = "under way" // something waits, and nothing says that it waits in vain
	NotWell  = "not well"  // something fails, or needs a person
)

// Verdict is how one server is, and what it runs.
type Verdict struct {
	At    time.Time `json:"at"`
	Level string    `json:"level"` // Well, UnderWay or NotWell
	Says  string    `json:"says"`  // the same in a sentence or two
	Since time.Time `json:"since,omitzero"`

	Objects  int            `json:"objects"`
	Declared int            `json:"asDeclared"`
	States   map[string]int `json:"states"` // how many objects are in which state
	Kinds    []Kind         `json:"kinds"`

	Causes []Cause  `json:"causes"` // gravest first, at most 50
	More   int      `json:"moreCauses,omitempty"`
	Person int      `json:"needAPerson,omitempty"` // causes that do
	Under  []Part   `json:"underneath"`
	Notes  []string `json:"notes,omitempty"` // what the counts leave out

	unknown       int             // objects that other servers run, and of which nothing is stored
	silentAndWell map[string]bool // kinds of whose objects nothing is stored, and that are as declared
}

// Kind is the objects of a kind.
type Kind struct {
	Kind    string         `json:"kind"`
	Total   int            `json:"total"`
	States  map[string]int `json:"states"`
	Partial bool           `json:"partial,omitempty"` // they are those of this server's shards
	Error   string         `json:"error,omitempty"`   // they cannot be listed
	// Cells are its objects, by key, if there are few of all kinds: 500 at most.
	Cells []introspect.Cell `json:"-"`
}

// Cause is why some objects, or keys, are not as they should be.
type Cause struct {
	What       string    `json:"what"` // "stuck", "given up", "fails", "panics", "waits", …
	Why        string    `json:"why"`  // of the example
	Grave      bool      `json:"grave"`
	Person     bool      `json:"needsAPerson,omitempty"` // it does not end by itself
	Controller string    `json:"controller,omitempty"`
	Kind       string    `json:"kind,omitempty"`
	Count      int       `json:"count,omitempty"` // objects of the kind, or keys of the controller
	Since      time.Time `json:"since,omitzero"`  // of the first of them
	Next       time.Time `json:"next,omitzero"`   // the soonest retry
	Example    string    `json:"example,omitempty"`
	// Also are other controllers and kinds that the same provider refuses for the same reason.
	Also []string `json:"also,omitempty"`
	// HoldsUp counts by kind the objects that wait for these.
	HoldsUp map[string]int `json:"holdsUp,omitempty"`
	// Do are the commands of tend that apply, and what else to do, in words.
	Do []string `json:"do,omitempty"`

	rank     int
	endpoint bool            // of a quota, which does not answer
	provider string          // which refuses all of these, and why, see cause.Provider; empty: none that is known
	joined   *Cause          // that this one is told with; nil: it is told itself
	object   *objects.Object // the example, whose text is Why; nil: Why is known
}

// Part is one of the things that all else stands on.
type Part struct {
	Name  string `json:"name"` // "store", "leases", "caches", "quotas", "workers", "sources"
	Level string `json:"level"`
	Says  string `json:"says"`
}

// maxCells is how many objects a Verdict names one by one.
const maxCells = 500

// maxCauses is how many causes a Verdict has.
const maxCauses = 50

// Waiting and deletion are grave once they have lasted for so long.
const graveWait = 10 * time.Minute

// patientWait is how long a key may wait for a bucket that the other side pauses before that is told.
const patientWait = time.Minute

// busyWait is how long a key may be ready before that is grave, as in the alert
// TendOldestReadyKeyWaits.
const busyWait = 5 * time.Minute
