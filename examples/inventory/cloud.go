package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/store"
)

// A cloud is the client that the kernel reconciles through: it says what is
// there, and does one thing at a time when told to. When, in which order and how
// often is the kernel's business.
//
// That a bucket exists is told by one list of the account for all buckets, no
// older than -poll. Whose it is and how it is versioned is on no list of S3's, so
// it is read for each bucket by itself (GetBucketTagging, GetBucketVersioning) and
// used again until -settings is over, until a write of ours, or until the list
// shows another date or region: then another bucket has come under the name. A
// change of tags by others leaves no trace on the list, so nothing else would do.
type cloud struct {
	buckets      *buckets
	installation string
	durable      bool // the store outlives the process, and so do its uids
	store        *store.Store[BucketSpec, BucketStatus]
	inventory    *cloudInventory
}

type cloudInventory = external.Inventory[BucketSpec, BucketStatus, sighting]

func newCloud(a *app, s *store.Store[BucketSpec, BucketStatus]) (*cloud, error) {
	c := &cloud{
		buckets: a.buckets, installation: a.o.Installation, durable: a.o.durable(), store: s,
	}
	var err error
	c.inventory, err = external.NewInventory(&external.InventoryOptions[BucketSpec, BucketStatus, sighting]{
		Store: s, Installation: a.o.Installation,
		List: external.Pages(c.buckets.page), Get: c.get, Detail: c.detail, Delete: c.deleteOrphan,
		ID:      func(seen sighting) string { return seen.name },
		IDOf:    func(o *Bucket) string { return c.buckets.ownership.BucketName(o.Name) },
		Owner:   func(seen sighting) (external.Mark, bool) { return seen.labels.Mark, seen.labels.Marked },
		Compare: c.compare,
		Settle:  settled(a.o.Poll), Fresh: a.o.Poll, DetailFresh: a.o.Settings,
		Cap: external.Cap{Count: a.o.PruneMost, Percent: a.o.PrunePercent},
	})
	return c, err
}

// settled is how long a new bucket may stay invisible, and so how long one that
// vanishes right after its creation is waited for instead of made again.
func settled(poll time.Duration) time.Duration { return min(30*time.Second, poll) }

// client is what the reconciler calls for every bucket.
func (c *cloud) client() external.Client[BucketSpec, BucketStatus] {
	f := c.inventory.Client(external.ClientFuncs[BucketSpec, BucketStatus]{
		CreateFunc: c.Create, UpdateFunc: c.Update, DeleteFunc: c.Delete,
	})
	observe := f.ObserveFunc
	f.ObserveFunc = func(ctx context.Context, o *Bucket) (external.Observation, error) {
		seen, err := observe(ctx, o)
		if err != nil {
			return seen, c.explain(err)
		}
		return seen, c.saw(o, seen)
	}
	return f
}

// get reads one bucket, where it is declared to be if it is.
func (c *cloud) get(ctx context.Context, name string) (sighting, bool, error) {
	region := home
	if o, err := c.store.Get(ctx, store.Key{Name: c.buckets.ownership.Declared(name)}); err == nil {
		region = o.Spec.Region
	}
	seen, err := c.buckets.get(ctx, name, region)
	return seen, seen.exists, err
}

// detail reads what the list does not show.
func (c *cloud) detail(ctx context.Context, listed sighting) (sighting, bool, error) {
	seen, err := c.buckets.describe(ctx, listed, cmp.Or(listed.region, home))
	return seen, seen.exists, err
}

// compare says how a bucket stands to its declaration.
func (c *cloud) compare(o *Bucket, seen sighting) external.Observation {
	differences := seen.differences(o.Spec)
	o.Status = BucketStatus{Bucket: seen.name, Region: seen.region, Versioning: seen.versioning}
	return external.Observation{
		UpToDate: len(differences) == 0,
		Owner:    c.mark(o).Compare(seen.labels.Mark, seen.labels.Marked),
		Diff:     diffText(differences),
	}
}

// saw notes what a look came to, and refuses what cannot be mended.
func (c *cloud) saw(o *Bucket, seen external.Observation) error {
	if !seen.Exists {
		o.Status = BucketStatus{Bucket: c.buckets.ownership.BucketName(o.Name)}
	}
	if at := (sighting{region: o.Status.Region}); seen.Exists && at.elsewhere(o.Spec.Region) && !o.Deleting() {
		return reconcile.Terminal(fmt.Errorf(
			"the bucket is in %s and declared for %s; S3 cannot move it", at.region, o.Spec.Region))
	}
	return nil
}

// deleteOrphan deletes a bucket that was read just before, and found to be ours
// and not declared.
func (c *cloud) deleteOrphan(ctx context.Context, seen sighting) error {
	err := c.buckets.removeNamed(ctx, seen.name, cmp.Or(seen.region, home))
	switch {
	case isMissing(err):
		return nil
	case isCode(err, "BucketNotEmpty"):
		return fmt.Errorf("%w: the bucket is not empty", external.ErrInUse)
	}
	return c.explain(err)
}

// mark is the ownership mark for an object. A uid of a store in memory says
// nothing once the process has ended, nor does the time of a declaration, so such a
// mark has neither.
func (c *cloud) mark(o *Bucket) external.Mark { return ownMark(c, kind, o) }

func ownMark[S, T any](c *cloud, kind string, o *store.Object[S, T]) external.Mark {
	m := external.NewMark(c.installation, kind, o)
	if !c.durable {
		m.UID, m.Declared = "", 0
	}
	return m
}

func (c *cloud) labels(o *Bucket) Labels {
	return Labels{Mark: c.mark(o), Marked: true, Tenant: o.Spec.Tenant, Owner: o.Spec.Owner}
}

// Create makes the bucket, marked from its first moment where that is possible.
func (c *cloud) Create(ctx context.Context, o *Bucket) error {
	o.Intent.ExternalName = c.buckets.ownership.BucketName(o.Name)
	err := c.buckets.create(ctx, o.Name, o.Spec.Region, c.labels(o))
	switch {
	case isCode(err, "BucketAlreadyOwnedByYou"):
		err = c.claim(ctx, o)
	case isCode(err, "BucketAlreadyExists"):
		err = fmt.Errorf("the name is taken, by another account or a moment ago: %w", brief(err))
	}
	if err == nil && o.Spec.Versioning {
		err = c.buckets.setVersioning(ctx, o.Name, o.Spec.Region, true)
	}
	return c.explain(err)
}

// claim marks a bucket that the account has by now: of an earlier create of ours that was cut
// short, since Observe has just found it missing, or unmarked with our intent on record. One
// that carries another's mark was made since by another installation, which the account has too.
func (c *cloud) claim(ctx context.Context, o *Bucket) error {
	found, err := c.buckets.labels(ctx, o.Name, o.Spec.Region)
	if err != nil {
		return err
	}
	if c.mark(o).Compare(found.Mark, found.Marked) == external.Foreign {
		return errors.New("another installation has made the bucket meanwhile")
	}
	return c.buckets.label(ctx, o.Name, o.Spec.Region, c.labels(o))
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

// explain tells the kernel what an error means: give up until something is edited, or try
// again. What asks for patience, the quota's transport has made an error that says so.
func (c *cloud) explain(err error) error {
	if err == nil {
		return nil
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
