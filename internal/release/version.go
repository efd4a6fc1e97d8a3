package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
)

// A module path would have to end in the major version from v2 on.
var versionForm = regexp.MustCompile(`^v([01])\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})$`)

// checkVersion returns an error unless version is one, and above last.
func checkVersion(version, last string) error {
	if !versionForm.MatchString(version) {
		return fmt.Errorf("%q is not a version such as v0.1.0, with a major version of 0 or 1", version)
	}
	if compareVersions(version, last) <= 0 {
		return fmt.Errorf("%s is not above %s, the last version", version, last)
	}
	return nil
}

// lastVersion returns the highest version among the tags, "" if there is none.
func lastVersion(tags []string) (last string) {
	for _, tag := range tags {
		if versionForm.MatchString(tag) && compareVersions(tag, last) > 0 {
			last = tag
		}
	}
	return last
}

// nextMinor returns the minor version after last, v0.1.0 for "".
func nextMinor(last string) string {
	if last == "" {
		return "v0.1.0"
	}
	n := numbers(last)
	return fmt.Sprintf("v%d.%d.0", n[0], n[1]+1)
}

// compareVersions orders versions; "" is below all.
func compareVersions(a, b string) int { return slices.Compare(numbers(a), numbers(b)) }

func numbers(version string) (n []int) {
	for _, s := range versionForm.FindStringSubmatch(version)[min(1, len(version)):] {
		i, _ := strconv.Atoi(s)
		n = append(n, i)
	}
	return n
}
