// Package mutate breaks Go code on purpose: it makes of each function of a package many mutants,
// small changes of which a test should notice each, and compiles all of them in at once.
//
// [Write] parses the packages, adds the mutants behind a switch each, and leaves what go build
// -overlay needs. A test binary that is built so is the package as it is, until the variable
// TEND_MUTANT has the number of a mutant. With TEND_MUTANT_RECORD, the name of a file, it
// appends to that file the number of each mutant that it reaches: a mutant of a condition or of
// a boundary is reached where it makes a difference. Only tests that reach a mutant can notice it.
//
// A mutant is named by its function and its operator, and so no renamed variable and no moved
// line changes the name of a control (internal/promises/table.txt).
//
// # Design notes
//
// Tools that are there (gremlins, the forks of go-mutesting) build once for each mutant, and
// know no controls.
//
// A condition is made always and never true. Both together are noticed by whatever notices a
// negation, or && in place of ||, and say more: these operators are left out. Calls of Lock and
// Unlock are not dropped, for a test that hangs costs a minute and says nothing.
package mutate
