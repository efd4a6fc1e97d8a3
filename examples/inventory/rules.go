package main

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// What S3 accepts, checked before anything is sent: its own answer would name
// neither the line nor the rule.

var (
	regionPattern  = regexp.MustCompile(`^[a-z]{2,4}(-[a-z]+)+-[1-9][0-9]?$`)
	tenantPattern  = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	fileKeyPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$`) // a part of what an object's key may hold
	ownerPattern   = regexp.MustCompile(`^[A-Za-z0-9._+-]+@[A-Za-z0-9.-]+$`)  // a part of what a tag's value may hold

	// Prefixes and suffixes that S3 keeps for itself.
	reservedPrefixes = []string{"xn--", "sthree-", "amzn-s3-demo-"}
	reservedSuffixes = []string{"-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3", "-an"}
)

const maxBucketName = 63

func checkTenant(s string) error {
	if !tenantPattern.MatchString(s) {
		return errors.New("up to 63 of a-z, 0-9 and hyphens, beginning and ending with a letter or digit")
	}
	return nil
}

func checkRegion(s string) error {
	if !regionPattern.MatchString(s) {
		return errors.New("a region such as eu-central-1")
	}
	return nil
}

func checkOwner(s string) error {
	if len(s) > 256 || !ownerPattern.MatchString(s) {
		return errors.New("an e-mail address of up to 256 characters")
	}
	return nil
}

func checkFileKey(s string) error {
	if !fileKeyPattern.MatchString(s) {
		return errors.New("a file's key of up to 200 of A-Z, a-z, 0-9, dots, hyphens and underscores, beginning with a letter or digit")
	}
	return nil
}

// maxFileText bounds the text of a file, which the store holds with its declaration.
const maxFileText = 16 << 10

func checkFileText(s string) error {
	if len(s) > maxFileText {
		return fmt.Errorf("a text of up to %d bytes", maxFileText)
	}
	return nil
}

// checkBucketName applies the rules for names of general purpose buckets.
func checkBucketName(s string) error {
	edge := func(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }
	reserved := func(has func(string, string) bool, list []string) bool {
		return slices.ContainsFunc(list, func(part string) bool { return has(s, part) })
	}
	switch {
	case len(s) < 3 || len(s) > maxBucketName:
		return errors.New("a bucket name of 3 to 63 characters")
	case strings.ContainsFunc(s, outsideBucketName):
		return errors.New("a bucket name of a-z, 0-9, dots and hyphens only")
	case !edge(s[0]) || !edge(s[len(s)-1]):
		return errors.New("a bucket name that begins and ends with a letter or digit")
	case strings.Contains(s, ".."):
		return errors.New("a bucket name without two dots in a row")
	case isIPv4(s):
		return errors.New("a bucket name that is not an IP address")
	case reserved(strings.HasPrefix, reservedPrefixes):
		return errors.New("a bucket name without a prefix that S3 reserves (" + strings.Join(reservedPrefixes, ", ") + ")")
	case reserved(strings.HasSuffix, reservedSuffixes):
		return errors.New("a bucket name without a suffix that S3 reserves (" + strings.Join(reservedSuffixes, ", ") + ")")
	}
	return nil
}

func outsideBucketName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '.' && r != '-'
}

func isIPv4(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Is4()
}
