package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// probeName names the bucket of a program's probes: 26 random letters that no other process
// has seen. It is one for all tries, so that each removes what those before it left.
func probeName() string { return "tend-probe-" + strings.ToLower(rand.Text()) }

// probeOwnership finds out how buckets can be marked at this endpoint, by trying
// it: what a server calls itself says little about which requests it routes.
//
// It tags a bucket that does not exist. A server that has tags answers that the
// bucket is missing, and nothing has happened. One that routes the request to
// CreateBucket, as the in-process server does, creates the bucket; that answer is
// a lie, the bucket goes again, and the mark moves into the names.
func probeOwnership(ctx context.Context, c *s3.Client, name, installation string) (Ownership, error) {
	err := writeTags(ctx, c, name, map[string]string{"tend/probe": installation})
	switch {
	case isMissing(err):
		return byTags{}, nil
	case isCode(err, "NotImplemented", "MethodNotAllowed"):
		return byPrefix{installation}, nil
	case isTaken(err): // by a try before, whose answer was lost or whose bucket could not be removed
	case err != nil && ctx.Err() != nil && statusOf(err) == 0:
		_ = removeProbe(ctx, c, name) // there is no other try, and the endpoint may have made it
		return nil, fmt.Errorf("probing for tags: %w", err)
	case err != nil:
		return nil, fmt.Errorf("probing for tags: %w", err)
	}
	if err := removeProbe(ctx, c, name); err != nil {
		return nil, fmt.Errorf("probing for tags: the endpoint made bucket %s of a request to tag it; removing it: %w", name, err)
	}
	return byPrefix{installation}, nil
}

// removeProbe removes a probe's bucket, also when the program is to end.
func removeProbe(ctx context.Context, c *s3.Client, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, err := c.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &name})
	return ignoreMissing(err)
}
