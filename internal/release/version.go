package main

import (
	"fmt"
	goversion "go/version"
	"regexp"
	"slices"
	"strings"
)

// A module path would have to end in the major version from v2 on.
var versionForm = regexp.MustCompile(`^v[01]\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})$`)

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
func lastVersion(tags []string) string {
	versions := slices.DeleteFunc(tags, func(tag string) bool { return !versionForm.MatchString(tag) })
	return slices.MaxFunc(append(versions, ""), compareVersions)
}

// nextMinor returns the minor version after last, v0.1.0 for "".
func nextMinor(last string) string {
	var major, minor int
	_, _ = fmt.Sscanf(last, "v%d.%d.", &major, &minor) // "" leaves zeros
	return fmt.Sprintf("v%d.%d.0", major, minor+1)
}

// compareVersions orders versions as those of Go are; "" is below all.
func compareVersions(a, b string) int {
	return goversion.Compare("go"+strings.TrimPrefix(a, "v"), "go"+strings.TrimPrefix(b, "v"))
}
