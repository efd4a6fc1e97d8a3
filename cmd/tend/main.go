// Command tend shows and mends the objects of a running service, or of a store whose
// service is down. See package cli for what it does and for its exit codes.
//
// It does not have the types of the kinds: on a store it shows and changes metadata
// only. A service builds its own command with its kinds from package cli.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/tendhq/tend/cmd/tend/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, os.Args[1:], cli.Config{})
	stop()
	os.Exit(code)
}
