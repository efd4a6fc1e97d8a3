package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/objects"
)

// Client speaks to a handler of [New]. It is safe for concurrent use.
type Client struct {
	url    *url.URL
	client *http.Client
	header http.Header
}

// ErrNotAllowed is matched by the error of a request that the server refused.
var ErrNotAllowed = errors.New("not allowed")

// ErrUnreachable is matched by the error of a request that had no answer, or a status of 502 to 504: that
// of a proxy without the server, or of a server whose store does not answer.
var ErrUnreachable = errors.New("the server does not answer")

// NewClient returns a client for the handler at an address such as
// "http://localhost:8085/objects". It sends the header with each request. A nil client
// is http.DefaultClient; one with a Timeout ends watches. A redirect that would turn a
// write into a GET is not followed: the write fails.
func NewClient(address string, client *http.Client, header http.Header) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil { // its text has the address, maybe with a password
		return nil, errors.New("api: the address of the server cannot be parsed; one is http://localhost:8085/objects")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" {
		return nil, fmt.Errorf("api: %q is not the address of a server, such as http://localhost:8085/objects", u.Redacted())
	}
	if client == nil {
		client = http.DefaultClient
	}
	c := *client
	c.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		switch {
		case r.Method != via[0].Method: // 301, 302 and 303 turn a write into a GET
			return http.ErrUseLastResponse
		case client.CheckRedirect != nil:
			return client.CheckRedirect(r, via)
		case len(via) >= maxRedirects:
			return errors.New("too many redirects")
		}
		return nil
	}
	return &Client{u, &c, header.Clone()}, nil
}

const maxRedirects = 10 // as of http.Client

// send sends a request, and returns the answer if it is a success.
func (c *Client) send(ctx context.Context, method string, q url.Values, body []byte, header ...string) (*http.Response, error) {
	u := *c.url
	u.RawQuery = q.Encode()
	r, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	maps.Copy(r.Header, c.header)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := c.client.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, failed(resp)
}

// failed gives the error of an answer, which matches the error of the store.
func failed(resp *http.Response) error {
	data, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	var says struct{ Error string }
	if json.Unmarshal(data, &says) != nil || says.Error == "" {
		says.Error = "the server answers " + resp.Status
		if resp.StatusCode == http.StatusNotFound { // of an object, or a kind, a handler of ours says it in words
			address := *resp.Request.URL
			address.RawQuery = ""
			return fmt.Errorf("%s: there are no objects at %s", says.Error, address.Redacted())
		}
	}
	err := errors.New(says.Error)
	var kind error
	switch resp.StatusCode {
	case http.StatusForbidden, http.StatusUnauthorized:
		kind = ErrNotAllowed
	case http.StatusMethodNotAllowed:
		kind = objects.ErrBare
	case http.StatusConflict:
		// Of what was no create, only a PATCH that means the object of another uid.
		if kind = store.ErrExists; resp.Request.Header.Get("If-None-Match") == "" && !strings.Contains(says.Error, store.ErrExists.Error()) {
			kind = store.ErrNewer
		}
	case http.StatusNotFound:
		kind = store.ErrNotFound
	case http.StatusPreconditionFailed:
		switch kind = store.ErrConflict; resp.Request.Method { // of those that name no revision
		case http.MethodPost:
			kind = objects.ErrNotPending
		case http.MethodPatch:
			kind = store.ErrOwned
		}
	case http.StatusUnprocessableEntity, http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong:
		kind = store.ErrInvalid
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		kind = ErrUnreachable
	default:
		return err
	}
	return &answered{kind, err}
}

// answered is an error of the server's that matches one of this program's.
type answered struct{ kind, err error }

func (e *answered) Error() string   { return e.err.Error() }
func (e *answered) Unwrap() []error { return []error{e.kind, e.err} }

func (c *Client) read(ctx context.Context, method string, q url.Values, body []byte, header ...string) ([]byte, error) {
	resp, err := c.send(ctx, method, q, body, header...)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// Kinds returns the names of the kinds that the server has.
func (c *Client) Kinds(ctx context.Context) ([]string, error) {
	data, err := c.read(ctx, http.MethodGet, nil, nil)
	if err != nil {
		return nil, err
	}
	var says struct{ Kinds []string }
	if err := json.Unmarshal(data, &says); err != nil {
		return nil, err
	}
	if says.Kinds == nil { // of none it is an empty list
		return nil, noAnswer("list of", "kinds")
	}
	return says.Kinds, nil
}

// noAnswer is the error of an answer that no handler of ours gives: what is at the address is
// something else, and must not look as if there were no objects.
func noAnswer(what, name string) error {
	return fmt.Errorf("api: the answer is no %s %q: what is at that address is not package api's", what, name)
}

// Kind returns the objects of one of the server's kinds. Its Edit reads the object and
// replaces it, for which a kind that the server knows without its type is
// [objects.ErrBare]; the actions of [objects.Do] are the server's, and what they, Answer and
// RemoveFinalizer return has metadata only.
func (c *Client) Kind(name string) objects.Kind { return remote{c, name} }

type remote struct {
	client *Client
	name   string
}

func (k remote) Kind() string { return k.name }

func (k remote) query(key store.Key, more ...string) url.Values {
	q := url.Values{"kind": {k.name}}
	if key != (store.Key{}) {
		q.Set("key", key.String())
	}
	for i := 0; i < len(more); i += 2 {
		if more[i+1] != "" {
			q.Set(more[i], more[i+1])
		}
	}
	return q
}

func (k remote) parse(data []byte, err error) (objects.Object, error) {
	if err != nil {
		return objects.Object{}, err
	}
	return objects.Parse(k.name, data)
}

func (k remote) Get(ctx context.Context, key store.Key) (objects.Object, error) {
	o, err := k.parse(k.client.read(ctx, http.MethodGet, k.query(key), nil))
	if err == nil && o.Key() != key {
		return objects.Object{}, noAnswer("object", key.String())
	}
	return o, err
}

func (k remote) All(ctx context.Context, sel store.Selector) iter.Seq2[objects.Object, error] {
	return func(yield func(objects.Object, error) bool) {
		labels := store.Selector{Labels: sel.Labels}.String()
		for after := ""; ; {
			data, err := k.client.read(ctx, http.MethodGet, k.query(store.Key{}, "namespace", sel.Namespace, "labels", labels, "after", after), nil)
			var page struct {
				Kind    string
				Objects []json.RawMessage
				Broken  []struct{ Key, Error string }
				Next    string
			}
			if err == nil {
				err = json.Unmarshal(data, &page)
			}
			if err == nil && (page.Kind != k.name || page.Objects == nil) { // of none it is an empty list
				err = noAnswer("list of kind", k.name)
			}
			if err != nil {
				yield(objects.Object{}, err)
				return
			}
			for _, data := range page.Objects {
				if o, err := objects.Parse(k.name, data); !yield(o, err) {
					return
				}
			}
			for _, b := range page.Broken {
				o := objects.Object{Kind: k.name, Err: errors.New(b.Error)}
				if key, err := store.ParseKey(b.Key); err == nil {
					o.Namespace, o.Name = key.Namespace, key.Name
				}
				if !yield(o, nil) {
					return
				}
			}
			if after = page.Next; after == "" {
				return
			}
		}
	}
}

// Watch does not connect again: the sequence ends with an error when the connection is
// lost.
func (k remote) Watch(ctx context.Context, after store.Revision) iter.Seq2[objects.Event, error] {
	return k.WatchNamespace(ctx, "", after)
}

// WatchNamespace is Watch of one namespace, which may be allowed where all are not; empty: of
// all.
func (k remote) WatchNamespace(ctx context.Context, namespace string, after store.Revision) iter.Seq2[objects.Event, error] {
	return func(yield func(objects.Event, error) bool) {
		from := ""
		if after != 0 {
			from = after.String()
		}
		resp, err := k.client.send(ctx, http.MethodGet, k.query(store.Key{}, "watch", "true", "namespace", namespace, "after", from), nil)
		if err != nil {
			yield(objects.Event{}, err)
			return
		}
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 4*store.MaxValue)
		for lines.Scan() {
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			e, err := k.event([]byte(data))
			if !yield(e, err) || err != nil {
				return
			}
		}
		err = lines.Err()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		} else if err == nil {
			err = fmt.Errorf("%w: it has ended the watch", ErrUnreachable)
		}
		yield(objects.Event{}, err)
	}
}

func (k remote) event(data []byte) (objects.Event, error) {
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		return objects.Event{}, err
	}
	v := objects.Event{Kind: store.BatchChanges, Revision: e.Revision, Deleted: e.Type == "deleted"}
	switch e.Type {
	case "snapshot":
		v.Kind = store.BatchSnapshot
	case "synced":
		v.Kind = store.BatchSnapshotEnd
	case "broken":
		v.Err = errors.New(e.Error)
		if e.Key == "" {
			return v, v.Err
		}
	}
	if e.Key != "" {
		key, err := store.ParseKey(e.Key)
		if err != nil {
			return v, err
		}
		v.Key = key
	}
	if len(e.Object) == 0 {
		return v, nil
	}
	o, err := objects.Parse(k.name, e.Object)
	v.Object, v.HasObject = o, err == nil
	return v, err
}

func (k remote) Put(ctx context.Context, key store.Key, at store.Revision, data []byte) (objects.Object, error) {
	condition, value := "If-None-Match", "*"
	if at != 0 {
		condition, value = "If-Match", strconv.Quote(at.String())
	}
	return k.parse(k.client.read(ctx, http.MethodPut, k.query(key), data, condition, value))
}

func (k remote) Apply(ctx context.Context, key store.Key, owner string, force bool, data []byte) (objects.Object, error) {
	text := ""
	if force {
		text = "true"
	}
	return k.parse(k.client.read(ctx, http.MethodPatch, k.query(key, "owner", owner, "force", text), data))
}

func (k remote) Edit(ctx context.Context, key store.Key, at store.Revision, change func(*store.Meta) error) (objects.Object, error) {
	for {
		o, err := k.Get(ctx, key)
		if err != nil {
			return o, err
		}
		if at != 0 && o.Revision != at {
			return o, fmt.Errorf("%w: %s %s is at revision %d, not %d", store.ErrConflict, k.name, key, o.Revision, at)
		}
		was := o.Revision
		if err := change(&o.Meta); err != nil {
			return o, err
		}
		data, err := withMeta(o)
		if err != nil {
			return o, err
		}
		o, err = k.Put(ctx, key, was, data)
		if at != 0 || !errors.Is(err, store.ErrConflict) {
			return o, err
		}
	}
}

// withMeta is the object's JSON with the metadata that it has now.
func withMeta(o objects.Object) ([]byte, error) {
	data, err := o.JSON()
	if err != nil {
		return nil, err
	}
	var tree map[string]json.RawMessage
	if err := json.Unmarshal(data, &tree); err != nil {
		return nil, err
	}
	if tree["meta"], err = json.Marshal(o.Meta); err != nil {
		return nil, err
	}
	return json.Marshal(tree)
}

func (k remote) Delete(ctx context.Context, key store.Key, at store.Revision) error {
	value := "*"
	if at != 0 {
		value = strconv.Quote(at.String())
	}
	_, err := k.client.read(ctx, http.MethodDelete, k.query(key), nil, "If-Match", value)
	return err
}

func (k remote) RemoveFinalizer(ctx context.Context, key store.Key, name string) (objects.Object, error) {
	return k.parse(k.client.read(ctx, http.MethodPost, k.query(key, "do", accessRemoveFinalizer, "finalizer", name), nil))
}

func (k remote) Answer(ctx context.Context, key store.Key, a objects.Answer, externalName string) (objects.Object, error) {
	return k.parse(k.client.read(ctx, http.MethodPost, k.query(key, "do", string(a), "externalName", externalName), nil))
}

// Do implements [objects.Doer].
func (k remote) Do(ctx context.Context, key store.Key, action string) (objects.Object, error) {
	return k.parse(k.client.read(ctx, http.MethodPost, k.query(key, "do", action), nil))
}
