package store_test

import (
	"errors"
	"testing"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

type bucketSpec struct {
	Region string            `json:"region"`
	Rules  []rule            `json:"rules,omitempty"`
	Tags   map[string]string `json:"tags,omitempty"`
}

type rule struct {
	Prefix string   `json:"prefix"`
	Days   int      `json:"days,omitempty"`
	Hosts  []string `json:"hosts,omitempty"`
}

type bucketStatus struct {
	ARN string `json:"arn,omitempty"`
}

type (
	bucket  = store.Object[bucketSpec, bucketStatus]
	buckets = store.Store[bucketSpec, bucketStatus]
)

func newMemory(t testing.TB, o *memory.Options) store.FullBackend {
	t.Helper()
	b, err := memory.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func newBuckets(t testing.TB, b store.Backend, o *store.Options[bucketSpec, bucketStatus]) *buckets {
	t.Helper()
	s, err := store.New(b, "Bucket", o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// onBoth runs a test on a backend that keeps values and on one that keeps
// bytes: what is promised may not depend on it.
func onBoth(t *testing.T, test func(t *testing.T, s *buckets)) {
	for name, o := range map[string]*memory.Options{"values": nil, "bytes": {Encode: true}} {
		t.Run(name, func(t *testing.T) { test(t, newBuckets(t, newMemory(t, o), nil)) })
	}
}

func named(name string) *bucket {
	return &bucket{Meta: store.Meta{Namespace: "prod", Name: name}, Spec: bucketSpec{Region: "eu-1"}}
}

// must unwraps results in tests where an error is not what is tested.
func must[V any](t testing.TB) func(v V, err error) V {
	return func(v V, err error) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func wantErr(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got error %v, want %v", what, err, want)
	}
}

// stored reads the object as it lies in the store.
func stored(t testing.TB, s *buckets, o *bucket) *bucket {
	t.Helper()
	return must[*bucket](t)(s.Get(t.Context(), o.Key()))
}
