package file

import (
	"context"
	"testing"

	"github.com/tendhq/tend/internal/campaign"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/storetest"
)

func TestContract(t *testing.T) {
	storetest.Run(t, func(t testing.TB) store.Backend {
		b, err := openWith(newPath(t), &options{historyRevisions: 200})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}, &storetest.Options{Bubble: true, Compact: outgrow})
}

// outgrow writes to another kind until everything up to now is forgotten: the
// history is one for all kinds.
func outgrow(ctx context.Context, b store.Backend, _ string) error {
	f := b.(*backend)
	for now := f.history.head(); f.history.floor < now; {
		op := store.Op{Kind: "filler", Key: store.Key{Name: "f"}, Put: store.Bytes("x")}
		if _, err := b.Commit(ctx, store.Txn{Ops: []store.Op{op}}); err != nil {
			return err
		}
	}
	return nil
}

// Seen to fail: with texts cut before their last newline.
//
// promise S3
func TestRandomWritesAreAsInMemory(t *testing.T) {
	storetest.WriteAlike(t, func(t testing.TB) store.Backend {
		b, err := Open(newPath(t))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}, campaign.Length())
}
