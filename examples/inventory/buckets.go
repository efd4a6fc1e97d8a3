package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// buckets is S3 in the words of the inventory: declared names in, what differs
// out. It decides nothing.
type buckets struct {
	endpoint  *endpoint
	ownership Ownership
	region    string // not empty: the endpoint has this one region, whatever is declared
}

// A sighting is a bucket as the endpoint shows it. A list shows the first half:
// what is on it is there, and what was made again under an old name is younger.
// Whose a bucket is no list tells, nor anything else that is declared.
type sighting struct {
	exists  bool
	name    string // at the endpoint
	created time.Time
	region  string // empty: the endpoint doesn't say

	versioning bool
	labels     Labels
	described  bool // labels include tenant and owner
}

func (b *buckets) client(region string) *s3.Client {
	if b.region != "" {
		region = b.region
	}
	return b.endpoint.In(region)
}

// home is where buckets are that are not said to be elsewhere.
const home = "us-east-1"

// pageSize is the longest page that S3 gives. A list that asks for none is told
// no regions.
const pageSize = 1000

// page reads one page of all buckets of the account.
func (b *buckets) page(ctx context.Context, token string) (all []sighting, next string, err error) {
	in := &s3.ListBucketsInput{MaxBuckets: aws.Int32(pageSize)}
	if token != "" {
		in.ContinuationToken = &token
	}
	page, err := b.client(home).ListBuckets(ctx, in)
	if err != nil {
		return nil, "", err
	}
	for _, bucket := range page.Buckets {
		seen := sighting{exists: true, name: aws.ToString(bucket.Name), created: aws.ToTime(bucket.CreationDate)}
		if b.region == "" {
			seen.region = aws.ToString(bucket.BucketRegion)
		}
		all = append(all, seen)
	}
	return all, aws.ToString(page.ContinuationToken), nil
}

// look reads all that is declared about a bucket. A bucket that is missing is no
// error.
func (b *buckets) look(ctx context.Context, declared, region string) (sighting, error) {
	return b.get(ctx, b.ownership.BucketName(declared), region)
}

// get reads all there is to know about a bucket, by its name at the endpoint.
// Region is where it should be; if it is elsewhere it is read there.
func (b *buckets) get(ctx context.Context, name, region string) (sighting, error) {
	seen := sighting{exists: true, name: name}
	head, err := b.client(region).HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &name})
	at, moved := elsewhere(err)
	switch {
	case isMissing(err):
		return sighting{}, nil
	case moved && at != "":
		seen.region = at
	case err != nil:
		return sighting{}, err
	case b.region == "":
		seen.region = aws.ToString(head.BucketRegion)
	}
	return b.describe(ctx, seen, cmp.Or(seen.region, region))
}

// describe reads what no list shows: whose a bucket is, and its versioning.
func (b *buckets) describe(ctx context.Context, seen sighting, region string) (sighting, error) {
	c := b.client(region)
	var err error
	if seen.labels, err = b.ownership.Read(ctx, c, seen.name); err != nil {
		return sighting{}, ignoreMissing(err)
	}
	seen.described = b.ownership.Describes()
	v, err := c.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: &seen.name})
	if err != nil {
		return sighting{}, ignoreMissing(err)
	}
	seen.versioning = v.Status == types.BucketVersioningStatusEnabled
	return seen, nil
}

// ignoreMissing: a bucket that went between two reads is simply not there.
func ignoreMissing(err error) error {
	if isMissing(err) {
		return nil
	}
	return err
}

// A difference is one declared field that the endpoint shows otherwise.
type difference struct{ field, found, declared string }

func (d difference) String() string {
	return fmt.Sprintf("%s is %s, declared %s", d.field, orNone(d.found), d.declared)
}

func orNone(s string) string {
	if s == "" {
		return "not set"
	}
	return cut(s)
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// differences lists what is not as declared, in the order of the file's fields.
func (s sighting) differences(want BucketSpec) []difference {
	if !s.exists {
		return []difference{{"bucket", "missing", "to exist"}}
	}
	var all []difference
	note := func(field, found, declared string) {
		if found != declared {
			all = append(all, difference{field, found, declared})
		}
	}
	if s.described {
		note("owner", s.labels.Owner, want.Owner)
		note("tenant", s.labels.Tenant, want.Tenant)
	}
	if s.elsewhere(want.Region) {
		note("region", s.region, want.Region)
	}
	note("versioning", onOff(s.versioning), onOff(want.Versioning))
	return all
}

// elsewhere: the endpoint says that the bucket is in another region.
func (s sighting) elsewhere(region string) bool { return s.region != "" && s.region != region }

// create makes the bucket with its mark.
func (b *buckets) create(ctx context.Context, declared, region string, l Labels) error {
	var tags []types.Tag
	if b.ownership.Describes() {
		tags = tagSet(l.into(map[string]string{}))
	}
	at := region
	if b.region != "" {
		at = ""
	}
	_, err := b.client(region).CreateBucket(ctx, createInput(b.ownership.BucketName(declared), at, tags))
	return err
}

// createInput asks for the bucket with its tags at once: a bucket that exists
// unmarked, even for a moment, is one that a crash leaves behind unowned.
func createInput(name, region string, tags []types.Tag) *s3.CreateBucketInput {
	in := &s3.CreateBucketInput{Bucket: &name}
	if region == "us-east-1" {
		region = "" // S3's default, which it refuses to be told
	}
	if region != "" || len(tags) > 0 {
		in.CreateBucketConfiguration = &types.CreateBucketConfiguration{
			LocationConstraint: types.BucketLocationConstraint(region),
			Tags:               tags,
		}
	}
	return in
}

// setVersioning: once enabled it can be suspended, but not taken back.
func (b *buckets) setVersioning(ctx context.Context, declared, region string, on bool) error {
	status := types.BucketVersioningStatusSuspended
	if on {
		status = types.BucketVersioningStatusEnabled
	}
	_, err := b.client(region).PutBucketVersioning(ctx, &s3.PutBucketVersioningInput{
		Bucket:                  aws.String(b.ownership.BucketName(declared)),
		VersioningConfiguration: &types.VersioningConfiguration{Status: status},
	})
	return err
}

// labels reads only whose the bucket is.
func (b *buckets) labels(ctx context.Context, declared, region string) (Labels, error) {
	return b.ownership.Read(ctx, b.client(region), b.ownership.BucketName(declared))
}

func (b *buckets) label(ctx context.Context, declared, region string, l Labels) error {
	return b.ownership.Write(ctx, b.client(region), b.ownership.BucketName(declared), l)
}

// remove deletes the bucket.
func (b *buckets) remove(ctx context.Context, declared, region string) error {
	return b.removeNamed(ctx, b.ownership.BucketName(declared), region)
}

// removeNamed deletes a bucket by its name at the endpoint. That it is empty is
// S3's own condition, checked by S3 in the same step; no list of ours could be as
// late.
func (b *buckets) removeNamed(ctx context.Context, name, region string) error {
	_, err := b.client(region).DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &name})
	return err
}
