// Command inventory keeps object storage as a file declares it: some 300 buckets
// of several tenants and regions, reconciled through the AWS SDK against a real
// S3 API. By default the S3 server runs inside the process; -endpoint names
// another.
//
//	go run ./examples/inventory            # converge, and keep it so
//	go run ./examples/inventory -once      # converge, and exit
//	go run ./examples/inventory -chaos 200 # and see drift put back
//	go run ./examples/inventory -plan      # show what would be done
//	go run ./examples/inventory -plan -prune # and what would be pruned
//
// One list of the account tells which buckets are there; see type cloud for what
// is read besides. Buckets that carry our mark and are not declared are told, and
// deleted with -prune, if they are empty and no more than -prune-most and
// -prune-percent allow.
//
// A bucket may declare small files. Those that are taken out of the inventory are deleted
// up to 1,000 by one call, by DeleteObjects; see files.go.
//
// While it runs, edit examples/inventory/inventory.yaml.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// command is main with its surroundings as arguments. It returns the exit code:
// 0 for what went as asked, 1 with the reasons for what did not, and 2 for a plan
// with changes in it.
func command(ctx context.Context, args []string, out, errs io.Writer) int {
	o, err := parseOptions(args, errs)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	code := 1
	switch {
	case err != nil:
	case o.Plan:
		code, err = plan(ctx, o, out, errs)
	default:
		if err = run(ctx, o, out); err == nil {
			code = 0
		}
	}
	if err != nil {
		fmt.Fprintln(errs, "inventory:", err)
	}
	return code
}
