package external

import (
	"fmt"
	"strconv"

	"github.com/tendhq/tend/store"
)

// Mark says whose a resource is. It is written onto the resource (as tags, as
// a comment, in its name) when it is created, and it is the only ground on
// which anything is ever deleted.
//
// A mark identifies; it is no authority. A user that may edit a resource's tags
// may have it pruned, or shield it. The caps of [Inventory.Prune] and the plan
// are the protection against that.
type Mark struct {
	Installation string    `json:"installation"`  // see [store.Installation]; never empty
	Kind         string    `json:"kind"`          // the kind of the declaring object
	Key          store.Key `json:"key"`           // its key
	UID          string    `json:"uid,omitempty"` // empty where a mark has no room for it
	// Declared is when the object was made, in Unix seconds; zero where a mark has
	// no room for it. By it [Inventory.Prune] knows a store that was restored from
	// a backup older than that.
	Declared int64 `json:"declared,omitempty"`
}

// NewMark is the mark that the resource of o has to carry.
func NewMark[S, T any](installation, kind string, o *store.Object[S, T]) Mark {
	m := Mark{Installation: installation, Kind: kind, Key: o.Key(), UID: o.UID}
	if !o.Created.IsZero() {
		m.Declared = o.Created.Unix()
	}
	return m
}

// String is for reading: installation/kind/key@uid.
func (m Mark) String() string {
	return fmt.Sprintf("%s/%s/%s@%s", m.Installation, m.Kind, m.Key, m.UID)
}

// The tags of a mark, for clouds whose tags take any such text, as those of AWS do.
const (
	tagInstallation = "tend/installation"
	tagKind         = "tend/kind"
	tagKey          = "tend/key"
	tagUID          = "tend/uid"
	tagDeclared     = "tend/declared"
)

// SetTags puts the mark into a resource's tags, under names that begin with "tend/", in
// place of another mark there, and returns them. Other tags stay. Nil tags are a new map.
// [MarkOf] is the way back. For a cloud whose tags take no such text (Azure's names take no
// slash) a program writes the mark in a form of its own.
func (m Mark) SetTags(tags map[string]string) map[string]string {
	if tags == nil {
		tags = make(map[string]string)
	}
	tags[tagInstallation], tags[tagKind], tags[tagKey] = m.Installation, m.Kind, m.Key.String()
	delete(tags, tagUID)
	if m.UID != "" {
		tags[tagUID] = m.UID
	}
	delete(tags, tagDeclared)
	if m.Declared != 0 {
		tags[tagDeclared] = strconv.FormatInt(m.Declared, 10)
	}
	return tags
}

// MarkOf reads the mark that [Mark.SetTags] put into tags, and reports whether there is one.
// A mark that cannot be read is there and counts as another's ([Foreign]).
func MarkOf(tags map[string]string) (m Mark, marked bool) {
	installation, marked := tags[tagInstallation]
	key, err := store.ParseKey(tags[tagKey])
	if !marked || err != nil {
		return Mark{}, marked
	}
	declared, err := strconv.ParseInt(tags[tagDeclared], 10, 64)
	if err != nil {
		declared = 0 // an older mark has none
	}
	return Mark{Installation: installation, Kind: tags[tagKind], Key: key, UID: tags[tagUID], Declared: declared}, true
}

// Compare says what a mark found on a resource means to the object that m was
// made for. Marked is false for a resource without a mark.
func (m Mark) Compare(found Mark, marked bool) Ownership {
	switch {
	case !marked:
		return Unmarked
	case found.Installation != m.Installation || found.Kind != m.Kind || found.Key != m.Key:
		return Foreign
	case found.UID != "" && m.UID != "" && found.UID != m.UID:
		return Former
	}
	return Ours
}

// Ownership is what Observe knows of whose the resource is.
type Ownership uint8

const (
	// Unreported is the zero value: the client does not look. Whatever stands
	// under the external name counts as ours.
	Unreported Ownership = iota
	// Ours carries this object's mark.
	Ours
	// Former carries our mark for this key with the uid of an earlier object:
	// it was left behind, or the store was lost. It is taken over, by Update,
	// but is never deleted before it was.
	Former
	// Unmarked carries no mark. It is taken over only where the policy
	// holds [Adopt], or where we are on record for having created it.
	Unmarked
	// Foreign carries another's mark. It is never touched.
	Foreign

	lastOwnership = Foreign
)

// says is what people are told of the mark.
func (w Ownership) says() string {
	switch w {
	case Ours:
		return "it carries this object's ownership mark"
	case Former:
		return "its ownership mark is of an earlier object of this name"
	case Unmarked:
		return "it carries no ownership mark"
	case Foreign:
		return "its ownership mark names another owner"
	}
	return "the client does not say whose it is"
}

func (w Ownership) String() string {
	return [...]string{"unreported", "ours", "former", "unmarked", "foreign", "?"}[min(w, lastOwnership+1)]
}
