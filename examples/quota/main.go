// Command quota shows servers that share what a cloud grants to one account. Each server,
// a process of its own, makes as many calls as it is allowed to; the servers share an etcd,
// or with -store postgres a PostgreSQL database. One is killed, one is stopped, and others
// take their places.
//
//	go run ./examples/quota                   # once through
//	go run ./examples/quota -store postgres   # a private server
//
// It ends by itself: with what each server was allowed, and with an error if all of them
// together ever made more calls than the cloud grants.
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
		Name: "quota", TTL: "how long a server that died is counted among those that share", Serve: serve, Show: show,
	}.Run(args, in, out, errs)
}
