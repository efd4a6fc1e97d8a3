package reconciletest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tendhq/tend/internal/wall"
)

// Simulation lets a system of controllers live through bad times, and checks
// what it made of them when they are over:
//
//	├──── Storm: faults, drift, edits, restarts ────┼─ Calm ─┤ Check ├─ Calm ─┤ silent?
//
// It belongs into a synctest bubble, where a day passes in seconds. The same
// Seed gives the same schedule of acts, and with it, with one worker in the
// system, the same run.
type Simulation struct {
	Seed  uint64
	Cloud *Cloud // required
	// Start brings the system up and returns what stops it, waiting for its
	// goroutines. It is called again after each restart. Required.
	Start func() (stop func(), err error)
	// Acts are what users do, one drawn at random at a time: declare, edit,
	// delete. The text says what was done; an error ends the simulation.
	// Required.
	Acts []func(r *rand.Rand) (string, error)
	// Every is the mean time between two acts; zero: 1 minute.
	Every time.Duration
	// Drift is the part of acts that are done to the cloud behind everybody's
	// back instead, and Restart the part that restart the system. From 0 to 1.
	Drift, Restart float64
	// Jump is the part of acts that set the server's wall clock to another time, up
	// to half a day off; with it, each restart begins with another clock too. No
	// decision may depend on it: what a server stores is off, and what it measures by
	// time.Since is right. The clock is the whole process's, so one simulation with
	// Jump may run at a time. From 0 to 1.
	Jump float64
	// Storm is how long the bad times are; zero: 1 hour.
	Storm time.Duration
	// Calm is how long the system has afterwards to converge, and then again to
	// show that it is silent; zero: 1 hour.
	Calm time.Duration
	// Invariant is checked after each act, nil for none; Check at the end of the
	// first Calm, when the cloud must be as declared. Required.
	Invariant, Check func() error

	random  *rand.Rand
	begun   time.Time
	history []string
	stop    func()
}

// Run runs the simulation. Its error names what was violated, with the seed and
// what was done before it.
func (s *Simulation) Run(ctx context.Context) error {
	if s.Cloud == nil || s.Start == nil || len(s.Acts) == 0 || s.Check == nil {
		return errors.New("reconciletest: Simulation needs Cloud, Start, Acts and Check")
	}
	s.random = rand.New(rand.NewPCG(s.Seed, 0x51))
	if s.Jump > 0 {
		defer wall.Shift(0)
	}
	s.begun = time.Now()
	if err := s.restart(); err != nil {
		return s.failed("start", err)
	}
	defer func() { s.stop() }()
	if err := s.storm(ctx); err != nil {
		return s.failed("storm", err)
	}
	s.Cloud.Heal()
	if err := sleep(ctx, cmp.Or(s.Calm, time.Hour)); err != nil {
		return err
	}
	if err := s.Check(); err != nil {
		return s.failed("not as declared when the bad times were over", err)
	}
	writes := s.Cloud.Writes()
	if err := sleep(ctx, cmp.Or(s.Calm, time.Hour)); err != nil {
		return err
	}
	if n := s.Cloud.Writes() - writes; n > 0 {
		return s.failed("not silent", fmt.Errorf("%d writes to the cloud although all was as declared", n))
	}
	return nil
}

func (s *Simulation) storm(ctx context.Context) error {
	end := s.begun.Add(cmp.Or(s.Storm, time.Hour))
	for time.Now().Before(end) {
		gap := time.Duration(s.random.Int64N(int64(2 * cmp.Or(s.Every, time.Minute))))
		if err := sleep(ctx, gap); err != nil {
			return err
		}
		if err := s.act(); err != nil {
			return err
		}
		if s.Invariant != nil {
			if err := s.Invariant(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Simulation) act() error {
	switch p := s.random.Float64(); {
	case p < s.Drift:
		for _, what := range s.Cloud.Drift(1) {
			s.note("drift: " + what)
		}
		return nil
	case p < s.Drift+s.Restart:
		s.note("restart")
		return s.restart()
	case p < s.Drift+s.Restart+s.Jump:
		s.jump()
		return nil
	}
	what, err := s.Acts[s.random.IntN(len(s.Acts))](s.random)
	s.note(what)
	return err
}

func (s *Simulation) restart() (err error) {
	if s.stop != nil {
		s.stop()
	}
	if s.Jump > 0 {
		s.jump() // another server, another clock
	}
	s.stop, err = s.Start()
	if s.stop == nil {
		s.stop = func() {}
	}
	return err
}

// maxJump is how far a wall clock may be off.
const maxJump = 12 * time.Hour

func (s *Simulation) jump() {
	d := time.Duration(s.random.Int64N(int64(2*maxJump))) - maxJump
	wall.Shift(d)
	s.note("the wall clock is off by " + d.Round(time.Second).String())
}

func (s *Simulation) note(what string) {
	s.history = append(s.history, fmt.Sprintf("%v %s", time.Since(s.begun).Round(time.Millisecond), what))
}

// lastActs is how much of the history an error shows.
const lastActs = 40

func (s *Simulation) failed(what string, err error) error {
	tail := s.history[max(0, len(s.history)-lastActs):]
	return fmt.Errorf("reconciletest: seed %d: %s: %w\nthe last of %d acts:\n%s", s.Seed, what, err, len(s.history), strings.Join(tail, "\n"))
}
