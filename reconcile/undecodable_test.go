package reconcile_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// An object that cannot be decoded any more, as one that a newer version of the program stored in another
// form, is not run by what the cache had of it before: it fails, with the reason, until it can be
// read again.
//
// promise S5
// promise R6
//
// Seen to fail without Undecodable in AsReconciler: the resyncs went on with the earlier spec.
func TestEarlierVersionOfWhatCannotBeDecodedIsNotRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := must[store.Backend](t)(memory.New(&memory.Options{Encode: true}))
		things := newStore(t, b, "thing")
		var ran list[string]
		c := must[*objectController](t)(reconcile.For(things, func(_ context.Context, o *thing) (result, error) {
			ran.add(o.Name)
			return result{}, nil
		}, &reconcile.ForOptions[spec, status]{Options: reconcile.Options[store.Key]{Resync: 10 * time.Minute}}))
		create(t, things, "a")
		startManaged(t, c)
		expectList(t, "at the start", ran.get(), "a")
		newer := `{"schema":2,"meta":{"uid":"u","created":"2000-01-01T00:00:00Z","generation":2},"spec":{"Size":{"GB":1}},"status":{}}`
		must[store.Revision](t)(b.Commit(t.Context(), store.Txn{Ops: []store.Op{{Kind: "thing", Key: key("a"), Put: store.Bytes(newer)}}}))
		time.Sleep(time.Hour)
		synctest.Wait()
		expectList(t, "while it cannot be decoded", ran.get(), "a")
		if e, ok := c.Queue().Lookup(key("a")); !ok || e.LastError == nil {
			t.Errorf("its key is %+v, want one that fails", e)
		}
		must[store.Revision](t)(b.Commit(t.Context(), store.Txn{Ops: []store.Op{{Kind: "thing", Key: key("a")}}}))
		synctest.Wait() // a run of the removal that reads the cache after the create would be one more
		create(t, things, "a")
		synctest.Wait()
		expectList(t, "when it can again", ran.get(), "a", "a")
	})
}
