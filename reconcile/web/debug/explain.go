package debug

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
)

// rowOf is a key with the reason why it is not running.
func rowOf(k reconcile.KeySnapshot, c introspect.Controller) keyRow {
	return keyRow{KeySnapshot: k, Because: because(k, c, time.Now()), exact: k.Key}
}

// because says why a key is not running, or that it is.
func because(k reconcile.KeySnapshot, c introspect.Controller, now time.Time) string {
	switch k.State {
	case queue.StateRunning.String():
		return running(k, c, now)
	case queue.StateDelayed.String():
		return "it is to run " + when(k.Next, now)
	case queue.StateBackingOff.String():
		if k.Error == "" {
			return "it asked to be run again, and is " + when(k.Next, now)
		}
		if k.Throttled && !k.Failing {
			return "what it calls asked it to wait, which counts as no failure; it is tried again " + when(k.Next, now)
		}
		return fmt.Sprintf("it failed %s, and is tried again %s", times(k.Attempts), when(k.Next, now))
	case queue.StateParked.String():
		return "it is given up until it is changed or kicked, or the slow resync comes round"
	case queue.StateIdle.String():
		return cmp.Or(k.Why, "there is nothing to run")
	case queue.StateReady.String():
		return whyReady(k, c)
	}
	return cmp.Or(k.Why, "it is "+k.State)
}

// running says for how long a key has been running, and whether it is stuck.
func running(k reconcile.KeySnapshot, c introspect.Controller, now time.Time) string {
	r, ok := runOf(k.Key, c)
	if !ok {
		return "it is running" + again(k, now) // the run has ended since
	}
	text := "it is running for " + short(now.Sub(r.Since))
	switch {
	case r.Stuck:
		text = "it is stuck: " + text + ", although its context ended: " + r.Ended
	case r.Ended != "":
		text += "; its context ended: " + r.Ended
	}
	return text + again(k, now)
}

// runOf finds the run of a printed key.
func runOf(key string, c introspect.Controller) (introspect.Run, bool) {
	for _, r := range c.Running {
		if slices.Contains(r.Keys, key) {
			return r, true
		}
	}
	return introspect.Run{}, false
}

func whyReady(k reconcile.KeySnapshot, c introspect.Controller) string {
	switch {
	case k.Why != "":
		return k.Why
	case c.Shards > 0 && c.Held == 0:
		return "this server holds no lease"
	case c.Workers == 0:
		return "there are no workers"
	case c.Active >= c.Workers:
		return fmt.Sprintf("all %d workers are busy", c.Workers)
	case unsynced(c.Sources):
		return "a source has not listed everything yet"
	}
	return "it is about to run"
}

func unsynced(sources []introspect.Source) bool {
	for _, s := range sources {
		if !s.Synced {
			return true
		}
	}
	return false
}

func again(k reconcile.KeySnapshot, now time.Time) string {
	if k.Next.IsZero() {
		return ""
	}
	return ", and is to run again " + when(k.Next, now)
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times in a row", n)
}

func when(t, now time.Time) string {
	if d := t.Sub(now); d > 0 {
		return "in " + short(d)
	}
	return "now"
}

// shortest is a duration in its greatest unit.
func shortest(d time.Duration) string {
	text := short(d)
	if i := strings.Index(text, " min "); i > 0 && strings.HasSuffix(text, " s") {
		text = text[:i+4]
	}
	return text
}

// short is a duration as people read it.
func short(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours())/24)
}
