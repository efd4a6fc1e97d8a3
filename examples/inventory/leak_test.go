package main

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if config := os.Getenv(nightEnv); config != "" {
		os.Exit(serveNight(config)) // this process is a service under test
	}
	os.Setenv("AWS_ACCESS_KEY_ID", "") // no credentials of this machine are used
	_ = flag.Set("test.parallel", "8") // they wait for servers, and use the processors little
	goleak.VerifyTestMain(m)
}
