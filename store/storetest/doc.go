// Package storetest proves implementations of [store.Backend].
//
// [Run] checks every sentence of the contract in a subtest of its own. A test
// of a backend is one call:
//
//	func TestContract(t *testing.T) {
//		storetest.Run(t, func(t testing.TB) store.Backend { return open(t) }, nil)
//	}
//
// [Faulty] puts faults between a program and its backend: failures before a
// write, lost requests and replies (the outcome unknown), delays, broken
// watches.
//
// # Design notes
//
// The suite proves what can be seen from outside by one process. That a crash
// loses nothing, and that several processes agree, needs processes to kill, and
// is tested by the backends that promise it.
//
// "Nothing more arrives" is never tested by waiting: the suite writes a mark
// and looks whether the mark is what arrives next. Every wait ends with the
// event it waits for, or with a deadline that fails the test.
//
// The package's own test runs the suite against backends that are broken on
// purpose, one sentence each, and fails if the suite accepts one of them.
package storetest
