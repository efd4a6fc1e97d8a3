package debug_test

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tendhq/tend/reconcile/web/debug"
	"github.com/tendhq/tend/store"
)

var masked = regexp.MustCompile(`(?m)^uid( +)[A-Z2-7]{26}$|"uid": "[A-Z2-7]{26}"`)

// What a reader finds on the pages of objects and keys, whole: what is left out, or in another place,
// is a line of difference.
func TestPagesOfObjectsAndKeysInFull(t *testing.T) {
	withObjects(t, func(o *debug.Options) { allow(new([]debug.Action))(o) }, func(t *testing.T, w *world, accounts *store.Store[signIn, status], h http.Handler) {
		o := &bucket{Meta: store.Meta{Name: "shown", Namespace: "prod", Paused: true, Finalizers: []string{"cloud.example/bucket", "other.example/x"}}, Spec: spec{Size: 3}}
		o.Owners = []store.Owner{{Kind: "account", Key: store.Key{Name: "root"}, UID: "u1"}, {Kind: "account", Key: store.Key{Namespace: "n", Name: "second"}, UID: "u2"}}
		o.SetProgressing("Refused", "the cloud says no")
		o.SetCondition(store.Condition{Type: "Reachable", Status: store.True, Reason: "Answers", Message: "in 3 ms"})
		o = must(w.Store.Create(t.Context(), o))
		time.Sleep(90 * time.Second)
		if err := w.Store.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		_ = must(accounts.Mutate(context.WithoutCancel(t.Context()), store.Key{Name: "root"}, func(o *account) error {
			o.SetReady()
			return nil
		}))
		for _, page := range []struct {
			what string
			at   []string
			want string
		}{
			{"an object that is paused and in deletion", []string{"view", "object", "kind", "bucket", "key", "prod/shown"}, `
== Object
state       paused
phase       Progressing
deletion    its deletion was asked for 5 min 0 s ago, and waits until these finalizers are removed: cloud.example/bucket, other.example/x
paused      for 6 min 30 s, on every server, until it is resumed
age         6 min 30 s
generation  2; reconciled: 0
revision    9
uid         UID
finalizers  cloud.example/bucket, other.example/x
owners      account root, account n/second

== Conditions
condition  status  since                       reason   generation
Ready      False   6 min 30 s ago (00:00:03Z)  Refused  0
    message: the cloud says no
Reachable  True    6 min 30 s ago (00:00:03Z)  Answers  0
    message: in 3 ms

== In the queue of bucket
state  delayed
why    it is to run in 5 min 0 s
its key: ?c=bucket&key=prod%2Fshown

== Last runs
0 of the last 2 did not succeed; the newest is on the right, and higher is longer
ended                       took  how
5 min 0 s ago (00:01:33Z)   0s    succeeded
6 min 30 s ago (00:00:03Z)  0s    succeeded
`},
			{"an object whose key is given up, and that stores nothing", []string{"view", "object", "kind", "bucket", "key", "parked-b"}, `
== Object
state       given up
phase       not reconciled yet
age         6 min 33 s
generation  1; reconciled: 0
revision    4
uid         UID

== In the queue of bucket
state          parked
why            it is given up until it is changed or kicked, or the slow resync comes round
failing since  6 min 33 s ago (00:00:00Z)
last error     the name is taken
its key: ?c=bucket&key=parked-b

== Last runs
1 of the last 1 did not succeed; the newest is on the right, and higher is longer
ended                       took  how
6 min 33 s ago (00:00:00Z)  0s    given up
`},
			{"its key", []string{"c", "bucket", "key", "parked-b"}, `
== State
state                  parked
why it is not running  it is given up until it is changed or kicked, or the slow resync comes round
since                  6 min 33 s ago (00:00:00Z)
runs next              –
failures in a row      1
failing since          6 min 33 s ago (00:00:00Z)
last error             the name is taken
priority               -99

== Last runs
1 of the last 1 did not succeed; the newest is on the right, and higher is longer
ended                       took  how
6 min 33 s ago (00:00:00Z)  0s    given up

== Object
state       given up
phase       not reconciled yet
age         6 min 33 s
generation  1; reconciled: 0
revision    4
uid         UID
the whole object: ?key=parked-b&kind=bucket&view=object

== Events
(none)
`},
			{"an object as declared, without a controller", []string{"view", "object", "kind", "account", "key", "root"}, `
== Object
state       as declared
phase       Ready
age         6 min 30 s
generation  1; reconciled: 1
revision    10
uid         UID
finalizers  cloud.example/account

== Conditions
condition  status  since                 reason  generation
Ready      True    0 ms ago (00:06:33Z)  Ready   1
`},
			{"the list of a kind in one state", []string{"view", "objects", "kind", "bucket", "state", "given up"}, `
7 in all: 1 given up, 2 failing, 1 paused, 3 waiting
key       state     phase               age         generation  seen
parked-b  given up  not reconciled yet  6 min 33 s  1           0
    remarks: the name is taken
`},
			{"of objects that are paused", []string{"view", "objects", "kind", "bucket", "state", "paused"}, `
7 in all: 1 given up, 2 failing, 1 paused, 3 waiting
key         state   phase        age         generation  seen  finalizers
prod/shown  paused  Progressing  6 min 30 s  2           0     cloud.example/bucket, other.example/x
    conditions: Ready is False (Refused), Reachable is True (Answers)
    remarks: in deletion for 5 min 0 s; paused for 6 min 30 s
`},
		} {
			got := get(t, h, http.StatusOK, append(page.at, "format", "text")...)
			_, got, _ = strings.Cut(got, "\n")
			got, _, _ = strings.Cut(got, "\n== All of it")
			if got = masked.ReplaceAllString(got, "uid${1}UID"); strings.TrimSpace(got) != strings.TrimSpace(page.want) {
				t.Errorf("%s:\n%s\nwant\n%s", page.what, got, page.want)
			}
		}
		// Retrying, pausing and what else an object's state allows are links of the page.
		page := get(t, h, http.StatusOK, "view", "object", "kind", "bucket", "key", "prod/shown")
		wantAll(t, page, "ask=object-resume", "ask=object-reconcile", `class="button danger"`)
		if strings.Contains(page, "ask=object-pause") {
			t.Error("what is paused can be paused")
		}
		wantAll(t, get(t, h, http.StatusOK, "view", "object", "kind", "bucket", "key", "parked-b"), "ask=object-pause")
	})
}

// An object that cannot be decoded says so and why, on its page and in the list, and has no actions.
func TestPageOfAnObjectThatCannotBeDecodedInFull(t *testing.T) {
	withObjects(t, func(o *debug.Options) { allow(new([]debug.Action))(o) }, func(t *testing.T, w *world, accounts *store.Store[signIn, status], h http.Handler) {
		type foreign = struct{ Size string }
		others := must(store.New[foreign, status](w.Store.Backend(), "bucket", nil))
		_ = must(others.Create(t.Context(), &store.Object[foreign, status]{Meta: store.Meta{Name: "foreign"}, Spec: foreign{"three"}}))
		time.Sleep(time.Second)
		why := "store: cannot decode: bucket foreign at revision 8: json: cannot unmarshal string into Go struct field Spec.spec.Size of type int\n"
		for _, page := range []struct {
			at   []string
			want []string
		}{
			{[]string{"view", "object", "kind", "bucket", "key", "foreign"}, []string{"\n== Object\ncannot be decoded  " + why + "state              undecodable\n"}},
			{[]string{"view", "objects", "kind", "bucket", "state", "undecodable"}, []string{"7 in all: 1 undecodable, ", "\nforeign  undecodable  0           0\n    remarks: " + why}},
			{[]string{"view", "search", "q", "foreign"}, []string{why}},
		} {
			wantAll(t, get(t, h, http.StatusOK, append(page.at, "format", "text")...), page.want...)
			if strings.Contains(get(t, h, http.StatusOK, page.at...), "ask=object") {
				t.Errorf("%v: what cannot be decoded can be acted on", page.at)
			}
		}
		// A function that stores nothing: it has no phase, and not one that says that it waits.
		wantAll(t, get(t, h, http.StatusOK, "view", "object", "kind", "bucket", "key", "logs", "format", "text"), "\n== Object\nstate       as declared\nage         ", "\n== All of it\nsecrets are not shown\n{")
		wantAll(t, get(t, h, http.StatusOK, "view", "objects", "kind", "bucket", "state", "ready", "format", "text"), "key        state        age ", "\nlogs       as declared  ")
	})
}
