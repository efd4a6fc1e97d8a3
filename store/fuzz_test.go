package store_test

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tendhq/tend/store"
)

// Whatever a secret is and whatever stands around it: it is not in the text any
// more, in none of the forms in which programs print texts, and what is not secret
// still is there.
func FuzzRedact(f *testing.F) {
	f.Add("hunter22", "login with ", " failed")
	f.Add("a\nb\"c<&>", "", "")
	f.Add("(secret)", "x", "y")
	f.Add("pass\xffword", "\xff", "\xfe")
	f.Add("....", ".", ".")
	s := secretStore[login](f)
	f.Fuzz(func(t *testing.T, password, before, after string) {
		if len(password) < 4 || strings.Contains(store.Redacted, password) {
			return // short ones go where they stand alone; the mark itself may stay
		}
		o := &store.Object[login, struct{}]{Spec: login{"anna", password}}
		forms := map[string]string{
			"plain": password, "quoted": fmt.Sprintf("%q", password), "hex": fmt.Sprintf("%x", password),
			"base64": base64.StdEncoding.EncodeToString([]byte(password)), "escaped": url.QueryEscape(password),
			"spaced": fmt.Sprintf("% x", password), "bytes": fmt.Sprintf("%d", []byte(password)),
		}
		for what, form := range forms {
			if _, err := strconv.ParseFloat(form, 64); err == nil && len(form) < 8 {
				continue // a short number goes where it stands alone
			}
			got := s.Redact(before+form+after, o)
			if !strings.Contains(got, store.Redacted) {
				t.Errorf("%s: nothing was taken out of %q", what, before+form+after)
			}
			if strings.Contains(got, password) && !strings.Contains(before+store.Redacted+after, password) {
				t.Errorf("%s: %q still has %q", what, got, password)
			}
		}
		if utf8.ValidString(before) && !strings.Contains(before, password) {
			if got := s.Redact(before, o); got != before && !holdsForm(before, password) {
				t.Errorf("%q became %q", before, got)
			}
		}
	})
}

// holdsForm is whether a text could have a form of a secret in it that the test
// did not put there.
func holdsForm(text, secret string) bool {
	for line := range strings.Lines(secret) {
		if line = strings.TrimSpace(line); line != "" && strings.Contains(text, line) {
			return true
		}
	}
	for _, form := range []string{
		fmt.Sprintf("%q", secret), fmt.Sprintf("%+q", secret), fmt.Sprintf("%x", secret), fmt.Sprintf("%X", secret),
		base64.RawStdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret)),
		url.QueryEscape(secret), url.PathEscape(secret), fmt.Sprintf("% x", secret), fmt.Sprintf("% X", secret),
		fmt.Sprintf("%# x", secret), fmt.Sprintf("%# X", secret), fmt.Sprintf("%d", []byte(secret)),
	} {
		if strings.Contains(text, strings.Trim(form, `"`)) {
			return true
		}
	}
	return false
}
