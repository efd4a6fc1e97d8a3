package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/internal/introspect"
	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/queue/ratelimit"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/objects"
)

// now is a moment of the tables.
var now = time.Date(2026, 3, 4, 23, 40, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

// object is one of the kind "db". Its edits are words: see below.
func object(name string, edits ...string) objects.Object {
	o := objects.Object{Kind: "db"}
	o.Name, o.Generation = name, 1
	set := func(kind string, is store.ConditionStatus, reason string, since time.Duration) {
		o.Conditions = append(o.Conditions, store.Condition{Type: kind, Status: is, Reason: reason, Message: "m", ObservedGeneration: o.Generation, Since: ago(since)})
	}
	for _, e := range edits {
		switch e {
		case "ready":
			set(store.ConditionReady, store.True, "", time.Hour)
		case "unready":
			set(store.ConditionReady, store.False, "Creating", time.Hour)
		case "edited":
			o.Generation = 2
		case "paused":
			o.Paused = true
		case "deleting":
			o.Deleted, o.Finalizers = ago(time.Minute), []string{"cloud"}
		case "deleting for long":
			o.Deleted, o.Finalizers = ago(time.Hour), []string{"cloud"}
		case "newer":
			o.Newer = true
		case "broken":
			o.Err = errors.New("no JSON")
		case "lacks":
			set(dependencies, store.False, "NotFound", time.Hour)
		case "lacks since a minute":
			set(dependencies, store.False, "NotFound", time.Minute)
		default:
			set(store.ConditionSynced, store.False, e, time.Hour)
		}
	}
	return o
}

func listed(all ...objects.Object) kindFacts {
	return kindFacts{kind: "db", objects: func(yield func(objects.Object, error) bool) {
		for _, o := range all {
			if !yield(o, nil) {
				return
			}
		}
	}}
}

// key is a key in a state, with an error if its last run failed.
func key(name string, state queue.State, err string) reconcile.KeySnapshot {
	k := reconcile.KeySnapshot{Key: name, State: state.String(), Since: ago(time.Minute), Error: err, Failing: err != ""}
	if k.Failing {
		k.FailingSince, k.Next = ago(28*time.Minute), now.Add(time.Minute)
	}
	return k
}

func with(k reconcile.KeySnapshot, edit func(*reconcile.KeySnapshot)) reconcile.KeySnapshot {
	edit(&k)
	return k
}

// runs is a controller "dbs" of the kind "db", with keys.
func runs(keys ...reconcile.KeySnapshot) controllerFacts {
	return controllerFacts{
		snap: introspect.Controller{Name: "dbs", Kind: "db", Workers: 4, Held: 1, Shards: 1, Runs: introspect.Counts{Success: 10}},
		keys: func(yield func(reconcile.KeySnapshot, error) bool) {
			for _, k := range keys {
				if !yield(k, nil) {
					return
				}
			}
		},
	}
}

// throttledFor is a key that has waited for a bucket for so long, as the queue says it.
func throttledFor(name, bucket string, d time.Duration) reconcile.KeySnapshot {
	return with(key(name, queue.StateThrottled, ""), func(k *reconcile.KeySnapshot) { k.Why, k.Since = "throttled by "+bucket, ago(d) })
}

// polls is a controller "poll" of no kind, with a source.
func polls(s introspect.Source) controllerFacts {
	return edited(runs(), func(c *controllerFacts) {
		c.snap.Name, c.snap.Kind, c.snap.Sources = "poll", "", []introspect.Source{s}
	})
}

// refused is what a controller says of a list that lacks more keys than it may.
func refused(t *testing.T) (says string) {
	synctest.Test(t, func(t *testing.T) {
		var empty atomic.Bool
		list := func(context.Context) (map[string]int, error) {
			if empty.Load() {
				return nil, nil
			}
			return map[string]int{"a": 1, "b": 1, "c": 1}, nil
		}
		c, err := reconcile.EachWith("poll", time.Minute, list,
			func(context.Context, string, *int) (reconcile.Result, error) { return reconcile.Result{}, nil },
			&reconcile.EachOptions[string, int]{Options: reconcile.Options[string]{Logger: slog.New(slog.DiscardHandler)}, MaxGone: func(int) int { return 0 }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }() // ended by stop, waited for below
		time.Sleep(time.Second)
		empty.Store(true)
		time.Sleep(2 * time.Minute)
		says = c.Snapshot().Sources[0].Error
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return says
}

func edited(c controllerFacts, edit func(*controllerFacts)) controllerFacts {
	edit(&c)
	return c
}

// The states of an object and its key: one of a plain function that panics in each run is failing.
func TestStateJoinsTheObjectAndItsKey(t *testing.T) {
	panics := with(key("a", queue.StateBackingOff, "panic: nil map"), func(k *reconcile.KeySnapshot) { k.Panicked = true })
	throttles := with(key("a", queue.StateBackingOff, ""), func(k *reconcile.KeySnapshot) { k.Throttled, k.Error = true, "throttled" })
	for _, c := range []struct {
		object string
		key    reconcile.KeySnapshot
		stuck  bool
		want   string
	}{
		{"ready", reconcile.KeySnapshot{}, false, ready},
		{"ready", key("a", queue.StateDelayed, ""), false, ready},
		{"ready", key("a", queue.StateBackingOff, "boom"), false, failing},
		{"ready", key("a", queue.StateRunning, "boom"), false, failing},
		{"ready", panics, false, failing},
		{"", panics, false, failing},
		{"", key("a", queue.StateParked, "boom"), false, givenUp},
		{"ready", key("a", queue.StateParked, "boom"), false, givenUp},
		{"ready", key("a", queue.StateRunning, ""), true, stuck},
		{"paused", key("a", queue.StateRunning, ""), true, stuck},
		{"paused", key("a", queue.StateBackingOff, "boom"), false, paused},
		{"paused Paused", reconcile.KeySnapshot{}, false, paused},
		{"ready", with(key("a", queue.StateHeld, ""), func(k *reconcile.KeySnapshot) { k.Paused = true }), false, paused},
		{"ready", key("a", queue.StateHeld, ""), false, ready}, // it waits for its cache
		{"ready", throttles, false, ready},
		{"unready", throttles, false, throttled},
		{"unready Refused", throttles, false, throttled},
		{"unready", key("a", queue.StateThrottled, ""), false, throttled},
		{"unready", key("a", queue.StateBackingOff, ""), false, waiting},
		{"unready", reconcile.KeySnapshot{}, false, waiting},
		{"", reconcile.KeySnapshot{}, false, waiting},
		{"ready edited", reconcile.KeySnapshot{}, false, waiting},
		{"deleting ready", reconcile.KeySnapshot{}, false, deleting},
		{"deleting", key("a", queue.StateBackingOff, "boom"), false, failing},
		{"NotOurs", reconcile.KeySnapshot{}, false, standingOff},
		{"NotOurs", key("a", queue.StateBackingOff, "boom"), false, failing},
		{"Refused", reconcile.KeySnapshot{}, false, failing},
		{"newer ready", reconcile.KeySnapshot{}, false, standingOff},
		{"ready", with(key("a", queue.StateBackingOff, "newer"), func(k *reconcile.KeySnapshot) { k.Newer = true }), false, standingOff},
		{"broken", key("a", queue.StateBackingOff, "boom"), false, undecodable},
	} {
		if got, _ := stateOf(object("a", strings.Fields(c.object)...), keyState(c.key, c.stuck)); got != c.want {
			t.Errorf("an object that is %q with key %+v (stuck: %t) is %s, want %s", c.object, c.key, c.stuck, got, c.want)
		}
	}
}

// told is a cause in a line.
func told(c Cause) string {
	s := c.What + ": " + c.Why + " | " + c.Many() + " | " + cmp.Or(c.Holding(), "-") + " | " + cmp.Or(c.Example, "-") + " | " + strings.Join(c.Do, ",")
	if !c.Since.IsZero() {
		s += " | " + c.Since.Format(time.TimeOnly)
	}
	return s
}

// What is told of a server at a moment.
func TestVerdicts(t *testing.T) {
	down := &store.UnavailableError{Since: ago(20 * time.Minute), Err: errors.New("no answer")}
	needs := func(unmet map[string]string) func(string, store.Key) []need {
		return func(kind string, k store.Key) []need {
			of, ok := unmet[k.Name]
			if !ok {
				return nil
			}
			to, why, _ := strings.Cut(of, " ")
			return []need{{"db", store.Key{Name: to}, why}}
		}
	}
	many := func(n int, err string) (keys []reconcile.KeySnapshot) {
		for i := range n {
			name := fmt.Sprintf("db-%05d", i)
			keys = append(keys, key(name, queue.StateBackingOff, strings.ReplaceAll(fmt.Sprintf(err, i), "KEY", name)))
		}
		return keys
	}
	for _, c := range []struct {
		what   string
		facts  facts
		level  string
		says   string
		causes []string
	}{
		{"nothing", facts{}, Well, "All is well: nothing fails, and nothing is stuck.", nil},
		{
			"all as declared",
			facts{controllers: []controllerFacts{runs()}, kinds: []kindFacts{listed(object("a", "ready"), object("b", "ready"))}},
			Well, "All is well: all 2 objects are as declared.", nil,
		},
		{
			"708 objects with the same error",
			facts{controllers: []controllerFacts{runs(many(708, "PUT KEY: 500 (request %d)")...)}, kinds: []kindFacts{listed(object("db-00000", "unready"))}},
			NotWell, "Not well. 1 of 1 object is not as declared, for 28 min. 1 cause.",
			[]string{"fails: PUT db-00000: 500 (request 0) | 708 of db | - | db-00000 | why,kick | 23:12:00"},
		},
		{
			"gravest first",
			facts{controllers: []controllerFacts{edited(runs(
				key("f", queue.StateBackingOff, "boom"), key("g", queue.StateParked, "size 0"), key("h", queue.StateBackingOff, "boom"),
				with(key("p", queue.StateRunning, "panic: nil map"), func(k *reconcile.KeySnapshot) { k.Panicked = true }),
			), func(c *controllerFacts) {
				c.snap.Running = []introspect.Run{{Keys: []string{"s"}, Since: ago(time.Hour), Stuck: true, Ended: "deadline"}}
			})}},
			NotWell, "Not well. 4 causes; 2 need a person.",
			[]string{
				"stuck: its run goes on although its context ended: deadline | 1 of db | - | s | why,restart | 22:40:00",
				"given up: size 0 | 1 of db | - | g | edit,kick | 23:12:00",
				"panics: panic: nil map | 1 of db | - | p | why,roll back, or mend the program: the stack is in the log | 23:12:00",
				"fails: boom | 2 of db | - | f | why,kick | 23:12:00",
			},
		},
		{
			"a throttled key does not fail",
			facts{
				controllers: []controllerFacts{runs(with(key("a", queue.StateBackingOff, ""), func(k *reconcile.KeySnapshot) { k.Throttled, k.Error = true, "throttled" }))},
				kinds:       []kindFacts{listed(object("a", "ready"))},
			},
			Well, "All is well: all is as declared.", nil,
		},
		{
			"objects that wait for a quota",
			facts{
				controllers: []controllerFacts{runs(key("a", queue.StateThrottled, ""))}, kinds: []kindFacts{listed(object("a", "unready"), object("b", "ready"))},
				buckets: []ratelimit.Stats{{Name: "dns", Until: now.Add(time.Minute)}},
			},
			UnderWay, "Under way. 1 of 2 objects is not as declared yet: 1 throttled.", nil,
		},
		{
			"a function that stores nothing",
			facts{
				controllers: []controllerFacts{edited(runs(key("a", queue.StateBackingOff, "boom")), func(c *controllerFacts) { c.stats.States = []queue.StateStats{{State: queue.StateReady, Keys: 1}} })},
				kinds:       []kindFacts{listed(object("a"), object("b"), object("c"))},
			},
			NotWell, "Not well. 2 of 3 objects are not as declared, for 28 min. 1 cause.",
			[]string{"fails: boom | 1 of db | - | a | why,kick | 23:12:00"},
		},
		{
			"a stuck run of a function that stores nothing",
			facts{
				controllers: []controllerFacts{edited(runs(key("b", queue.StateRunning, "boom")), func(c *controllerFacts) {
					c.stats.States = []queue.StateStats{{State: queue.StateRunning, Keys: 2}}
					c.snap.Running = []introspect.Run{{Keys: []string{"a"}, Since: ago(time.Hour), Stuck: true, Ended: "deadline"}}
				})},
				kinds: []kindFacts{listed(object("a"), object("b"), object("c"))},
			},
			NotWell, "Not well. 2 of 3 objects are not as declared, for 1 h 0 min. 2 causes; 1 needs a person.",
			[]string{
				"stuck: its run goes on although its context ended: deadline | 1 of db | - | a | why,restart | 22:40:00",
				"fails: boom | 1 of db | - | b | why,kick | 23:12:00",
			},
		},
		{
			"the error that is told is that of the example",
			facts{controllers: []controllerFacts{runs(
				key("b", queue.StateBackingOff, "PUT b: 500"), with(key("c", queue.StateBackingOff, "PUT c: 500"), func(k *reconcile.KeySnapshot) { k.FailingSince = ago(time.Hour) }),
			)}},
			NotWell, "Not well. 1 cause.",
			[]string{"fails: PUT c: 500 | 2 of db | - | c | why,kick | 22:40:00"},
		},
		{
			"a function that stores nothing and fails for none",
			facts{controllers: []controllerFacts{runs()}, kinds: []kindFacts{listed(object("a"), object("b"))}},
			Well, "All is well: all 2 objects are as declared.", nil,
		},
		{
			"objects of a function that stores nothing, on a server that does not run it",
			facts{
				controllers: []controllerFacts{edited(runs(), func(c *controllerFacts) { c.snap.Held, c.leases = 0, []introspect.Lease{{Holder: "s2"}} })},
				kinds:       []kindFacts{listed(object("a"), object("b"))},
			},
			Well, "All is well: nothing fails, and nothing is stuck. Whether 2 of 2 objects are as declared is not known here.", nil,
		},
		{
			"the same beside objects that are as declared",
			facts{
				controllers: []controllerFacts{edited(runs(), func(c *controllerFacts) { c.snap.Held, c.leases = 0, []introspect.Lease{{Holder: "s2"}} })},
				kinds:       []kindFacts{{kind: "other", objects: listed(object("c", "ready"), object("d", "ready")).objects}, listed(object("a"))},
			},
			Well, "All is well: all 2 objects known here are as declared. Whether 1 of 3 objects is as declared is not known here.", nil,
		},
		{
			"the same beside objects of another function",
			facts{
				controllers: []controllerFacts{edited(runs(), func(c *controllerFacts) { c.snap.Held, c.leases = 0, []introspect.Lease{{Holder: "s2"}} })},
				kinds:       []kindFacts{{kind: "other", objects: listed(object("c", "ready"), object("d", "unready")).objects}, listed(object("a"))},
			},
			UnderWay, "Under way. 1 of 3 objects is not as declared yet: 1 waiting. Whether 1 of 3 objects is as declared is not known here.", nil,
		},
		{
			"a server that lost its shards with its store",
			facts{
				stores:      []storeFacts{{name: "etcd e1", down: down}},
				controllers: []controllerFacts{edited(runs(), func(c *controllerFacts) { c.snap.Held, c.leases = 0, []introspect.Lease{{}} })},
				kinds:       []kindFacts{listed(object("a"), object("b"))},
			},
			NotWell, "Not well. The store (etcd e1) has not answered since 23:20:00; what follows is from then. Whether 2 of 2 objects are as declared is not known here. 1 cause.",
			[]string{"store: no answer | etcd e1 | - | - | mend the store, nothing else | 23:20:00"},
		},
		{
			"an endpoint that does not answer is told before what fails for it",
			facts{
				checks: []reconcile.Check{{Name: "quotas", Reason: "quota: s3/read: the endpoint is down since 2026-03-04T23:30:00Z"}, {Name: "other", Reason: "tired"}},
				controllers: []controllerFacts{runs(
					key("a", queue.StateBackingOff, "GET a: timeout"), key("b", queue.StateBackingOff, "GET b: timeout"), key("g", queue.StateParked, "size 0"),
					key("c", queue.StateBackingOff, "GET c: timeout; since then throttled: quota: no budget: s3/read: the endpoint is down"),
				)},
			},
			NotWell, "Not well. 4 causes; 1 needs a person.",
			[]string{
				"is not well: quota: s3/read: the endpoint is down since 2026-03-04T23:30:00Z | quotas | holds up 1 of db | - | mend the endpoint or the way to it, nothing else | 23:30:00",
				"given up: size 0 | 1 of db | - | g | edit,kick | 23:12:00",
				"fails: GET a: timeout | 2 of db | - | a | why,kick | 23:12:00",
				"is not well: tired | other | - | - | ",
			},
		},
		{
			"what an endpoint answers is told with it, in each controller",
			facts{
				checks: []reconcile.Check{{Name: "quotas", Reason: "quota: s3/read: the endpoint is down since 2026-03-04T23:30:00Z: PUT https://s3/z: 500 Oops\n" +
					"quota: s3/write: the endpoint is down since 2026-03-04T23:31:00Z: PUT https://s3/y: 500 Oops\n" +
					"quota: dns/read: the endpoint is down since 2026-03-04T23:35:00Z: EOF\nthis server is no member"}},
				controllers: []controllerFacts{
					runs(
						key("a", queue.StateBackingOff, "GET https://s3/a: 500 Oops"), key("b", queue.StateBackingOff, "PUT https://s3/b: 500 Oops"),
						key("c", queue.StateBackingOff, "GET c: timeout; since then throttled: quota: no budget: s3/write: the endpoint is down"),
						key("d", queue.StateBackingOff, "GET https://other/d: 500 Oops"),
					),
					polls(introspect.Source{Name: "list", Synced: true, Error: "LIST https://s3/?page=7: 500 Oops", FailingSince: ago(5 * time.Minute)}),
				},
			},
			NotWell, "Not well. 4 causes.",
			[]string{
				"is not well: quota: s3/read: the endpoint is down since 2026-03-04T23:30:00Z: PUT https://s3/z: 500 Oops | quotas, controller poll | holds up 3 of db | - | mend the endpoint or the way to it, nothing else | 23:12:00",
				"is not well: quota: dns/read: the endpoint is down since 2026-03-04T23:35:00Z: EOF | quotas | - | - | mend the endpoint or the way to it, nothing else | 23:35:00",
				"fails: GET https://other/d: 500 Oops | 1 of db | - | d | why,kick | 23:12:00",
				"is not well: this server is no member | quotas | - | - | ",
			},
		},
		{
			"credentials that expired are one cause, whatever they are used for",
			facts{
				controllers: []controllerFacts{
					runs(key("a", queue.StateBackingOff, "GET https://cloud/db/a: 401 Unauthorized")),
					edited(runs(key("r", queue.StateBackingOff, "GET https://cloud/role/r: 401 Unauthorized"), key("s", queue.StateBackingOff, "PUT https://cloud/role/s: 401 Unauthorized")), func(c *controllerFacts) { c.snap.Name, c.snap.Kind = "roles", "role" }),
					polls(introspect.Source{Name: "list", Synced: true, Error: "LIST https://cloud: 401 Unauthorized", FailingSince: ago(30 * time.Minute)}),
				},
				kinds: []kindFacts{listed(object("a", "unready"), object("w", "unready"))},
				needs: needs(map[string]string{"w": "a NotReady"}),
			},
			NotWell, "Not well. 2 of 2 objects are not as declared, for 30 min. 1 cause.",
			[]string{"fails: GET https://cloud/role/r: 401 Unauthorized | 2 of role, 1 of db, controller poll | holds up 1 of db | r | why,renew the credentials,kick | 23:10:00"},
		},
		{
			"lists of several controllers that one provider refuses",
			facts{controllers: []controllerFacts{
				polls(introspect.Source{Name: "list", Synced: true, Error: "answered with status 401: Expired", FailingSince: ago(time.Minute)}),
				edited(polls(introspect.Source{Name: "names", Synced: true, Error: "answered with status 401: Expired", FailingSince: ago(time.Minute)}), func(c *controllerFacts) { c.snap.Name = "users" }),
			}},
			NotWell, "Not well. 1 cause.",
			[]string{"source fails: list: answered with status 401: Expired | controller poll, controller users | - | - | renew the credentials | 23:39:00"},
		},
		{
			"a list that was refused for what it lacks",
			facts{controllers: []controllerFacts{polls(introspect.Source{Name: "list", Synced: true, Error: refused(t), FailingSince: ago(time.Minute)})}},
			NotWell, "Not well. 1 cause.",
			[]string{"source fails: list: the list lacks 3 of 3 keys: more keys are gone than EachOptions.MaxGone allows (0) | controller poll | - | - | see whether the list is right; raise MaxGone if it is | 23:39:00"},
		},
		{
			"what is wrong with one object each is no cause of all",
			facts{controllers: []controllerFacts{
				runs(key("a", queue.StateBackingOff, "PUT https://cloud/a: 409 Conflict")),
				edited(runs(key("r", queue.StateBackingOff, "PUT https://cloud/r: 409 Conflict")), func(c *controllerFacts) { c.snap.Name, c.snap.Kind = "roles", "role" }),
			}},
			NotWell, "Not well. 2 causes.",
			[]string{
				"fails: PUT https://cloud/a: 409 Conflict | 1 of db | - | a | why,kick | 23:12:00",
				"fails: PUT https://cloud/r: 409 Conflict | 1 of role | - | r | why,kick | 23:12:00",
			},
		},
		{
			"a bucket that is paused again and again, one that is just full, and one that was paused a moment ago",
			facts{
				controllers: []controllerFacts{runs(throttledFor("a", "cloud", 11*time.Minute), throttledFor("b", "cloud", time.Minute), throttledFor("c", "full", time.Hour), throttledFor("d", "new", time.Second))},
				kinds:       []kindFacts{listed(object("a", "ready"), object("b", "ready"))},
				buckets:     []ratelimit.Stats{{Name: "cloud", Until: now.Add(17 * time.Second)}, {Name: "full"}, {Name: "new", Until: now.Add(time.Minute)}},
			},
			UnderWay, "Under way. All 2 objects are as declared. 1 cause.",
			[]string{"throttled: the other side asks for patience, now for 17 s | cloud | holds up 2 of db | - | ask less often, or for more quota | 23:29:00"},
		},
		{
			"a bucket that is paused because its endpoint does not answer",
			facts{
				checks:      []reconcile.Check{{Name: "quotas", Reason: "quota: cloud/read: the endpoint is down since 2026-03-04T23:30:00Z: EOF"}},
				controllers: []controllerFacts{runs(throttledFor("a", "cloud/read", 11*time.Minute))},
				buckets:     []ratelimit.Stats{{Name: "cloud/read", Until: now.Add(17 * time.Second)}},
			},
			NotWell, "Not well. 1 cause.",
			[]string{"is not well: quota: cloud/read: the endpoint is down since 2026-03-04T23:30:00Z: EOF | quotas | - | - | mend the endpoint or the way to it, nothing else | 23:30:00"},
		},
		{
			"a first list that does not end",
			facts{controllers: []controllerFacts{edited(polls(introspect.Source{Name: "list", Since: ago(11 * time.Minute)}), func(c *controllerFacts) { c.snap.Waiting = "source list" })}},
			NotWell, "Not well. 1 cause.",
			[]string{"runs nothing: source list has not listed everything yet | controller poll | - | - | see in a goroutine dump what its list waits for; give that a timeout, and restart | 23:29:00"},
		},
		{
			"a list that was asked for a pause",
			facts{controllers: []controllerFacts{polls(introspect.Source{Name: "list", Synced: true, Throttled: true, Error: "answered with status 429", FailingSince: ago(time.Minute)})}},
			UnderWay, "Under way. 1 cause.",
			[]string{"source is throttled: list: answered with status 429 | controller poll | - | - | ask less often, or for more quota | 23:39:00"},
		},
		{
			"a list that is asked for a pause again and again",
			facts{controllers: []controllerFacts{polls(introspect.Source{Name: "list", Synced: true, Throttled: true, Error: "answered with status 429", FailingSince: ago(time.Hour)})}},
			NotWell, "Not well. 1 cause.",
			[]string{"source is throttled: list: answered with status 429 | controller poll | - | - | ask less often, or for more quota | 22:40:00"},
		},
		{
			"a store that is back",
			facts{
				stores: []storeFacts{{name: "etcd e1", back: ago(2 * time.Minute)}},
				controllers: []controllerFacts{
					runs(
						with(key("a", queue.StateBackingOff, "etcd: get: no answer"), func(k *reconcile.KeySnapshot) { k.Since = ago(3 * time.Minute) }),
						with(key("b", queue.StateRunning, "write: "+down.Error()), func(k *reconcile.KeySnapshot) { k.Since = ago(time.Second) }),
					),
					polls(introspect.Source{Name: "list", Synced: true, Error: down.Error(), FailingSince: ago(time.Hour), Failed: ago(3 * time.Minute)}),
				},
				kinds: []kindFacts{listed(object("a", "unready"), object("b", "ready"))},
			},
			UnderWay, "Under way. 1 of 2 objects is not as declared yet: 1 waiting.", nil,
		},
		{
			"what fails for a store that is back, and what failed for another reason",
			facts{
				stores: []storeFacts{{name: "etcd e1", back: ago(2 * time.Minute)}},
				controllers: []controllerFacts{
					runs(
						key("a", queue.StateBackingOff, "etcd: get: no answer"), // a minute ago
						with(key("b", queue.StateBackingOff, "boom"), func(k *reconcile.KeySnapshot) { k.Since = ago(3 * time.Minute) }),
						with(key("g", queue.StateParked, "etcd: too large"), func(k *reconcile.KeySnapshot) { k.Since = ago(3 * time.Minute) }),
					),
					polls(introspect.Source{Name: "list", Synced: true, Error: down.Error(), FailingSince: ago(time.Hour), Failed: ago(time.Second)}),
				},
			},
			NotWell, "Not well. 4 causes; 1 needs a person.",
			[]string{
				"given up: etcd: too large | 1 of db | - | g | edit,kick | 23:12:00",
				"fails: boom | 1 of db | - | b | why,kick | 23:12:00",
				"fails: etcd: get: no answer | 1 of db | - | a | why,kick | 23:12:00",
				"source fails: list: " + down.Error() + " | controller poll | - | - | mend what it lists, nothing else | 22:40:00",
			},
		},
		{
			"an endpoint that is back, for which keys waited, and another that is not",
			facts{
				checks: []reconcile.Check{{Name: "quotas", Reason: "quota: dns/read: the endpoint is down since 2026-03-04T23:30:00Z"}},
				controllers: []controllerFacts{runs(
					key("a", queue.StateBackingOff, "GET a: 500; since then throttled: quota: no budget: s3/read: the endpoint is down"),
					key("b", queue.StateThrottled, "GET b: 500; since then throttled: quota: no budget: s3/read: it is used up"),
					key("d", queue.StateBackingOff, "GET d: 500; since then throttled: quota: no budget: dns/read: the endpoint is down"),
				)},
				kinds: []kindFacts{listed(object("a", "unready"), object("b", "unready"), object("d", "unready"))},
			},
			NotWell, "Not well. 3 of 3 objects are not as declared, for 28 min. 2 causes.",
			[]string{
				"is not well: quota: dns/read: the endpoint is down since 2026-03-04T23:30:00Z | quotas | holds up 1 of db | - | mend the endpoint or the way to it, nothing else | 23:30:00",
				"fails: GET b: 500; since then throttled: quota: no budget: s3/read: it is used up | 1 of db | - | b | why,kick | 23:12:00",
			},
		},
		{
			"a service that has just started",
			facts{
				caches: []introspect.Cache{{Kind: "db"}},
				kinds:  []kindFacts{{kind: "db", objects: func(yield func(objects.Object, error) bool) { yield(objects.Object{}, errors.New("not synced")) }}},
			},
			UnderWay, "Under way. 1 cause.",
			[]string{"cannot be listed: not synced | db | - | - | "},
		},
		{
			"a kind that cannot be listed",
			facts{
				caches: []introspect.Cache{{Kind: "db", Synced: true, Connected: true}},
				kinds:  []kindFacts{{kind: "db", objects: func(yield func(objects.Object, error) bool) { yield(objects.Object{}, errors.New("boom")) }}},
			},
			NotWell, "Not well. 1 cause.",
			[]string{"cannot be listed: boom | db | - | - | "},
		},
		{
			"stuck runs that have all workers",
			facts{controllers: []controllerFacts{edited(runs(), func(c *controllerFacts) {
				c.snap.Workers, c.snap.Active, c.stats.States = 1, 1, []queue.StateStats{{State: queue.StateReady, Keys: 292, Oldest: ago(time.Hour)}}
				c.snap.Running = []introspect.Run{{Keys: []string{"a"}, Since: ago(time.Hour), Stuck: true, Ended: "deadline"}}
			})}},
			NotWell, "Not well. 1 cause; 1 needs a person.",
			[]string{"stuck: its run goes on although its context ended: deadline | 1 of db | holds up 292 of db | a | why,restart | 22:40:00"},
		},
		{
			"one that has run nothing yet",
			facts{
				controllers: []controllerFacts{edited(runs(), func(c *controllerFacts) { c.snap.Runs = introspect.Counts{} })}, kinds: []kindFacts{listed(object("a"), object("b"))},
			},
			UnderWay, "Under way. 2 of 2 objects are not as declared yet: 2 waiting.", nil,
		},
		{
			"declared and not run, where others were",
			facts{controllers: []controllerFacts{runs()}, kinds: []kindFacts{listed(object("a", "ready"), object("b"))}},
			UnderWay, "Under way. 1 of 2 objects is not as declared yet: 1 waiting.", nil,
		},
		{
			"dependants are counted at their cause",
			facts{
				controllers: []controllerFacts{runs(key("root", queue.StateBackingOff, "denied"))},
				kinds:       []kindFacts{listed(object("root", "unready"), object("mid", "unready"), object("leaf", "unready"), object("other", "unready"))},
				needs:       needs(map[string]string{"leaf": "mid NotReady", "mid": "root NotReady"}),
			},
			NotWell, "Not well. 4 of 4 objects are not as declared, for 28 min. 1 cause.",
			[]string{"fails: denied | 1 of db | holds up 2 of db | root | why,kick | 23:12:00"},
		},
		{
			"what is not declared holds up for long",
			facts{
				controllers: []controllerFacts{runs()}, kinds: []kindFacts{listed(object("a", "unready", "lacks"), object("b", "unready", "lacks"))},
				needs: needs(map[string]string{"a": "gone NotFound", "b": "gone NotFound"}),
			},
			NotWell, "Not well. 2 of 2 objects are not as declared, for 1 h 0 min. 1 cause.",
			[]string{"waits: db gone does not exist | 2 of db | - | a | why,declare what it waits for | 22:40:00"},
		},
		{
			"a circle",
			facts{
				controllers: []controllerFacts{runs()}, kinds: []kindFacts{listed(object("a", "unready"), object("b", "unready"))},
				needs: needs(map[string]string{"a": "b NotReady", "b": "a NotReady"}),
			},
			UnderWay, "Under way. 2 of 2 objects are not as declared yet: 2 waiting.", nil,
		},
		{
			"it waits since a minute, and nothing is known of what",
			facts{controllers: []controllerFacts{runs()}, kinds: []kindFacts{listed(object("a", "unready", "lacks since a minute"))}},
			UnderWay, "Under way. 1 of 1 object is not as declared yet: 1 waiting. 1 cause.",
			[]string{"waits: NotFound: m | 1 of db | - | a | why,declare what it waits for | 23:39:00"},
		},
		{
			"what is left alone",
			facts{controllers: []controllerFacts{runs()}, kinds: []kindFacts{listed(object("a", "NotOurs"), object("b", "NotOurs"), object("c", "newer"))}},
			NotWell, "Not well. 3 of 3 objects are not as declared, for 1 h 0 min. 2 causes; 1 needs a person.",
			[]string{"left alone: NotOurs: m | 2 of db | - | a | why | 22:40:00", "left alone: a newer version of the program stored it | 1 of db | - | c | why"},
		},
		{
			"a deletion that lasts",
			facts{controllers: []controllerFacts{runs()}, kinds: []kindFacts{listed(object("a", "deleting"), object("b", "deleting for long"))}},
			NotWell, "Not well. 2 of 2 objects are not as declared, for 1 h 0 min. 1 cause.",
			[]string{"deletion waits: its finalizers are not removed: cloud | 1 of db | - | b | why,remove-finalizer | 22:40:00"},
		},
		{
			"the store is asked once",
			facts{
				stores: []storeFacts{{name: "etcd 127.0.0.1:2379", down: down}, {name: "memory"}}, caches: []introspect.Cache{{Name: "db", Synced: true, Since: ago(time.Minute), Err: down}},
				controllers: []controllerFacts{edited(runs(), func(c *controllerFacts) {
					c.snap.Error = "lease: dbs: " + down.Error() + "\nsource \"db\": " + down.Error()
					c.snap.Sources = []introspect.Source{{Name: "db", Synced: true, Error: down.Error()}}
				})},
				kinds:  []kindFacts{listed(object("a", "ready"))},
				checks: []reconcile.Check{{Name: "quotas", Reason: "cannot join: " + down.Error()}},
			},
			NotWell, "Not well. The store (etcd 127.0.0.1:2379) has not answered since 23:20:00; what follows is from then. The 1 object was as declared. 1 cause.",
			[]string{"store: no answer | etcd 127.0.0.1:2379 | - | - | mend the store, nothing else | 23:20:00"},
		},
		{
			"keys that fail for the store are counted at it",
			facts{
				stores:      []storeFacts{{name: "memory", down: down}},
				controllers: []controllerFacts{runs(append(many(3, "write: "+down.Error()), key("x", queue.StateBackingOff, "boom"))...)},
			},
			NotWell, "Not well. The store (memory) has not answered since 23:20:00; what follows is from then. 2 causes.",
			[]string{"store: no answer | memory | holds up 3 of db | - | mend the store, nothing else | 23:20:00", "fails: boom | 1 of db | - | x | why,kick | 23:12:00"},
		},
		{
			"keys that fail for what the store says are counted at it",
			facts{
				stores: []storeFacts{{name: "postgres: 10.0.0.7:5432, database shop", down: &store.UnavailableError{Since: down.Since, Err: errors.New("commits fail: postgres: no space")}}},
				controllers: []controllerFacts{runs(
					key("a", queue.StateBackingOff, "postgres: commit: no space"), key("b", queue.StateBackingOff, "read b: postgres: get: no connection"),
					key("c", queue.StateBackingOff, "my-postgres: no answer"), key("d", queue.StateParked, "postgres: commit: too large"),
				)},
			},
			NotWell, "Not well. The store (postgres: 10.0.0.7:5432, database shop) has taken no writes since 23:20:00; what follows is from then. 3 causes; 1 needs a person.",
			[]string{
				"store: commits fail: postgres: no space | postgres: 10.0.0.7:5432, database shop | holds up 2 of db | - | mend the store, nothing else | 23:20:00",
				"given up: postgres: commit: too large | 1 of db | - | d | edit,kick | 23:12:00",
				"fails: my-postgres: no answer | 1 of db | - | c | why,kick | 23:12:00",
			},
		},
		{
			"names are the user's",
			facts{checks: []reconcile.Check{{Name: "quotas", Reason: "the circuit is open"}, {Name: "main.runner", Reason: "boom"}, {Name: "web", OK: true}}},
			NotWell, "Not well. 2 causes.",
			[]string{"is not well: boom | main.runner | - | - | ", "is not well: the circuit is open | quotas | - | - | "},
		},
		{
			"all workers are busy",
			facts{controllers: []controllerFacts{edited(runs(), func(c *controllerFacts) {
				c.snap.Active, c.stats.States = 4, []queue.StateStats{{State: queue.StateReady, Keys: 641, Oldest: ago(9 * time.Second)}}
			})}},
			UnderWay, "Under way. 1 cause.",
			[]string{"workers busy: all 4 workers of dbs are busy, 641 keys wait, the first for 9 s | controller dbs | - | - |  | 23:39:51"},
		},
		{
			"a source that does not list, one that fails, and what needs the operator",
			facts{
				controllers: []controllerFacts{
					edited(runs(), func(c *controllerFacts) {
						c.snap.Name, c.snap.Waiting, c.snap.Sources = "ldap", "source ldap://dir", []introspect.Source{{Name: "ldap://dir"}}
					}),
					edited(runs(), func(c *controllerFacts) {
						c.snap.Name, c.snap.Error, c.snap.Sources = "poll", "source \"x\": refused", []introspect.Source{{Name: "x", Synced: true, Error: "refused", FailingSince: ago(time.Minute)}}
					}),
					edited(runs(), func(c *controllerFacts) { c.snap.Name, c.stats.HeldBy = "p", "by the debug page" }),
				},
				held: map[string]string{"db": "too many at once", "role": ""},
			},
			NotWell, "Not well. 4 causes; 1 needs a person.",
			[]string{
				"prune is held: too many at once | db | - | - | release prune", "source fails: x: refused | controller poll | - | - | mend what it lists, nothing else | 23:39:00",
				"paused: by the debug page | controller p | - | - | resume", "runs nothing: source ldap://dir has not listed everything yet | controller ldap | - | - | ",
			},
		},
		{
			"what is given up and asks for an answer",
			facts{controllers: []controllerFacts{runs(
				key("a", queue.StateParked, "external: a create was begun and its outcome is not known: attempt 2"),
				key("b", queue.StateParked, "external: the spec says another location than the one on record: eu"))}},
			NotWell, "Not well. 2 causes; 2 need a person.",
			[]string{
				"given up: external: a create was begun and its outcome is not known: attempt 2 | 1 of db | - | a | why,created,not-created | 23:12:00",
				"given up: external: the spec says another location than the one on record: eu | 1 of db | - | b | edit,forget-location | 23:12:00",
			},
		},
	} {
		c.facts.at = now
		if c.says == "All is well: all is as declared." {
			c.says = "All is well: the 1 object is as declared."
		}
		v := judge(&c.facts)
		var causes []string
		for _, x := range v.Causes {
			causes = append(causes, told(x))
		}
		if v.Level != c.level || v.Says != c.says || !slices.Equal(causes, c.causes) {
			t.Errorf("%s: it is %s: %q\n\t%s\nwant %s: %q\n\t%s", c.what, v.Level, v.Says, strings.Join(causes, "\n\t"), c.level, c.says, strings.Join(c.causes, "\n\t"))
		}
		n := 0
		for _, of := range v.States {
			n += of
		}
		if n != v.Objects || v.States[ready] != v.Declared {
			t.Errorf("%s: the states are %v of %d objects, %d as declared", c.what, v.States, v.Objects, v.Declared)
		}
	}
}

// What an operator reads of each fault of the table in metrics/RUNBOOK.md, by the same words: the
// level, and the first cause.
func TestVerdictOfEachFaultIsThatOfTheRunbook(t *testing.T) {
	down := func(why string) facts {
		down := &store.UnavailableError{Since: ago(time.Minute), Err: errors.New(why)}
		return facts{
			stores:      []storeFacts{{name: "etcd 127.0.0.1:2379", down: down}},
			controllers: []controllerFacts{edited(runs(key("a", queue.StateBackingOff, why)), func(c *controllerFacts) { c.snap.Error = "lease: dbs: " + down.Error() })},
			kinds:       []kindFacts{listed(object("a", "ready"), object("b", "ready"))},
		}
	}
	keys := func(state queue.State, err string) facts {
		var keys []reconcile.KeySnapshot
		var all []objects.Object
		for i := range 20 {
			name := fmt.Sprint("db-", i)
			keys, all = append(keys, key(name, state, err)), append(all, object(name, "unready"))
		}
		return facts{controllers: []controllerFacts{runs(keys...)}, kinds: []kindFacts{listed(all...)}}
	}
	endpoint := func(err string) facts {
		f := keys(queue.StateBackingOff, err)
		f.checks = []reconcile.Check{{Name: "quotas", Reason: "quota: cloud/read" + endpointDown + " since 2026-03-04T23:30:00Z"}}
		return f
	}
	controller := func(edit func(*controllerFacts)) facts {
		return facts{controllers: []controllerFacts{edited(runs(), edit)}}
	}
	source := func(s introspect.Source, waits string) facts {
		return controller(func(c *controllerFacts) { c.snap.Sources, c.snap.Waiting = []introspect.Source{s}, waits })
	}
	panics := with(key("a", queue.StateBackingOff, "panic: nil map"), func(k *reconcile.KeySnapshot) { k.Panicked = true })
	newer := with(key("a", queue.StateBackingOff, "newer"), func(k *reconcile.KeySnapshot) { k.Newer = true })
	throttled := facts{controllers: []controllerFacts{runs(throttledFor("a", "cloud", 11*time.Minute))}, kinds: []kindFacts{listed(object("a", "ready"))}}
	throttled.buckets = []ratelimit.Stats{{Name: "cloud", Until: now.Add(time.Minute)}}
	lacks := facts{controllers: []controllerFacts{runs()}, kinds: []kindFacts{listed(object("a", "unready", "lacks"))}}
	lacks.needs = func(string, store.Key) []need { return []need{{"db", store.Key{Name: "gone"}, "NotFound"}} }
	faults := map[string]facts{
		"store killed":    down("connection refused"),
		"store frozen":    down("no sign of life from the server"),
		"store read-only": down("cannot execute INSERT in a read-only transaction"),
		"store full":      down("etcdserver: mvcc: database space exceeded"),
		"store read-only, a service that writes leases alone": down("commits fail: cannot execute UPDATE in a read-only transaction"),

		"PostgreSQL restarted":             down("the database system is starting up"),
		"PostgreSQL's connections used up": down("sorry, too many clients already"),
		"a table of the store locked":      down("timeout: context deadline exceeded"),
		"PostgreSQL's password changed":    down("password authentication failed"),
		"disk full":                        down("write: no space left on device"),

		"cloud 500":           endpoint("quota: 500 Internal Server Error"),
		"cloud 429":           throttled,
		"cloud hanging":       endpoint("context deadline exceeded"),
		"cloud credentials":   keys(queue.StateBackingOff, "quota: 401 Unauthorized"),
		"cloud listing empty": source(introspect.Source{Name: "poll", Synced: true, Error: "the list lacks 50 of 50 keys"}, ""),

		"panic": {controllers: []controllerFacts{runs(panics)}},
		"stuck": controller(func(c *controllerFacts) {
			c.snap.Running = []introspect.Run{{Keys: []string{"a"}, Since: ago(time.Minute), Stuck: true, Ended: "deadline"}}
		}),
		"source silent":      source(introspect.Source{Name: "poll", Since: ago(11 * time.Minute)}, "source poll"),
		"dependency missing": lacks,
		"newer objects":      {controllers: []controllerFacts{runs(newer)}, kinds: []kindFacts{listed(object("a", "newer", "ready"), object("b", "ready"))}},
		// A clock that is set back: what was stored is of the future.
		"clock stepped": {controllers: []controllerFacts{runs(with(key("a", queue.StateDelayed, ""), func(k *reconcile.KeySnapshot) { k.Since = now.Add(time.Hour) }))}, kinds: []kindFacts{{kind: "db", objects: func(yield func(objects.Object, error) bool) {
			o := object("a", "ready")
			o.Created, o.Conditions[0].Since = now.Add(time.Hour), now.Add(time.Hour)
			yield(o, nil)
		}}}},
		// Of the servers that are left: its lease is another's now.
		"server frozen": controller(func(c *controllerFacts) { c.leases = []introspect.Lease{{Held: true, Running: true}} }),
		"server dead":   controller(func(c *controllerFacts) { c.leases = []introspect.Lease{{Held: true, Running: true}} }),
	}
	page, err := os.ReadFile("../../metrics/RUNBOOK.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \| [^|]+ \| [^|]+ \| ([^|]+) \|`).FindAllStringSubmatch(string(page), -1) {
		rows[row[1]] = row[2]
	}
	for fault, f := range faults {
		f.at = now
		v := judge(&f)
		got := v.Level
		if len(v.Causes) > 0 {
			got += ": " + v.Causes[0].What
		}
		if !strings.HasSuffix(rows[fault], got) {
			t.Errorf("%s: the verdict is %q, and the runbook says %q", fault, got, rows[fault])
		}
	}
	if len(rows) != len(faults)+1 { // and the head
		t.Errorf("the runbook has %d rows, and %d faults are tried", len(rows)-1, len(faults))
	}
}

// What is beneath is told in a line each.
func TestUnderneath(t *testing.T) {
	down := &store.UnavailableError{Since: ago(20 * time.Minute), Err: errors.New("no answer")}
	sharded := edited(runs(), func(c *controllerFacts) {
		c.snap.Shards, c.snap.Held, c.leases = 3, 1, []introspect.Lease{{Held: true, Running: true}, {Holder: "s2"}, {}}
	})
	single := edited(runs(), func(c *controllerFacts) {
		c.snap.Name, c.snap.Held, c.leases = "one", 0, []introspect.Lease{{Holder: "s2"}}
	})
	whole := func(name string) controllerFacts {
		return edited(runs(), func(c *controllerFacts) {
			c.snap.Name, c.leases = name, []introspect.Lease{{Held: true, Running: true}}
		})
	}
	lost := func(name string) controllerFacts {
		return edited(runs(), func(c *controllerFacts) {
			c.snap.Name, c.snap.Held, c.leases = name, 0, []introspect.Lease{{}}
		})
	}
	stuckOne := edited(runs(), func(c *controllerFacts) {
		c.snap.Active, c.stats.States = 1, []queue.StateStats{{State: queue.StateThrottled, Keys: 3}}
		c.snap.Running = []introspect.Run{{Keys: []string{"a"}, Stuck: true}}
	})
	for _, c := range []struct {
		what  string
		facts facts
		want  []string
	}{
		{"nothing", facts{}, nil},
		{
			"a server of three, and a shard that no other has taken yet",
			facts{stores: []storeFacts{{name: "memory"}}, controllers: []controllerFacts{sharded, single}, caches: []introspect.Cache{{Synced: true, Connected: true}}},
			[]string{"well store: memory answers", "under way leases: dbs runs 1 of 3 shards here, s2 runs 1, no server that is known here runs 1, one runs on s2", "well caches: 1 cache connected", "well workers: 0 of 8 are busy"},
		},
		{
			"a healthy server of four, in the order of their names",
			facts{controllers: []controllerFacts{edited(sharded, func(c *controllerFacts) {
				c.snap.Shards, c.leases = 5, []introspect.Lease{{Holder: "d"}, {Held: true, Running: true}, {Holder: "b"}, {Holder: "c"}, {Holder: "b"}}
			})}},
			[]string{"well leases: dbs runs 1 of 5 shards here, b runs 2, c 1, d 1", "well workers: 0 of 4 are busy"},
		},
		{
			"controllers that run whole",
			facts{controllers: []controllerFacts{whole("a"), whole("b"), single}},
			[]string{"well leases: 2 controllers run here, one runs on s2", "well workers: 0 of 12 are busy"},
		},
		{
			"a store that is down",
			facts{stores: []storeFacts{{name: "memory", down: down}}, caches: []introspect.Cache{{Name: "db", Synced: true}}},
			[]string{"not well store: memory has not answered since 23:20:00", "not well caches: as of when the store last answered"},
		},
		{
			"a store that only refuses writes, whose caches follow it",
			facts{
				stores: []storeFacts{{name: "memory", down: &store.UnavailableError{Since: down.Since, Err: errors.New("commits fail: no space")}}},
				caches: []introspect.Cache{{Name: "db", Synced: true, Connected: true}},
			},
			[]string{"not well store: memory has taken no writes since 23:20:00", "well caches: 1 cache connected"},
		},
		{
			"a store that is back, for which keys failed",
			facts{
				stores:      []storeFacts{{name: "memory", back: ago(time.Second)}},
				controllers: []controllerFacts{runs(key("a", queue.StateBackingOff, "memory: no answer"))},
			},
			[]string{"under way store: memory answers again, 1 key that failed for it waits for its next try", "well leases: none needed", "well workers: 0 of 4 are busy"},
		},
		{
			"leases that a store that is down has ended",
			facts{stores: []storeFacts{{name: "memory", down: down}}, controllers: []controllerFacts{whole("a"), lost("b"), lost("c"), single}},
			[]string{
				"not well store: memory has not answered since 23:20:00",
				"not well leases: a runs here, 2 controllers have no lease until the store is mended, one runs on s2", "well workers: 0 of 16 are busy",
			},
		},
		{
			"a cache alone",
			facts{caches: []introspect.Cache{{Name: "db", Synced: true, Since: ago(time.Minute), Err: errors.New("refused")}}},
			[]string{"under way caches: db has had no watch since 23:39:00: refused"},
		},
		{
			"a stuck worker and a quota",
			facts{controllers: []controllerFacts{stuckOne}, buckets: []ratelimit.Stats{{Name: "dns", Until: now.Add(90 * time.Second)}}},
			[]string{"well leases: none needed", "under way quotas: dns is paused for 1 min, 3 keys wait", "not well workers: 1 of 4 are busy, 1 of dbs is stuck"},
		},
	} {
		c.facts.at = now
		var got []string
		for _, p := range judge(&c.facts).Under {
			got = append(got, p.Level+" "+p.Name+": "+p.Says)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n\t%s\nwant\n\t%s", c.what, strings.Join(got, "\n\t"), strings.Join(c.want, "\n\t"))
		}
	}
}

// A verdict is bounded: causes of any number are told apart up to a limit, and shown up to another.
func TestVerdictIsBounded(t *testing.T) {
	letters := func(i int) string {
		return strings.Map(func(r rune) rune { return r - '0' + 'a' }, fmt.Sprintf("%05d", i))
	}
	c := runs()
	c.keys = func(yield func(reconcile.KeySnapshot, error) bool) {
		for i := range 100_000 {
			if !yield(key("db-"+letters(i), queue.StateBackingOff, "no "+letters(i)), nil) {
				return
			}
		}
		yield(reconcile.KeySnapshot{}, errTooMany)
	}
	f := facts{at: now, controllers: []controllerFacts{c}}
	v := judge(&f)
	counted := 0
	for _, x := range v.Causes {
		counted += x.Count
	}
	if len(v.Causes) != maxCauses || len(v.Causes)+v.More > maxNames+1 || v.Causes[0].Count < 100_000-maxNames {
		t.Errorf("%d causes and %d more, the first of %d keys", len(v.Causes), v.More, v.Causes[0].Count)
	}
	if len(v.Notes) != 1 || v.Notes[0] != "the keys of dbs were not all looked at: they are more than 100,000" {
		t.Errorf("the notes are %q", v.Notes)
	}
}

// A store that answers, and warns, is no store that is down: what it warns of is told once, and asks for
// a person.
func TestWarningOfAStoreIsToldOnceAndIsNoOutage(t *testing.T) {
	const warn = "etcd: the cluster was never compacted"
	v := judge(&facts{
		at: time.Now(), stores: []storeFacts{{name: "etcd", warn: warn}},
		checks: []reconcile.Check{{Name: "db", Reason: "cache: db: a warning: " + warn}},
	})
	if len(v.Causes) != 1 || v.Causes[0].What != whatIll || v.Causes[0].Why != warn || !v.Causes[0].Person || v.Level != NotWell {
		t.Errorf("the verdict is %+v", v)
	}
	if len(v.Under) == 0 || v.Under[0].Level != UnderWay || !strings.Contains(v.Under[0].Says, warn) {
		t.Errorf("underneath: %+v", v.Under)
	}
}
