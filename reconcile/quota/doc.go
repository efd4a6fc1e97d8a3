// Package quota keeps the calls to a cloud within what it grants, over all
// controllers of a process and, where they share a store, over all servers.
//
// A [Set] holds a [Quota] for each [Name]: account, region and API. A quota is
// two budgets, reads and writes, each a [ratelimit.Bucket]. [Limit] puts a
// controller under them, and every call goes through [Quota.Do], or through a
// [Transport] under the HTTP client of an SDK:
//
//	quotas, err := quota.NewSet(&quota.Options{Limits: limits})
//	…
//	options, err := quota.Limit(func(key reconcile.Request) (*quota.Quota, error) {
//		return quotas.Get(quota.Name{Account: key.Namespace, API: "dns"})
//	}, nil)
//	…
//	err := q.Do(ctx, quota.Read, func(ctx context.Context) error { … })
//
// [Estimate] says what it will come to before it is turned on.
//
// # What is promised
//
//   - A call is paid for before it is made. A key whose budget is used up waits
//     in its queue, without a worker, in the order of priority and age, tenants in
//     turns by weight (queue.Options.Tenant), and holds up no key of another budget.
//   - A call that waits for its turn instead, such as the second of a run, pays when that
//     has come, and not when it is given up. Such calls go in their order, beside the keys.
//   - A run that needs no call (its look was served by an
//     [github.com/tendhq/tend/reconcile/external.Inventory]) costs nothing.
//   - An answer that says "too many" pauses the bucket for all controllers of
//     this process, and with a Ceiling lowers its rate. With [Options.Backend] a
//     pause of a second or more holds for all servers that share the store.
//   - After five failures in a row of the endpoint itself (not of a resource)
//     the budget's circuit breaker opens: no call but one probe after 1 s, 2 s,
//     up to 1 min, until one is answered.
//
// # Over several servers
//
// Each of n live members takes 1/n of every rate, and no call of a cloud costs
// a call of the store. While a server waits for a budget of which others need less
// than their parts, those say so in their member records, and it takes the rest: its
// part follows within three TTLs. A server lowers its part as soon as it hears of
// another, or of another that waits, and raises it, or takes its first, a TTL later
// ([lease.Members]; 15 s unless set otherwise); one that is alone takes its first at
// once. So as long as news reaches everybody within a TTL, a server that leaves has
// drained within one, and it was not the last, the parts never add up to more than the whole. What
// may go beyond it at a change is what lies in the buckets at that moment, Burst in
// all, and one call for each server beyond Burst, since no bucket holds less than one. A
// server that cannot renew its lease has no part: it makes no calls before it
// has joined again. Nor has one whose news of the others are older than a TTL: it lists
// them after each renewal, so that a watch that hangs without a word costs nothing
// ([lease.Members.Live]).
//
// # What is not
//
// A server that starts alone takes all of each budget at once, also when the last of the
// others has just left and still drains: until it has, the two have twice the whole.
// The rate that is found below a Ceiling is found by each server for itself. A process that
// was frozen while it made a call makes that call when it thaws. Calls made
// otherwise than through Do or a Transport are not counted.
package quota

// Design notes.
//
// A run pays when it makes a call and not when it begins, since it is not known
// before whether an inventory will serve it: with a token per run, 100,000 keys
// that cost 100 list calls would wait for 100,000 tokens. The price is a second
// run for each key that found the budget used up: it ran up to its first call.
//
// Only the first call of each op in a run may be refused. What a run has begun
// it finishes, waiting for its turn with its worker: refusing the second page of
// a list, or the tags after a create, would leave halves behind.
//
// A pause is told by a record that is bound to a lease of its length, which no crash
// leaves behind and no clock has to judge. The rate stays each server's own finding.
//
// Rejected: waiting with the worker for the first call too (one account that is
// used up would hold all workers); counting in the store, a token or a block of
// tokens at a time (a write per call, or blocks that a crash loses); two constants for
// the breaker per API (no default fits all).
