package main

import (
	"errors"
	"flag"
	"io"
	"strings"
	"testing"
	"time"
)

func TestFlagsThatCannotWorkAreRefused(t *testing.T) {
	for args, want := range map[string]string{
		"extra":                           "unexpected argument",
		"-installation Demo":              "-installation",
		"-installation averyveryverylong": "-installation",
		"-region Frankfurt":               "-region",
		"-poll -1s":                       "above zero",
		"-workers 0":                      "above zero",
		"-rate -1":                        "above zero",
		"-rate NaN":                       "above zero",
		"-timeout 0s":                     "above zero",
		"-chaos -1":                       "negative",
		"-chaos 5 -endpoint aws":          "only for a server on this machine",
		"-chaos 5 -endpoint https://s3.example.com": "only for a server on this machine",
		"-listen 8080":          "-listen",
		"-json":                 "-plan",
		"-plan -once":           "-once",
		"-poll 1m -settings 1s": "-settings",
		"-prune-most 0":         "-prune-most",
		"-prune-percent 101":    "-prune-percent",
		"-trust-state":          "-prune",
		"-prune -endpoint aws":  "-prune wants",
		"-nonsense":             "nonsense",
	} {
		if _, err := parseOptions(strings.Fields(args), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", args, err, want)
		}
	}
	if _, err := parseOptions([]string{"-h"}, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: %v, want ErrHelp", err)
	}
}

func TestDefaultsDependOnTheEndpoint(t *testing.T) {
	own, err := parseOptions([]string{"-listen", ":8080"}, io.Discard)
	if err != nil || own.Poll != 5*time.Second || own.Listen != "localhost:8080" {
		t.Errorf("in process: poll %v, listen %q, %v; want 5s on localhost", own.Poll, own.Listen, err)
	}
	other, err := parseOptions([]string{"-endpoint", "http://127.0.0.1:9000", "-chaos", "5", "-listen", "0.0.0.0:80"}, io.Discard)
	if err != nil || other.Poll != time.Minute || other.Listen != "0.0.0.0:80" {
		t.Errorf("elsewhere: poll %v, listen %q, %v; want 1m and the address as given", other.Poll, other.Listen, err)
	}
}
