package main

import (
	"errors"
	"strings"
	"time"
)

const unreleased = "## Unreleased\n"

// releaseSection returns the changelog with an empty section of what is unreleased on top, and
// below it the version's, which has what was unreleased.
func releaseSection(text, version string, day time.Time) (string, error) {
	head, rest, _ := strings.Cut(text, unreleased)
	if unreleasedOf(text) == "" {
		return "", errors.New(`CHANGELOG.md has no section "## Unreleased", or nothing in it`)
	}
	return head + unreleased + "\n## " + version + day.Format(" (2006-01-02)\n") + rest, nil
}

// unreleasedOf is what a changelog has in the section of what is unreleased.
func unreleasedOf(text string) string {
	_, rest, _ := strings.Cut(text, unreleased)
	section, _, _ := strings.Cut("\n"+rest, "\n## ")
	return strings.TrimSpace(section)
}
