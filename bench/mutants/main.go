// Command mutants breaks tend on purpose, and says which tests notice. internal/mutate makes the
// mutants.
//
//	go run ./bench/mutants queue store              each mutant of these packages: the score, and what survived
//	go run ./bench/mutants -sample 60 queue         60 of them, which -seed chooses
//	go run ./bench/mutants -for 10m queue           a sample of them, as large as that allows
//	go run ./bench/mutants -changed HEAD~3 -for 2m  of the functions that changed since that commit
//	go run ./bench/mutants -controls                the controls of internal/promises/table.txt
//	go run ./bench/mutants -controls queue.(*shard) those with this in their line
//	go run ./bench/mutants -controls -mend          and another one in the line of each that is lost
//	go run ./bench/mutants -promises Q4 E1          what tests the promises have
//
// It runs from the root of the repository. A test is first run with all mutants off, and must
// pass; then with each mutant that it reaches. One that hangs, twice, has not decided.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/tendhq/tend/internal/promises"
)

func main() {
	log.SetFlags(0)
	var o options
	flag.BoolVar(&o.controls, "controls", false, "check the controls whose line has one of the arguments in it; none: all")
	flag.BoolVar(&o.mend, "mend", false, "with -controls: write another one into the line of each that is lost")
	flag.StringVar(&o.part, "part", "1/1", "with -controls, i/n: only the i-th of n parts")
	flag.BoolVar(&o.promises, "promises", false, "print the promises that are named, or all, with their tests")
	flag.StringVar(&o.changed, "changed", "", "the mutants of functions that changed since this `commit`")
	flag.DurationVar(&o.most, "for", 24*time.Hour, "begin nothing more after so long")
	flag.DurationVar(&o.slow, "slow", 20*time.Second, "leave out tests that take longer than this; not with -controls")
	flag.Uint64Var(&o.seed, "seed", 1, "of the order in which the mutants or the controls of a package are tried")
	flag.IntVar(&o.sample, "sample", 0, "try so many mutants of each package; 0: all")
	flag.IntVar(&atOnce, "p", atOnce, "how many tests run at once")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: mutants [flags] [package ...]")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, flag.Args()); err != nil {
		stop()
		log.Fatal(err)
	}
}

type options struct {
	controls, mend, promises bool
	part, changed            string
	most, slow               time.Duration
	seed                     uint64
	sample                   int
}

func run(ctx context.Context, o options, args []string) error {
	end := time.Now().Add(o.most)
	switch {
	case o.promises:
		return promises.Print(os.Stdout, os.DirFS("."), args)
	case o.controls:
		list, err := chosen(args)
		if err == nil {
			list, err = partOf(list, o.part)
		}
		if err != nil {
			return err
		}
		return check(ctx, list, end, o)
	case o.changed != "":
		return scoreChanged(ctx, o, end)
	case len(args) == 0:
		return fmt.Errorf("which package? -h says what else there is")
	}
	for _, pkg := range args {
		if _, err := score(ctx, o, pkg, end, func(string, string) bool { return true }); err != nil {
			return err
		}
	}
	return nil
}
