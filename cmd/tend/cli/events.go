package cli

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/tendhq/tend/store"
)

// event is one that the service's page shows.
type event struct {
	Time    time.Time `json:"time"`
	Type    string    `json:"type"`
	Reason  string    `json:"reason"`
	Message string    `json:"message,omitempty"`
	Kind    string    `json:"kind"`
	Key     string    `json:"key"`
	Count   int       `json:"count"`
}

// events shows what the service recorded about all objects, those of a kind, or one.
func (r *command) events(ctx context.Context, args []string) error {
	view := url.Values{"view": {"events"}}
	if len(args) > 0 {
		view.Set("kind", args[0])
	}
	if len(args) > 1 {
		key, err := r.key(args[1])
		if err != nil {
			return err
		}
		view.Set("key", key.String())
	}
	var page struct{ Events struct{ Events []event } }
	if err := r.askPage(ctx, view, &page); err != nil {
		return err
	}
	all := []event{}
	for _, e := range page.Events.Events {
		if key, err := store.ParseKey(e.Key); r.namespace == "" || err == nil && key.Namespace == r.namespace {
			all = append(all, e)
		}
	}
	if r.output != "table" {
		return r.print(all)
	}
	t := table{screen: r.screen, at: 3}
	t.add("", "AGE", "KIND", "KEY", "REASON", "TIMES", "MESSAGE")
	for _, e := range all {
		look := ""
		if e.Type == "Warning" {
			look = bad
		}
		t.add(look, age(e.Time), word(e.Kind), word(e.Key), word(e.Reason), fmt.Sprint(e.Count), word(e.Message))
	}
	t.write(r.Stdout)
	return nil
}
