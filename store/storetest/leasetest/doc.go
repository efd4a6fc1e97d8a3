// Package leasetest has servers, each a process of its own on a real store, share the shards of
// one controller, each with a cache of its own shards' objects, which need other objects and own
// some. It kills, stops, freezes, cuts off and starts them, and restarts the store, while objects
// change, and judges what they did. It is for the tests of backends:
//
//	test process      Run ── starts, kills ──▶ Serve, in processes of the test's binary
//	                  witness ◀── stdout ────── Serve ──▶ store
package leasetest
