package main

import "github.com/tendhq/tend/store"

// BucketSpec is a bucket as declared.
type BucketSpec struct {
	Tenant     string `json:"tenant"`
	Owner      string `json:"owner"`
	Region     string `json:"region"`
	Versioning bool   `json:"versioning"`
}

// BucketStatus is a bucket as last seen.
type BucketStatus struct {
	Bucket     string `json:"bucket,omitempty"` // its name at the endpoint
	Region     string `json:"region,omitempty"` // empty: the endpoint doesn't say
	Versioning bool   `json:"versioning,omitempty"`
}

// spec is the entry as the store holds it; its name is the object's.
func (e Entry) spec() BucketSpec {
	return BucketSpec{Tenant: e.Tenant, Owner: e.Owner, Region: e.Region, Versioning: e.Versioning}
}

// entry is the way back.
func (s BucketSpec) entry(name string) Entry {
	return Entry{Name: name, Tenant: s.Tenant, Owner: s.Owner, Region: s.Region, Versioning: s.Versioning}
}

// Bucket is one declared bucket. Its key is the declared name, without a
// namespace: S3's names are one space over all tenants, and a bucket that is
// handed to another tenant stays the same bucket.
type Bucket = store.Object[BucketSpec, BucketStatus]

// kind names the records in the store.
const kind = "bucket"
