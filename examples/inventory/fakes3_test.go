package main

import (
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// A testS3 is gofakes3 with what it lacks added in front: bucket tags, regions,
// lists in pages, the conditions of DeleteObjects, and faults.
type testS3 struct {
	URL   string
	Close func()
	next  http.Handler

	tagged bool // tags are routed as S3 routes them
	page   int  // the longest page of a list, if that is tagged; 0: as asked for

	mu     sync.Mutex // guards everything below
	tags   map[string]map[string]string
	region map[string]string
	born   map[string]time.Time
	lists  int                                               // pages of lists that were asked for
	fault  func(w http.ResponseWriter, r *http.Request) bool // true: answered
	writes []string                                          // "PUT acme-a?versioning", in order of arrival

	deletes [][]string                     // the keys of each DeleteObjects
	refuse  func(key string) (code string) // of one key of a DeleteObjects; nil, or empty: it is deleted
}

// Deletes returns the keys of each call of DeleteObjects.
func (s *testS3) Deletes() [][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.deletes)
}

// Writes returns the requests that could have changed something, and forgets them.
func (s *testS3) Writes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.writes
	s.writes = nil
	return was
}

// newTestS3 serves until the test ends.
func newTestS3(t *testing.T, tagged bool) *testS3 {
	t.Helper()
	s := &testS3{
		next:   newFake(),
		tagged: tagged,
		tags:   map[string]map[string]string{},
		region: map[string]string{},
		born:   map[string]time.Time{},
	}
	server := httptest.NewUnstartedServer(s)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // handlers that cut connections
	server.Start()
	t.Cleanup(server.Close)
	s.URL, s.Close = server.URL, server.Close
	return s
}

// Fail answers requests by f while it returns true; nil ends it.
func (s *testS3) Fail(f func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

func (s *testS3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	fault := s.fault
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		s.writes = append(s.writes, strings.TrimRight(r.Method+" "+strings.Trim(r.URL.Path, "/")+"?"+strings.TrimSuffix(r.URL.RawQuery, "="), "?"))
	}
	if r.Method == http.MethodGet && strings.Trim(r.URL.Path, "/") == "" {
		s.lists++
	}
	s.mu.Unlock()
	if fault != nil && fault(w, r) {
		return
	}
	s.serve(w, r)
}

// perform does what the request asks for, and keeps the answer to itself.
func (s *testS3) perform(r *http.Request) { s.serve(httptest.NewRecorder(), r) }

func (s *testS3) serve(w http.ResponseWriter, r *http.Request) {
	bucket := strings.Trim(r.URL.Path, "/")
	switch {
	case r.Method == http.MethodPost && r.URL.Query().Has("delete"):
		s.serveDeletes(w, r, bucket)
	case !s.tagged || strings.Contains(bucket, "/"): // an object's
		s.next.ServeHTTP(w, r)
	case bucket == "":
		s.serveList(w, r)
	case r.URL.Query().Has("tagging"):
		s.serveTags(w, r, bucket)
	case len(r.URL.Query()) == 0 || r.URL.Query().Has("x-id"):
		s.serveBucket(w, r, bucket)
	default:
		s.next.ServeHTTP(w, r)
	}
}

// serveList answers as Amazon does: in pages, with regions if a page's length is
// asked for.
func (s *testS3) serveList(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := r.URL.Query()
	most, err := strconv.Atoi(q.Get("max-buckets"))
	asked := err == nil
	switch {
	case !asked:
		most = len(s.region)
	case s.page > 0:
		most = min(most, s.page)
	}
	type bucketXML struct {
		Name         string
		CreationDate string
		BucketRegion string `xml:",omitempty"`
	}
	var out struct {
		XMLName           xml.Name    `xml:"ListAllMyBucketsResult"`
		Buckets           []bucketXML `xml:"Buckets>Bucket"`
		ContinuationToken string      `xml:",omitempty"`
	}
	for _, name := range slices.Sorted(maps.Keys(s.region)) {
		if name <= q.Get("continuation-token") {
			continue
		}
		if len(out.Buckets) == most {
			out.ContinuationToken = out.Buckets[most-1].Name
			break
		}
		b := bucketXML{Name: name, CreationDate: s.born[name].UTC().Format("2006-01-02T15:04:05.000Z")}
		if asked {
			b.BucketRegion = s.region[name]
		}
		out.Buckets = append(out.Buckets, b)
	}
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(out)
}

// serveDeletes answers as Amazon does, with an outcome for each object, and leaves those
// whose ETag is not the given one.
func (s *testS3) serveDeletes(w http.ResponseWriter, r *http.Request, bucket string) {
	type objectXML struct{ Key, ETag string }
	var in struct{ Object []objectXML }
	if err := xml.NewDecoder(r.Body).Decode(&in); err != nil || len(in.Object) > 1000 {
		answer(w, http.StatusBadRequest, "MalformedXML")
		return
	}
	do := func(method, path string) *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		s.next.ServeHTTP(rec, httptest.NewRequest(method, "/"+bucket+path, nil))
		return rec
	}
	if do(http.MethodHead, "").Code == http.StatusNotFound {
		answer(w, http.StatusNotFound, "NoSuchBucket")
		return
	}
	type outcomeXML struct {
		Key  string
		Code string `xml:",omitempty"`
	}
	var out struct {
		XMLName        xml.Name `xml:"DeleteResult"`
		Deleted, Error []outcomeXML
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []string
	for _, o := range in.Object {
		keys = append(keys, o.Key)
		code := ""
		if s.refuse != nil {
			code = s.refuse(o.Key)
		}
		if head := do(http.MethodHead, "/"+o.Key); code == "" && o.ETag != "" && head.Code == http.StatusOK && head.Header().Get("ETag") != o.ETag {
			code = "PreconditionFailed"
		}
		if code != "" {
			out.Error = append(out.Error, outcomeXML{o.Key, code})
			continue
		}
		do(http.MethodDelete, "/"+o.Key)
		out.Deleted = append(out.Deleted, outcomeXML{Key: o.Key})
	}
	s.deletes = append(s.deletes, keys)
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(out)
}

// Lists is how many pages of lists were asked for.
func (s *testS3) Lists() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists
}

type tagXML struct {
	Key   string `xml:"Key"`
	Value string `xml:"Value"`
}

func (s *testS3) serveTags(w http.ResponseWriter, r *http.Request, bucket string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, exists := s.region[bucket]; !exists {
		answer(w, http.StatusNotFound, "NoSuchBucket")
		return
	}
	switch r.Method {
	case http.MethodGet:
		if len(s.tags[bucket]) == 0 {
			answer(w, http.StatusNotFound, "NoSuchTagSet")
			return
		}
		var out struct {
			XMLName xml.Name `xml:"Tagging"`
			TagSet  []tagXML `xml:"TagSet>Tag"`
		}
		for k, v := range s.tags[bucket] {
			out.TagSet = append(out.TagSet, tagXML{k, v})
		}
		_ = xml.NewEncoder(w).Encode(out)
	case http.MethodPut:
		var in struct {
			TagSet []tagXML `xml:"TagSet>Tag"`
		}
		_ = xml.NewDecoder(r.Body).Decode(&in)
		s.tags[bucket] = tagMap(in.TagSet)
	}
}

func (s *testS3) serveBucket(w http.ResponseWriter, r *http.Request, bucket string) {
	body, _ := io.ReadAll(r.Body)
	rec := httptest.NewRecorder()
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	s.mu.Lock()
	region := s.region[bucket]
	s.mu.Unlock()
	s.next.ServeHTTP(rec, r)
	if rec.Code < 300 {
		s.mu.Lock()
		switch r.Method {
		case http.MethodPut:
			s.created(bucket, body)
		case http.MethodDelete:
			delete(s.region, bucket)
			delete(s.tags, bucket)
			delete(s.born, bucket)
		}
		s.mu.Unlock()
	}
	maps.Copy(w.Header(), rec.Header())
	if region != "" {
		w.Header().Set("x-amz-bucket-region", region)
	}
	w.WriteHeader(rec.Code)
	_, _ = w.Write(rec.Body.Bytes())
}

// created notes what CreateBucket's body asked for; mu is held.
func (s *testS3) created(bucket string, body []byte) {
	var in struct {
		Location string   `xml:"LocationConstraint"`
		Tags     []tagXML `xml:"Tags>Tag"`
	}
	_ = xml.Unmarshal(body, &in)
	s.region[bucket], s.tags[bucket], s.born[bucket] = in.Location, tagMap(in.Tags), time.Now()
	if in.Location == "" {
		s.region[bucket] = "us-east-1"
	}
}

func tagMap(set []tagXML) map[string]string {
	m := map[string]string{}
	for _, t := range set {
		m[t.Key] = t.Value
	}
	return m
}

func answer(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>as the test asked</Message></Error>", code)
}

// plainClient talks to the server without any of the code under test.
func plainClient(url string) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: &url, UsePathStyle: true, Region: "us-east-1", Retryer: aws.NopRetryer{},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "tend", SecretAccessKey: "tend"}, nil
		}),
	})
}

func bucketNames(t *testing.T, url string) []string {
	t.Helper()
	out, err := plainClient(url).ListBuckets(t.Context(), &s3.ListBucketsInput{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, b := range out.Buckets {
		names = append(names, aws.ToString(b.Name))
	}
	return names
}

// makeBucket makes one as another account would: in the region that the test's
// inventories declare, and without a mark.
func makeBucket(t *testing.T, url, name string) {
	t.Helper()
	if _, err := plainClient(url).CreateBucket(t.Context(), createInput(name, "eu-central-1", nil)); err != nil {
		t.Fatal(err)
	}
}

func versioned(t *testing.T, url, name string) bool {
	t.Helper()
	out, err := plainClient(url).GetBucketVersioning(t.Context(), &s3.GetBucketVersioningInput{Bucket: &name})
	if err != nil {
		t.Fatal(err)
	}
	return out.Status == types.BucketVersioningStatusEnabled
}
