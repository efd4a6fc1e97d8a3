package cli_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tendhq/tend/cmd/tend/cli"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/file"
)

// fileWith makes a file with records of two kinds, and returns its address. The bytes are of
// a codec that the command does not know.
func fileWith(t *testing.T, names ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	b := must(file.Open(path))
	for _, kind := range []string{"disk", "bucket"} {
		for _, name := range names {
			must(b.Commit(t.Context(), store.Txn{Ops: []store.Op{{Kind: kind, Key: store.Key{Name: name}, Put: stored(kind, name)}}}))
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	return "file:" + path
}

func stored(kind, name string) store.Bytes {
	return store.Bytes("\x00" + kind + name + " hunter2 \xff")
}

// inFile calls f with the store of an address.
func inFile(t *testing.T, address string, f func(b store.Backend)) {
	t.Helper()
	b := must(file.Open(strings.TrimPrefix(address, "file:")))
	f(b)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}

// A copy has the stored bytes, whatever their codec, and shows none of them. Made again it
// copies what is left, and it fails if a record differs from its copy.
func TestCopyMovesKindsFromOneStoreToAnother(t *testing.T) {
	from, to := fileWith(t, "a", "b", "c"), "file:"+filepath.Join(t.TempDir(), "new")
	c := &tend{t: t, env: map[string]string{"TEND_STORE": "file:/nonexistent"}} // not used
	wantAll(t, c.run(cli.Done, "", "copy", from, to, "disk", "bucket"), "disk: 3 copied", "bucket: 3 copied")
	ctx := t.Context()
	inFile(t, to, func(b store.Backend) {
		for _, kind := range []string{"disk", "bucket"} {
			for _, name := range []string{"a", "b", "c"} {
				if rec, err := b.Get(ctx, kind, store.Key{Name: name}); err != nil || !bytes.Equal(rec.Bytes, stored(kind, name)) {
					t.Errorf("the copy of %s %s: %q, error %v", kind, name, rec.Bytes, err)
				}
			}
		}
		must(b.Commit(ctx, store.Txn{Ops: []store.Op{{Kind: "disk", Key: store.Key{Name: "b"}}}}))
	})
	wantAll(t, c.run(cli.Done, "", "copy", from, to, "disk"), "disk: 1 copied")
	inFile(t, from, func(b store.Backend) {
		must(b.Commit(ctx, store.Txn{Ops: []store.Op{{Kind: "disk", Key: store.Key{Name: "b"}, Put: store.Bytes("newer hunter2")}}}))
	})
	c.run(cli.Conflict, "", "copy", from, to, "disk")
	wantAll(t, c.run(cli.Done, "", "copy", from, to, "bucket"), "bucket: 0 copied")
}

func TestCopyThatCannotBeginChangesNothing(t *testing.T) {
	from, dir := fileWith(t, "a"), t.TempDir()
	to := filepath.Join(dir, "new")
	c := &tend{t: t}
	c.run(cli.Usage, "", "copy", from, "file:"+to)
	c.run(cli.Usage, "", "copy", from, from, "disk")
	c.run(cli.NotFound, "", "copy", from, "file:"+to, "disk", "mistyped")
	c.run(cli.Usage, "", "copy", from, "somewhere", "disk")
	c.run(cli.Unreachable, "", "copy", "file:"+filepath.Join(dir, "none"), "file:"+to, "disk")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	c.runIn(ended, cli.Failed, "", "copy", from, "file:"+to, "disk")
	if _, err := os.Stat(to); err == nil {
		t.Error("a file was made for a copy that did not begin")
	}
}

// A copy without the installation's id makes a service take every resource that it marked
// for another's: copy says so, and does not when the kind goes along or is there.
func TestCopyWithoutTheInstallationSaysWhatItMeans(t *testing.T) {
	from, to := fileWith(t, "a"), "file:"+filepath.Join(t.TempDir(), "new")
	c := &tend{t: t}
	quiet := func(args ...string) {
		t.Helper()
		if c.run(cli.Done, "", args...); c.said != "" {
			t.Errorf("%v says %q, want nothing", args, c.said)
		}
	}
	quiet("copy", from, to, "disk") // a store without an id
	var id string
	inFile(t, from, func(b store.Backend) { id = must(store.Installation(t.Context(), b)) })
	wantAll(t, c.run(cli.Done, "", "copy", from, to, "bucket"), "bucket: 1 copied")
	wantAll(t, c.said, "copy the kind "+store.InstallationKind)
	quiet("copy", from, to, store.InstallationKind, "bucket")
	inFile(t, to, func(b store.Backend) {
		if got := must(store.Installation(t.Context(), b)); got != id {
			t.Errorf("the copy's installation is %q, want %q", got, id)
		}
	})
	quiet("copy", from, to, "bucket")
	other := fileWith(t, "a")
	inFile(t, other, func(b store.Backend) { must(store.Installation(t.Context(), b)) })
	c.run(cli.Done, "", "copy", from, other, "disk")
	wantAll(t, c.said, "copy the kind "+store.InstallationKind)
}
