// Package cause tells which errors are of one cause. The log and package inspect group
// failures by it, so that both name the same causes.
package cause

import (
	"slices"
	"strings"
	"unicode"

	"github.com/tendhq/tend/internal/introspect"
)

// Down says what a store that is unavailable for a reason has not done since a time.
func Down(reason error, since string) string {
	if introspect.RefusesWrites(reason) {
		return "has taken no writes since " + since
	}
	return "has not answered since " + since
}

// maxText is how many bytes of an error's text are looked at.
const maxText = 500

// SinceThen stands in an error's text between what failed and why its key waits since then.
const SinceThen = "; since then "

// noAnswer has the ways in which Go says that a call had no answer in time: which of them it is depends on
// which timer was first.
var noAnswer = strings.NewReplacer(
	" (Client.Timeout exceeded while awaiting headers)", "",
	" (Client.Timeout or context cancellation while reading body)", "",
	"net/http: request canceled while waiting for connection", "timeout",
	"net/http: request canceled", "timeout",
	"net/http: timeout awaiting response headers", "timeout",
	"context deadline exceeded", "timeout",
	"i/o timeout", "timeout",
)

// Of names the cause of an error with this text, of a key that is printed like that. Two texts
// have one name if they differ in numbers, in ids, in times or in the key, or in how they say that there
// was no answer in time, or in why their keys wait since then ([SinceThen]). A status of HTTP counts as a word: the first of them is kept.
func Of(text, key string) string {
	name, _ := words(text, key)
	return name
}

// words gives the name of an error, and the first status of HTTP in it; "": there is none.
func words(text, key string) (name, status string) {
	var kept strings.Builder
	text, _, _ = strings.Cut(text, SinceThen)
	for word := range strings.FieldsFuncSeq(noAnswer.Replace(text[:min(len(text), maxText)]), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.:+", r)
	}) {
		word = strings.Trim(word, ".:")
		switch {
		case isPartOf(key, word), word == "":
			continue
		case !strings.ContainsAny(word, "0123456789"):
		case status == "" && isStatus(word):
			status = word
		default:
			continue
		}
		if kept.Len() > 0 {
			kept.WriteByte(' ')
		}
		kept.WriteString(word)
	}
	return kept.String(), status
}

// Provider names the cause of an error with which a provider answers all calls alike, or none: bad credentials, an
// error of its own, no connection. Two such errors have one name if host and words are the same, whatever
// was called; where the text has no host, all of its words count. "": the error is about one object,
// as that of a name that is taken, or no provider's.
func Provider(text, key string) string {
	if host, says := callOf(text); host != "" {
		switch name, status := words(says, key); {
		case ofAll(status), status == "" && isSilence(name):
			return host + " " + name
		case status != "":
			return ""
		}
	}
	if name, status := words(text, key); ofAll(status) {
		return name
	}
	return ""
}

// callOf gives the host of the first URL in a text and what the text says after the URL; "": it has no URL.
func callOf(text string) (host, says string) {
	_, after, found := strings.Cut(text, "://")
	if !found {
		return "", ""
	}
	url := after
	if end := strings.IndexFunc(after, func(r rune) bool { return unicode.IsSpace(r) || r == '"' }); end >= 0 {
		url, says = after[:end], after[end:]
	}
	host, _, _ = strings.Cut(strings.TrimRight(url, ":,;)"), "/")
	return host, says
}

// ofAll reports whether a status of HTTP is about the caller or the provider, and not about what was asked for.
func ofAll(status string) bool {
	switch status {
	case "401", "403", "407", "429":
		return true
	}
	return strings.HasPrefix(status, "5")
}

// silences are the words of errors for which a call has no answer.
var silences = []string{"timeout", "refused", "reset", "no such host", "unreachable", "no route", "EOF", "certificate"}

func isSilence(name string) bool {
	return slices.ContainsFunc(silences, func(words string) bool { return strings.Contains(name, words) })
}

// Unauthorised reports whether an error says that the provider does not know the caller, or not any more.
func Unauthorised(text string) bool {
	_, status := words(text, "")
	return status == "401"
}

// isPartOf reports whether a word is the key, its namespace or its name.
func isPartOf(key, word string) bool {
	for part := range strings.SplitSeq(key, "/") {
		if part == word {
			return true
		}
	}
	return false
}

// isStatus reports whether a word is the number of an HTTP status that says that a call failed.
func isStatus(word string) bool {
	return len(word) == 3 && word[1] <= '3' && (word[0] == '4' || word[0] == '5' && word[1] < '2') && word >= "400" && word[2] >= '0' && word[2] <= '9' && word[1] >= '0'
}
