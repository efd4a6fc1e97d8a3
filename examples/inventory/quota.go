package main

import (
	"net/http"

	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/quota"
	"golang.org/x/time/rate"
)

// A paced is the HTTP client that keeps all calls within the account's quota,
// from wherever they come: runs, lists, the probe. There is one quota for all
// regions: they are one account.
type paced struct {
	*quota.Quota
	set       *quota.Set
	transport quota.Transport
}

func newPaced(o options) (*paced, error) {
	limits := quota.Limits{
		Read:  quota.Rate{PerSecond: rate.Limit(o.Rate), Ceiling: rate.Limit(o.Rate), Burst: o.Workers},
		Write: quota.Rate{PerSecond: rate.Limit(o.Writes), Ceiling: rate.Limit(o.Writes), Burst: o.Workers},
		Judge: quota.Judge,
	}
	set, err := quota.NewSet(&quota.Options{
		Limits: func(quota.Name) (quota.Limits, error) { return limits, nil },
		Logger: kernelLogger(o.Verbose), // the meter says it to the user
	})
	if err != nil {
		return nil, err
	}
	p := &paced{set: set}
	p.transport.Quota = func(*http.Request) (*quota.Quota, error) { return p.Quota, nil }
	p.Quota, err = set.Get(quota.Name{API: "s3"})
	return p, err
}

// Do implements aws.HTTPClient.
func (p *paced) Do(r *http.Request) (*http.Response, error) { return p.transport.RoundTrip(r) }

// A roundTrip is the Do of an aws.HTTPClient.
type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// tellCost says what keeping the buckets in order takes, with so many to change in the
// first interval: one list for all, and what no list shows; and what their files take, of
// which those to be deleted share calls.
func (a *app) tellCost(entries []Entry, changes int, files external.Plan) error {
	n, declared := len(entries), 0
	for _, e := range entries {
		declared += len(e.Files)
	}
	reads := 1 // GetBucketVersioning
	if a.buckets.ownership.Describes() {
		reads = 2 // and GetBucketTagging
	}
	list := quota.Load{Resources: n, Interval: a.o.Poll, PageSize: pageSize, Changes: changes}
	rest := quota.Load{Resources: n, Interval: a.o.Settings, ReadsPerLook: reads}
	if a.o.Settings == a.o.Poll {
		list.ReadsPerLook, rest.Resources = reads, 0
	}
	deletes, calls := fileDeletions(files)
	each := quota.Load{Resources: declared, Interval: a.o.Settings, Changes: files.Changes() - deletes + calls}
	var perSecond [2]float64
	for i, load := range []quota.Load{list, rest, each} {
		c, err := quota.Estimate(load)
		if err != nil {
			return err
		}
		if perSecond[0], perSecond[1] = perSecond[0]+c.ReadsPerSecond(), perSecond[1]+c.WritesPerSecond(); load.Resources+load.Changes > 0 || i == 0 {
			a.out.Line("%v", c)
		}
	}
	if deletes > 0 {
		a.out.Line("%d files are deleted by %d or more calls of DeleteObjects", deletes, calls)
	}
	a.out.Line("that is %.3g %% of -rate, %.3g %% of -writes",
		100*quota.Rate{PerSecond: rate.Limit(a.o.Rate)}.Use(perSecond[0]), 100*quota.Rate{PerSecond: rate.Limit(a.o.Writes)}.Use(perSecond[1]))
	return nil
}

// fileDeletions counts the files that a plan deletes, and the calls that this takes at least:
// one for each bucket and each mostDeleted files of it.
func fileDeletions(p external.Plan) (files, calls int) {
	of := map[string]int{}
	for _, s := range p.Steps {
		if s.Action == "delete" {
			if of[s.Key.Namespace]%mostDeleted == 0 {
				calls++
			}
			of[s.Key.Namespace]++
			files++
		}
	}
	return files, calls
}
