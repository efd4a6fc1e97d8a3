package reconcile

import (
	"context"
	"testing"
)

// A shard may come back between the question whose a key is and the removal of the
// key, and something may have added it in between.
//
// Negative control: with the removal alone, the key was gone.
func TestKeyWhoseShardCameBackIsNotDropped(t *testing.T) {
	for _, back := range []bool{false, true} {
		c, err := New("test", Func[string](func(context.Context, string) (Result, error) { return Result{}, nil }), nil)
		if err != nil {
			t.Fatal(err)
		}
		c.changeView(func(v *view[string]) { v.leased = true })
		holds := c.view.Load().holds
		holds[0].Store(&hold{})
		if err := c.Add("a"); err != nil {
			t.Fatal(err)
		}
		if !back {
			holds[0].Store(nil)
		}
		c.drop("a")
		if _, kept := c.q.Lookup("a"); kept != back {
			t.Errorf("the key is queued: %v, and its shard is held: %v", kept, back)
		}
	}
}

// A source ends in the moment in which its patience is over.
//
// Negative control: with the report not asking, the source was unwell for ever.
func TestSourceThatHasEndedIsNotReportedAsDeaf(t *testing.T) {
	reported := 0
	c, err := New("test", Func[string](func(context.Context, string) (Result, error) { return Result{}, nil }),
		&Options[string]{Hooks: Hooks[string]{OnError: func(Failure[string]) { reported++ }}})
	if err != nil {
		t.Fatal(err)
	}
	f := &feed[string]{c: c, Source: Source[string]{Name: "s"}}
	f.done = make(chan struct{})
	late := f.done
	close(f.done)
	if !f.wait(t.Context()) {
		t.Fatal("a source that has ended is waited for")
	}
	f.deaf(late)
	if err := f.health(); err != nil || reported != 0 {
		t.Errorf("the source is unwell (%v), and was reported %d times", err, reported)
	}
}
