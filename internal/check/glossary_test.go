package check

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	notRow    = regexp.MustCompile(`(?m)^\| ([^|]+) \| ([^|]+) \|$`)
	nameParts = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)
)

// One thing has one word: no exported name has a word that the glossary replaces by
// another one.
func TestExportedNamesUseTheGlossarysWords(t *testing.T) {
	names := exported(t)
	if len(names) < 500 {
		t.Fatalf("found %d exported names", len(names))
	}
	not := notUsed(t)
	for _, name := range names {
		if strings.HasPrefix(name, "workqueue.") { // its names are client-go's
			continue
		}
		if word := usesAny(name, not); word != "" {
			t.Errorf("%s: docs/GLOSSARY.md has another word for %q", name, word)
		}
	}
}

// Negative control of the test above.
func TestGlossarysCheckFindsWords(t *testing.T) {
	not := notUsed(t)
	for name, want := range map[string]string{
		"queue.Queue.EnqueueAfter": "enqueue", "lease.LeaderOf": "leader", "store.Jobs": "job",
		"queue.Queue.Add": "", "store.Unlocked": "", "store.ReplicaSet": "replica",
	} {
		if got := usesAny(name, not); got != want {
			t.Errorf("%s uses %q, want %q", name, got, want)
		}
	}
}

func notUsed(t *testing.T) (words []string) {
	t.Helper()
	_, section, found := strings.Cut(readPage(t, "docs/GLOSSARY.md"), "## Words that no exported name has")
	if !found {
		t.Fatal("docs/GLOSSARY.md has no section of words that are not used")
	}
	for _, m := range notRow.FindAllStringSubmatch(section, -1) {
		if m[1] == "not" || strings.HasPrefix(m[1], "-") {
			continue
		}
		for word := range strings.SplitSeq(m[1], ", ") {
			if !strings.Contains(word, " ") {
				words = append(words, word)
			}
		}
	}
	if len(words) < 20 {
		t.Fatalf("the glossary has the words %v, want 20 at least", words)
	}
	return words
}

// usesAny returns the first of the words that is a part of a name, as in EnqueueAfter, or
// its plural.
func usesAny(name string, words []string) string {
	for _, part := range nameParts.FindAllString(name, -1) {
		part = strings.ToLower(part)
		for _, word := range []string{part, strings.TrimSuffix(part, "s")} {
			if slices.Contains(words, word) {
				return word
			}
		}
	}
	return ""
}
