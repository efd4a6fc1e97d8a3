package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// acme is a bucket's spec.
var acme = BucketSpec{Tenant: "acme", Owner: "team@acme.example", Region: "eu-central-1"}

func chaosOver(t *testing.T, n int) (*buckets, []Entry) {
	server := newTestS3(t, true)
	e, _, _ := metered(t, server.URL)
	b := &buckets{endpoint: e, ownership: byTags{}}
	var entries []Entry
	for i := range n {
		entry := acme.entry(fmt.Sprint("acme-", i))
		entry.Versioning = i%2 == 0
		entries = append(entries, entry)
		mend(t, b, entry)
	}
	return b, entries
}

func TestChaosAltersAndCountsWhatIsPutBack(t *testing.T) {
	t.Parallel()
	b, entries := chaosOver(t, 8)
	var c *chaos
	c = newChaos(b, func() []Entry { return slices.Clone(entries) }, 1, func(_ string, args ...any) {
		name := args[0].(string)
		i := slices.IndexFunc(entries, func(e Entry) bool { return e.Name == name })
		if seen, err := b.look(t.Context(), name, acme.Region); err != nil || len(seen.differences(entries[i].spec())) == 0 {
			t.Errorf("%s: %v, %v; want it altered", name, seen, err)
		}
		mend(t, b, entries[i]) // stands in for the kernel
		c.Touched(name)
	})
	if err := c.Run(t.Context(), 60); err != nil {
		t.Error(err)
	}
	if s := c.Summary(); !strings.Contains(s, "60 alterations") || !strings.Contains(s, "60 put back") || len(c.made) != 3 {
		t.Errorf("summary %q, want 60 alterations of three kinds, all put back", s)
	}
}

// The check must be real: what was touched, but is still wrong, is not back.
func TestChaosDoesNotTakeATouchForAMend(t *testing.T) {
	b, entries := chaosOver(t, 1)
	c := newChaos(b, func() []Entry { return slices.Clone(entries) }, 1, func(string, ...any) {})
	if !c.alterOne(t.Context()) {
		t.Fatal("nothing was altered")
	}
	c.Touched("acme-0")
	c.check(t.Context())
	if len(c.waiting) != 1 {
		t.Error("an altered bucket counts as put back because it was touched")
	}
	mend(t, b, entries[0])
	c.check(t.Context())
	if len(c.waiting) != 1 {
		t.Error("the bucket was read although it was not touched")
	}
	c.Touched("acme-0")
	c.check(t.Context())
	if len(c.waiting) != 0 {
		t.Error("a mended bucket still counts as altered")
	}
}

func TestChaosEndsWithTheContextAndCountsWhatIsLeft(t *testing.T) {
	b, entries := chaosOver(t, 3)
	ctx, cancel := context.WithCancel(t.Context())
	altered := 0
	c := newChaos(b, func() []Entry { return slices.Clone(entries) }, 1, func(string, ...any) {
		if altered++; altered == 3 {
			cancel()
		}
	})
	if err := c.Run(ctx, 10); err == nil || !strings.Contains(err.Error(), "3 of 10 alterations made, 3 not put back") {
		t.Errorf("Run = %v, want the count of what is left", err)
	}
}

// mend makes a bucket as declared.
func mend(t *testing.T, b *buckets, e Entry) {
	ctx := t.Context()
	l := Labels{Mark: markOf("demo", e.Name), Marked: true, Tenant: e.Tenant, Owner: e.Owner}
	if err := b.create(ctx, e.Name, e.Region, l); err != nil && !isTaken(err) {
		t.Error(err)
	}
	if err := b.label(ctx, e.Name, e.Region, l); err != nil {
		t.Error(err)
	}
	if err := b.setVersioning(ctx, e.Name, e.Region, e.Versioning); err != nil {
		t.Error(err)
	}
}
