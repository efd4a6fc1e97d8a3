// Package mutants holds ways to break tend on purpose, and the test that must
// notice each. A test of a promise is worth what it catches; here that is shown
// again and again, and not once by hand.
//
// A [Mutant] is one edit of one file. [Overlay] applies all of them at once, each
// behind a switch that the environment variable TEND_BROKEN turns on, so that a
// test binary of each package is built once and then run broken in one way after
// the other. go run ./bench/mutants does that; CI runs it.
//
// # Design notes
//
// Controls written into the tests (queue's TestModelCatchesBrokenQueues,
// storetest's broken backends) came first and are kept: they break what a user of
// the package could see, and need no build of their own. What only an edit of the
// code can break is broken here, instead of adding switches to the code itself.
//
// Tools that change operators at random were rejected: most of what they make is
// no bug at all, and what survives says nothing about a promise.
package mutants
