package memory

import (
	"sort"

	"github.com/tendhq/tend/store"
)

// chunkSize is how many changes are allocated at a time.
const chunkSize = 256

// changelog holds the last changes of one kind, oldest first:
//
//	floor   chunks[0]        chunks[1]      chunks[2]
//	r17   │ r18 r20 r21 r21 │ r25 r26 r30 │ r31 r33 ·· ·· │
//
// Changes of one revision are always in one chunk. A chunk is never moved nor
// written again below its length, so that watchers can be given slices of it.
type changelog struct {
	keep   int // changes to hold at least
	held   int
	floor  store.Revision // the newest revision dropped; all changes after it are held
	chunks [][]store.Change

	watchers map[*watcher]struct{}
}

// append adds a change, with room beside it for the rest of its commit, more
// changes itself included. objects is how many records the kind has.
func (l *changelog) append(c store.Change, more, objects int) {
	if !l.fits(c.Revision, more) {
		l.drop(max(l.keep, objects))
		l.chunks = append(l.chunks, make([]store.Change, 0, max(more, min(chunkSize, l.keep/4+1))))
	}
	last := len(l.chunks) - 1
	l.chunks[last] = append(l.chunks[last], c)
	l.held++
}

// fits reports whether the last chunk takes the commit whole. A change whose
// commit has begun there always fits: room was kept for it.
func (l *changelog) fits(r store.Revision, more int) bool {
	if len(l.chunks) == 0 {
		return false
	}
	last := l.chunks[len(l.chunks)-1]
	return last[len(last)-1].Revision == r || cap(last)-len(last) >= more
}

// drop forgets the oldest chunks that are not needed to hold keep changes, nor
// by a watcher. For watchers at most changes are held in all: one that is behind
// by more changes than there are records is better off with a snapshot.
func (l *changelog) drop(most int) {
	for len(l.chunks) > 0 && l.held-len(l.chunks[0]) >= l.keep {
		oldest := l.chunks[0]
		last := oldest[len(oldest)-1].Revision
		if l.held-len(oldest) < most && l.awaited(last) {
			return
		}
		l.held -= len(oldest)
		l.floor = last
		l.chunks[0] = nil
		l.chunks = l.chunks[1:]
	}
}

// awaited reports whether a watcher has yet to read the change at r.
func (l *changelog) awaited(r store.Revision) bool {
	for w := range l.watchers {
		if store.Revision(w.reached.Load()) < r {
			return true
		}
	}
	return false
}

// join adds a watcher that wants to read what comes after r; leave takes it out,
// and what was held for it alone.
func (l *changelog) join(w *watcher, r store.Revision) {
	w.reached.Store(uint64(r))
	l.watchers[w] = struct{}{}
}

func (l *changelog) leave(w *watcher, objects int) {
	delete(l.watchers, w)
	l.drop(max(l.keep, objects))
}

// after returns some of the changes after r, whole revisions of them, or none
// if there are none. ok is false if some of them are no longer held.
func (l *changelog) after(r store.Revision) (changes []store.Change, ok bool) {
	if r < l.floor {
		return nil, false
	}
	i := sort.Search(len(l.chunks), func(i int) bool {
		return l.chunks[i][len(l.chunks[i])-1].Revision > r
	})
	if i == len(l.chunks) {
		return nil, true
	}
	chunk := l.chunks[i]
	j := sort.Search(len(chunk), func(j int) bool { return chunk[j].Revision > r })
	return chunk[j:len(chunk):len(chunk)], true
}

// last returns the revision of the newest change, zero if there was none.
func (l *changelog) last() store.Revision {
	if len(l.chunks) == 0 {
		return l.floor
	}
	chunk := l.chunks[len(l.chunks)-1]
	return chunk[len(chunk)-1].Revision
}
