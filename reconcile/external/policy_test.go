package external

import (
	"errors"
	"testing"
)

func TestPolicyReadsWhatItWrites(t *testing.T) {
	for bits := range int(known) + 1 {
		p := Policy(bits)
		if p.validate() != nil {
			continue
		}
		got, err := ParsePolicy(p.String())
		if err != nil || got != p {
			t.Errorf("ParsePolicy(%q) = %v, %v; want %v", p.String(), got, err, p)
		}
	}
	if got, err := ParsePolicy(" all , adopt"); err != nil || got != All|Adopt {
		t.Errorf("all, adopt = %v, %v", got, err)
	}
}

// An unknown word must be an error: peers that compare strings fall through to
// "nothing is allowed", and with it to leaving the resource behind.
func TestUnknownPolicyIsAnErrorAndPermitsNothing(t *testing.T) {
	for _, text := range []string{"", "everything", "observe,creat", "Observe", "create", "delete,update", "paused,observe"} {
		p, err := ParsePolicy(text)
		if !errors.Is(err, errPolicy) {
			t.Errorf("ParsePolicy(%q) = %v, %v; want ErrPolicy", text, p, err)
		}
	}
	for _, p := range []Policy{Create, All | 64, 255} {
		if err := p.validate(); !errors.Is(err, errPolicy) {
			t.Errorf("Policy(%v).Validate() = %v, want ErrPolicy", p, err)
		}
	}
	if text := (Observe | 64).String(); text != "observe,0x40" {
		t.Errorf("a policy with a bit that is not known is %q", text)
	}
	for _, p := range []Policy{Paused, All, All | Adopt, observeOnly, Observe | Delete} {
		if err := p.validate(); err != nil {
			t.Errorf("%v: %v", p, err)
		}
	}
}
