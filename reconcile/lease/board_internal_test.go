package lease

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// A board that a list has brought up to date does not go back when the watch brings what came
// before the list, be it changes or a snapshot, and goes on with what came after. A list that
// is older than the one before ends the session: the store was restored from a backup.
func TestWatchThatIsLateTakesNothingBackFromAList(t *testing.T) {
	b, err := memory.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	write := func(member string, put store.Value) store.Change {
		t.Helper()
		key := memberKey("m", "peer-", member)
		r, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{{Kind: Kind, Key: key, Put: put}}})
		if err != nil {
			t.Fatal(err)
		}
		n, _ := put.(note)
		return store.Change{Record: store.Record{Kind: Kind, Key: key, Created: r, Revision: r, Value: n}, Deleted: put == nil}
	}
	board := newBoard("m", "peer-", 0, 0)
	shows := func(when string, want ...string) {
		t.Helper()
		c, _, _ := board.members(-1)
		if got := slices.Sorted(maps.Keys(c.live)); !slices.Equal(got, want) {
			t.Errorf("%s: the board shows %s, want %s", when, strings.Join(got, " "), strings.Join(want, " "))
		}
	}
	late := []store.Change{write("a", note{Server: "a"}), write("b", note{Server: "b"}), write("a", nil)}
	if board.confirmed() != (moment{}) {
		t.Error("a board of which no list was asked for is confirmed")
	}
	now := systemClock().now()
	if err := board.read(t.Context(), b, now); err != nil || board.confirmed() != now {
		t.Errorf("a list: %v, confirmed %v, want %v", err, board.confirmed(), now)
	}
	shows("after a list", "b")
	board.apply(store.Batch{Changes: late[:1], Revision: late[0].Revision})
	shows("after a change from before it", "b")
	old := records{by: map[string]owner{"peer-a": {note: note{Server: "a"}, created: late[0].Revision}}}
	board.replace(old, late[0].Revision)
	shows("after a snapshot from before it", "b")
	board.apply(store.Batch{Changes: late[1:], Revision: late[2].Revision})
	shows("when the watch is as far", "b")
	next := write("c", note{Server: "c"})
	board.apply(store.Batch{Changes: []store.Change{next}, Revision: next.Revision})
	shows("after a change that came later", "b", "c")
	if err := board.take(records{}, late[0].Revision, moment{at: now.at.Add(time.Second)}); !errors.Is(err, errBack) || board.confirmed() != now {
		t.Errorf("an older list: %v, want that the store has gone back", err)
	}
}

// twoPages is a backend of which the watch sends a snapshot of two pages, and halts between them.
type twoPages struct {
	store.Backend
	halt func()
}

func (b twoPages) Watch(ctx context.Context, _ string, _ store.Revision) iter.Seq2[store.Batch, error] {
	page := func(shard int) []store.Change {
		return []store.Change{{Record: store.Record{Kind: Kind, Key: shardKey("m", shard), Created: 7, Revision: 7, Value: note{Server: "a", Shards: 2}}}}
	}
	return func(yield func(store.Batch, error) bool) {
		yield(store.Batch{Kind: store.BatchSnapshot, Revision: 9, Changes: page(0)}, nil)
		b.halt()
		yield(store.Batch{Kind: store.BatchSnapshot, Revision: 9, Changes: page(1)}, nil)
		yield(store.Batch{Kind: store.BatchSnapshotEnd, Revision: 9}, nil)
		<-ctx.Done()
	}
}

// While a snapshot of the watch comes, after a gap, the board shows what it showed before. With the
// first page alone a shard of the second one would be held by none at the revision of both, and the
// server that took it during the gap would take its hold for lost.
//
// promise L2. Negative control: the mutant "the first page of a snapshot counts alone".
func TestHalfOfASnapshotShowsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, halt := newBoard("m", "member-", 2, 2), make(chan struct{})
		b.replace(records{by: map[string]owner{}}, 5)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go b.follow(ctx, twoPages{halt: func() { <-halt }}, func(err error) { t.Error(err) })
		for _, complete := range []bool{false, true} {
			synctest.Wait()
			for shard := range 2 {
				if _, held, known := b.holder(shardKey("m", shard), 7); held != complete || known != complete {
					t.Errorf("snapshot complete %v: shard %d is held %v, known %v", complete, shard, held, known)
				}
			}
			if !complete {
				close(halt)
			}
		}
	})
}

// The server that held a shard before is known however the end of its hold is heard of: by a change, by a
// snapshot of the watch or by a list, be the shard free then or another server's.
//
// Negative control: the mutant "a list does not name the server before".
func TestPreviousHolderIsKnownHoweverItsEndIsHeardOf(t *testing.T) {
	name := shardKey("m", 1).Name
	held := func(server string, created store.Revision) records {
		return records{by: map[string]owner{name: {note: note{Server: server, Shards: 2}, created: created}, shardKey("m", 0).Name: {created: 1}}}
	}
	free := func() records { return records{by: map[string]owner{shardKey("m", 0).Name: {created: 1}}} }
	for way, end := range map[string]func(b *board) error{
		"a change": func(b *board) error {
			b.apply(store.Batch{Revision: 9, Changes: []store.Change{{Record: store.Record{Kind: Kind, Key: shardKey("m", 1), Revision: 9}, Deleted: true}}})
			return nil
		},
		"a snapshot":                 func(b *board) error { b.replace(free(), 9); return nil },
		"a snapshot with the next":   func(b *board) error { b.replace(held("second", 8), 9); return nil },
		"a list":                     func(b *board) error { return b.take(free(), 9, moment{}) },
		"a list that shows the next": func(b *board) error { return b.take(held("second", 8), 9, moment{}) },
	} {
		b := newBoard("m", "member-", 2, 2)
		b.replace(held("first", 2), 5)
		if err := end(b); err != nil {
			t.Fatalf("%s: %v", way, err)
		}
		if got := b.before[name]; got != "first" {
			t.Errorf("after %s the holder before is %q, want first", way, got)
		}
		if got, known := b.before[shardKey("m", 0).Name]; known {
			t.Errorf("after %s a shard that is still held was held by %q before", way, got)
		}
	}
}

// While a server lives that knows nothing of loads, all plan by the number of shards: the plans of
// the two would undo each other.
//
// promise L2. Negative controls: the mutants "shares are by load beside a server that knows none"
// and "half of what cannot be read of a load counts".
func TestPlanIsByNumberWhileAServerKnowsNoLoads(t *testing.T) {
	for _, of := range []struct {
		rule int
		want []string
	}{
		{rulePlan, []string{"a", "a", "b", "b"}},
		{ruleLoads, []string{"a", "b", "b", "b"}},
	} {
		c := census{
			plan: plan{live: []string{"a"}, owner: []string{"a", "a", "a", "a"}, home: make([]string, 4)},
			seats: []seat{
				{owner{note: note{Rule: ruleLoads, Measures: true, Loads: "0:1000 1:1 2:1 3:1 99:5 x x:1 0:y"}, created: 1}, bidder{"a", 1}},
				{owner{note: note{Rule: of.rule}, created: 2}, bidder{"b", 1}},
			},
		}
		if got := c.next(); !slices.Equal(got.owner, of.want) {
			t.Errorf("beside a server of rule %d the plan is %v, want %v", of.rule, got.owner, of.want)
		}
	}
}

// What a server measured of a shard before the shard was given to another one does not count:
// the new owner's word does, or what the plan remembers.
//
// promise L2. Negative control: the mutant "what others measured of a shard counts".
func TestLoadOfAShardIsItsOwnersToSay(t *testing.T) {
	owners := []string{"a", "a", "b", "b"}
	c := census{
		plan: plan{live: []string{"a", "b"}, owner: owners, home: make([]string, 4)},
		seats: []seat{
			{owner{note: note{Rule: ruleLoads, Measures: true, Loads: "2:10 3:10"}, created: 1}, bidder{"b", 1}},
			{owner{note: note{Rule: ruleLoads, Measures: true, Loads: "0:10 1:10 2:9000"}, created: 2}, bidder{"a", 1}},
		},
	}
	if got := c.next(); !slices.Equal(got.owner, owners) {
		t.Errorf("the plan is %v, want %v: shard 2 was dear for the server that had it before", got.owner, owners)
	}
}

// A plan in the store that is malformed is none: a list of other shards, or names that are not
// there.
//
// Negative control: the mutant "a plan with too short a list is read".
func TestMalformedPlanIsNone(t *testing.T) {
	for text, ok := range map[string]bool{
		`{"live":1,"servers":["a"],"owner":"AAEAAQ=="}`:                                true,
		`{"live":1,"servers":["a"],"owner":"AAEAAQ==","home":"AAAAAA==","load":[1,2]}`: true,
		`{"live":1,"servers":["a"],"owner":"AAE="}`:                                    false,
		`{"live":1,"servers":["a"],"owner":"AAEAAQ==","home":"AAA="}`:                  false,
		`{"live":1,"servers":["a"],"owner":"AAEAAQ==","home":"AAAAAAAA"}`:              false,
		`{"live":1,"servers":["a"],"owner":"AAEAAQ==","load":[1]}`:                     false,
		`{"live":1,"servers":["a"],"owner":"AAEAAQ==","load":[0,1099511627776]}`:       true,
		`{"live":1,"servers":["a"],"owner":"AAEAAQ==","load":[1,-1]}`:                  false,
		`{"live":1,"servers":["a"],"owner":"AAEAAQ==","load":[1,1099511627777]}`:       false,
		`{"live":1,"servers":["a"],"owner":"AAEAAg=="}`:                                false,
		`{"live":2,"servers":["a"],"owner":"AAEAAQ=="}`:                                false,
		`{"live":-1,"servers":["a"],"owner":"AAEAAQ=="}`:                               false,
		`{"live":"x"}`: false,
	} {
		if _, err := readPlan(store.Record{Bytes: []byte(text)}, 2); (err == nil) != ok {
			t.Errorf("%s: %v, want that it is read: %v", text, err, ok)
		}
	}
}

// A plan in the store whose loads no server could have measured is none. With these the sum of
// the loads overflowed to zero, and the plan after it was a division by that.
//
// promise L2. Negative control: the mutant "any load of a plan is read".
func TestPlanWithLoadsThatNoneMeasuredIsNotBuiltOn(t *testing.T) {
	b := newBoard("job", "member-", 3, 3)
	all := records{by: map[string]owner{"member-x": {note{Server: "a", Rule: ruleLoads, Measures: true}, 1}}}
	b.set(&all, store.Change{Record: store.Record{
		Kind: Kind, Key: store.Key{Namespace: "job", Name: planName}, Revision: 2,
		Bytes: []byte(`{"live":1,"servers":["a"],"owner":"AAEAAQAB","load":[9223372036854775807,9223372036854775807,2]}`),
	}})
	b.replace(all, 2)
	c, _, _ := b.members(-1)
	if got, want := c.next().owner, []string{"a", "a", "a"}; !slices.Equal(got, want) {
		t.Errorf("the next plan is %v, want %v", got, want)
	}
}

// A reading of the clocks that lacks the time since the machine was started is not compared with
// one that has it: the wall clock is in doubt then, and nothing is certain.
//
// promise L2. Negative control: the mutant "an unread time since the start counts as none".
func TestClockThatCouldNotBeReadThenIsNotCompared(t *testing.T) {
	var wall time.Duration
	readable := false
	c := clock{wall: func() time.Duration { return wall }, boot: func() (time.Duration, bool) {
		if !readable {
			return 0, false
		}
		return 30 * 24 * time.Hour, true
	}}
	m := c.now()
	readable, wall = true, time.Hour // the wall clock was set meanwhile
	if elapsed, sure := c.since(m); sure || elapsed > time.Minute {
		t.Errorf("%v since a moment ago, sure %v; want a moment, and not sure", elapsed, sure)
	}
}

// A change of another placement's records, of which a large fleet has many, does not have the
// servers divide the shards once more.
//
// Negative control: the mutant "the records of other placements count".
func TestRecordsOfOtherPlacementsChangeNothing(t *testing.T) {
	b := newBoard("m", "peer-", 0, 0)
	_, known, _ := b.members(-1)
	apply := func(placement string, r store.Revision) (changed bool) {
		key := memberKey(placement, "peer-", "a")
		b.apply(store.Batch{Revision: r, Changes: []store.Change{{Record: store.Record{Kind: Kind, Key: key, Created: r, Revision: r, Value: note{Server: "a"}}}}})
		_, known, changed = b.members(known)
		return changed
	}
	if apply("other", 2) {
		t.Error("a member of another placement has changed the members")
	}
	if !apply("m", 3) {
		t.Error("a member has changed nothing")
	}
}

// Shards cost what they were measured to, in parts of the average of those that were; the others
// are average, and none costs next to nothing.
//
// Negative control: the mutant "shards that were not measured lower the average".
func TestCostsAreRelativeToTheAverageOfWhatIsMeasured(t *testing.T) {
	for _, c := range []struct{ load, cost []int64 }{
		{[]int64{0, 0}, []int64{unitCost, unitCost}},
		{[]int64{5, 5}, []int64{unitCost, unitCost}},
		{[]int64{0, 100, 300}, []int64{unitCost, unitCost / 2, 3 * unitCost / 2}},
		{[]int64{0, 0, 0, 7}, []int64{unitCost, unitCost, unitCost, unitCost}},
		{[]int64{1, 1000, 1999}, []int64{leastCost, unitCost, 1999 * unitCost / 1000}},
	} {
		if got := (plan{load: c.load}).costs(); !slices.Equal(got, c.cost) {
			t.Errorf("loads of %v cost %v, want %v", c.load, got, c.cost)
		}
	}
}

// The oldest member writes a plan at once, and the others in turn; a session that the board does not show writes none.
func TestRankIsHowManyMembersAreOlder(t *testing.T) {
	b := newBoard("m", "member-", 2, 2)
	all := records{by: map[string]owner{}}
	for i, session := range []string{"z", "a", "m"} {
		all.by["member-"+session] = owner{note: note{Server: session, Shards: 2}, created: store.Revision(i + 1)}
	}
	b.replace(all, 9)
	c, _, _ := b.members(0)
	for session, want := range map[string]int{"z": 0, "a": 1, "m": 2, "none": -1} {
		if got := c.rank(session); got != want {
			t.Errorf("the rank of %s is %d, want %d", session, got, want)
		}
	}
}

// A plan that is missing or out of date is written by the oldest member at once, and by each other in its turn,
// unless the one before it has: also where what is held is what a plan would say, for a plan is to be in the store.
func TestPlansAreWrittenInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 10 * time.Second
		servers := []string{"z", "a", "m"}
		c := census{plans: true, plan: plan{owner: []string{"", "", ""}, home: []string{"", "", ""}}}
		for _, name := range servers {
			c.seats = append(c.seats, seat{owner{note: note{Session: name, Rule: ruleLoads}}, bidder{name, 1}})
		}
		c.plan = c.next()
		inTime := func(rank int, s *session, what string) {
			t.Helper()
			due, at, replaces := s.plan(c)
			if want := time.Now().Add(time.Duration(rank) * ttl / 10); due == nil || !at.Equal(want) || replaces != c.planAt {
				t.Errorf("%s, the session of rank %d: plan %v in %v, instead of %d; want one in %v", what, rank, due, time.Until(at), replaces, time.Until(want))
			}
		}
		for rank, name := range servers {
			s := &session{elector: &elector{divides: true, opts: Options{TTL: ttl}}, id: name}
			c.planAt = 0
			inTime(rank, s, "no plan is stored")
			c.planAt = 7
			if due, _, _ := s.plan(c); due != nil {
				t.Errorf("a plan that is up to date is due: %v", due)
			}
			c.plan.owner[0], c.plan.owner[1] = "gone", "gone"
			inTime(rank, s, "two servers are gone")
			c.plan = c.next()
		}
		if due, _, _ := (&session{elector: &elector{divides: true}, id: "none"}).plan(census{plans: true, plan: c.plan}); due != nil {
			t.Errorf("a session that the board does not show has a plan that is due: %v", due)
		}
	})
}

// Shards without an owner are given away the dearest first, so that the cheap ones even out what is left.
func TestDearestShardsAreGivenAwayFirst(t *testing.T) {
	quotas, _ := quotas([]bidder{{"a", 1}, {"b", 1}}, 5)
	b := balance{plan: plan{owner: make([]string, 5), home: make([]string, 5)}, cost: []int64{1, 1, 2, 4, 8}, by: map[string]*burden{}}
	for _, q := range quotas {
		b.all = append(b.all, &burden{quota: q})
		b.by[q.name] = b.all[len(b.all)-1]
	}
	b.place()
	if one, other := b.all[0].load, b.all[1].load; one != 8 || other != 8 {
		t.Errorf("two servers bear %d and %d, want 8 and 8", one, other)
	}
}
