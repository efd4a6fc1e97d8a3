package depend_test

import (
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/store"
)

// bySize asks for the size of a needed object as an input.
var bySize = &depend.NeedOptions[Spec, Status]{
	Ready: (*Thing).Ready,
	Value: func(n *Thing) string { return strconv.Itoa(n.Spec.Size) },
}

// A user that is parked because of the value of what it needs runs within a second of
// another value, and not for a change of something else. Without that it stayed parked for
// the hour of the parked resync.
//
// promise Q4
func TestChangedValueOfANeededObjectEndsThePark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *system
		s = newSystem(t, setting{need: bySize, fail: func(o *Thing) error {
			if o.Name == "user" && s.get("vpc").Spec.Size == 0 {
				return reconcile.Terminal(errors.New("the network has no address"))
			}
			return nil
		}})
		defer s.start()()
		s.declare("vpc")
		s.declare("user", "vpc")
		settle()
		time.Sleep(time.Minute)
		synctest.Wait()
		parked := s.ran("user")
		s.edit("vpc", func(o *Thing) { o.Labels = map[string]string{"team": "a"} })
		settle()
		if n := s.ran("user") - parked; n != 0 {
			t.Errorf("the user ran %d times for a change that it did not ask for", n)
		}
		s.edit("vpc", func(o *Thing) { o.Spec.Size = 1 })
		settle()
		s.wantReady("vpc", "user")
	})
}

// The value of a needed object changes, twice, while a run of its user is under way with the
// old one: the user runs again, once, and sees the newest. The run under way writes nothing, so
// that no echo of its own causes the second run.
//
// promise Q4
func TestValueThatChangesDuringARunIsSeenByAnotherRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *system
		var seen []int // by the runs of the user that follow the first ones
		var begun, release chan struct{}
		s = newSystem(t, setting{need: bySize, fail: func(o *Thing) error {
			if o.Name != "user" || begun == nil {
				return nil
			}
			seen = append(seen, s.get("vpc").Spec.Size)
			if len(seen) == 1 {
				close(begun)
				<-release
			}
			return nil
		}})
		defer s.start()()
		s.declare("vpc")
		s.declare("user", "vpc")
		settle()
		s.wantReady("vpc", "user")
		begun, release = make(chan struct{}), make(chan struct{})
		check(t, s.ctrl.Kick(store.Key{Name: "user"}))
		<-begun
		for size := range 2 {
			s.edit("vpc", func(o *Thing) { o.Spec.Size = 1 + size })
			settle()
		}
		if len(seen) != 1 {
			t.Errorf("%d runs of the user have begun beside each other", len(seen))
		}
		close(release)
		settle()
		if len(seen) != 2 || seen[0] != 0 || seen[1] != 2 {
			t.Errorf("the user's runs saw %v, want 0 and then 2", seen)
		}
	})
}

// What is needed goes without its finalizer, by hand, and is declared again under the same
// name with another uid. Its users wait while it is not there, and while the new one is not
// ready; then each runs for the new one, once; and their records of the old one's hold do not
// stand for the new one's: that one is kept by the finalizer until they have gone.
//
// promise E2, promise R4
func TestNeededObjectOfAnotherUIDIsWaitedForAndHeldAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := false
		s := newSystem(t, setting{fail: func(o *Thing) error {
			if o.Name == "vpc" && broken {
				return errors.New("the cloud is busy")
			}
			return nil
		}})
		defer s.start()()
		users := []string{"user1", "user2"}
		s.declare("vpc")
		for _, u := range users {
			s.declare(u, "vpc")
		}
		settle()
		s.wantReady("vpc", "user1", "user2")
		old := s.get("vpc").UID
		s.remove("vpc")
		settle()
		s.edit("vpc", func(o *Thing) { o.Finalizers = nil })
		settle()
		kick := func() {
			for _, u := range users {
				check(t, s.ctrl.Kick(store.Key{Name: u}))
			}
			settle()
		}
		runs := s.ran("user1") + s.ran("user2")
		kick()
		for _, u := range users {
			s.wantWaiting(u, depend.ReasonNotFound, "thing vpc does not exist")
		}
		broken = true
		s.declare("vpc")
		settle()
		if s.get("vpc").UID == old {
			t.Fatal("the uid is the old one")
		}
		kick()
		for _, u := range users {
			s.wantWaiting(u, depend.ReasonNotReady, "thing vpc is not ready")
		}
		if n := s.ran("user1") + s.ran("user2") - runs; n != 0 {
			t.Errorf("the users ran %d times without what they need", n)
		}
		broken = false
		check(t, s.ctrl.Kick(store.Key{Name: "vpc"}))
		settle()
		s.wantReady("vpc", "user1", "user2")
		for _, u := range users {
			if c, _ := s.get(u).Condition(depend.ConditionDependencies); c.Reason != depend.ReasonMet {
				t.Errorf("%s says %+v", u, c)
			}
		}
		if n := s.ran("user1") + s.ran("user2") - runs; n < 2 || n > 4 { // and the echoes of their writes
			t.Errorf("the users ran %d times for the new object", n)
		}
		s.remove("vpc")
		settle()
		for _, u := range users {
			if o := s.get("vpc"); o == nil || len(depend.UserKinds(o.Finalizers)) == 0 {
				t.Fatalf("the new object is not kept for %s: %+v", u, o)
			}
			s.remove(u)
			settle()
		}
		if s.get("vpc") != nil {
			t.Error("the new object is left, and nothing uses it")
		}
		s.wantNothingRefused()
	})
}
