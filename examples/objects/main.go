// Command objects keeps 2,000 small objects of an S3 bucket as they are declared, by few
// calls: a list answers a thousand looks, the answer of a PutObject is the look after it,
// and deletions leave as DeleteObjects with many names each. The S3 server runs inside
// the process. The program counts the calls:
//
//	go run ./examples/objects
package main

import (
	"cmp"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/program"
	"github.com/tendhq/tend/store"
	_ "github.com/tendhq/tend/store/memory"
)

type (
	// Spec is what an object is to contain.
	Spec struct{ Content string }
	// File declares one object.
	File = store.Object[Spec, struct{}]
)

const (
	kind    = "file"
	bucket  = "site"
	prefix  = "tend/" // what has it is ours
	workers = 500     // a batch has no more items than there are workers
)

// object is one of S3's as a list shows it.
type object struct{ key, etag string }

// keeper makes the calls.
type keeper struct {
	s3           *s3.Client
	installation string
	inventory    *external.Inventory[Spec, struct{}, object]
	looks        *external.Batch[string, *object]
	deletes      *external.Batch[string, struct{}]
}

func newKeeper(c *s3.Client, files *store.Store[Spec, struct{}], installation string) (*keeper, error) {
	k := &keeper{s3: c, installation: installation}
	var errs [3]error
	o := &external.BatchOptions{Most: workers, Wait: time.Second} // a deletion may take two of them
	k.looks, errs[0] = external.NewBatch(k.get, o)
	k.deletes, errs[1] = external.NewBatch(k.delete, o)
	k.inventory, errs[2] = external.NewInventory(&external.InventoryOptions[Spec, struct{}, object]{
		Store: files, Installation: installation,
		List: external.Pages(k.page),
		Get: func(ctx context.Context, id string) (object, bool, error) {
			found, err := k.looks.Call(ctx, id)
			if found == nil {
				return object{}, false, err
			}
			return *found, true, err
		},
		ID:   func(r object) string { return r.key },
		IDOf: nameOf,
		Owner: func(r object) (external.Mark, bool) {
			name, ours := strings.CutPrefix(r.key, prefix)
			return external.Mark{Installation: installation, Kind: kind, Key: store.Key{Name: name}}, ours
		},
		Compare: func(f *File, r object) external.Observation {
			if want := etagOf(f); r.etag != want {
				return external.Observation{Diff: fmt.Sprintf("etag: %s, want %s", r.etag, want)}
			}
			return external.Observation{UpToDate: true}
		},
	})
	return k, errors.Join(errs[:]...)
}

func nameOf(f *File) string { return prefix + f.Name }

// etagOf is the checksum that S3 shows in lists for an object of one part.
func etagOf(f *File) string { return fmt.Sprintf(`"%x"`, md5.Sum([]byte(f.Spec.Content))) }

// page reads one page of the bucket's list.
func (k *keeper) page(ctx context.Context, token string) (all []object, next string, err error) {
	in := &s3.ListObjectsV2Input{Bucket: aws.String(bucket), Prefix: aws.String(prefix)}
	if token != "" {
		in.ContinuationToken = &token
	}
	page, err := k.s3.ListObjectsV2(ctx, in)
	if err != nil {
		return nil, "", err
	}
	return objectsOf(page), aws.ToString(page.NextContinuationToken), nil
}

func objectsOf(page *s3.ListObjectsV2Output) (all []object) {
	for _, o := range page.Contents {
		all = append(all, object{aws.ToString(o.Key), aws.ToString(o.ETag)})
	}
	return all
}

// get looks at many objects by the pages of a list between the first and the last of them:
// S3's lists are consistent, and in the order of keys.
func (k *keeper) get(ctx context.Context, keys []string) []external.Outcome[*object] {
	first, last := slices.Min(keys), slices.Max(keys)
	found := map[string]*object{}
	in := &s3.ListObjectsV2Input{Bucket: aws.String(bucket), Prefix: aws.String(prefix), StartAfter: aws.String(first[:len(first)-1])}
	for more := true; more; {
		page, err := k.s3.ListObjectsV2(ctx, in)
		if err != nil {
			return outcomes(keys, func(string) (*object, error) { return nil, err })
		}
		all := objectsOf(page)
		for _, o := range all {
			found[o.key] = &o
		}
		in.ContinuationToken = page.NextContinuationToken
		more = in.ContinuationToken != nil && (len(all) == 0 || all[len(all)-1].key < last)
	}
	return outcomes(keys, func(key string) (*object, error) { return found[key], nil })
}

// delete deletes many objects by one call. One that is gone is no error.
func (k *keeper) delete(ctx context.Context, keys []string) []external.Outcome[struct{}] {
	names := make([]types.ObjectIdentifier, len(keys))
	for i, key := range keys {
		names[i].Key = &key
	}
	out, err := k.s3.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: aws.String(bucket), Delete: &types.Delete{Objects: names}})
	failed := map[string]error{}
	if err == nil {
		for _, e := range out.Errors {
			failed[aws.ToString(e.Key)] = fmt.Errorf("%s: %s", aws.ToString(e.Code), aws.ToString(e.Message))
		}
	}
	return outcomes(keys, func(key string) (struct{}, error) { return struct{}{}, cmp.Or(err, failed[key]) })
}

func outcomes[R any](keys []string, of func(key string) (R, error)) []external.Outcome[R] {
	all := make([]external.Outcome[R], len(keys))
	for i, key := range keys {
		all[i].Value, all[i].Err = of(key)
	}
	return all
}

// put writes an object. Where exclusive it refuses a key that exists. Its answer is the
// proof: no look follows.
func (k *keeper) put(ctx context.Context, f *File, exclusive bool) error {
	in := &s3.PutObjectInput{Bucket: aws.String(bucket), Key: aws.String(nameOf(f)), Body: strings.NewReader(f.Spec.Content)}
	if exclusive {
		in.IfNoneMatch = aws.String("*")
	}
	out, err := k.s3.PutObject(ctx, in)
	if refused, ok := errors.AsType[smithy.APIError](err); ok && refused.ErrorCode() == "PreconditionFailed" {
		return fmt.Errorf("%w: %w", external.ErrExists, err)
	}
	if err == nil {
		k.inventory.Wrote(object{nameOf(f), aws.ToString(out.ETag)})
	}
	return err
}

// client is what the reconciler calls.
func (k *keeper) client() external.ClientFuncs[Spec, struct{}] {
	return k.inventory.Client(external.ClientFuncs[Spec, struct{}]{
		CreateFunc: func(ctx context.Context, f *File) error { return k.put(ctx, f, true) },
		UpdateFunc: func(ctx context.Context, f *File) error { return k.put(ctx, f, false) },
		DeleteFunc: func(ctx context.Context, f *File) error {
			_, err := k.deletes.Call(ctx, nameOf(f))
			return err
		},
	})
}

// meter counts the calls that leave, by operation.
type meter struct {
	mu    sync.Mutex // guards what follows
	calls map[string]int
}

func (m *meter) Do(r *http.Request) (*http.Response, error) {
	m.mu.Lock()
	m.calls[awsmiddleware.GetOperationName(r.Context())]++
	m.mu.Unlock()
	return http.DefaultClient.Do(r)
}

// take is the calls since the last time.
func (m *meter) take() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	calls := m.calls
	m.calls = map[string]int{}
	return calls
}

func text(calls map[string]int) string {
	var parts []string
	for _, op := range slices.Sorted(maps.Keys(calls)) {
		parts = append(parts, fmt.Sprintf("%s %d", op, calls[op]))
	}
	return strings.Join(parts, ", ")
}

func main() {
	if err := show(context.Background(), 2000, os.Stdout, func(string, map[string]int) {}); err != nil {
		log.Fatal(err)
	}
}

// show creates n objects and deletes them, and says what calls that took; tell gets the
// same.
func show(ctx context.Context, n int, out io.Writer, tell func(what string, calls map[string]int)) error {
	server := httptest.NewServer(gofakes3.New(s3mem.New(), gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
	defer server.Close()
	m := &meter{calls: map[string]int{}}
	c := s3.New(s3.Options{
		Region: "us-east-1", BaseEndpoint: &server.URL, UsePathStyle: true, HTTPClient: m, Retryer: aws.NopRetryer{},
		Credentials: credentials.NewStaticCredentialsProvider("tend", "tend", ""),
	})
	if _, err := c.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String(bucket)}); err != nil {
		return err
	}
	p := program.Open(ctx, "memory")
	p.Manager.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})) // what fails
	files := program.AddKind[Spec, struct{}](p, kind, nil)
	installation, err := store.Installation(ctx, p.Backend())
	p.Check(err)
	k, err := newKeeper(c, files.Store, installation)
	p.Check(err)
	reconciler, err := external.New(files.Store, k.client(), &external.Options[Spec, struct{}]{
		Naming: external.ByUs, ExclusiveCreate: true,
		CreationGrace: time.Millisecond, // S3 shows at once what was written
	})
	p.Check(err)
	files.ReconcileBy(reconciler, &reconcile.Options[reconcile.Request]{Workers: workers})

	m.take() // the bucket's own
	for i := range n {
		if _, err := files.Create(ctx, &File{Meta: store.Meta{Name: name(i)}, Spec: Spec{Content: fmt.Sprint("page ", i)}}); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { // ends with ctx; waited for below
		err := p.Run(ctx, nil)
		stop() // nothing becomes ready any more
		ended <- err
	}()
	told := func(what string) error {
		calls := m.take()
		tell(what, calls)
		_, err := fmt.Fprintf(out, "%d objects %s by %s\n", n, what, text(calls))
		return err
	}
	err = errors.Join(wait(ctx, n, files.Store), told("created"))
	if err == nil {
		err = errors.Join(deleteAll(ctx, files.Store), told("deleted"))
	}
	stop()
	return errors.Join(err, <-ended)
}

// wait waits until all are ready.
func wait(ctx context.Context, n int, files *store.Store[Spec, struct{}]) error {
	for i := range n {
		if _, err := files.WaitReady(ctx, store.Key{Name: name(i)}); err != nil {
			return err
		}
	}
	return nil
}

// deleteAll deletes all, and waits until they are gone.
func deleteAll(ctx context.Context, files *store.Store[Spec, struct{}]) error {
	all, err := files.List(ctx, store.Selector{})
	if err != nil {
		return err
	}
	for _, f := range all {
		if err := files.Delete(ctx, f); err != nil {
			return err
		}
	}
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for len(all) > 0 {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-look.C:
		}
		if all, err = files.List(ctx, store.Selector{}); err != nil {
			return err
		}
	}
	return nil
}

func name(i int) string { return fmt.Sprintf("page-%04d.html", i) }
