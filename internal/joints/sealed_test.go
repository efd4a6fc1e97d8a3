package joints_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/reconcile"
	"github.com/tendhq/tend/reconcile/external"
	"github.com/tendhq/tend/reconcile/lifecycle"
	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/memory"
)

type (
	plain       struct{ Text string }
	plainObject = store.Object[plain, status]
	resource    struct {
		id   string
		tags map[string]string
	}
)

func sealedStore(b store.Backend, kind string, secret byte) *store.Store[plain, status] {
	seal := must(store.NewEncryption([]store.EncryptionKey{{ID: string(secret), Secret: bytes.Repeat([]byte{secret}, 32)}}, nil))
	return must(store.New(b, kind, &store.Options[plain, status]{Encryption: seal}))
}

// A server that lacks the key with which another one has encrypted what it stored, as in a rollout in the wrong
// order, takes nothing for gone: not the owner of a child, not the declaration of a resource, and not what
// a file declares.
//
// Negative controls: with an error of the owner's store taken for its end in Owning, and with Prune going on beside what it cannot decode.
//
// promise S5, E2
func TestServerThatLacksAnEncryptionKeyTakesNothingForGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := must(memory.New(&memory.Options{Encode: true}))
		with := map[string]*store.Store[plain, status]{"owner": sealedStore(b, "owner", 'n'), "zone": sealedStore(b, "zone", 'n')}
		lacks := map[string]*store.Store[plain, status]{"owner": sealedStore(b, "owner", 'o'), "zone": sealedStore(b, "zone", 'o')}
		children := must(store.New[plain, status](b, "child", nil))
		owner := must(with["owner"].Create(t.Context(), &plainObject{Meta: meta("o")}))
		must(children.Create(t.Context(), &plainObject{Meta: store.Meta{Name: "c", Owners: []store.Owner{with["owner"].OwnerOf(owner)}}}))
		must(lacks["zone"].Create(t.Context(), &plainObject{Meta: meta("readable")}))
		sealed := must(with["zone"].Create(t.Context(), &plainObject{Meta: store.Meta{Name: "sealed", Labels: map[string]string{store.LabelOwner: "file"}}}))

		installation := must(store.Installation(t.Context(), b))
		var cloud []resource
		for _, o := range []*plainObject{sealed, {Meta: store.Meta{Name: "orphan", UID: "u"}}} {
			cloud = append(cloud, resource{o.Name, external.NewMark(installation, "zone", o).SetTags(nil)})
		}
		var deleted []string
		inventory := must(external.NewInventory(&external.InventoryOptions[plain, status, resource]{
			Store: lacks["zone"], Installation: installation,
			List: external.Pages(func(context.Context, string) ([]resource, string, error) { return cloud, "", nil }),
			Get:  func(context.Context, string) (r resource, exists bool, err error) { return r, false, nil },
			Delete: func(_ context.Context, r resource) error {
				deleted = append(deleted, r.id)
				return nil
			},
			ID: func(r resource) string { return r.id }, IDOf: func(o *plainObject) string { return o.Name },
			Owner:   func(r resource) (external.Mark, bool) { return external.MarkOf(r.tags) },
			Compare: func(*plainObject, resource) external.Observation { return external.Observation{UpToDate: true} },
		}))

		owners := must(cache.New(lacks["owner"], nil))
		cascade := must(lifecycle.NewCascade("cascade", must(cache.New(children, nil)), []lifecycle.OwnerKind[plain, status]{lifecycle.Owning[plain, status](owners)}, nil))
		var m reconcile.Manager
		if err := m.Register(cascade); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		time.Sleep(time.Hour)
		if _, err := children.Get(t.Context(), key("c")); err != nil {
			t.Errorf("the child: %v, want it to be there as its owner is", err)
		}
		for range 3 { // each after what the one before learned
			time.Sleep(time.Hour)
			_, err := inventory.Prune(t.Context(), external.Cap{Count: 10, Percent: 100})
			if err == nil {
				t.Error("a prune beside a declaration that cannot be decoded: no error")
			}
		}
		if len(deleted) > 0 {
			t.Errorf("pruned %q", deleted)
		}
		if _, err := lacks["zone"].Apply(t.Context(), []*plainObject{{Meta: meta("readable")}, {Meta: meta("sealed"), Spec: plain{"mine"}}}, "file", 10); err == nil {
			t.Error("a declaration over what cannot be decoded: no error")
		}
		_, _ = lacks["zone"].Apply(t.Context(), []*plainObject{{Meta: meta("readable")}}, "file", 10)
		if o, err := with["zone"].Get(t.Context(), key("sealed")); err != nil || o.Deleting() || o.Spec.Text != "" || o.Revision != sealed.Revision {
			t.Errorf("the zone after both declarations: %+v, %v; want it as it was", o, err)
		}
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
