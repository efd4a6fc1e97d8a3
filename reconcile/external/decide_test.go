package external

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
)

// live is an object with its finalizer, of the default policy, that has been
// looked at; each row of the table below changes what it is about.
func live(change func(*view)) view {
	v := view{policy: All, finalizer: true, observed: true}
	change(&v)
	return v
}

func TestDecide(t *testing.T) {
	exists := Observation{Exists: true, UpToDate: true}
	differs := Observation{Exists: true}
	owned := func(o Observation, w Ownership) Observation { o.Owner = w; return o }
	for name, c := range map[string]struct {
		is   view
		want action
	}{
		"not looked at yet":                      {live(func(v *view) { v.observed = false }), doObserve},
		"missing":                                {live(func(*view) {}), doCreate},
		"missing, finalizer not there yet":       {live(func(v *view) { v.finalizer = false }), doCreate},
		"up to date":                             {live(func(v *view) { v.seen = exists }), doKeep},
		"differs":                                {live(func(v *view) { v.seen = differs }), doUpdate},
		"differs, update forbidden":              {live(func(v *view) { v.seen, v.policy = differs, Observe|Create|Delete }), doTolerate},
		"missing, create forbidden":              {live(func(v *view) { v.policy = observeOnly }), doMissing},
		"missing, observe and delete only":       {live(func(v *view) { v.policy = Observe | Delete }), doMissing},
		"paused":                                 {live(func(v *view) { v.paused = true }), doPause},
		"paused and deleted":                     {live(func(v *view) { v.paused, v.deleting = true, true }), doPause},
		"empty policy":                           {live(func(v *view) { v.policy = Paused }), doPause},
		"unknown policy":                         {live(func(v *view) { v.policy = All | 128 }), doReject},
		"unknown policy and deleted":             {live(func(v *view) { v.policy, v.deleting = Observe|128, true }), doReject},
		"policy that acts without looking":       {live(func(v *view) { v.policy = Create }), doReject},
		"created just now, not visible":          {live(func(v *view) { v.phase, v.young = succeeded, true }), doWait},
		"created long ago, gone":                 {live(func(v *view) { v.phase = succeeded }), doCreate},
		"created just now, not visible, deleted": {live(func(v *view) { v.phase, v.young, v.deleting = succeeded, true, true }), doWait},
		"create failed":                          {live(func(v *view) { v.phase, v.young = failed, true }), doCreate},
		"create unknown, cloud's name":           {live(func(v *view) { v.phase, v.observed = pending, false }), doStop},
		"create unknown, cloud's name, deleted":  {live(func(v *view) { v.phase, v.deleting, v.observed = pending, true, false }), doStop},
		"create unknown, cloud's name, orphaned": {live(func(v *view) { v.phase, v.deleting, v.policy = pending, true, observeOnly }), doRelease},
		"create unknown, our name":               {live(func(v *view) { v.phase, v.young, v.naming = pending, true, ByUs }), doCreate},
		"create unknown, our name, it is there":  {live(func(v *view) { v.phase, v.naming, v.seen = pending, ByUs, exists }), doKeep},
		"create unknown, our name, not marked":   {live(func(v *view) { v.phase, v.naming, v.seen = pending, ByUs, owned(exists, Unmarked) }), doCreate},
		"exclusive create refused, not marked": {live(func(v *view) {
			v.exclusive, v.phase, v.naming, v.seen = true, pending, ByUs, owned(exists, Unmarked)
		}), doRefuse},
		"exclusive create refused just now, not marked": {live(func(v *view) {
			v.exclusive, v.young, v.phase, v.naming, v.seen = true, true, pending, ByUs, owned(exists, Unmarked)
		}), doWait},
		"exclusive create refused, not marked, deleted": {live(func(v *view) {
			v.exclusive, v.deleting, v.phase, v.naming, v.seen = true, true, pending, ByUs, owned(exists, Unmarked)
		}), doRelease},
		"exclusive create refused just now, not marked, deleted": {live(func(v *view) {
			v.exclusive, v.deleting, v.young, v.phase, v.naming, v.seen = true, true, true, pending, ByUs, owned(exists, Unmarked)
		}), doWait},
		"create unknown, our name, not marked, deleted": {live(func(v *view) {
			v.deleting, v.phase, v.naming, v.seen = true, pending, ByUs, owned(exists, Unmarked)
		}), doRefuse},
		"create unknown, our name, not marked, deleted just now": {live(func(v *view) {
			v.deleting, v.young, v.phase, v.naming, v.seen = true, true, pending, ByUs, owned(exists, Unmarked)
		}), doRefuse},
		"create unknown, our name, deleted":          {live(func(v *view) { v.phase, v.young, v.naming, v.deleting = pending, true, ByUs, true }), doWait},
		"create unknown long ago, our name, deleted": {live(func(v *view) { v.phase, v.naming, v.deleting = pending, ByUs, true }), doRelease},
		"create unknown, by mark, looked for":        {live(func(v *view) { v.phase, v.young, v.naming = pending, true, ByMark }), doWait},
		"create unknown long ago, by mark":           {live(func(v *view) { v.phase, v.naming = pending, ByMark }), doCreate},
		"create unknown, by mark, found":             {live(func(v *view) { v.phase, v.naming, v.seen = pending, ByMark, owned(exists, Ours) }), doKeep},
		"deleted, orphaned":                          {live(func(v *view) { v.deleting, v.policy, v.observed = true, Observe|Create, false }), doRelease},
		"moved":                                      {live(func(v *view) { v.moved, v.phase, v.observed = "a → b", succeeded, false }), doMoved},
		"moved, adopted":                             {live(func(v *view) { v.moved, v.observed = "a → b", false }), doMoved},
		"moved, create unknown, cloud's name":        {live(func(v *view) { v.moved, v.phase, v.observed = "a → b", pending, false }), doMoved},
		"moved, paused":                              {live(func(v *view) { v.moved, v.paused = "a → b", true }), doPause},
		"moved, deleted":                             {live(func(v *view) { v.moved, v.deleting, v.observed = "a → b", true, false }), doMoved},
		"moved, deleted, never ours":                 {live(func(v *view) { v.moved, v.deleting, v.finalizer = "a → b", true, false }), doNothing},
		"moved, deleted, orphaned":                   {live(func(v *view) { v.moved, v.deleting, v.policy = "a → b", true, observeOnly }), doRelease},
		"deleted, others not finished":               {live(func(v *view) { v.deleting, v.others, v.observed = true, true, false }), doAwait},
		"deleted, not looked at yet":                 {live(func(v *view) { v.deleting, v.observed = true, false }), doObserve},
		"deleted, never ours":                        {live(func(v *view) { v.deleting, v.finalizer, v.observed = true, false, false }), doNothing},
		"deleted, exists":                            {live(func(v *view) { v.deleting, v.seen = true, exists }), doDelete},
		"deleted, gone":                              {live(func(v *view) { v.deleting = true }), doRelease},
		"to take over, missing":                      {live(func(v *view) { v.adopt = "r-7" }), doMissing},
		"to take over, missing, a create failed":     {live(func(v *view) { v.adopt, v.phase = "r-7", failed }), doMissing},
		"to take over, not marked":                   {live(func(v *view) { v.adopt, v.seen = "r-7", owned(exists, Unmarked) }), doUpdate},
		"to take over, not marked, may not be":       {live(func(v *view) { v.adopt, v.policy, v.seen = "r-7", Observe|Create|Delete, owned(exists, Unmarked) }), doTolerate},
		"to take over, another's":                    {live(func(v *view) { v.adopt, v.seen = "r-7", owned(exists, Foreign) }), doRefuse},
		"to take over, ours":                         {live(func(v *view) { v.adopt, v.seen = "r-7", owned(exists, Ours) }), doKeep},
		"deleted, another's":                         {live(func(v *view) { v.deleting, v.seen = true, owned(exists, Foreign) }), doRelease},
		"deleted, an earlier object's":               {live(func(v *view) { v.deleting, v.seen = true, owned(exists, Former) }), doRelease},
		"deleted, not marked":                        {live(func(v *view) { v.deleting, v.seen = true, owned(exists, Unmarked) }), doRelease},
		"deleted, not marked, adopted by policy":     {live(func(v *view) { v.deleting, v.policy, v.seen = true, All|Adopt, owned(exists, Unmarked) }), doDelete},
		"deleted, ours by record, its mark gone":     {live(func(v *view) { v.deleting, v.phase, v.seen = true, succeeded, owned(exists, Unmarked) }), doRefuse},
		"another's":                                  {live(func(v *view) { v.seen = owned(differs, Foreign) }), doRefuse},
		"another's, adopting":                        {live(func(v *view) { v.policy, v.seen = All|Adopt, owned(differs, Foreign) }), doRefuse},
		"not marked":                                 {live(func(v *view) { v.seen = owned(exists, Unmarked) }), doRefuse},
		"not marked, adopting":                       {live(func(v *view) { v.policy, v.seen = All|Adopt, owned(exists, Unmarked) }), doUpdate},
		"ours by record, its mark gone":              {live(func(v *view) { v.phase, v.seen = succeeded, owned(exists, Unmarked) }), doUpdate},
		"an earlier object's":                        {live(func(v *view) { v.seen = owned(exists, Former) }), doUpdate},
	} {
		if got := decide(c.is); got != c.want {
			t.Errorf("%s: decide = %v, want %v", name, got, c.want)
		}
	}
}

// everyView goes through all there is to look at.
func everyView(visit func(view)) {
	for bits := range 1 << 10 {
		on := func(i int) bool { return bits&(1<<i) != 0 }
		for _, p := range []Policy{Paused, observeOnly, All, All | Adopt, All &^ Delete, All &^ Create, All &^ Update, Create, All | 64} {
			for ph := untried; ph <= failed; ph++ {
				for n := ByCloud; n <= lastNaming; n++ {
					for w := Unreported; w <= lastOwnership; w++ {
						v := view{
							paused: on(0), deleting: on(1), finalizer: on(2), others: on(3), young: on(4), observed: on(5),
							seen:   Observation{Exists: on(6), UpToDate: on(7), LateInitialized: on(8), Owner: w},
							policy: p, phase: ph, naming: n,
						}
						if on(9) {
							v.moved = "a → b"
						}
						visit(v)
						if v.exclusive = n == ByUs; v.exclusive {
							visit(v)
						}
					}
				}
			}
		}
	}
}

// promise E2, as far as the rules go: whatever else is the case.
//
// Negative controls: letting Former through in decideDeletion, and dropping
// the check of the policy in decide, each failed this test.
func TestDecideNeverTouchesWhatIsNotOurs(t *testing.T) {
	everyView(func(v view) {
		a := decide(v)
		touches := a == doCreate || a == doUpdate || a == doDelete
		switch {
		case touches && (v.paused || v.policy.validate() != nil || v.policy == Paused):
			t.Fatalf("%v although paused or without a valid policy: %+v", a, v)
		case touches && !v.observed:
			t.Fatalf("%v without having looked: %+v", a, v)
		case touches && v.seen.Exists && v.seen.Owner == Foreign:
			t.Fatalf("%v of another's resource: %+v", a, v)
		case touches && v.exclusive && v.phase == pending && v.seen.Exists && v.seen.Owner == Unmarked && !v.policy.has(Adopt):
			t.Fatalf("%v of what an exclusive create of ours would have marked: %+v", a, v)
		case a == doDelete && (v.seen.Owner == Former || v.seen.Owner == Unmarked && !v.policy.has(Adopt)):
			t.Fatalf("deletes what does not carry our mark: %+v", v)
		case a == doDelete && (!v.deleting || !v.policy.has(Delete) || !v.seen.Exists || v.others):
			t.Fatalf("deletes what is not to be deleted: %+v", v)
		case a == doCreate && (v.deleting || !v.policy.has(Create)):
			t.Fatalf("creates for an object in deletion, or against its policy: %+v", v)
		case a == doUpdate && (v.deleting || !v.policy.has(Update) || !v.seen.Exists):
			t.Fatalf("updates in deletion, against its policy, or what is not there: %+v", v)
		case a == doRelease && !v.deleting:
			t.Fatalf("lets go of a living object: %+v", v)
		}
	})
}

// promise E1, as far as the rules go.
//
// Negative control: without the case for a young pending create in
// decideMissing this failed, for a resource looked for by its mark and for an
// object in deletion; without the case for doMoved it looked elsewhere.
func TestDecideNeverCreatesOrLetsGoWhileACreateMayBeUnderWay(t *testing.T) {
	everyView(func(v view) {
		a := decide(v)
		unknown := v.phase == pending && !v.seen.Exists
		switch {
		case a == doCreate && unknown && v.naming == ByCloud:
			t.Fatalf("creates again without a way to find the first: %+v", v)
		case a == doCreate && unknown && v.naming == ByMark && v.young:
			t.Fatalf("creates again before the first could be seen: %+v", v)
		case a == doCreate && v.phase == succeeded && v.young:
			t.Fatalf("creates again before the first could be seen: %+v", v)
		case v.moved != "" && (a == doObserve || a == doCreate || a == doUpdate || a == doDelete || a == doRelease && v.policy.has(Delete)):
			t.Fatalf("%v although the resource lies elsewhere: %+v", a, v)
		case a == doRelease && v.policy.has(Delete) && !v.seen.Exists && v.young && (v.phase == pending || v.phase == succeeded):
			t.Fatalf("lets the object go before its resource could be seen: %+v", v)
		case v.listSuffices() && (v.deleting || v.phase == pending || v.young && v.phase == succeeded || !v.exclusive):
			t.Fatalf("takes a list for a look: %+v", v)
		}
	})
}

// What is asked twice is not asked for ever: after the look there is an answer.
func TestDecideLooksOnce(t *testing.T) {
	everyView(func(v view) {
		if a := decide(v); a == doObserve && v.observed {
			t.Fatalf("looks again: %+v", v)
		}
	})
}

// What a run tells its Observe of an absence is what it does about one: it names a look or a list
// as enough for a create only where a create follows, and wherever one does, unless an earlier
// create may still become visible.
//
// promise E1, as far as the rules go. Negative controls: mutants "a create is said to follow a
// young one" and "no list is enough for a create of a new name".
func TestAbsenceIsWhatARunDoesAboutIt(t *testing.T) {
	everyView(func(v view) {
		if v.observed = false; decide(v) != doObserve {
			return
		}
		told := v.absence()
		v.observed, v.seen = true, Observation{}
		switch a := decide(v); {
		case told.proof == byLookFirst && a != doCreate:
			t.Fatalf("a create is said to follow, and a run does %v: %+v", a, v)
		case told.proof == listSuffices && a != doCreate && a != doMissing:
			t.Fatalf("a list is said to be enough, and a run does %v: %+v", a, v)
		case a == doCreate && v.exclusive && v.phase != pending && told.proof != listSuffices:
			t.Fatalf("a create follows that asks by itself, and a look is asked for: %+v", v)
		case a == doCreate && !v.young && told.proof == byLook:
			t.Fatalf("a create follows, and it is not said: %+v", v)
		}
	})
}

// A plan says of each change whether it takes over what is not marked as ours, and why.
func TestPlanTellsAnAdoptionFromAnUpdate(t *testing.T) {
	everyView(func(v view) {
		a := decide(v)
		if a == doObserve || a == doNothing {
			return
		}
		word, why := describe(a, v)
		adopts := a == doUpdate && v.seen.Owner != Ours && v.seen.Owner != Unreported
		if (word == "adopt") != adopts || adopts && why != map[Ownership]string{Former: "its ownership mark is of an earlier object of this name", Unmarked: "it carries no ownership mark"}[v.seen.Owner] || word == "" {
			t.Fatalf("%v is %q because of %q: %+v", a, word, why, v)
		}
	})
}

// A run that met a conflict is made again silently, but never in place of a failure, be it of
// the run or of the write of its status.
//
// Negative control: mutant "a conflict hides the failure of the run".
func TestConflictIsNoFailureAndHidesNone(t *testing.T) {
	failure, conflict := errors.New("refused"), fmt.Errorf("status: %w", store.ErrConflict)
	later, again := reconcile.Result{RequeueAfter: time.Second}, reconcile.Result{Requeue: true}
	for _, c := range []struct {
		run, status, err error
		res              reconcile.Result
	}{
		{nil, nil, nil, later},
		{conflict, nil, nil, again},
		{nil, conflict, nil, again},
		{conflict, conflict, nil, again},
		{failure, nil, failure, later},
		{nil, failure, failure, later},
		{failure, conflict, failure, later},
		{conflict, failure, failure, later},
	} {
		if res, err := lost(later, c.run, c.status); res != c.res || !errors.Is(err, c.err) || errors.Is(err, conflict) {
			t.Errorf("the run ended with %v and its status with %v: got %+v, %v, want %+v, %v", c.run, c.status, res, err, c.res, c.err)
		}
	}
}
