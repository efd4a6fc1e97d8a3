// Package check holds the tests that police the repository: which package may import which,
// that links lead somewhere, that what a page names exists, that an acceptance case has a test.
// It has no code of its own.
//
//	go test ./internal/check
//
// The tests run in the root of the repository, and share one walk of it (tree_test.go).
package check
