package quota

import (
	"context"
	"errors"
	"net/http"
)

// Transport keeps the calls of an HTTP client, an SDK's for example, within a quota: it is
// the client's transport, and makes each request by [Quota.Do].
//
//	client := &http.Client{Transport: &quota.Transport{
//		Quota: func(*http.Request) (*quota.Quota, error) { return quotas.Get(quota.Name{API: "dns"}) },
//	}}
//
// It judges each answer by [CheckResponse] and [Judge], and a request that got none as an
// endpoint that is down, whatever [Limits.Judge] is. So an operation of an SDK that makes its
// calls through it is not wrapped in Do, which would count it twice. An SDK's own retries are
// calls, too: turn them off, the queue retries. Its fields must not change while it is in
// use; it is safe for concurrent use then.
type Transport struct {
	// Quota is the one that pays for a request. Required.
	Quota func(r *http.Request) (*Quota, error)
	// Op is what a request does. Default: [Read] for GET, HEAD and OPTIONS, else [Write].
	Op func(r *http.Request) Op
	// Next makes the request. Default: [http.DefaultTransport].
	Next http.RoundTripper
}

// RoundTrip makes the request when it is paid for. Without a budget it makes none, and
// fails with an error that wraps [ErrNoBudget]; see [Quota.Do] for when it waits instead. An
// answer that asks for fewer calls pauses the budget and becomes an error too, which has the
// [*HTTPError]: the request had no effect. Both errors are one of
// [github.com/tendhq/tend/queue/ratelimit.Throttled]. A client that wraps the errors of its
// transport, as [http.Client] does, needs nothing more: a run that ends with them is no failure,
// and comes again when the pause is over. Every other answer is returned as it is.
func (t *Transport) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	sent := false
	defer func() {
		if !sent && r.Body != nil {
			_ = r.Body.Close() // as each RoundTripper has to
		}
	}()
	if t.Quota == nil {
		return nil, errors.New("quota: Transport.Quota is required")
	}
	q, err := t.Quota(r)
	if err != nil {
		return nil, err
	}
	if q == nil {
		return nil, errors.New("quota: Transport.Quota returned nil")
	}
	next := t.next()
	var says error // what is wrong with the answer
	judge := func(err error) (Verdict, error) {
		if err != nil {
			return Verdict{Down: true}, err
		}
		return Judge(says), says
	}
	err = q.do(r.Context(), t.op(r), judge, func(context.Context) (err error) {
		sent = true
		if resp, err = next.RoundTrip(r); err != nil {
			resp = nil // a broken Next may give both
		} else if resp == nil {
			err = errors.New("quota: Transport.Next gave neither an answer nor an error")
		} else {
			says = CheckResponse(resp)
		}
		return err
	})
	if resp != nil && err == nil {
		return resp, nil // what it says of the endpoint, the quota has heard
	}
	if resp != nil {
		_ = resp.Body.Close()
	}
	return nil, err
}

// CloseIdleConnections is what [http.Client.CloseIdleConnections] calls.
func (t *Transport) CloseIdleConnections() {
	if next, ok := t.next().(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

func (t *Transport) next() http.RoundTripper {
	if t.Next == nil {
		return http.DefaultTransport
	}
	return t.Next
}

func (t *Transport) op(r *http.Request) Op {
	switch {
	case t.Op != nil:
		return t.Op(r)
	case r.Method == "", r.Method == http.MethodGet, r.Method == http.MethodHead, r.Method == http.MethodOptions:
		return Read
	}
	return Write
}
