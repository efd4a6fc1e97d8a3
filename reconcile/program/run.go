package program

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/tendhq/tend/reconcile"
)

// ErrStuck is why a program with Options.Once ended although something is left: none of
// it gets better by waiting.
var ErrStuck = errors.New("what is left needs a person")

// ErrTimeout is why a program with Options.Once ended: Options.Timeout is over.
var ErrTimeout = errors.New("the time is over")

// Options say what a program is. Nil and zero fields mean the stated default.
type Options struct {
	// Parts are what has to become as declared. Default: none, so that Run is the
	// Manager's Run, and an error with Once.
	Parts []Part
	// Once ends the program when all parts are complete, when all that is left is stuck,
	// or after Timeout. Default: it goes on until its context ends.
	Once bool
	// Timeout is how long Once may take, without the stop. Default 0: as long as ctx
	// lasts. Without Once it must be 0.
	Timeout time.Duration
	// Complete is called when all parts are complete for the first time, with the
	// Manager still running; what it returns ends the program. Its context ends with the
	// program's. It may block: with Once the program ends after it. A panic of it is an
	// error. Default: nothing.
	Complete func(ctx context.Context) error
	// Out gets the progress, each thing that begins to fail, and without Once at the end
	// what is left. Default: nothing is printed.
	Out *Printer
	// Left hears of each thing that is left, once for each reason. It should be quick: the
	// progress waits for it. A panic of it is logged, and printed on Out. Default: those that fail are printed on Out.
	Left func(l Left)
	// Logger gets the same, without the progress. Default: nothing is logged if Out is
	// set, else the Manager's Logger, or slog.Default().
	Logger *slog.Logger
}

func (o *Options) asksForProgress() bool {
	return o.Once || o.Complete != nil || o.Out != nil || o.Left != nil
}

func (o *Options) check() error {
	switch {
	case slices.ContainsFunc(o.Parts, func(p Part) bool { return p == nil }):
		return errors.New("program: Options.Parts holds a nil Part")
	case o.Once && len(o.Parts) == 0:
		return errors.New("program: Options.Once needs Parts: without them nothing says when it is done")
	case o.Timeout < 0:
		return fmt.Errorf("program: Options.Timeout is %v, want 0 or more", o.Timeout)
	case o.Timeout > 0 && !o.Once:
		return errors.New("program: Options.Timeout needs Once")
	}
	return nil
}

// Run runs the manager until ctx ends, a runner of the manager's fails, or with
// Options.Once everything is as declared, and blocks until the manager has stopped in
// order. o may be nil.
//
// It returns the manager's error, joined with Complete's, and with Once with
// what is left, if something is: errors.Is tells its cause, ErrStuck, ErrTimeout, or why ctx ended.
// Without Once what is left is no error: it is printed and logged.
func Run(ctx context.Context, m *reconcile.Manager, o *Options) error {
	if m == nil {
		return errors.New("program: Run: no Manager")
	}
	if o == nil {
		o = &Options{}
	}
	if err := o.check(); err != nil {
		return err
	}
	p := &running{Options: *o, log: o.Logger}
	if p.log == nil && o.Out == nil {
		if p.log = m.Logger; p.log == nil {
			p.log = slog.Default()
		}
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	if p.Left == nil {
		p.Left = func(l Left) {
			if p.Out != nil && l.Failing {
				p.Out.Line("x %s", l)
			}
		}
	}
	return p.run(ctx, m)
}

// running is one Run.
type running struct {
	Options
	log *slog.Logger
}

func (p *running) run(ctx context.Context, m *reconcile.Manager) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	// The progress line outlives the manager: it shows how the last runs end.
	looking, stopLooking := context.WithCancel(context.WithoutCancel(ctx))
	var manager, lookers sync.WaitGroup
	defer lookers.Wait()
	defer stopLooking()
	var managerErr error
	manager.Go(func() {
		managerErr = m.Run(ctx)
		end(errEnded)
	})
	lookers.Go(func() { p.show(looking) })
	if p.Once {
		lookers.Go(func() { followParked(looking, m, p.Parts) })
	}
	err := p.work(ctx)
	if p.Out != nil && ctx.Err() != nil && !errors.Is(context.Cause(ctx), errEnded) {
		p.Out.Line("stopping: runs under way may finish")
	}
	end(nil)
	manager.Wait()
	stopLooking()
	lookers.Wait()
	return errors.Join(p.conclude(err), managerErr)
}

// errEnded is why the program's context ends when the manager has ended by itself.
var errEnded = errors.New("the manager ended")

// work returns when the program is to end: nil if it did what was asked.
func (p *running) work(ctx context.Context) error {
	waiting := ctx
	if p.Timeout > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeoutCause(ctx, p.Timeout, ErrTimeout)
		defer cancel()
	}
	began := time.Now()
	var last Progress
	if err := WaitFor(waiting, func(now Progress) bool {
		last = now
		return now.Complete() || p.Once && now.allStuck()
	}, p.Parts...); err != nil {
		return p.failed(err)
	}
	if !last.Complete() {
		return &leftError{Cause: ErrStuck, Left: leftOf(p.Parts...)}
	}
	if len(p.Parts) > 0 {
		p.log.Info("program: everything is as declared", "objects", last.Declared, "in", time.Since(began))
	}
	var err error
	if p.Complete != nil {
		if failed := protect("Options.Complete", func() { err = p.Complete(waiting) }); failed != nil {
			err = failed
		}
	}
	if p.Once || err != nil && ctx.Err() == nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// failed is err of a wait that ended early, if that is an error of Run.
func (p *running) failed(err error) error {
	if p.Once {
		return err
	}
	return nil // the context ended, as that of a service does
}

// show prints the progress, and tells what is left, until ctx ends.
func (p *running) show(ctx context.Context) {
	type reason struct{ name, why string } // two parts may give two for one name
	said, trouble := make(map[reason]bool), false
	look := func() bool {
		now := ProgressOf(p.Parts...)
		if p.Out != nil {
			if now.Complete() || !now.Synced {
				p.Out.Progress("")
			} else {
				p.Out.Progress(now.String())
			}
		}
		if now.Complete() {
			if trouble && p.Out != nil && !p.Once {
				p.Out.Line("everything is as declared again")
			}
			trouble = false
			clear(said)
			return false
		}
		still := make(map[reason]bool)
		for _, l := range leftOf(p.Parts...) {
			r := reason{l.Kind + " " + l.Key.String(), l.Why}
			if !said[r] && !still[r] {
				p.tell(l)
				trouble = trouble || l.Failing
			}
			still[r] = true
		}
		said = still
		return false
	}
	_ = await(ctx, p.Parts, look)
	look() // what the last runs came to
	if p.Out != nil {
		p.Out.Progress("")
	}
}

// tell calls Left, whose panic ends nothing.
func (p *running) tell(l Left) {
	err := protect("Options.Left", func() { p.Left(l) })
	if err == nil {
		return
	}
	stack := ""
	if panicked, ok := errors.AsType[*reconcile.PanicError](err); ok {
		stack = string(panicked.Stack)
	}
	p.log.Error("program: a function failed", "err", err, "stack", stack)
	if p.Out != nil {
		p.Out.Line("x %v\n%s", err, stack)
	}
}

// conclude says what is left. err is what work returned.
func (p *running) conclude(err error) error {
	if len(p.Parts) == 0 {
		return err
	}
	now, left := ProgressOf(p.Parts...), leftOf(p.Parts...)
	if len(left) > 0 {
		p.log.Warn("program: ended, and not everything is as declared",
			"done", now.Done, "declared", now.Declared, "failing", now.Failing, "deleting", now.Deleting, "left", listLeft(left[:min(len(left), 5)]))
	} else {
		p.log.Info("program: ended, and everything is as declared", "objects", now.Declared)
	}
	if p.Out != nil && !p.Once {
		if len(left) > 0 {
			p.Out.Text(fmt.Sprintf("%v; left:\n%s", now, listLeft(left)))
		} else {
			p.Out.Text(now.String())
		}
	}
	if e := (*leftError)(nil); errors.As(err, &e) { // as it is now, after the last runs
		e.Left = left
		if len(left) == 0 {
			return nil
		}
	}
	return err
}
