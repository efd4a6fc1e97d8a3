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
	// Celsius encodes itself by its value, and forgets what is below a hundredth.
	Celsius struct{ Degrees float64 }
	// Version encodes itself by its pointer, and is in no JSON without it.
	Version struct{ major, minor int }
	// Names encodes nil as null, and reads null as nil.
	Names []string
	// Lowered is a key and a value that is read back in lower case.
	Lowered struct{ text string }
	// Level is a number with a text, also as a key.
	Level int
	// Word is a text with a form of its own.
	Word string
	// Stamp hides a time in what encodes itself.
	Stamp struct{ at time.Time }
	// Unset says that it is zero with a value in it.
	Unset struct{ N int }
	// Blank says so by its pointer.
	Blank struct{ N int }
	// Cloned copies itself, Sameish compares itself too.
	Cloned  struct{ List []int }
	Sameish struct{ Text, note string }
	// Base is embedded, by value and by pointer.
	Base struct {
		BaseText string  `json:",omitempty"`
		BaseNum  float64 `json:"baseNum,omitzero"`
		BaseList []int   `json:"baseList,omitempty"`
	}
	// Node contains itself.
	Node struct {
		Next *Node
		Kids []Node
		Text string
	}
	// Login has a secret.
	Login struct {
		User     string
		Password string `json:"password,omitempty" tend:"secret"`
	}
	// Sealed encodes itself with a secret in it.
	Sealed struct {
		Token string `tend:"secret"`
	}
	// Octet is a byte with a text of its own.
	Octet uint8
)

func (c Celsius) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "%.2f", c.Degrees), nil }
func (c *Celsius) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	return json.Unmarshal(b, &c.Degrees)
}

func (v *Version) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%d.%d", v.major, v.minor), nil
}

func (v *Version) UnmarshalText(b []byte) error {
	_, err := fmt.Sscanf(string(b), "%d.%d", &v.major, &v.minor)
	return err
}

func (n Names) MarshalJSON() ([]byte, error) { return json.Marshal(strings.Join(n, ",")) }
func (n *Names) UnmarshalJSON(data []byte) error {
	var text string
	err := json.Unmarshal(data, &text)
	if *n = nil; text != "" {
		*n = strings.Split(text, ",")
	}
	return err
}

func (l Lowered) MarshalText() ([]byte, error)  { return []byte(strings.ToLower(l.text)), nil }
func (l *Lowered) UnmarshalText(b []byte) error { l.text = string(b); return nil }

func (l Level) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "level-%d", int(l)), nil }
func (l *Level) UnmarshalText(b []byte) error {
	n, err := strconv.Atoi(strings.TrimPrefix(string(b), "level-"))
	*l = Level(n)
	return err
}

func (w Word) MarshalText() ([]byte, error) { return []byte("word " + w), nil }
func (w *Word) UnmarshalText(b []byte) error {
	*w = Word(strings.TrimPrefix(string(b), "word "))
	return nil
}

func (s Stamp) MarshalJSON() ([]byte, error)     { return json.Marshal(s.at) }
func (s *Stamp) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &s.at) }

func (u Unset) IsZero() bool  { return u.N < 10 }
func (b *Blank) IsZero() bool { return b.N < 10 }

func (c Cloned) Clone() Cloned                  { return Cloned{slices.Clone(c.List)} }
func (s Sameish) Clone() Sameish                { return s }
func (s Sameish) Equal(o Sameish) bool          { return s.Text == o.Text }
func (s Sameish) MarshalText() ([]byte, error)  { return []byte(s.Text), nil }
func (s *Sameish) UnmarshalText(b []byte) error { s.Text = string(b); return nil }

func (s Sealed) MarshalJSON() ([]byte, error) { return json.Marshal(map[string]string{"t": s.Token}) }

func (s *Sealed) UnmarshalJSON(data []byte) error {
	var m map[string]string
	err := json.Unmarshal(data, &m)
	s.Token = m["t"]
	return err
}

func (o Octet) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "o%d", uint8(o)), nil }
func (o *Octet) UnmarshalText(b []byte) error {
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

// Specs of all types.
type (
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
	Encoding struct {
		Celsius Places[Celsius]
		Version Reached[Version]
		Names   Places[Names]
		Lowered Places[Lowered]
		Level   Places[Level]
		Stamp   Places[Stamp]
		Unset   Places[Unset]
		Blank   Reached[Blank]
		Word    Places[Word]
		Cloned  Places[Cloned]
		Sameish Places[Sameish]
		Octets  []Octet
	}
	Nested struct {
		Base   `json:"base"`
		Node   Node
		Login  Places[Login]
		Sealed Places[Sealed] `tend:"secret"`
		ByText map[Word]Base
		ByInt  map[int]*Node
		ByByte map[uint8][]string
		ByOwn  map[Level]string
		ByLow  map[Lowered]int
		ByTime map[time.Time]string
		ByAddr map[netip.Addr]*Base
		ByDur  map[time.Duration]map[string]Node
	}
)
