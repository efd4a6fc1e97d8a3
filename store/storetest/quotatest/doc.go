// Package quotatest has three servers, each a process of its own on a real store, create the
// resources of one cloud under one quota, kills one and adds one, and judges what the cloud saw.
// It is for the tests of backends:
//
//	test process      Run ── starts, kills ──▶ Serve, in processes of the test's binary
//	                  cloud ◀── HTTP ────────── Serve ──▶ store
package quotatest
