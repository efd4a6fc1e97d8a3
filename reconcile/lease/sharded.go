package lease

import (
	"fmt"
	"hash/fnv"

	"github.com/tendhq/tend/store"
)

// MaxShards is the most that a sharded placement may have.
const MaxShards = 1 << 14

// NewSharded places each key on one server, and gives every live server its part of the
// keys. The keys are divided into shards (64 to 1,024 serve most; at least ten for each
// server that there will ever be; docs/SIMULATION.md has how even that is). A plan in the store,
// which the oldest server keeps up to date, says which server is to hold each shard: the
// parts are by [Options].Weight, rounded up or down to whole shards; or of the measured load of
// the shards, with [Options].Load. A server that joins or
// leaves moves its own part and nothing else, and one that comes back, or that takes the
// place of another, gets the shards that were there: a restart of all servers, one after
// another, moves each shard at most twice.
//
// All servers have to say the same number of shards. Where a deployment changes it, those
// with the number of the server that is there longest work, and the others wait, with a
// warning, until the last of them has left: a key is never in two shards at once. To make
// this of a singleton of the same name, or a singleton of this, stop all servers first.
//
// A shard is handed over by draining it and then freeing it. It has no owner
// while its last runs drain, at most for a TTL; after a crash, until the lease
// has run out.
func NewSharded(b store.Backend, name string, shards int, o *Options) (Placement, error) {
	if shards < 1 || shards > MaxShards {
		return nil, fmt.Errorf("lease: %d shards are not between 1 and %d", shards, MaxShards)
	}
	e, err := newElector(b, name, fmt.Sprintf("sharded %q over %d", name, shards), shards, o)
	if err != nil {
		return nil, err
	}
	e.member = "member-"
	e.wants, e.divides = share, true
	return e, nil
}

// share marks the shards that are to be held by the session, by the rule of before plans:
// rendezvous hashing (Thaler and Ravishankar, 1998).
func share(members map[string]string, session string, n int) []bool {
	mine := make([]bool, n)
	live := contenders(members)
	for shard := range mine {
		mine[shard] = pick(live, shard) == session
	}
	return mine
}

// contender is a session that lives, with the hash of its server's name.
type contender struct {
	session string
	hash    uint64
}

// contenders hashes every name once: a hundred servers and a thousand shards
// are a hundred thousand questions.
func contenders(members map[string]string) []contender {
	live := make([]contender, 0, len(members))
	for session, server := range members {
		h := fnv.New64a()
		h.Write([]byte(server))
		live = append(live, contender{session, h.Sum64()})
	}
	return live
}

// pick is the session, of those that live, which is to own the shard; "" when
// none lives. Servers count by name, so that one which comes back gets back
// what it had; two of one name are told apart by their sessions.
func pick(live []contender, shard int) (session string) {
	var best uint64
	salt := mix(uint64(shard) + 0x9e3779b97f4a7c15)
	for _, c := range live {
		// The same in every process and version: never a seeded hash.
		w := mix(c.hash ^ salt)
		if session == "" || w > best || (w == best && c.session > session) {
			session, best = c.session, w
		}
	}
	return session
}

// mix spreads every input bit over the output (the finalizer of splitmix64):
// FNV alone leaves neighbouring shards correlated.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Shard is the shard, of so many, that a key with this hash belongs to.
func Shard(hash uint64, shards int) int { return int(mix(hash) % uint64(shards)) }

// HashKey is a hash of a key that is the same in every process and version.
func HashKey(k store.Key) uint64 {
	h := fnv.New64a()
	h.Write([]byte(k.Namespace))
	h.Write([]byte{'/'})
	h.Write([]byte(k.Name))
	return h.Sum64()
}
