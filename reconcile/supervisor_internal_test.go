package reconcile

import (
	"context"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
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
		inside(c).k.changeView(func(v *view[string]) { v.leased = true })
		holds := inside(c).k.view.Load().holds
		holds[0].Store(&hold{})
		if err := c.Add("a"); err != nil {
			t.Fatal(err)
		}
		if !back {
			holds[0].Store(nil)
		}
		inside(c).k.drop("a")
		if _, kept := inside(c).k.q.Lookup("a"); kept != back {
			t.Errorf("the key is queued: %v, and its shard is held: %v", kept, back)
		}
	}
}

// Shards come and go for as long as a server runs. A channel's source lists nothing for those that
// it is told of, and must not remember them for that.
//
// promise Q7. Negative control: the mutant "a channel's source remembers each shard that was gained".
func TestChanRemembersNoGainedShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := still[string](t, "test", nil)
		f := &feed[string]{of: inside(c).sources, Source: Chan("ch", make(chan string))}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = f.Run(ctx, f) }() // ended by cancel, waited for below
		f.done = done
		synctest.Wait()
		for range 100 {
			f.listAgain([]int{1, 2})
			synctest.Wait()
		}
		if n := len(f.unlisted); n > 0 {
			t.Errorf("%d shards are remembered", n)
		}
		cancel()
		<-done
	})
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
	f := &feed[string]{of: inside(c).sources, Source: Source[string]{Name: "s"}}
	done := make(chan struct{})
	f.done, f.cancel = done, func(error) {}
	if f.end(errNotHeld) {
		t.Fatal("a source that runs has ended")
	}
	f.ended()
	f.ignoredItsEnd(done)
	if !f.end(errNotHeld) {
		t.Fatal("a source that has ended is waited for")
	}
	if _, err := f.condition(); err != nil || reported != 0 {
		t.Errorf("the source is unwell (%v), and was reported %d times", err, reported)
	}
}

// The supervisor may hold a list of sources in which one is about to be started that
// was removed meanwhile. It must not be: nothing would ever end it.
//
// Negative control: without feed.removed the source is started.
func TestSourceThatWasRemovedIsNotStarted(t *testing.T) {
	c, err := New("test", Func[string](func(context.Context, string) (Result, error) { return Result{}, nil }), nil)
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan struct{})
	if err := c.Watch(Source[string]{Name: "s", Run: func(context.Context, Sink[string]) error { close(started); return nil }}); err != nil {
		t.Fatal(err)
	}
	f := inside(c).sources.allFeeds()[0]
	if err := c.Unwatch("s"); err != nil {
		t.Fatal(err)
	}
	f.start(t.Context())
	if f.done != nil {
		<-started
		<-f.done
		t.Error("a source that was removed was started")
	}
}

// The diagram in doc.go shows the transitions that enter allows, and no others.
func TestDiagramOfStatesIsWhatTheSupervisorDoes(t *testing.T) {
	doc, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var drawn, coded []string
	for _, c := range doc.Comments {
		for line := range strings.Lines(c.Text()) {
			if f := strings.Fields(line); len(f) >= 3 && f[1] == "─▶" && strings.HasPrefix(line, "\t") {
				drawn = append(drawn, f[0]+" ─▶ "+f[2])
			}
		}
	}
	reached := map[state]bool{stateNew: true}
	for from, all := range transitions {
		for _, to := range all {
			coded = append(coded, from.String()+" ─▶ "+to.String())
			reached[to] = true
		}
	}
	slices.Sort(drawn)
	slices.Sort(coded)
	if !slices.Equal(drawn, coded) {
		t.Errorf("doc.go has\n%s\nand supervisor.go\n%s", strings.Join(drawn, "\n"), strings.Join(coded, "\n"))
	}
	for s := range stateStopped + 1 {
		if !reached[s] {
			t.Errorf("no transition leads to %v, only to %v", s, slices.Sorted(maps.Keys(reached)))
		}
	}
}
