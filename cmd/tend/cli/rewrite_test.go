package cli_test

import (
	"path/filepath"
	"testing"

	"github.com/tendhq/tend/cmd/tend/cli"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/file"
	"github.com/tendhq/tend/store/objects"
)

// The command of a host brings a store into the form of its version; the plain one, which
// has no types, cannot.
func TestRewriteConvertsAStoreOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	b := must(file.Open(path))
	must(b.Commit(t.Context(), store.Txn{Ops: []store.Op{{Kind: "disk", Key: store.Key{Name: "a"}, Put: store.Bytes(
		`{"schema":1,"meta":{"name":"a","uid":"u","generation":1},"spec":{"bytes":7},"status":{"made":true}}`)}}}))
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	host := &tend{t: t, config: cli.Config{Kinds: func(b store.Backend) ([]objects.Kind, error) {
		s, err := store.New(b, "disk", &store.Options[spec, status]{Version: 2, Convert: []store.Conversion{func(o map[string]any) error {
			spec := o["spec"].(map[string]any)
			spec["size"] = spec["bytes"]
			delete(spec, "bytes")
			return nil
		}}})
		if err != nil {
			return nil, err
		}
		return []objects.Kind{objects.Of(s)}, nil
	}}}
	wantAll(t, host.run(cli.Done, "", "-store", "file:"+path, "rewrite", "disk"), "1 rewritten")
	wantAll(t, host.run(cli.Done, "", "-store", "file:"+path, "rewrite", "disk"), "0 rewritten")
	wantAll(t, host.run(cli.Done, "", "-store", "file:"+path, "-o", "json", "get", "disk", "a"), `"size": 7`, `"made": true`)
	plain := &tend{t: t}
	plain.run(cli.NeedsType, "", "-store", "file:"+path, "rewrite", "disk")
	plain.run(cli.Usage, "", "-server", "http://localhost:1/objects", "rewrite", "disk")
}
