package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tendhq/tend/reconcile/inspect"
	"github.com/tendhq/tend/reconcile/web/api"
	"github.com/tendhq/tend/store/objects"
)

// errNotWell is what status ends with where the service is not well.
var errNotWell = errors.New("the service is not well")

// askPage asks the debug page of the service for a view, as JSON.
func (r *command) askPage(ctx context.Context, view url.Values, to any) error {
	if r.client == nil && r.debug == "" {
		return errors.New("the service is not asked, only its store")
	}
	u, err := r.page()
	if err != nil {
		return err
	}
	view.Set("format", "json")
	u.RawQuery = view.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	if token := r.Getenv("TEND_TOKEN"); token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := r.http.Do(req)
	if err != nil {
		return fmt.Errorf("%w: %w", api.ErrUnreachable, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		u.RawQuery = ""
		says := ""
		if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
			text, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
			says = ": " + strings.TrimSpace(string(text))
		}
		return fmt.Errorf("the debug page at %s answers %s%s", u.Redacted(), resp.Status, says)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 8<<20)).Decode(to); err != nil {
		return fmt.Errorf("what is at %s is no debug page: %w", u.Redacted(), err)
	}
	return nil
}

// page is the address of the debug page.
func (r *command) page() (*url.URL, error) {
	u, err := url.Parse(cmp.Or(r.debug, r.server))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" { // its text has the address, maybe with a password
		return nil, errors.New("the address of the debug page cannot be understood")
	}
	if r.debug == "" {
		u.Path = path.Join(path.Dir(u.Path), "debug")
	}
	return u, nil
}

// status prints the verdict of the service's page.
func (r *command) status(ctx context.Context, _ []string) error {
	if r.client == nil && r.debug == "" {
		return usage("status asks a service (-server or -debug): a store alone does not say whether all is well")
	}
	var page statusPage
	if err := r.askPage(ctx, url.Values{"view": {"status"}}, &page); err != nil {
		return err
	}
	if page.Verdict == nil {
		return errors.New("what answers in place of the debug page gives no verdict: -debug names something else, or the service is of an earlier version")
	}
	err := r.showStatus(&page)
	if err == nil && page.Verdict.Level == inspect.NotWell {
		err = errNotWell
	}
	return err
}

// statusPage is what the debug page says of the service, and of the servers beside the one that is asked.
type statusPage struct {
	Verdict *inspect.Verdict
	Servers []serverPage
}

type serverPage struct {
	Name string `json:"name"`
	Page string `json:"page"`
}

func listServers(all []serverPage) string {
	texts := make([]string, len(all))
	for i, s := range all {
		texts[i] = s.Name + " " + s.Page
	}
	return strings.Join(texts, ", ")
}

func (r *command) showStatus(page *statusPage) error {
	v := page.Verdict
	if r.output != "table" {
		return r.print(struct {
			*inspect.Verdict
			Servers []serverPage `json:"servers,omitempty"`
		}{v, page.Servers})
	}
	look := map[string]string{inspect.Well: good, inspect.UnderWay: warn, inspect.NotWell: bad}
	fmt.Fprintln(r.Stdout, r.screen.paint(look[v.Level], wrapped(word(v.Says), r.screen.width, "")))
	var counts []string
	for _, state := range inspect.States() {
		if n := v.States[state]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, state))
		}
	}
	if len(counts) > 0 {
		fmt.Fprintln(r.Stdout, wrapped(strings.Join(counts, ", "), r.screen.width, ""))
	}
	for _, n := range v.Notes {
		fmt.Fprintln(r.Stdout, wrapped("note: "+word(n), r.screen.width, "  "))
	}
	for i := range v.Causes {
		r.showCause(v, &v.Causes[i])
	}
	if v.More > 0 {
		fmt.Fprintf(r.Stdout, "\nand %d more causes\n", v.More)
	}
	fmt.Fprintln(r.Stdout)
	t := table{screen: r.screen, at: 1}
	for _, p := range v.Under {
		t.add(look[p.Level], word(p.Name), word(p.Says))
	}
	if len(page.Servers) > 0 {
		t.add("", "beside", word(listServers(page.Servers)))
	}
	t.write(r.Stdout)
	return nil
}

// showCause prints a cause: what and why, then how many since when, then what to do.
func (r *command) showCause(v *inspect.Verdict, c *inspect.Cause) {
	look := warn
	if c.Grave {
		look = bad
	}
	what := wrapped(word(c.What)+": "+word(c.Why), r.screen.width, "  ")
	what = r.screen.paint(look, what[:len(word(c.What))]) + what[len(word(c.What)):]
	about := word(c.Many())
	if holds := c.Holding(); holds != "" {
		about += ", " + word(holds)
	}
	if !c.Since.IsZero() {
		about += fmt.Sprintf(", since %s (%s)", c.Since.UTC().Format(time.RFC3339), ageAt(c.Since, v.At))
	}
	if c.Example != "" {
		about += ", for example " + word(c.Example)
	}
	fmt.Fprintf(r.Stdout, "\n%s\n%s\n", what, wrapped("  "+about, r.screen.width, "  "))
	for _, text := range r.todo(c) {
		fmt.Fprintf(r.Stdout, "    %s\n", word(text))
	}
}

// todo is what can be done about a cause, a line each. Commands are for objects: a key that is none has
// its page.
func (r *command) todo(c *inspect.Cause) (all []string) {
	for _, do := range c.Do {
		text := do
		if _, known := verbs[do]; known && c.Kind != "" {
			text = c.Command(do)
		} else if known {
			if text = r.keyPage(c); do == "edit" {
				text = "mend what the error names"
			}
		}
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

// keyPage is where the key of a cause is shown, and can be kicked where that is allowed.
func (r *command) keyPage(c *inspect.Cause) string {
	u, err := r.page()
	if err != nil {
		return "see the debug page"
	}
	q := url.Values{"c": {c.Controller}}
	if c.Example != "" {
		q.Set("key", c.Example)
	}
	u.RawQuery = q.Encode()
	return "see " + u.Redacted()
}

// inStates keeps the objects that are in one of the states that were asked for: as the service
// says, or, where only a store is asked, as far as what is stored tells.
func (r *command) inStates(ctx context.Context, kind string, all []objects.Object) ([]objects.Object, error) {
	wanted := strings.Split(r.states, ",")
	for i, state := range wanted {
		if wanted[i] = strings.TrimSpace(state); !slices.Contains(inspect.States(), wanted[i]) {
			return nil, usage("-state %s: a state is one of %s", wanted[i], strings.Join(inspect.States(), ", "))
		}
	}
	if r.client == nil && r.debug == "" {
		return slices.DeleteFunc(all, func(o objects.Object) bool { return !slices.Contains(wanted, inspect.StateOf(o)) }), nil
	}
	if r.told == nil {
		r.told = map[string]objectSays{}
	}
	for _, state := range wanted {
		if err := r.keysIn(ctx, kind, state); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(all, func(o objects.Object) bool {
		_, is := r.told[o.Kind+"\x00"+o.Key().String()]
		return !is
	}), nil
}

// objectSays is what the service says of an object: its state, and why its last run failed.
type objectSays struct{ State, LastError string }

// keysIn notes the objects that the service says are in a state.
func (r *command) keysIn(ctx context.Context, kind, state string) error {
	for after := ""; ; {
		var page struct {
			Objects struct {
				Partial bool
				Objects []struct {
					Key string
					objectSays
				}
				Next string
			}
			Servers []serverPage
		}
		view := url.Values{"view": {"objects"}, "kind": {kind}, "state": {state}}
		if after != "" {
			view.Set("after", after)
		}
		if err := r.askPage(ctx, view, &page); err != nil {
			return err
		}
		for _, o := range page.Objects.Objects {
			r.told[kind+"\x00"+o.Key] = o.objectSays
		}
		if page.Objects.Partial {
			r.notePart(kind, page.Servers)
		}
		next, err := url.ParseQuery(strings.TrimPrefix(page.Objects.Next, "?"))
		if err != nil || next.Get("after") == "" || next.Get("after") == after {
			return err
		}
		after = next.Get("after")
	}
}

// notePart says, once for a kind, that a server knows of its own share only.
func (r *command) notePart(kind string, beside []serverPage) {
	if slices.Contains(r.parts, kind) {
		return
	}
	r.parts = append(r.parts, kind)
	text := r.Name + ": of " + word(kind) + " these are the objects of the shards of the server that was asked"
	if len(beside) > 0 {
		text += "; beside it: " + word(listServers(beside))
	}
	fmt.Fprintln(r.Stderr, text)
}

// ageAt is how long ago a time was at a moment.
func ageAt(t, at time.Time) string {
	return max(at.Sub(t), 0).Round(time.Second).String()
}
