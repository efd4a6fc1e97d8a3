package postgres

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tendhq/tend/store"
)

// tail reads the log from where it has got to, for all kinds that are watched, and keeps
// the latest batches of each kind in a ring, which the watchers of the kind read at their
// own pace. A watcher that falls out of its ring reads the log itself.
//
//	log   r5 r6 r7 r8 r9 r10 r11          pos=11: everything up to here was read
//	ring  of kind A   start=5 [r7] [r9]   complete after revision 5
//	ring  of kind B   start=8 [r10]
//
// What it reads depends on the log alone. A notification, the end of a commit of this
// process and a timer only say when to look.
type tail struct {
	b *backend
	// bell has one element while there is a reason to look.
	bell chan struct{}
	// watched is closed when the first kind is watched.
	watched chan struct{}

	mu    sync.Mutex // guards the rest
	rings map[string]*ring
	pos   int64 // everything up to here was read
	era   int64
	asked int // counts the changes of what is read: see follow
	reads int // counts how often the log was read
}

// ring holds the latest batches of a kind. Its tail guards it.
type ring struct {
	watchers map[*watcher]struct{}
	slots    store.SlotSet // that the tail reads: those of all watchers together

	opened  bool  // the tail reads this kind
	start   int64 // all changes after this revision are in batches, up to tail.pos
	batches []store.Batch
	bytes   int
	mark    int64         // everything up to here may be told as progress
	wake    chan struct{} // closed and replaced whenever something above changed
}

// ringBatches and ringBytes bound a ring.
const (
	ringBatches = 1024
	ringBytes   = 16 << 20
)

func newTail(b *backend) *tail {
	return &tail{b: b, bell: make(chan struct{}, 1), watched: make(chan struct{}), rings: make(map[string]*ring)}
}

// ring says that the store may have reached a revision. It reports whether that is news.
func (t *tail) ring(r int64) (news bool) {
	t.mu.Lock()
	news = r > t.pos && len(t.rings) > 0
	t.mu.Unlock()
	if news {
		t.look()
	}
	return news
}

func (t *tail) look() {
	select {
	case t.bell <- struct{}{}:
	default: // it is going to look anyway
	}
}

// follow returns the ring of a watcher's kind. If the ring lacks slots of the watcher,
// what it holds so far is dropped, and so is what is being read for it: from pos on it
// has them, and watchers that are not that far read the log themselves.
func (t *tail) follow(w *watcher) *ring {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, ok := t.rings[w.kind]
	if !ok {
		r = &ring{watchers: make(map[*watcher]struct{}), wake: make(chan struct{})}
		if len(t.rings) == 0 {
			close(t.watched)
		}
		t.rings[w.kind] = r
		t.look()
	}
	lacks := !r.slots.Contains(w.slots)
	if len(r.watchers) == 0 {
		r.slots = store.SlotSet{} // were those of watchers that have ended
	}
	r.slots = r.slots.Union(w.slots)
	r.watchers[w] = struct{}{}
	if lacks {
		r.start, r.batches, r.bytes = t.pos, nil, 0
		t.asked++
		if r.opened {
			r.wakeLocked()
		}
	}
	return r
}

// leave ends what is read for this watcher alone. The ring of a kind that no watcher
// is left of goes on with the slots it has, until the next watcher: one that a cache opens
// again, with some shards more or fewer, mostly finds there what it has missed.
func (t *tail) leave(w *watcher) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(w.r.watchers, w)
	if len(w.r.watchers) == 0 {
		return
	}
	var slots store.SlotSet
	for other := range w.r.watchers {
		slots = slots.Union(other.slots)
	}
	w.r.slots = slots
}

// run looks at the log whenever the bell is rung, and every Options.poll. The bell does not
// put the latter off: only then are watchers of kinds that are quiet told of progress.
func (t *tail) run() {
	ctx := t.b.ctx
	ticks := time.Tick(t.b.opts.poll)
	for failures := 0; ctx.Err() == nil; {
		quiet := false
		select {
		case <-t.bell:
		case <-ticks:
			quiet = true
		case <-ctx.Done():
			return
		}
		for more := true; more && ctx.Err() == nil; {
			var err error
			more, err = t.read(ctx, quiet)
			if err == nil {
				if failures >= 3 {
					t.b.opts.logger.Info("postgres: the log of changes can be read again; watches go on", "schema", t.b.opts.Schema)
				}
				failures = 0
				continue
			}
			if failures++; failures == 3 && ctx.Err() == nil {
				t.b.opts.logger.Warn("postgres: cannot read the log of changes; watches stand still", "schema", t.b.opts.Schema, "error", err)
			}
			more = pause(ctx, min(10*time.Millisecond<<min(failures, 10), t.b.opts.Timeout))
		}
	}
}

// wanted says what is read of the log: the kinds, and of each its slots, see bitmap.
type wanted struct {
	kinds []string
	slots [][]byte
}

// wanted returns what is watched, the state of asked, and whether nothing was read so far.
func (t *tail) wanted() (all wanted, pos int64, asked int, fresh bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	idle := true
	for kind, r := range t.rings {
		all.kinds = append(all.kinds, kind)
		all.slots = append(all.slots, bitmap(r.slots))
		idle = idle && !r.opened
	}
	if idle {
		return all, -1, t.asked, true
	}
	return all, t.pos, t.asked, false
}

// read reads the log from pos on and says whether there is more.
func (t *tail) read(ctx context.Context, quiet bool) (more bool, err error) {
	all, pos, asked, fresh := t.wanted()
	if len(all.kinds) == 0 {
		return false, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, t.b.opts.Timeout, errTimeout)
	defer cancel()
	if fresh { // nothing was read so far: begin at the head
		h, err := t.b.look(ctx, t.b.readers)
		if err != nil {
			return false, err
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.restartLocked(h.revision, h.era)
		return true, nil
	}
	got, err := t.b.changes(ctx, all, pos)
	if errors.Is(err, errEra) {
		if err = t.b.newEra(ctx); err == nil {
			return true, nil
		}
	}
	if err != nil {
		return false, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reads++
	if got.head.compacted > pos || got.head.era != t.era {
		t.restartLocked(got.head.revision, got.head.era)
		return false, nil
	}
	if t.asked != asked {
		return true, nil // a watcher wants slots that were not read
	}
	t.takeLocked(all.kinds, pos, got, quiet)
	return got.more, nil
}

// takeLocked adds what was read after pos.
func (t *tail) takeLocked(kinds []string, pos int64, got excerpt, quiet bool) {
	t.pos = got.upTo
	for _, kind := range kinds {
		r := t.rings[kind]
		batches := got.batches[kind]
		changed := len(batches) > 0
		if !r.opened {
			r.opened, r.start, changed = true, pos, true
		}
		for _, b := range batches {
			r.push(b)
		}
		// A change of a slot that is not read may be a write of a run that waits for it.
		if (quiet || r.slots != store.AllSlots()) && r.mark < t.pos {
			r.mark, changed = t.pos, true
		}
		if changed {
			r.wakeLocked()
		}
	}
}

// restartLocked drops the history. Watchers fall out of their rings, and the log does not go back to where they are.
func (t *tail) restartLocked(at, era int64) {
	t.pos, t.era = at, era
	for _, r := range t.rings {
		r.opened, r.start, r.mark, r.batches, r.bytes = true, at, at, nil, 0
		r.wakeLocked()
	}
}

// push adds a batch. The slice is cut when it is twice as long as it has to be, so that
// the copying is paid once for each batch and not each time.
func (r *ring) push(b store.Batch) {
	r.batches = append(r.batches, b)
	r.bytes += weight(b)
	drop := max(0, len(r.batches)-2*ringBatches+1)
	if drop > 0 {
		drop = len(r.batches) - ringBatches
	}
	for bytes, i := r.bytes, 0; bytes > ringBytes && i < len(r.batches)-1; i++ {
		bytes -= weight(r.batches[i])
		drop = max(drop, i+1)
	}
	if drop == 0 {
		return
	}
	for _, old := range r.batches[:drop] {
		r.bytes -= weight(old)
	}
	r.start = int64(r.batches[drop-1].Revision)
	r.batches = append(make([]store.Batch, 0, 2*ringBatches), r.batches[drop:]...)
}

func weight(b store.Batch) (n int) {
	for i := range b.Changes {
		n += len(b.Changes[i].Bytes) + 100
	}
	return n
}

func (r *ring) wakeLocked() {
	close(r.wake)
	r.wake = make(chan struct{})
}

// excerpt is a part of the log: whole revisions of some kinds.
type excerpt struct {
	head    head
	batches map[string][]store.Batch
	upTo    int64 // the log was read up to here
	more    bool
}

const (
	excerptRows  = 1000
	excerptBytes = 4 << 20
)

// changes reads the log after a revision. The error is errEra if the store is not the one
// that was seen. Whether the log still holds what came after the revision is for the
// caller to see, from the head.
func (b *backend) changes(ctx context.Context, of wanted, after int64) (excerpt, error) {
	for limit := excerptRows; ; limit *= 4 {
		var e excerpt
		var whole bool
		var seen int64
		err := b.retry(ctx, func() (err error) {
			seen = b.seen.Load()
			e, whole, err = b.changesOnce(ctx, of, after, limit)
			return err
		})
		if err != nil {
			return e, err
		}
		if !b.accept(e.head, seen) {
			return e, final{errEra}
		}
		if whole {
			return e, nil
		}
		// One revision alone is larger than the limit.
	}
}

// changesOnce reads at most limit changes. A revision of which only a part was read is
// left out; whole says that not everything had to be.
func (b *backend) changesOnce(ctx context.Context, of wanted, after int64, limit int) (e excerpt, whole bool, err error) {
	// One statement is one snapshot: all commits up to head.revision, and no other, are in it.
	size := int64(excerptBytes) * int64(limit) / excerptRows
	var all []store.Change
	var revision, created *int64
	var kind, namespace, name *string
	var deleted *bool
	var value []byte
	into := append(e.head.fields(), &revision, &kind, &namespace, &name, &created, &deleted, &value)
	err = b.readers.rows(ctx, into, func() error {
		if revision == nil {
			return nil // the head alone
		}
		c := store.Change{Record: store.Record{Bytes: value}}
		c.Kind, c.Key = *kind, store.Key{Namespace: *namespace, Name: *name}
		c.Revision, c.Created, c.Deleted = store.Revision(*revision), store.Revision(*created), *deleted
		all = append(all, c)
		size -= int64(len(value))
		return nil
	}, b.sql(`SELECT * FROM {schema}.read_log($1::bigint, $2::text[], $3::bytea[], $4::integer, $5::bigint)`),
		after, of.kinds, of.slots, limit, size)
	if err != nil {
		return e, false, err
	}
	e.upTo = max(e.head.revision, after)
	if n := len(all); n > 0 && (n == limit || size <= 0) {
		e.more = true
		last := all[n-1].Revision
		for n > 0 && all[n-1].Revision == last {
			n--
		}
		if n == 0 {
			return e, false, nil
		}
		all = all[:n]
		e.upTo = int64(all[n-1].Revision)
	}
	e.batches = cut(all)
	return e, true, nil
}

// cut makes one batch of each revision and kind.
func cut(all []store.Change) map[string][]store.Batch {
	batches := make(map[string][]store.Batch)
	for _, c := range all {
		of := batches[c.Kind]
		if n := len(of); n == 0 || of[n-1].Revision != c.Revision {
			of = append(of, store.Batch{Kind: store.BatchChanges, Revision: c.Revision})
		}
		last := &of[len(of)-1]
		last.Changes = append(last.Changes, c)
		batches[c.Kind] = of
	}
	return batches
}

// gather is the mean time between the looks at the log that a process takes for the commits of
// others, if it reads half of the slots of a kind. With fewer slots the time is longer, up to
// gatherMost times as long, so that n servers that share the slots look as often together,
// however many they are. gatherBurst looks after a quiet time have no pause between them.
// Without it, each of n servers would read the log for each commit of the others, and the fewer
// changes of its own the more servers there are.
const (
	gather      = 50 * time.Millisecond
	gatherMost  = 4
	gatherBurst = 8
)

// gathering counts such looks. What a process commits itself is read at once and not counted.
type gathering struct {
	half time.Duration // gather
	paid time.Time     // the looks so far are those of the time until then
}

// pause counts a look at now by a process that reads so many slots, and returns for how long
// notifications are left unread after it.
func (g *gathering) pause(now time.Time, slots int) time.Duration {
	every := min(max(g.half, g.half*(store.Slots/2)/time.Duration(max(slots, 1))), gatherMost*g.half)
	if g.paid.Before(now) {
		g.paid = now
	}
	g.paid = g.paid.Add(every)
	return max(0, g.paid.Sub(now)-gatherBurst*every)
}

// gathers reports whether only some slots of a kind are read, and how many: of the kind with the
// most, if there are several.
func (t *tail) gathers() (slots int, some bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.rings {
		if r.slots != store.AllSlots() {
			slots, some = max(slots, r.slots.Len()), true
		}
	}
	return slots, some
}

// quiet is how long a connection for notifications may say nothing before it is asked whether it
// lives, and how long one has to live before it counts as one that works.
const quiet = 15 * time.Second

// listen rings the bell on every notification. It holds no state of any worth: on another
// connection it begins with a look at the log. It begins when a kind is watched, because
// PostgreSQL wakes every connection that listens, at every notification of the database.
func (b *backend) listen() {
	select {
	case <-b.tail.watched:
	case <-b.ctx.Done():
	}
	told := false
	for failures := 0; b.ctx.Err() == nil; failures++ {
		lived := time.Duration(0)
		err := b.listenOnce(b.ctx, &lived, func() {
			if told {
				b.opts.logger.Info("postgres: notifications come again", "schema", b.opts.Schema)
			}
			failures, told = 0, false
		})
		if lived > 10*time.Second { // a proxy ends connections that are idle for longer
			failures = 0
		}
		if b.ctx.Err() == nil && failures == 3 {
			told = true
			b.opts.logger.Warn("postgres: no connection for notifications of the store; watches poll", "schema", b.opts.Schema, "error", err)
		}
		pause(b.ctx, min(50*time.Millisecond<<min(failures, 10), 5*time.Second))
	}
}

// listenOnce listens on one connection. It calls lasts when that has lasted, and says for how
// long it lived.
func (b *backend) listenOnce(ctx context.Context, lived *time.Duration, lasts func()) error {
	cfg := b.readers.Config()
	if cfg.BeforeConnect != nil {
		if err := cfg.BeforeConnect(ctx, cfg.ConnConfig); err != nil {
			return err
		}
	}
	dial, cancel := context.WithTimeout(ctx, b.opts.Timeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(dial, cfg.ConnConfig)
	if err != nil {
		return err
	}
	defer func() {
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(bye)
	}()
	if _, err := conn.Exec(dial, "LISTEN "+b.opts.Schema); err != nil {
		return err
	}
	// What was notified while no connection listened.
	b.tail.look()
	b.heard("inbox")
	looks := gathering{half: b.gather}
	began := time.Now()
	defer func() { *lived = time.Since(began) }()
	lasting := func() {
		if time.Since(began) >= b.quiet {
			lasts()
		}
	}
	for {
		// A connection that died without a word is found out by a question now and then.
		wait, cancel := context.WithTimeout(ctx, b.quiet)
		n, err := conn.WaitForNotification(wait)
		cancel()
		switch {
		case err == nil:
			lasting()
			if slots, some := b.tail.gathers(); b.heard(n.Payload) && some {
				pause(ctx, looks.pause(time.Now(), slots)) // the connection keeps what comes meanwhile
			}
		case ctx.Err() != nil || conn.IsClosed():
			return err
		default:
			ask, cancel := context.WithTimeout(ctx, b.opts.Timeout)
			err := conn.Ping(ask)
			cancel()
			if err != nil {
				return err
			}
			lasting()
		}
	}
}

// heard rings the bell that a notification is for: a revision is for watches, and anything
// else for declarations. It reports whether watches have something to read.
func (b *backend) heard(payload string) (news bool) {
	if r, err := strconv.ParseInt(payload, 10, 64); err == nil {
		return b.tail.ring(r)
	}
	select {
	case b.inbox <- struct{}{}:
	default: // it is going to look anyway
	}
	return false
}
