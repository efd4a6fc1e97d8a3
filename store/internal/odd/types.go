// Package odd makes random types and values, with each oddity that a spec may have.
// It is for tests: those of package shape, and package storetest.
package odd

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The types of a random one: it is a struct of them and of lists, arrays, maps, pointers and structs
// of them, with tags of every option; a random value has each kind of oddity that a type allows.

type (
	// celsius encodes itself by its value, and forgets what is below a hundredth.
	celsius struct{ Degrees float64 }
	// version encodes itself by its pointer, and is in no JSON without it.
	version struct{ major, minor int }
	// names encodes nil as null, and reads null as nil.
	names []string
	// lowered is a key and a value that is read back in lower case.
	lowered struct{ text string }
	// level is a number with a text, also as a key.
	level int
	// word is a text with a form of its own.
	word string
	// stamp hides a time in what encodes itself.
	stamp struct{ at time.Time }
	// unset says that it is zero with a value in it.
	unset struct{ N int }
	// blank says so by its pointer.
	blank struct{ N int }
	// cloned copies itself, sameish compares itself too.
	cloned  struct{ List []int }
	sameish struct{ Text, note string }
	// Base is embedded, by value and by pointer.
	Base struct {
		BaseText string  `json:",omitempty"`
		BaseNum  float64 `json:"baseNum,omitzero"`
		BaseList []int   `json:"baseList,omitempty"`
	}
	// node contains itself.
	node struct {
		Next *node
		Kids []node
		Text string
	}
	// login has a secret.
	login struct {
		User     string
		Password string `json:"password,omitempty" tend:"secret"`
	}
	// sealed encodes itself with a secret in it.
	sealed struct {
		Token string `tend:"secret"`
	}
	// octet is a byte with a text of its own.
	octet uint8
)

func (c celsius) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "%.2f", c.Degrees), nil }
func (c *celsius) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	return json.Unmarshal(b, &c.Degrees)
}

func (v *version) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%d.%d", v.major, v.minor), nil
}

func (v *version) UnmarshalText(b []byte) error {
	_, err := fmt.Sscanf(string(b), "%d.%d", &v.major, &v.minor)
	return err
}

func (n names) MarshalJSON() ([]byte, error) { return json.Marshal(strings.Join(n, ",")) }
func (n *names) UnmarshalJSON(data []byte) error {
	var text string
	err := json.Unmarshal(data, &text)
	if *n = nil; text != "" {
		*n = strings.Split(text, ",")
	}
	return err
}

func (l lowered) MarshalText() ([]byte, error)  { return []byte(strings.ToLower(l.text)), nil }
func (l *lowered) UnmarshalText(b []byte) error { l.text = string(b); return nil }

func (l level) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "level-%d", int(l)), nil }
func (l *level) UnmarshalText(b []byte) error {
	n, err := strconv.Atoi(strings.TrimPrefix(string(b), "level-"))
	*l = level(n)
	return err
}

func (w word) MarshalText() ([]byte, error) { return []byte("word " + w), nil }
func (w *word) UnmarshalText(b []byte) error {
	*w = word(strings.TrimPrefix(string(b), "word "))
	return nil
}

func (s stamp) MarshalJSON() ([]byte, error)     { return json.Marshal(s.at) }
func (s *stamp) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &s.at) }

func (u unset) IsZero() bool  { return u.N < 10 }
func (b *blank) IsZero() bool { return b.N < 10 }

func (c cloned) Clone() cloned                  { return cloned{slices.Clone(c.List)} }
func (s sameish) Clone() sameish                { return s }
func (s sameish) Equal(o sameish) bool          { return s.Text == o.Text }
func (s sameish) MarshalText() ([]byte, error)  { return []byte(s.Text), nil }
func (s *sameish) UnmarshalText(b []byte) error { s.Text = string(b); return nil }

func (s sealed) MarshalJSON() ([]byte, error) { return json.Marshal(map[string]string{"t": s.Token}) }

func (s *sealed) UnmarshalJSON(data []byte) error {
	var m map[string]string
	err := json.Unmarshal(data, &m)
	s.Token = m["t"]
	return err
}

func (o octet) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "o%d", uint8(o)), nil }
func (o *octet) UnmarshalText(b []byte) error {
	_, err := fmt.Sscanf(string(b), "o%d", (*uint8)(o))
	return err
}

// Places has a type wherever it can stand.
type Places[A any] struct {
	One   A
	Empty A `json:"empty,omitempty"`
	Zero  A `json:",omitzero"`
	Ptr   *A
	Many  []A `json:"many,omitempty"`
	Two   [2]A
	Map   map[string]A `json:"MAP"`
	Deep  map[string][]*A
}

// Reached is [Places] without those where JSON calls no method with a pointer receiver.
type Reached[A any] struct {
	One  A
	Zero A `json:",omitzero"`
	Ptr  *A
	Many []A `json:"many,omitempty"`
	Deep map[string][]*A
}

type (
	// Plain is a spec of types without methods of their own.
	Plain struct {
		Bool     Places[bool]
		Int      Places[int]
		Small    Places[int8]
		Uint     Places[uint64]
		Float    Places[float64]
		Short    Places[float32]
		Text     Places[string]
		Bytes    Places[[]byte]
		Array    Places[[3]byte]
		Time     Places[time.Time]
		Duration Places[time.Duration]
		Raw      Places[json.RawMessage]
		Number   Places[json.Number]
		Addr     Places[netip.Addr]
		Port     Places[netip.AddrPort]
		Prefix   Places[netip.Prefix]
		Texts    Places[map[string]string] `json:"texts"`
		Quoted   struct {
			Bool  bool    `json:",string"`
			Int   int8    `json:",string,omitempty"`
			Uint  *uint64 `json:",string"`
			Float float64 `json:"float,string"`
			Text  string  `json:",string,omitzero"`
		}
	}
	// Encoding is one of types that encode, copy, compare themselves, or say that they are zero.
	Encoding struct {
		Celsius Places[celsius]
		Version Reached[version]
		Names   Places[names]
		Lowered Places[lowered]
		Level   Places[level]
		Stamp   Places[stamp]
		Unset   Places[unset]
		Blank   Reached[blank]
		Word    Places[word]
		Cloned  Places[cloned]
		Sameish Places[sameish]
		Octets  []octet
	}
	// Nested is one of structs in each other, with secrets, and of maps by each kind of key.
	Nested struct {
		Base   `json:"base"`
		Node   node
		Login  Places[login]
		Sealed Places[sealed] `tend:"secret"`
		ByText map[word]Base
		ByInt  map[int]*node
		ByByte map[uint8][]string
		ByOwn  map[level]string
		ByLow  map[lowered]int
		ByTime map[time.Time]string
		ByAddr map[netip.Addr]*Base
		ByDur  map[time.Duration]map[string]node
	}
)
