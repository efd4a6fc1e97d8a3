// Command leader shows one server at a time doing the work, and what happens when
// that one dies or is stopped. Three servers, each a process of its own, share an etcd,
// or with -store postgres a PostgreSQL database; the leader writes entries into a ledger.
//
//	go run ./examples/leader            # kill the leader, stop the next, and see
//	go run ./examples/leader -for 1m    # the same again and again
//	go run ./examples/leader -store postgres                        # a private server
//	go run ./examples/leader -store postgres -dsn postgres://me@host/db
//
// It ends by itself: with the ledger, which shows that no entry was written by a
// leader whose time was over, and with an error if one was.
package main

import (
	"io"
	"os"

	"github.com/tendhq/tend/examples/fleet"
)

type options = fleet.Options

func main() { os.Exit(command(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func command(args []string, in io.Reader, out, errs io.Writer) int {
	return fleet.Program{
		Name: "leader", TTL: "how long the lease of a leader that died lives on", Serve: serve, Show: show,
	}.Run(args, in, out, errs)
}
