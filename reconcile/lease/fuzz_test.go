package lease_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile/lease"
	"github.com/tendhq/tend/store"
)

// Another program writes to the placement's own records: an older or newer version,
// or an attacker's. It can keep servers from a shard, or draw shards to a server that
// does not exist; it cannot make two servers work on one, and nothing panics. Once its
// record is gone all shards are worked on again.
func FuzzRecord(f *testing.F) {
	for _, name := range []string{"shard-00000", "shard-00003", "shard-99999", "member-x", "member-", "term", "else", "plan"} {
		for _, data := range []string{``, `null`, `{}`, `{"session":"x","server":"s9"}`, `{"session":7}`, `{"session":"x","server":"s9","shards":7}`, `{"server":"a"}`, "\xff\x00", `{"live":1,"servers":["a"],"owner":"AAEAAQABAAE="}`, `{"live":-1,"owner":"AAEAAQABAAE="}`, `{"live":9,"owner":"/////////w=="}`} {
			f.Add(name, []byte(data), false)
		}
	}
	f.Add("shard-00001", []byte(`{"session":"","server":""}`), true)
	f.Fuzz(func(t *testing.T, name string, data []byte, late bool) {
		synctest.Test(t, func(t *testing.T) {
			const shards = 4
			b, l := newBackend(t), newLedger(t)
			defer b.Close()
			alien := store.Op{Kind: lease.Kind, Key: store.Key{Namespace: "job", Name: name}, Put: store.Bytes(data)}
			write := func() bool {
				_, err := b.Commit(t.Context(), store.Txn{Ops: []store.Op{alien}})
				return err == nil
			}
			if store.CheckAddress(alien.Kind, alien.Key) != nil {
				return // not even an enemy can write that
			}
			if !late && !write() {
				t.Error("the record could not be written")
			}
			servers := []*server{start(t, b, "a", shards, l.work("a", time.Second)), start(t, b, "z", shards, l.work("z", 0))}
			time.Sleep(3 * ttl)
			if late && write() { // over a record of ours, perhaps
				time.Sleep(3 * ttl)
			}
			alien.Put = nil
			if !write() {
				t.Error("the record could not be removed")
			}
			time.Sleep(5 * ttl)
			if n := l.owners()["a"] + l.owners()["z"]; n != shards {
				t.Errorf("%d of %d shards are worked on", n, shards)
			}
			for _, s := range servers {
				s.end()
			}
		})
	})
}
