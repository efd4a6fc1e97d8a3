// Package cause tells which errors are of one cause. The log and package inspect group
// failures by it, so that both name the same causes.
package cause

import (
	"strings"
	"unicode"
)

// Down says what a store that is unavailable for a reason has not done since a time.
func Down(reason error, since string) string {
	if strings.HasPrefix(reason.Error(), commitsFail) {
		return "has taken no writes since " + since
	}
	return "has not answered since " + since
}

// commitsFail begins the reason of a store that answers and refuses writes, as store.WriteHealth gives it.
const commitsFail = "commits fail: "

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
	var name strings.Builder
	status := false
	text, _, _ = strings.Cut(text, SinceThen)
	for word := range strings.FieldsFuncSeq(noAnswer.Replace(text[:min(len(text), maxText)]), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.:+", r)
	}) {
		word = strings.Trim(word, ".:")
		switch {
		case isPartOf(key, word), word == "":
			continue
		case !strings.ContainsAny(word, "0123456789"):
		case !status && isStatus(word):
			status = true
		default:
			continue
		}
		if name.Len() > 0 {
			name.WriteByte(' ')
		}
		name.WriteString(word)
	}
	return name.String()
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
