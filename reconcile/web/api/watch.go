package api

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tendhq/tend/internal/contain"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/objects"
)

// event is what a watch sends about one object.
type event struct {
	Type     string          `json:"type"`
	Key      string          `json:"key,omitempty"`
	Revision store.Revision  `json:"revision,omitzero"`
	Object   json.RawMessage `json:"object,omitempty"`
	Error    string          `json:"error,omitempty"`
}

const writeTime = 30 * time.Second // for one event to go out

// watch sends changes, of one namespace if that is not empty, until the caller leaves or
// the store is closed.
func (h *handler) watch(w http.ResponseWriter, r *http.Request, k objects.Kind, namespace string, q url.Values) error {
	select {
	case h.watches <- struct{}{}:
		defer func() { <-h.watches }()
	default:
		return fail(http.StatusServiceUnavailable, "%d watches go on already", h.o.watches)
	}
	after := store.Revision(0)
	text := q.Get("after")
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		text = last
	}
	if text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return fail(http.StatusBadRequest, "after is no revision")
		}
		after = store.Revision(n)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := stream{w, http.NewResponseController(w)}
	if err := out.send(": tend\n\n"); err != nil {
		return nil // the reader went away
	}
	ctx, cancel := context.WithCancel(r.Context())
	events := make(chan string)
	done := make(chan struct{})
	var failed error // read after done
	go func() {      // ended by cancel, waited for below
		defer close(done)
		defer close(events)
		failed = contain.Call(func() error { // of the kind's code: it must not end the program
			relay(ctx, k.Watch(ctx, after), namespace, events)
			return nil
		})
	}()
	defer func() {
		cancel()
		if <-done; failed != nil {
			panic(failed) // as in any handler: the server logs it and ends the connection
		}
	}()
	beat := time.NewTicker(h.o.heartbeat)
	defer beat.Stop()
	for {
		text := ":\n\n"
		select {
		case next, more := <-events:
			if !more {
				return nil
			}
			text = next
		case <-beat.C:
		case <-ctx.Done():
			return nil
		}
		if out.send(text) != nil {
			return nil
		}
	}
}

// relay sends the texts of the events of a namespace, empty for all, until ctx ends.
func relay(ctx context.Context, from iter.Seq2[objects.Event, error], namespace string, to chan<- string) {
	var ids lastWhole
	for e, err := range from {
		text := ids.of(e)
		if namespace == "" || e.Key.Namespace == namespace || e.Key == (store.Key{}) { // without a key it is no object's
			text += lines(e, err)
		}
		if text == "" {
			continue
		}
		select {
		case to <- text:
		case <-ctx.Done():
			return
		}
	}
}

// lastWhole is the last revision of which every change was sent: the id that a client
// goes on from. A commit may change several objects, so a change shows only that the
// revisions before its own are whole.
type lastWhole struct{ whole, last store.Revision }

// of returns the id line that precedes an event.
func (l *lastWhole) of(e objects.Event) string {
	before := l.whole
	switch e.Kind {
	case store.BatchSnapshotEnd, store.BatchProgress:
		l.whole, l.last = e.Revision, e.Revision
	case store.BatchChanges:
		if e.Revision > l.last {
			l.whole, l.last = l.last, e.Revision
		}
	}
	if l.whole == before || l.whole == 0 {
		return ""
	}
	return fmt.Sprintf("id: %s\n", l.whole)
}

// lines is an event as it goes out.
func lines(e objects.Event, err error) string {
	v := event{Key: e.Key.String(), Revision: e.Revision}
	switch {
	case err != nil:
		v = event{Type: "broken", Error: err.Error()}
	case e.Kind == store.BatchProgress:
		return ": progress\n\n"
	case e.Kind == store.BatchSnapshotEnd:
		v = event{Type: "synced", Revision: e.Revision}
	case e.Err != nil:
		v.Type, v.Error = "broken", e.Err.Error()
	case e.Deleted:
		v.Type = "deleted"
	case e.Kind == store.BatchSnapshot:
		v.Type = "snapshot"
	default:
		v.Type = "put"
	}
	if e.HasObject && v.Error == "" {
		data, err := e.Object.JSON()
		if err != nil {
			v.Type, v.Error = "broken", err.Error()
		} else {
			v.Object = data
		}
	}
	data, err := json.Marshal(v)
	if err != nil {
		data = []byte(`{"type":"broken","error":"the event cannot be printed"}`)
	}
	return fmt.Sprintf("event: object\ndata: %s\n\n", data)
}

type stream struct {
	w http.ResponseWriter
	c *http.ResponseController
}

func (s stream) send(text string) error {
	_ = s.c.SetWriteDeadline(time.Now().Add(writeTime)) // where it can be set
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.c.Flush()
}
