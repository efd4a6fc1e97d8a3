package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tendhq/tend/queue"
	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
)

// A cloud is the client that the kernel reconciles through: it says what is
// there, and does one thing at a time when told to. When, in which order and how
// often is the kernel's business.
type cloud struct {
	buckets      *buckets
	installation string
	durable      bool // the store outlives the process, and so do its uids
	seen         func(name string, l looked)
}

// mark is the ownership mark for an object. A uid of a store in memory says
// nothing once the process has ended, so such a mark has none.
func (c *cloud) mark(o *Bucket) external.Mark {
	m := external.NewMark(c.installation, kind, o)
	if !c.durable {
		m.UID = ""
	}
	return m
}

func (c *cloud) labels(o *Bucket) Labels {
	return Labels{Mark: c.mark(o), Marked: true, Tenant: o.Spec.Tenant, Owner: o.Spec.Owner}
}

// Observe looks at the bucket.
func (c *cloud) Observe(ctx context.Context, o *Bucket) (external.Observation, error) {
	seen, err := c.buckets.look(ctx, o.Name, o.Spec.Region)
	if err != nil {
		return external.Observation{}, c.explain(err)
	}
	o.Status = BucketStatus{Bucket: c.buckets.ownership.BucketName(o.Name), Region: seen.region, Versioning: seen.versioning}
	differences := seen.differences(o.Spec)
	c.seen(o.Name, looked{exists: seen.exists, diff: diffText(differences)})
	if !seen.exists {
		return external.Observation{}, nil
	}
	owner := c.mark(o).Compare(seen.labels.Mark, seen.labels.Marked)
	if seen.elsewhere(o.Spec.Region) && !o.Deleting() {
		return external.Observation{}, reconcile.Terminal(fmt.Errorf(
			"the bucket is in %s and declared for %s; S3 cannot move it", seen.region, o.Spec.Region))
	}
	return external.Observation{
		Exists:   true,
		UpToDate: len(differences) == 0,
		Owner:    owner,
		Diff:     diffText(differences),
	}, nil
}

// Create makes the bucket, marked from its first moment where that is possible.
func (c *cloud) Create(ctx context.Context, o *Bucket) error {
	o.Intent.ExternalName = c.buckets.ownership.BucketName(o.Name)
	err := c.buckets.create(ctx, o.Name, o.Spec.Region, c.labels(o))
	switch {
	case isCode(err, "BucketAlreadyOwnedByYou"):
		// An earlier create of ours that was cut short: Observe has just found
		// the bucket missing, or unmarked with our intent on record.
		err = c.buckets.label(ctx, o.Name, o.Spec.Region, c.labels(o))
	case isCode(err, "BucketAlreadyExists"):
		err = fmt.Errorf("the name is taken, by somebody else or a moment ago: %w", brief(err))
	}
	if err == nil && o.Spec.Versioning {
		err = c.buckets.setVersioning(ctx, o.Name, o.Spec.Region, true)
	}
	return c.explain(err)
}

// Update makes the bucket as declared.
func (c *cloud) Update(ctx context.Context, o *Bucket) error {
	if o.Status.Versioning != o.Spec.Versioning {
		if err := c.buckets.setVersioning(ctx, o.Name, o.Spec.Region, o.Spec.Versioning); err != nil {
			return c.explain(err)
		}
	}
	return c.explain(c.buckets.label(ctx, o.Name, o.Spec.Region, c.labels(o)))
}

// Delete removes the bucket if it is ours, read once more, since much can happen
// between a look and a deletion; and if it is empty, which S3 itself sees to.
func (c *cloud) Delete(ctx context.Context, o *Bucket) error {
	found, err := c.buckets.labels(ctx, o.Name, o.Spec.Region)
	switch {
	case isMissing(err):
		return nil
	case err != nil:
		return c.explain(err)
	case c.mark(o).Compare(found.Mark, found.Marked) != external.Ours:
		return errors.New("the bucket does not carry our mark any more")
	}
	err = c.buckets.remove(ctx, o.Name, o.Spec.Region)
	switch {
	case isMissing(err):
		return nil
	case isCode(err, "BucketNotEmpty"):
		return errors.New("the bucket is not empty")
	}
	return c.explain(err)
}

// explain tells the kernel what an error means: wait for everybody's sake, give
// up until somebody edits something, or try again.
func (c *cloud) explain(err error) error {
	if err == nil {
		return nil
	}
	if pause, ok := throttled(err); ok && !queue.IsThrottled(err) {
		return queue.Throttled(nil, time.Now().Add(pause), brief(err)) // the quota has paused for it
	}
	if isHopeless(err) {
		return reconcile.Terminal(brief(err))
	}
	return brief(err)
}

func diffText(differences []difference) string {
	var parts []string
	for _, d := range differences {
		parts = append(parts, d.String())
	}
	return strings.Join(parts, "; ")
}
