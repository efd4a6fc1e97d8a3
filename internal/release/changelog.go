package main

import (
	"errors"
	"os"
	"strings"
	"time"
)

const unreleased = "## Unreleased\n"

// releaseChangelog turns the section of what is unreleased into the version's.
func releaseChangelog(file, version string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	changed, err := releaseSection(string(text), version, time.Now())
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(changed), 0o644)
}

// releaseSection returns the text with an empty section of what is unreleased on
// top, and below it the version's, which has what was unreleased. If a section for
// the version has been prepared, what was unreleased stands at its end.
func releaseSection(text, version string, day time.Time) (string, error) {
	head, rest, ok := strings.Cut(text, unreleased)
	if !ok {
		return "", errors.New(`CHANGELOG.md has no section "## Unreleased"`)
	}
	lines, older := cutSection(rest)
	if prepared, after, ok := strings.Cut(older, "## "+version+"\n"); ok && prepared == "" {
		section, below := cutSection(after)
		lines, older = join(section, lines), below
	}
	if lines = strings.TrimSpace(lines); lines == "" {
		return "", errors.New(`CHANGELOG.md: there is nothing under "## Unreleased"`)
	}
	title := "## " + version + " (" + day.Format(time.DateOnly) + ")\n"
	return strings.TrimSpace(head+unreleased+"\n"+title+"\n"+lines+"\n\n"+older) + "\n", nil
}

// cutSection returns the text up to the next section, and the rest.
func cutSection(text string) (section, rest string) {
	if i := strings.Index("\n"+text, "\n## "); i >= 0 {
		return text[:i], text[i:]
	}
	return text, ""
}

func join(a, b string) string {
	return strings.TrimSpace(strings.TrimSpace(a) + "\n\n" + strings.TrimSpace(b))
}
