package main

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/store"
)

// Labels is what a bucket says about itself.
type Labels struct {
	Mark   external.Mark
	Marked bool // Mark is there
	Tenant string
	Owner  string
}

// Ownership is how one sees whose a bucket is, and how one says so. A mark
// identifies, it does not authorise: an account that may tag a bucket may mark it.
type Ownership interface {
	// BucketName is what a declared bucket is called at the endpoint.
	BucketName(declared string) string
	// Declared is the way back, of a bucket that has such a name.
	Declared(bucket string) string
	// Read returns what the bucket says. A bucket without a mark is no error.
	Read(ctx context.Context, c *s3.Client, bucket string) (Labels, error)
	// Write makes it say want. Tags of others stay.
	Write(ctx context.Context, c *s3.Client, bucket string, want Labels) error
	// Describes reports whether tenant and owner can be written at all; where
	// they cannot, they cannot drift either.
	Describes() bool
	String() string
}

// byTags keeps the mark in the bucket's tags.
type byTags struct{}

// The tags that a bucket carries besides its mark.
const (
	tagTenant = "tenant"
	tagOwner  = "owner"
)

// into adds the labels to a set of tags.
func (l Labels) into(tags map[string]string) map[string]string {
	tags[tagTenant], tags[tagOwner] = l.Tenant, l.Owner
	return l.Mark.SetTags(tags)
}

// labelsOf is the way back. A mark that cannot be read is another's.
func labelsOf(tags map[string]string) Labels {
	l := Labels{Tenant: tags[tagTenant], Owner: tags[tagOwner]}
	l.Mark, l.Marked = external.MarkOf(tags)
	return l
}

func (byTags) BucketName(declared string) string { return declared }
func (byTags) Declared(bucket string) string     { return bucket }
func (byTags) Describes() bool                   { return true }
func (byTags) String() string                    { return "tags" }

func (byTags) Read(ctx context.Context, c *s3.Client, bucket string) (Labels, error) {
	tags, err := readTags(ctx, c, bucket)
	return labelsOf(tags), err
}

func (byTags) Write(ctx context.Context, c *s3.Client, bucket string, want Labels) error {
	tags, err := readTags(ctx, c, bucket) // PutBucketTagging replaces the whole set
	if err != nil {
		return err
	}
	return writeTags(ctx, c, bucket, want.into(tags))
}

func readTags(ctx context.Context, c *s3.Client, bucket string) (map[string]string, error) {
	tags := map[string]string{}
	out, err := c.GetBucketTagging(ctx, &s3.GetBucketTaggingInput{Bucket: &bucket})
	if isCode(err, "NoSuchTagSet", "NoSuchTagSetError") {
		return tags, nil
	}
	if err != nil {
		return nil, err
	}
	for _, t := range out.TagSet {
		tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	return tags, nil
}

func writeTags(ctx context.Context, c *s3.Client, bucket string, tags map[string]string) error {
	_, err := c.PutBucketTagging(ctx, &s3.PutBucketTaggingInput{
		Bucket: &bucket, Tagging: &types.Tagging{TagSet: tagSet(tags)},
	})
	return err
}

// tagSet is in order, so that the same tags are the same bytes.
func tagSet(tags map[string]string) []types.Tag {
	var set []types.Tag
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		set = append(set, types.Tag{Key: aws.String(name), Value: aws.String(tags[name])})
	}
	return set
}

// byPrefix puts the installation into the bucket's name, for endpoints that have
// no tags. It says whose a bucket is and which, and nothing else: a tenant or an
// owner cannot be written there, so neither can drift.
type byPrefix struct{ installation string }

func (p byPrefix) prefix() string                    { return "tend-" + p.installation + "-" }
func (p byPrefix) BucketName(declared string) string { return p.prefix() + declared }
func (p byPrefix) Declared(bucket string) string     { return strings.TrimPrefix(bucket, p.prefix()) }
func (byPrefix) Describes() bool                     { return false }
func (p byPrefix) String() string                    { return "name prefix " + p.prefix() }

func (p byPrefix) Read(_ context.Context, _ *s3.Client, bucket string) (Labels, error) {
	key, ours := strings.CutPrefix(bucket, p.prefix())
	if !ours {
		return Labels{}, nil
	}
	mark := external.Mark{Installation: p.installation, Kind: kind, Key: store.Key{Name: key}}
	return Labels{Mark: mark, Marked: true}, nil
}

func (byPrefix) Write(context.Context, *s3.Client, string, Labels) error { return nil }
