package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/tendhq/tend/reconcile/depend"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/store"
)

// A FileSpec is a small file in a bucket as declared.
type FileSpec struct {
	Region string `json:"region"` // of its bucket
	Text   string `json:"text"`
}

// FileStatus is a file as last seen.
type FileStatus struct {
	ETag string `json:"etag,omitempty"` // of what the look found
}

// A File is one declared file. Its key is the declared name of its bucket, as the
// namespace, and the key of the object in S3.
type File = store.Object[FileSpec, FileStatus]

// fileKind names the records of files in the store.
const fileKind = "file"

const (
	// filesAtOnce is the workers of the controller of files. A worker whose file is to be
	// deleted waits for the call that deletes many, so these are as many as one call takes.
	filesAtOnce = mostDeleted
	// mostDeleted is the most objects that DeleteObjects takes.
	mostDeleted = 1000
	// gatherFor is how long a deletion waits for others that can share its call.
	gatherFor = time.Second
)

// files is the second kind: its objects need their buckets, and it deletes many by one
// call. A file says whose it is in its metadata, which S3 writes together with the text:
// what carries no mark of ours was written by others, and is left alone.
type files struct {
	cloud      *cloud
	declared   *program.Objects[FileSpec, FileStatus]
	reconciler *external.Reconciler[FileSpec, FileStatus]
}

func newFiles(a *app, c *cloud) *files {
	p := a.program
	f := &files{cloud: c, declared: program.AddKind(p, fileKind, &program.ObjectsOptions[FileSpec, FileStatus]{
		Progress: &program.KindOptions[FileSpec, FileStatus]{Stuck: stuckFile},
	})}
	bucketOf := func(o *File) []store.Key { return []store.Key{{Name: o.Namespace}} }
	graph := depend.NewGraph()
	p.Use(graph, nil) // the page counts what waits for an object at why that fails
	needs, err := depend.New(f.declared.Cache(), depend.On(a.declared.Cache(), bucketOf, nil), &depend.Options{Graph: graph, Logger: p.Manager.Logger})
	p.Check(err)
	client, err := external.Gather[FileSpec, FileStatus](f, &external.BatchOptions{Wait: gatherFor, Most: mostDeleted})
	p.Check(err)
	f.reconciler = keepKind(a, f.declared, client, &external.Options[FileSpec, FileStatus]{Poll: a.o.Settings, Depends: needs},
		filesAtOnce, a.decodeFiles, a.maxFileRemovals)
	return f
}

// stuckFile: a file of others waits for a person as long as it is declared. Its deletion
// lets it go.
func stuckFile(o *File) (why string, stuck bool) {
	if o.Deleting() {
		return "", false
	}
	return external.NotOurs(o)
}

// decodeFiles reads the files that the inventory declares.
func (a *app) decodeFiles(data []byte) (set []*File, err error) {
	entries, err := parseInventory(data)
	for _, e := range entries {
		for _, f := range e.Files {
			set = append(set, &File{Meta: store.Meta{Namespace: e.Name, Name: f.Key}, Spec: FileSpec{Region: e.Region, Text: f.Text}})
		}
	}
	return set, err
}

// maxFileRemovals: an edit may take ten files away, or the number confirmed if that is more.
// It is apart from maxRemovals: where that refuses to take buckets away, up to ten of their
// files go.
func (a *app) maxFileRemovals(int) int { return max(a.o.Removals, 10) }

// The names that a file's metadata has besides its mark, and before those of its mark, which
// has slashes where a header may have none.
const (
	metaText   = "tend-text" // the digest of the text
	metaPrefix = "tend-"
	tagPrefix  = "tend/"
)

func (f *files) mark(o *File) external.Mark { return ownMark(f.cloud, fileKind, o) }

// metadata is what o's file carries.
func (f *files) metadata(o *File) map[string]string {
	meta := map[string]string{metaText: digest(o.Spec.Text)}
	for name, value := range f.mark(o).SetTags(nil) {
		meta[metaPrefix+strings.TrimPrefix(name, tagPrefix)] = value
	}
	return meta
}

// ownership is the way back.
func (f *files) ownership(o *File, meta map[string]string) external.Ownership {
	tags := map[string]string{}
	for name, value := range meta {
		tags[tagPrefix+strings.TrimPrefix(name, metaPrefix)] = value
	}
	found, marked := external.MarkOf(tags)
	if !marked { // also if there was a file of ours: what replaced it is not
		return external.Foreign
	}
	return f.mark(o).Compare(found, marked)
}

func digest(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

func (f *files) client(o *File) *s3.Client { return f.cloud.buckets.client(o.Spec.Region) }
func (f *files) bucket(o *File) *string {
	return aws.String(f.cloud.buckets.ownership.BucketName(o.Namespace))
}

// Observe looks at the file.
func (f *files) Observe(ctx context.Context, o *File) (external.Observation, error) {
	o.Status = FileStatus{}
	head, err := f.client(o).HeadObject(ctx, &s3.HeadObjectInput{Bucket: f.bucket(o), Key: &o.Name})
	if isMissing(err) {
		return external.Observation{}, nil
	}
	if err != nil {
		return external.Observation{}, f.cloud.explain(err)
	}
	o.Status.ETag = aws.ToString(head.ETag)
	seen := external.Observation{Exists: true, UpToDate: head.Metadata[metaText] == digest(o.Spec.Text), Owner: f.ownership(o, head.Metadata)}
	if !seen.UpToDate {
		seen.Diff = "the text differs"
	}
	return seen, nil
}

// Create writes the file where there is none.
func (f *files) Create(ctx context.Context, o *File) error {
	o.Intent.ExternalName = *f.bucket(o) + "/" + o.Name
	return f.put(ctx, o, &s3.PutObjectInput{IfNoneMatch: aws.String("*")})
}

// Update replaces the file that was looked at, and no other that came since.
func (f *files) Update(ctx context.Context, o *File) error {
	return f.put(ctx, o, &s3.PutObjectInput{IfMatch: seenTag(o)})
}

// seenTag is the ETag that the look found, as a condition of a call: nil is none.
func seenTag(o *File) *string {
	if o.Status.ETag == "" {
		return nil
	}
	return &o.Status.ETag
}

func (f *files) put(ctx context.Context, o *File, in *s3.PutObjectInput) error {
	in.Bucket, in.Key, in.Metadata = f.bucket(o), &o.Name, f.metadata(o)
	in.ContentType, in.Body = aws.String("text/plain; charset=utf-8"), strings.NewReader(o.Spec.Text)
	_, err := f.client(o).PutObject(ctx, in)
	return f.cloud.explain(err)
}

// Delete is DeleteBatch of one file; see external.Gather.
func (f *files) Delete(ctx context.Context, o *File) error {
	return f.DeleteBatch(ctx, []*File{o})[0]
}

// DeleteBatch deletes many files by a call for each bucket. With each goes the ETag that
// its look found, so that S3 leaves what was replaced since; a server that does not know
// this condition deletes a file that is replaced in the second between look and call.
func (f *files) DeleteBatch(ctx context.Context, all []*File) []error {
	errs := make([]error, len(all))
	type place struct{ region, bucket string }
	at := map[place][]int{} // the files of a bucket, by their index in all
	for i, o := range all {
		p := place{o.Spec.Region, o.Namespace}
		at[p] = append(at[p], i)
	}
	for _, places := range at {
		for some := range slices.Chunk(places, mostDeleted) {
			f.deleteSome(ctx, all, some, errs)
		}
	}
	return errs
}

// deleteSome deletes those files of all whose indices are given, of one bucket, and sets
// the error of each.
func (f *files) deleteSome(ctx context.Context, all []*File, some []int, errs []error) {
	first := all[some[0]]
	var in types.Delete
	for _, i := range some {
		in.Objects = append(in.Objects, types.ObjectIdentifier{Key: &all[i].Name, ETag: seenTag(all[i])})
	}
	out, err := f.client(first).DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: f.bucket(first), Delete: &in})
	if isMissing(err) {
		return // the bucket went, and all that was in it
	}
	outcome := map[string]error{}
	if err == nil {
		for _, d := range out.Deleted {
			outcome[aws.ToString(d.Key)] = nil
		}
		for _, e := range out.Errors {
			outcome[aws.ToString(e.Key)] = fmt.Errorf("DeleteObjects: %s", cmp.Or(aws.ToString(e.Code), aws.ToString(e.Message)))
		}
	}
	for _, i := range some {
		switch failed, told := outcome[all[i].Name]; {
		case err != nil:
			errs[i] = f.cloud.explain(err)
		case !told:
			errs[i] = errors.New("DeleteObjects: the answer does not name the file")
		default:
			errs[i] = failed
		}
	}
}
