// Package disks has an external client, and tests that show how to test one.
package disks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/quota"
	"github.com/tendhq/tend/store"
)

type (
	// Spec is what is wanted of a disk.
	Spec struct{ Size string }
	// Disk is a declared disk.
	Disk = store.Object[Spec, struct{}]
	// Disks is the store of the declared disks.
	Disks = store.Store[Spec, struct{}]
)

// NewReconciler keeps a disk at the provider for each object. Client makes the calls.
func NewReconciler(disks *Disks, client *http.Client) (*external.Reconciler[Spec, struct{}], error) {
	return external.New(disks, external.Always(provider{client}), &external.Options[Spec, struct{}]{
		Naming: external.ByMark, // the provider chooses the ids
	})
}

// guide: client

// provider is the external client: a provider's API, over HTTP.
type provider struct{ client *http.Client }

// resource is a disk as the provider has it.
type resource struct {
	ID, Name    string
	Tags, Props map[string]string
}

func mark(o *Disk) external.Mark { return external.NewMark("disks", "disk", o) }

func desired(o *Disk) resource {
	return resource{Name: o.Name, Tags: mark(o).SetTags(nil), Props: map[string]string{"size": o.Spec.Size}}
}

// Observe implements external.Client.
func (p provider) Observe(ctx context.Context, o *Disk) (seen external.Observation, err error) {
	var r resource
	if id := o.Intent.ExternalName; id != "" {
		err = p.call(ctx, http.MethodGet, "/resources/"+id, nil, &r)
	} else {
		r, err = p.find(ctx, mark(o))
	}
	if isStatus(err, http.StatusNotFound) || err == nil && r.ID == "" {
		return seen, nil
	} else if err != nil {
		return seen, err
	}
	o.Intent.ExternalName = r.ID
	return external.Observation{Exists: true, Owner: mark(o).Compare(external.MarkOf(r.Tags)), UpToDate: r.Props["size"] == o.Spec.Size}, nil
}

// Create implements external.Client.
func (p provider) Create(ctx context.Context, o *Disk) error {
	var made resource
	err := p.call(ctx, http.MethodPost, "/resources", desired(o), &made)
	o.Intent.ExternalName = made.ID
	return err
}

// Update implements external.Client.
func (p provider) Update(ctx context.Context, o *Disk) error {
	return p.call(ctx, http.MethodPut, "/resources/"+o.Intent.ExternalName, desired(o), nil)
}

// Delete implements external.Client.
func (p provider) Delete(ctx context.Context, o *Disk) error {
	err := p.call(ctx, http.MethodDelete, "/resources/"+o.Intent.ExternalName, nil, nil)
	if isStatus(err, http.StatusNotFound) {
		return nil // deleting what is gone is no error
	}
	return err
}

// find looks for the disk with a mark on the provider's list.
func (p provider) find(ctx context.Context, m external.Mark) (r resource, err error) {
	for more := true; more && err == nil; {
		var list struct {
			Page []resource
			More bool
		}
		err = p.call(ctx, http.MethodGet, "/resources?after="+url.QueryEscape(r.ID), nil, &list)
		for _, r = range list.Page {
			if m.Compare(external.MarkOf(r.Tags)) == external.Ours {
				return r, nil
			}
		}
		more = list.More
	}
	return resource{}, err
}

// call makes a request. An answer with a status of 400 or more is a quota.HTTPError.
func (p provider) call(ctx context.Context, method, path string, in, out any) error {
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, "https://disks.example"+path, &body)
	if err != nil {
		return err
	}
	resp, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := quota.CheckResponse(resp); err != nil || out == nil {
		return err
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

func isStatus(err error, status int) bool {
	answer, ok := errors.AsType[*quota.HTTPError](err)
	return ok && answer.Status == status
}

// guide: end
