package inspect

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tendhq/tend/store"
)

// number writes 1000000 as 1,000,000.
func number(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func some(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + one + "s"
}

// short is a duration as people read it.
func short(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours())/24)
}

// clock is a moment as people read it: with the day, unless that is today.
func clock(t, now time.Time) string {
	if t, now = t.UTC(), now.UTC(); t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

// line is a text in one line, cut.
func line(s string) string {
	return strings.TrimSuffix(strings.Join(strings.Fields(store.Clip(s)), " "), ".")
}

// left is how many objects are known not to be as declared.
func (v *Verdict) left() int { return v.Objects - v.Declared - v.unknown }

// say makes the sentences of the verdict. down is what they begin with while a store is down.
func (v *Verdict) say(down string) {
	left := v.left()
	var says []string
	switch v.Level {
	case Well:
		says = append(says, "All is well: "+v.allWell("are")+".")
	case UnderWay:
		says = append(says, "Under way.")
		if left > 0 {
			says = append(says, v.leftOver("are", " yet")+": "+v.inStates()+".")
		} else if v.Objects > v.unknown {
			says = append(says, v.allWellBut("are"))
		}
	default:
		says = append(says, "Not well.")
		are := "are"
		if down != "" {
			says, are = append(says, down), "were"
		}
		if left > 0 {
			text := v.leftOver(are, "")
			if !v.Since.IsZero() && v.At.Sub(v.Since) >= time.Second {
				text += ", for " + short(v.At.Sub(v.Since))
			}
			says = append(says, text+".")
		} else if v.Objects > v.unknown {
			says = append(says, v.allWellBut(are))
		}
	}
	if v.unknown > 0 {
		are := "are"
		if v.unknown == 1 {
			are = singular[are]
		}
		says = append(says, fmt.Sprintf("Whether %s of %s %s as declared is not known here.", number(v.unknown), some(v.Objects, "object"), are))
	}
	if n := len(v.Causes) + v.More; n > 0 {
		text := some(n, "cause")
		switch v.Person {
		case 0:
		case 1:
			text += "; 1 needs a person"
		default:
			text += fmt.Sprintf("; %d need a person", v.Person)
		}
		says = append(says, text+".")
	}
	v.Says = strings.TrimSpace(strings.Join(says, " "))
}

// singular is a verb for one object.
var singular = map[string]string{"are": "is", "were": "was"}

func (v *Verdict) allWell(are string) string {
	if v.Objects == v.unknown {
		return "nothing fails, and nothing is stuck"
	}
	n, known := v.Objects-v.unknown, ""
	if v.unknown > 0 {
		known = "known here "
	}
	if n == 1 {
		return "the 1 object " + known + singular[are] + " as declared" + v.partly()
	}
	return "all " + number(n) + " objects " + known + are + " as declared" + v.partly()
}

// allWellBut is for what is in the way of no object so far.
func (v *Verdict) allWellBut(are string) string {
	text := v.allWell(are) + "."
	return strings.ToUpper(text[:1]) + text[1:]
}

func (v *Verdict) leftOver(are, yet string) string {
	left := v.left()
	if left == 1 {
		are = singular[are]
	}
	return fmt.Sprintf("%s of %s %s not as declared%s%s", number(left), some(v.Objects, "object"), are, yet, v.partly())
}

// partly says of which kinds some objects only are counted.
func (v *Verdict) partly() string {
	var kinds []string
	for _, k := range v.Kinds {
		if k.Partial {
			kinds = append(kinds, k.Kind)
		}
	}
	if len(kinds) == 0 {
		return ""
	}
	return fmt.Sprintf(" (of %s those of this server's shards are counted)", strings.Join(kinds, ", "))
}

// inStates lists the states of the objects that are not as declared.
func (v *Verdict) inStates() string {
	var all []string
	for _, s := range states[:len(states)-1] {
		n := v.States[s]
		if s == waiting {
			n -= v.unknown
		}
		if n > 0 {
			all = append(all, number(n)+" "+s)
		}
	}
	return strings.Join(all, ", ")
}

// Holding says what waits for the objects of a cause; empty: nothing does.
func (c *Cause) Holding() string {
	var all []string
	for _, kind := range sorted(c.HoldsUp) {
		all = append(all, fmt.Sprintf("%s of %s", number(c.HoldsUp[kind]), kind))
	}
	if len(all) == 0 {
		return ""
	}
	return "holds up " + strings.Join(all, ", ")
}

// Many says how many objects or keys the cause is about, and of what.
func (c *Cause) Many() string { return list(append([]string{c.many()}, c.Also...)) }

func (c *Cause) many() string {
	switch {
	case c.Count == 0 && c.Controller != "":
		return "controller " + c.Controller
	case c.Count == 0:
		return c.Kind
	case c.Kind != "":
		return number(c.Count) + " of " + c.Kind
	}
	return some(c.Count, "key") + " of " + c.Controller
}

// Command is the line of one of Do for the example, as for a shell. A name that a shell might take
// for something else is left out.
func (c *Cause) Command(do string) string {
	text := "tend " + do
	for _, word := range []string{c.Kind, c.Example} {
		if word == "" || strings.HasPrefix(word, "-") || strings.ContainsFunc(word, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-", r)
		}) {
			return text
		}
		text += " " + word
	}
	return text
}
