package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// awsEndpoint is the word for Amazon's own endpoints, one per region.
const awsEndpoint = "aws"

// callTimeout bounds one HTTP exchange. Run deadlines are the kernel's.
const callTimeout = 15 * time.Second

// An endpoint makes S3 clients, one per region, over one transport.
type endpoint struct {
	config aws.Config
	url    string // empty: Amazon's

	mu      sync.Mutex // guards clients
	clients map[string]*s3.Client
}

// newEndpoint prepares clients for where: a URL, or "aws", with connections
// enough for all workers. wrap is put around the HTTP client. Nothing is sent yet.
func newEndpoint(ctx context.Context, where string, workers int, wrap func(aws.HTTPClient) aws.HTTPClient) (*endpoint, error) {
	e := &endpoint{clients: map[string]*s3.Client{}}
	client := awshttp.NewBuildableClient().WithTimeout(callTimeout).WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConnsPerHost = workers
	})
	opts := []func(*config.LoadOptions) error{
		config.WithHTTPClient(client),
		// The kernel retries: it knows the key's backoff and what else waits for
		// the same quota. Two layers of retries would multiply.
		config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }),
		config.WithRequestChecksumCalculation(aws.RequestChecksumCalculationWhenRequired),
		config.WithResponseChecksumValidation(aws.ResponseChecksumValidationWhenRequired),
	}
	if where != awsEndpoint {
		u, err := checkEndpoint(where)
		if err != nil {
			return nil, err
		}
		e.url = where
		if isLoopback(u) && os.Getenv("AWS_ACCESS_KEY_ID") == "" {
			opts = append(opts, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("tend", "tend", "")))
		}
	}
	var err error
	if e.config, err = config.LoadDefaultConfig(ctx, opts...); err != nil {
		return nil, fmt.Errorf("loading the AWS configuration: %w", err)
	}
	e.config.HTTPClient = wrap(e.config.HTTPClient) // after loading, which adds AWS_CA_BUNDLE to it
	return e, nil
}

func checkEndpoint(where string) (*url.URL, error) {
	u, err := url.Parse(where)
	if parse, ok := errors.AsType[*url.Error](err); ok {
		err = parse.Err // the whole repeats the URL, and what was not meant to be in it
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("-endpoint: %w", err)
	case u.User != nil:
		return nil, errors.New("-endpoint: credentials belong into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, not into the URL")
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.Path != "" && u.Path != "/", u.RawQuery != "":
		return nil, fmt.Errorf("-endpoint: found %q; expected a URL such as https://s3.example.com:9000, or %q", where, awsEndpoint)
	}
	return u, nil
}

// isLoopback: a server on this machine's loopback is one of ours, started for a
// trial, and accepts any credentials.
func isLoopback(u *url.URL) bool {
	a, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && a.IsLoopback()
}

// In returns the client for a region.
func (e *endpoint) In(region string) *s3.Client {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.clients[region]
	if c == nil {
		c = s3.NewFromConfig(e.config, func(o *s3.Options) {
			o.Region = region
			if e.url != "" {
				o.BaseEndpoint = aws.String(e.url)
				o.UsePathStyle = true // bucket.localhost would need DNS that is not set up
			}
		})
		e.clients[region] = c
	}
	return c
}

func (e *endpoint) String() string {
	if e.url == "" {
		return "Amazon S3"
	}
	return e.url
}
