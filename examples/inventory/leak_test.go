package main

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if config := os.Getenv(nightEnv); config != "" {
		os.Exit(serveNight(config)) // this process is a service under test
	}
	goleak.VerifyTestMain(m)
}
