package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/tendhq/tend/reconcile/quota"
)

// A paced is the HTTP client that keeps all calls within the account's quota,
// from wherever they come: runs, lists, the probe. There is one quota for all
// regions: they are one account.
type paced struct {
	*quota.Quota
	set  *quota.Set
	next aws.HTTPClient
}

func newPaced(o options) (*paced, error) {
	limits := quota.Limits{
		Read:  quota.Rate{PerSecond: o.Rate, Ceiling: o.Rate, Burst: o.Workers},
		Write: quota.Rate{PerSecond: o.Writes, Ceiling: o.Writes, Burst: o.Workers},
		Judge: judge,
	}
	set, err := quota.NewSet(&quota.Options{Limits: func(quota.Name) (quota.Limits, error) { return limits, nil }})
	if err != nil {
		return nil, err
	}
	q, err := set.Get(quota.Name{API: "s3"})
	return &paced{Quota: q, set: set}, err
}

// Do sends one request when it is paid for.
func (p *paced) Do(r *http.Request) (resp *http.Response, err error) {
	op := quota.Write
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		op = quota.Read
	}
	refused := p.Quota.Do(r.Context(), op, func(context.Context) error {
		if resp, err = p.next.Do(r); err != nil {
			return err
		}
		return &answered{resp}
	})
	if resp == nil && err == nil {
		return nil, refused
	}
	return resp, err // what it says of the endpoint, the quota has heard
}

// An answered is a response on its way to judge.
type answered struct{ *http.Response }

func (a *answered) Error() string { return a.Status }

// judge says what a request's end tells of the endpoint.
func judge(err error) quota.Verdict {
	if a, ok := errors.AsType[*answered](err); ok {
		return quota.HTTP(a.StatusCode, a.Header)
	}
	return quota.Verdict{Down: err != nil}
}

// tellCost says what keeping so many buckets in order takes, with so many to
// change in the first interval: one list for all, and what no list shows.
func (a *app) tellCost(n, changes int) error {
	reads := 1 // GetBucketVersioning
	if a.buckets.ownership.Describes() {
		reads = 2 // and GetBucketTagging
	}
	list := quota.Load{Resources: n, Interval: a.o.Poll, PageSize: pageSize, Changes: changes}
	rest := quota.Load{Resources: n, Interval: a.o.Settings, ReadsPerLook: reads}
	if a.o.Settings == a.o.Poll {
		list.ReadsPerLook, rest.Resources = reads, 0
	}
	var perSecond [2]float64
	for i, load := range []quota.Load{list, rest} {
		c, err := quota.Estimate(load)
		if err != nil {
			return err
		}
		if perSecond[0], perSecond[1] = perSecond[0]+c.ReadsPerSecond(), perSecond[1]+c.WritesPerSecond(); load.Resources > 0 || i == 0 {
			a.out.Line("%v", c)
		}
	}
	a.out.Line("that is %.3g %% of -rate, %.3g %% of -writes",
		100*quota.Rate{PerSecond: a.o.Rate}.Use(perSecond[0]), 100*quota.Rate{PerSecond: a.o.Writes}.Use(perSecond[1]))
	return nil
}
