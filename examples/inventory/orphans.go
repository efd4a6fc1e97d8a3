package main

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// orphans lists the buckets that carry our mark and that nobody declares: what
// was taken out of the file while no store remembered it. They are told, and
// left alone.
func (b *buckets) orphans(ctx context.Context, installation string, entries []Entry) ([]string, error) {
	declared := map[string]bool{}
	for _, e := range entries {
		declared[b.ownership.BucketName(e.Name)] = true
	}
	var found []string
	pages := s3.NewListBucketsPaginator(b.client("us-east-1"), &s3.ListBucketsInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, bucket := range page.Buckets {
			name := aws.ToString(bucket.Name)
			if declared[name] {
				continue
			}
			region := cmp.Or(aws.ToString(bucket.BucketRegion), "us-east-1")
			l, err := b.ownership.Read(ctx, b.client(region), name)
			if err != nil {
				continue // somebody else's, or gone: no orphan that we could vouch for
			}
			if l.Marked && l.Mark.Installation == installation && l.Mark.Kind == kind {
				found = append(found, name)
			}
		}
	}
	slices.Sort(found)
	return found, nil
}

// survey looks for orphans, and remembers them for the debug page.
func (a *app) survey(ctx context.Context) ([]string, error) {
	at := time.Now()
	found, err := a.buckets.orphans(ctx, a.o.Installation, a.inForce())
	if err == nil {
		a.mu.Lock()
		a.orphans, a.surveyed = found, at
		a.mu.Unlock()
	}
	return found, err
}

// surveyNowAndThen keeps the debug page's orphans recent until ctx ends. It costs
// calls for each bucket that is not declared, so it is done seldom.
func (a *app) surveyNowAndThen(ctx context.Context) {
	every := time.NewTicker(max(10*a.o.Poll, time.Minute))
	defer every.Stop()
	for {
		select {
		case <-every.C:
			_, _ = a.survey(ctx) // what fails is told by whoever acts on it
		case <-ctx.Done():
			return
		}
	}
}

// tellOrphans says which buckets of ours are not declared, if there are any.
func (a *app) tellOrphans(ctx context.Context) {
	found, err := a.survey(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		a.out.Line("buckets that are ours and not declared could not be listed: %v", brief(err))
	case len(found) > 0:
		a.out.Line("%d buckets carry our mark, are not declared, and are left alone:\n%s", len(found), leftText(found))
	}
}
