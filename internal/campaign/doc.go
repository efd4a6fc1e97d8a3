// Package campaign gives random tests their seeds: in the small size, in which CI
// runs them, the same ones each time; for long, by the flag -campaign, new
// ones. go run ./bench/nightly sets it.
//
//	go test ./reconcile -run AtAnyStep                  150 seeds from 0
//	go test ./reconcile -run AtAnyStep -campaign 1h     from a random one, for an hour
//	go test ./reconcile -run AtAnyStep -seed 3141       150 from this one
//
// For tests; nothing else imports it.
package campaign
