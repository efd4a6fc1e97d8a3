package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

// inventoryOf wraps bucket lines into the smallest whole file; the first of them
// is line 6.
func inventoryOf(buckets string) string {
	return "tenants:\n  - name: acme\n    owner: ops@acme.example\n    region: eu-central-1\n    buckets:\n" + buckets
}

func TestCommittedInventoryIsWellFormed(t *testing.T) {
	data, err := os.ReadFile("inventory.yaml")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := parseInventory(data)
	if err != nil {
		t.Fatal(err)
	}
	tenants, regions, versioned := map[string]bool{}, map[string]bool{}, 0
	for _, e := range entries {
		tenants[e.Tenant], regions[e.Region] = true, true
		if e.Versioning {
			versioned++
		}
	}
	if len(entries) < 300 || len(tenants) < 10 || len(regions) < 5 || versioned < 50 || versioned > len(entries)-50 {
		t.Errorf("the inventory has %d buckets of %d tenants in %d regions, %d versioned; got thinner than the README says",
			len(entries), len(tenants), len(regions), versioned)
	}
}

func TestBucketsTakeTheirTenantsDefaults(t *testing.T) {
	got, err := parseInventory([]byte(inventoryOf(`
      - name: acme-logs
      - {name: acme-web, region: us-east-1, owner: web@acme.example, versioning: true}
`)))
	if err != nil {
		t.Fatal(err)
	}
	want := []Entry{
		{Name: "acme-logs", Tenant: "acme", Region: "eu-central-1", Owner: "ops@acme.example", Line: 7},
		{Name: "acme-web", Tenant: "acme", Region: "us-east-1", Owner: "web@acme.example", Versioning: true, Line: 8},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("entries (-want +got):\n%s", d)
	}
}

func TestBrokenInventoryNamesLineFieldAndExpectation(t *testing.T) {
	for _, c := range []struct{ name, file, want string }{
		{
			"unknown field", inventoryOf("      - name: acme-a\n        versionning: true\n"),
			"line 7: field versionning is unknown; expected name, owner, region, versioning, files",
		},
		{
			"duplicate bucket", inventoryOf("      - name: acme-a\n      - name: acme-b\n      - name: acme-a\n"),
			`line 8: bucket "acme-a" is declared already, on line 6; expected each name once`,
		},
		{
			"duplicate tenant", inventoryOf("      - name: acme-a\n") + "  - name: acme\n    owner: a@b\n    region: us-east-1\n    buckets: []\n",
			`line 7: tenant "acme" is declared already, on line 2; expected each name once`,
		},
		{
			"field twice", inventoryOf("      - name: acme-a\n        name: acme-b\n"),
			`line 7: "name" is given already, on line 6`,
		},
		{
			"upper case name", inventoryOf("      - name: Acme-A\n"),
			`line 6: found "Acme-A"; expected a bucket name of a-z, 0-9, dots and hyphens only`,
		},
		{
			"short name", inventoryOf("      - name: ab\n"),
			`line 6: found "ab"; expected a bucket name of 3 to 63 characters`,
		},
		{
			"address as name", inventoryOf("      - name: 192.168.5.4\n"),
			`line 6: found "192.168.5.4"; expected a bucket name that is not an IP address`,
		},
		{
			"number as name", inventoryOf("      - name: 20261121\n"),
			"line 6: found the number `20261121`; expected text",
		},
		{
			"word as boolean", inventoryOf("      - name: acme-a\n        versioning: yes please\n"),
			"line 7: found the text `yes please`; expected true or false",
		},
		{
			"list as text", inventoryOf("      - name: [acme-a]\n"),
			"line 6: found a list; expected text",
		},
		{"text as list", "tenants: none\n", "line 1: found the text `none`; expected a list of tenants"},
		{
			"text as bucket", inventoryOf("      - acme-a\n"),
			"line 6: found the text `acme-a`; expected a mapping with name, owner, region, versioning, files",
		},
		{"missing name", inventoryOf("      - versioning: true\n"), "line 6: name is missing"},
		{
			"missing region", "tenants:\n  - name: acme\n    owner: ops@acme.example\n    buckets: []\n",
			"line 2: region is missing",
		},
		{
			"bad region", inventoryOf("      - name: acme-a\n        region: Frankfurt\n"),
			`line 7: found "Frankfurt"; expected a region such as eu-central-1`,
		},
		{
			"bad owner", inventoryOf("      - name: acme-a\n        owner: the web team\n"),
			`line 7: found "the web team"; expected an e-mail address of up to 256 characters`,
		},
		{
			"file without text", inventoryOf("      - name: acme-a\n        files:\n          - key: a.txt\n"),
			"line 8: text is missing",
		},
		{
			"file of an unknown field", inventoryOf("      - name: acme-a\n        files:\n          - {key: a.txt, text: a, mode: b}\n"),
			"line 8: field mode is unknown; expected key, text",
		},
		{
			"key in a folder", inventoryOf("      - name: acme-a\n        files:\n          - {key: a/b, text: a}\n"),
			`line 8: found "a/b"; expected a file's key of up to 200 of A-Z, a-z, 0-9, dots, hyphens and underscores, beginning with a letter or digit`,
		},
		{
			"file twice", inventoryOf("      - name: acme-a\n        files:\n          - {key: a, text: a}\n          - {key: a, text: b}\n"),
			`line 9: file "acme-a/a" is declared already, on line 8; expected each name once`,
		},
		{
			"text as files", inventoryOf("      - name: acme-a\n        files: a.txt\n"),
			"line 7: found the text `a.txt`; expected a list of files",
		},
		{
			"long text", inventoryOf("      - name: acme-a\n        files:\n          - {key: a, text: \"" + strings.Repeat("x", maxFileText+1) + "\"}\n"),
			`line 8: found "` + strings.Repeat("x", 80) + `…"; expected a text of up to 16384 bytes`,
		},
		{"null list", "tenants:\n", "line 1: tenants are missing"},
		{"not a mapping", "- a\n- b\n", "line 1: found a list; expected a mapping with tenants"},
		{"empty", "# nothing yet\n", "line 1: the file is empty; expected tenants and their buckets"},
		{
			"two documents", inventoryOf("      - name: acme-a\n") + "---\ntenants: []\n",
			"line 1: the file holds more than one document; expected one",
		},
		{"not YAML", "tenants: [\n", "line 2: the file is not YAML: did not find expected node content"},
		{
			"wrong indentation", "tenants:\n  - name: acme\n   owner: ops@acme.example\n",
			"line 3: the file is not YAML: did not find expected '-' indicator",
		},
		{
			"control characters", inventoryOf("      - name: acme-a\n        \"own\\e[2Jer\": a@b\n"),
			"line 7: field own\uFFFD[2Jer is unknown; expected name, owner, region, versioning, files",
		},
		{
			// The decoder takes 16 s for 20,000.
			"a large mapping", "tenants: []\n" + numberedKeys(100_000), "line 1: found a mapping of 100001 keys; expected up to 100",
		},
		{"too large", "# " + strings.Repeat("x", maxInventoryBytes), "line 1: the file is larger than 4194304 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			entries, err := parseInventory([]byte(c.file))
			if err == nil || entries != nil {
				t.Fatalf("parseInventory = %d entries, %v; want no entries and an error", len(entries), err)
			}
			if got := err.Error(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func numberedKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: 1\n", i)
	}
	return b.String()
}

func TestEveryProblemOfAFileIsReported(t *testing.T) {
	_, err := parseInventory([]byte(inventoryOf("      - name: A\n      - name: acme-b\n        region: 7\n      - nam: acme-c\n")))
	var ps FileErrors
	if !errors.As(err, &ps) || len(ps) != 4 {
		t.Fatalf("parseInventory = %v; want the short name, the region, the unknown field and the missing name", err)
	}
	long := make(FileErrors, 300)
	if lines := strings.Count(long.Error(), "\n") + 1; lines != 21 {
		t.Errorf("300 problems print %d lines, want 20 and one that counts the rest", lines)
	}
}

// A file of a few hundred bytes must not cost gigabytes: aliases are refused as
// values, and never followed.
func TestAliasesAreRefusedWithoutBeingFollowed(t *testing.T) {
	bomb := "tenants: &t0 [x, x]\n"
	for i := range 30 {
		bomb += "a" + string(rune('a'+i%26)) + string(rune('a'+i/26)) + ": &t" + string(rune('A'+i)) + " [*t0, *t0, *t0]\n"
	}
	for _, file := range []string{
		bomb,
		inventoryOf("      - &b {name: acme-a}\n      - *b\n"),
		inventoryOf("      - {name: &n acme-a, owner: *n}\n"),
		inventoryOf("      - &b {name: acme-a}\n      - <<: *b\n        name: acme-b\n"),
		"tenants: &t\n  - *t\n",
	} {
		if entries, err := parseInventory([]byte(file)); err == nil {
			t.Errorf("%q was read as %v, want a refusal", file, entries)
		}
	}
}

func FuzzParseInventory(f *testing.F) {
	data, err := os.ReadFile("inventory.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data[:2000])
	f.Add([]byte(inventoryOf("      - name: acme-a\n        versioning: true\n")))
	f.Add([]byte(inventoryOf("      - {name: &n acme-a, owner: *n}\n      - <<: *n\n")))
	f.Add([]byte(inventoryOf("      - name: acme-a\n        files: [{key: a, text: b}, {key: c, text: \"\"}]\n")))
	f.Add([]byte("tenants: !!binary aGk=\n"))
	f.Add([]byte("? [a, b]\n: c\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := parseInventory(data)
		if err != nil {
			checkRefusal(t, entries, err)
			return
		}
		seen := map[string]bool{}
		for _, e := range entries {
			if seen[e.Name] || checkBucketName(e.Name) != nil || checkRegion(e.Region) != nil ||
				checkOwner(e.Owner) != nil || checkTenant(e.Tenant) != nil || e.Line < 1 {
				t.Errorf("an entry that should have been refused: %+v", e)
			}
			seen[e.Name] = true
			for _, f := range e.Files {
				if name := e.Name + "/" + f.Key; seen[name] || checkFileKey(f.Key) != nil || checkFileText(f.Text) != nil {
					t.Errorf("a file that should have been refused: %s", name)
				} else {
					seen[name] = true
				}
			}
		}
	})
}

// checkRefusal: a refusal says something about a line, and says it briefly.
func checkRefusal(t *testing.T, entries []Entry, err error) {
	t.Helper()
	var ps FileErrors
	if !errors.As(err, &ps) || len(ps) == 0 || entries != nil {
		t.Fatalf("refused with %d entries and %v, want no entries and FileErrors", len(entries), err)
	}
	for _, p := range ps {
		if strings.ContainsFunc(p.String(), unicode.IsControl) {
			t.Errorf("problem %q carries control characters to the terminal", p)
		}
		if p.Line < 1 || p.Text == "" || len(p.Text) > 1000 {
			t.Errorf("problem %+v has no line or no text, or a long one", p)
		}
	}
}
