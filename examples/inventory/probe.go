package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// probeOwnership finds out how buckets can be marked at this endpoint, by trying
// it: what a server calls itself says little about which requests it routes.
//
// It tags a bucket that does not exist. A server that has tags answers that the
// bucket is missing, and nothing has happened. One that routes the request to
// CreateBucket, as the in-process server does, creates the bucket; that answer is
// a lie, the bucket goes again, and the mark moves into the names.
func probeOwnership(ctx context.Context, c *s3.Client, installation string) (Ownership, error) {
	name := "tend-probe-" + strings.ToLower(rand.Text())
	err := writeTags(ctx, c, name, map[string]string{"tend/probe": installation})
	switch {
	case isMissing(err):
		return byTags{}, nil
	case isCode(err, "NotImplemented", "MethodNotAllowed"):
		return byPrefix{installation}, nil
	case err != nil:
		return nil, fmt.Errorf("probing for tags: %w", err)
	}
	// It is ours: its name is 26 random letters that no other process had seen.
	if _, err := c.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &name}); err != nil && !isMissing(err) {
		return nil, fmt.Errorf("probing for tags: the endpoint made bucket %s of a request to tag it; removing it: %w", name, err)
	}
	return byPrefix{installation}, nil
}
