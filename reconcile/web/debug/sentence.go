package debug

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// longWait is how long a key may be ready before it counts as a problem, as in the alert
// TendOldestReadyKeyWaits.
const longWait = 5 * time.Minute

// sentence says whether all is as declared, and if not, what is in the way: the gravest
// first, at most four things.
func (v *overview) sentence(now time.Time) (says string, allWell bool) {
	problems := v.problems(now)
	total, ready := v.Objects.counts()
	switch {
	case len(problems) == 0 && total == 0:
		return "Nothing fails, and nothing is stuck.", true
	case len(problems) == 0 && ready == total:
		return fmt.Sprintf("%s as declared%s.", areAll(total), v.Objects.partly()), true
	}
	if total > 0 {
		are := "are"
		if ready == 1 {
			are = "is"
		}
		says = fmt.Sprintf("%s of %s %s as declared%s.", grouped(fmt.Sprint(ready)), objectCount(total), are, v.Objects.partly())
	}
	if n := len(problems); n > 4 {
		problems = append(problems[:4:4], fmt.Sprintf("%d more", n-4))
	}
	if len(problems) > 0 {
		says += " In the way: " + strings.Join(problems, "; ") + "."
	}
	return strings.TrimSpace(says), false
}

func areAll(n int) string {
	if n == 1 {
		return "The 1 object is"
	}
	return "All " + objectCount(n) + " are"
}

func objectCount(n int) string {
	if n == 1 {
		return "1 object"
	}
	return grouped(fmt.Sprint(n)) + " objects"
}

// counts are all objects, and those that are as declared.
func (f *fieldView) counts() (total, declared int) {
	if f == nil {
		return 0, 0
	}
	for _, k := range f.Kinds {
		total += k.Total
		declared += k.Declared
	}
	return total, declared
}

// partly says of which kinds some objects only are counted.
func (f *fieldView) partly() string {
	var kinds []string
	for _, k := range f.Kinds {
		if k.Partial {
			kinds = append(kinds, clean(k.Kind))
		}
	}
	if len(kinds) == 0 {
		return ""
	}
	return fmt.Sprintf(" (of %s those of this server's shards are counted)", strings.Join(kinds, ", "))
}

func (v *overview) problems(now time.Time) (all []string) {
	say := func(format string, args ...any) { all = append(all, clean(fmt.Sprintf(format, args...))) }
	for _, c := range v.Checks {
		if !c.OK {
			say("%s is not well (%s)", c.Name, strings.TrimSuffix(cut(c.Reason, 200), "."))
		}
	}
	for _, r := range v.Running {
		if r.Stuck {
			say("the run of %s in %s is stuck for %s", strings.Join(r.Keys, ", "), r.Controller, short(now.Sub(r.Since)))
		}
	}
	for _, c := range v.Controllers {
		wait := time.Duration(0)
		if !c.Oldest.IsZero() {
			wait = now.Sub(c.Oldest)
		}
		if len(c.Slowed) > 0 {
			say("%s", slowed(c))
		}
		switch {
		case c.Waiting != "" && c.Error == "": // else it says which source fails
			say("controller %s waits for %s to sync", c.Name, c.Waiting)
		case c.Paused != "":
			say("controller %s is paused", c.Name)
		case c.Workers == 0:
			say("controller %s has no workers", c.Name)
		case wait > longWait:
			say("a key of %s has been ready for %s", c.Name, short(wait))
		}
	}
	for i, k := range v.Failing { // most attempts first
		if i == 0 {
			text := cut(k.Error, 200)
			say("%s of %s fails (%s)", k.Key, k.Controller, strings.TrimSuffix(text, "."))
		} else if i == len(v.Failing)-1 {
			if v.FailingMore {
				say("more than %d other keys fail", i)
			} else {
				say("%d other keys fail", i)
			}
		}
	}
	for _, b := range v.Buckets {
		if b.Until.After(now) {
			say("bucket %s is paused for %s", b.Name, short(b.Until.Sub(now)))
		}
	}
	for _, i := range v.Inventories {
		if i.Held != "" {
			say("nothing of %s is pruned (%s)", i.Kind, i.Held)
		}
	}
	return append(all, v.Objects.problems()...)
}

// slowed says which keys of a controller are slowed because their spec changes too often.
func slowed(c summary) string {
	k := c.Slowed[0]
	says := fmt.Sprintf("%s of %s is slowed, since its spec changes too often", k.Key, c.Name)
	if k.Field != "" {
		says += fmt.Sprintf(" (%s: %s, then %s)", k.Field, k.Old, k.New)
	}
	if n := len(c.Slowed); n > 1 {
		says += fmt.Sprintf(", as are %d more", n-1)
	}
	return says
}

// standOffs says why runs leave objects alone that are not ready, without failing.
func (f *fieldView) standOffs() string {
	whys := map[string]int{}
	for _, k := range f.Kinds {
		for why, n := range k.StandsOff {
			whys[why] += n
		}
	}
	var says []string
	for _, why := range slices.Sorted(maps.Keys(whys)) {
		says = append(says, fmt.Sprintf("%s %s", grouped(fmt.Sprint(whys[why])), why))
	}
	if len(says) == 0 {
		return ""
	}
	return " (left alone: " + strings.Join(says, ", ") + ")"
}

// problems are the states of objects that are not ready.
func (f *fieldView) problems() (all []string) {
	if f == nil {
		return nil
	}
	for _, k := range f.Kinds {
		if k.Error != "" {
			all = append(all, clean(fmt.Sprintf("the objects of %s cannot be listed (%s)", k.Kind, k.Error)))
		}
	}
	var says []string
	for _, state := range fieldStates[:len(fieldStates)-1] {
		n := 0
		for _, k := range f.Kinds {
			n += k.States[state]
		}
		if n > 0 {
			says = append(says, fmt.Sprintf("%s %s", grouped(fmt.Sprint(n)), state))
		}
	}
	if len(says) > 0 {
		all = append(all, "of the objects "+strings.Join(says, ", ")+f.standOffs())
	}
	return all
}
