package objects_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/cache"
	"github.com/tendhq/tend/store/file"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/objects"
)

type (
	spec struct {
		Size     int
		Password string `tend:"secret"`
	}
	status struct{ Made bool }
	disk   = store.Object[spec, status]
)

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

func newDisks(b store.Backend, version int) *store.Store[spec, status] {
	return must(store.New(b, "disk", &store.Options[spec, status]{Version: version, Validate: func(o *disk) error {
		if o.Spec.Size < 0 {
			return fmt.Errorf("a size of %d with %s", o.Spec.Size, o.Spec.Password)
		}
		return nil
	}}))
}

func TestObjectsAreSeenAndEditedWithoutTheirTypes(t *testing.T) {
	disks := newDisks(must(memory.New(nil)), 1)
	k := objects.Of(disks)
	o, err := k.Put(t.Context(), store.Key{Name: "a"}, 0, []byte(`{"spec":{"Size":1,"Password":"hunter2"},"status":{"Made":true}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := must(disks.Get(t.Context(), o.Key())); got.Spec != (spec{1, "hunter2"}) || got.Status.Made {
		t.Errorf("created %+v", got)
	}
	text := string(must(o.JSON()))
	if strings.Contains(text, "hunter2") || !strings.Contains(text, `"Size":1`) {
		t.Errorf("shown: %s", text)
	}
	changed, err := k.Put(t.Context(), o.Key(), o.Revision, []byte(strings.Replace(text, `"Size":1`, `"Size":2`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	if got := must(disks.Get(t.Context(), o.Key())); got.Spec != (spec{2, "hunter2"}) || got.Generation != 2 {
		t.Errorf("after the edit it is %+v", got)
	}
	for name, c := range map[string]struct {
		at   store.Revision
		data string
		want error
	}{
		"an old revision":    {o.Revision, `{"spec":{"Size":3,"Password":"x"}}`, store.ErrConflict},
		"what is there":      {0, `{"spec":{"Size":3,"Password":"x"}}`, store.ErrExists},
		"what breaks a rule": {changed.Revision, `{"spec":{"Size":-1,"Password":"(secret)"}}`, store.ErrInvalid},
		"what is no JSON":    {changed.Revision, `{"spec":{"Size":`, store.ErrInvalid},
		"a field of no kind": {changed.Revision, `{"spec":{"Colour":1}}`, store.ErrInvalid},
	} {
		_, err := k.Put(t.Context(), o.Key(), c.at, []byte(c.data))
		if !errors.Is(err, c.want) || strings.Contains(fmt.Sprint(err), "hunter2") {
			t.Errorf("Put of %s: %v, want %v", name, err, c.want)
		}
	}
	var conflict *store.ConflictError
	if _, err := k.Put(t.Context(), o.Key(), o.Revision, []byte(`{"spec":{"Size":3,"Password":"x"}}`)); !errors.As(err, &conflict) || conflict.Current.Revision != changed.Revision {
		t.Errorf("Put at an old revision: %v (%T)", err, err)
	}
	if _, err := k.Edit(t.Context(), o.Key(), o.Revision, func(m *store.Meta) error { return nil }); !errors.As(err, &conflict) || conflict.Want.Revision != o.Revision {
		t.Errorf("Edit at an old revision: %v", err)
	}
	paused := must(k.Edit(t.Context(), o.Key(), 0, func(m *store.Meta) error { m.Paused = true; m.AddFinalizer("f"); return nil }))
	if !paused.Paused || paused.PausedSince.IsZero() || paused.Generation != 2 {
		t.Errorf("edited: %+v", paused.Meta)
	}
	if err := k.Delete(t.Context(), o.Key(), changed.Revision); !errors.Is(err, store.ErrConflict) {
		t.Errorf("Delete at an old revision: %v", err)
	}
	if err := k.Delete(t.Context(), o.Key(), paused.Revision); err != nil {
		t.Fatal(err)
	}
	if got := must(k.Get(t.Context(), o.Key())); !got.Deleting() {
		t.Errorf("after Delete: %+v", got.Meta)
	}
	if _, err := k.RemoveFinalizer(t.Context(), o.Key(), "f"); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Get(t.Context(), o.Key()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("after the last finalizer: %v", err)
	}
}

func TestWatchSeesWhatAllSees(t *testing.T) {
	k := objects.Of(newDisks(must(memory.New(nil)), 1))
	for i := range 3 {
		must(k.Put(t.Context(), store.Key{Name: fmt.Sprint("d", i)}, 0, []byte(`{"spec":{"Size":1,"Password":"hunter2"}}`)))
	}
	n := 0
	for o, err := range k.All(t.Context(), store.Selector{}) {
		if err != nil || o.Kind != "disk" {
			t.Fatal(o, err)
		}
		n++
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := 0
	for e, err := range k.Watch(ctx, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == store.BatchSnapshotEnd {
			break
		}
		if e.HasObject && strings.Contains(string(must(e.Object.JSON())), `"Password":"(secret)"`) {
			seen++
		}
	}
	if n != 3 || seen != 3 {
		t.Errorf("%d listed, %d watched, want 3", n, seen)
	}
}

// The plain command works on stores whose types it does not have.
func TestBareKindChangesMetadataOnly(t *testing.T) {
	b := must(file.Open(filepath.Join(t.TempDir(), "tend.db")))
	t.Cleanup(func() { _ = b.Close() })
	disks := newDisks(b, 7) // a version that this program does not know
	o := must(disks.Create(t.Context(), &disk{Meta: store.Meta{Name: "a", Finalizers: []string{"gone"}}, Spec: spec{3, "hunter2"}}))
	o.Status.Made = true
	o = must(disks.UpdateStatus(t.Context(), o))
	k := must(objects.Bare(b, "disk", false))
	seen := must(k.Get(t.Context(), o.Key()))
	if text := string(must(seen.JSON())); strings.Contains(text, "hunter2") || strings.Contains(text, "Size") || !strings.Contains(text, `"gone"`) {
		t.Errorf("shown: %s", text)
	}
	if text := string(must(must(must(objects.Bare(b, "disk", true)).Get(t.Context(), o.Key())).JSON())); !strings.Contains(text, `"Size":3`) {
		t.Errorf("shown with all: %s", text)
	}
	if _, err := k.Put(t.Context(), o.Key(), seen.Revision, []byte(`{"spec":{}}`)); !errors.Is(err, objects.ErrBare) {
		t.Errorf("Put: %v", err)
	}
	if _, err := k.Edit(t.Context(), o.Key(), 0, func(m *store.Meta) error { m.Paused = true; return nil }); err != nil {
		t.Fatal(err)
	}
	after := must(disks.Get(t.Context(), o.Key()))
	if !after.Paused || after.PausedSince.IsZero() || after.Spec != o.Spec || after.Status != o.Status || after.Generation != o.Generation {
		t.Errorf("after the edit: %+v", after)
	}
	after.Labels = map[string]string{"seen": "yes"}
	if _, err := disks.Update(t.Context(), after); err != nil {
		t.Errorf("the program that has the types cannot write it: %v", err)
	}
	older := must(newDisks(b, 6).Get(t.Context(), o.Key()))
	older.Paused = false
	if _, err := newDisks(b, 6).Update(t.Context(), older); !errors.Is(err, store.ErrNewer) {
		t.Errorf("the version of the schema was lost: %v", err)
	}
	if err := k.Delete(t.Context(), o.Key(), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := k.RemoveFinalizer(t.Context(), o.Key(), "gone"); err != nil {
		t.Fatal(err)
	}
	if _, err := disks.Get(t.Context(), o.Key()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("it is still there: %v", err)
	}
}

func Example() {
	disks := newDisks(must(memory.New(nil)), 1)
	k := objects.Of(disks)
	o, err := k.Put(context.Background(), store.Key{Name: "data"}, 0, []byte(`{"spec": {"Size": 10, "Password": "hunter2"}}`))
	fmt.Println(o.Kind, o.Key(), o.Generation, err)
	all, _ := o.JSON()
	fmt.Println(strings.Contains(string(all), "hunter2"))
	// Output:
	// disk data 1 <nil>
	// false
}

// A list that is short because the cache is, would look as if objects did not exist.
// Negative control: mutant "an old version of a broken object is listed".
func TestKindOfACacheListsAllOrFails(t *testing.T) {
	b := must(file.Open(filepath.Join(t.TempDir(), "tend.db")))
	t.Cleanup(func() { _ = b.Close() })
	disks := newDisks(b, 1)
	_ = must(disks.Create(t.Context(), &disk{Meta: store.Meta{Name: "a"}, Spec: spec{1, "x"}}))
	others := must(store.New[struct{ Size string }, status](b, "disk", nil)) // what disks cannot decode
	for _, ns := range []string{"", "prod"} {
		o := &store.Object[struct{ Size string }, status]{Meta: store.Meta{Namespace: ns, Name: "broken"}}
		o.Spec.Size = "large"
		_ = must(others.Create(t.Context(), o))
	}
	c := must(cache.New(disks, &cache.Options[spec, status]{OnError: func(store.Key, error) {}}))
	list := func(sel store.Selector) (string, error) {
		page, _, err := objects.List(t.Context(), objects.OfCache(c), objects.Query{Selector: sel})
		text := ""
		for _, o := range page {
			text += fmt.Sprint(o.Key(), o.Err != nil, " ")
		}
		return text, err
	}
	if got, err := list(store.Selector{}); err == nil {
		t.Errorf("before the cache has synced: %q and no error", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }() // ended by cancel, waited for below
	defer func() {
		cancel()
		<-done
	}()
	<-c.Synced()
	for namespace, want := range map[string]string{"": "a false broken true prod/broken true ", "prod": "prod/broken true "} {
		if got, err := list(store.Selector{Namespace: namespace}); got != want || err != nil {
			t.Errorf("in namespace %q: %q, %v; want %q", namespace, got, err, want)
		}
	}

	// The cache keeps the last version of an object that cannot be decoded any more. It is
	// not listed beside the error.
	r := must(b.Get(t.Context(), "disk", store.Key{Name: "broken"}))
	at := must(b.Commit(t.Context(), store.Txn{Ops: []store.Op{{Kind: "disk", Key: store.Key{Name: "a"}, Put: store.Bytes(must(r.Encode()))}}}))
	seen := make(chan struct{})
	c.OnRevision(at, func() { close(seen) })
	<-seen
	if _, held := c.Get(store.Key{Name: "a"}); !held {
		t.Error("the cache dropped the version that it could decode")
	}
	if got, err := list(store.Selector{}); got != "a true broken true prod/broken true " || err != nil {
		t.Errorf("with an object that broke: %q, %v; want it once, broken", got, err)
	}
}

// Another writer is a conflict, also where the secrets cannot be told any more.
func TestPutAtAnOldRevisionIsAConflictWhateverTheSecretsAre(t *testing.T) {
	disks := newDisks(must(memory.New(nil)), 1)
	k := objects.Of(disks)
	o := must(disks.Create(t.Context(), &disk{Meta: store.Meta{Name: "a"}, Spec: spec{1, "hunter2"}}))
	next := disks.Clone(o)
	next.Spec.Password = ""
	_ = must(disks.Update(t.Context(), next))
	if _, err := k.Put(t.Context(), o.Key(), o.Revision, []byte(`{"spec":{"Size":2,"Password":"(secret)"}}`)); !errors.Is(err, store.ErrConflict) {
		t.Errorf("Put: %v, want a conflict", err)
	}
}

// busy is a backend in which something writes before each of the next commits.
type busy struct {
	store.Backend
	writes []func()
}

func (b *busy) Commit(ctx context.Context, t store.Txn) (store.Revision, error) {
	if len(b.writes) > 0 {
		write := b.writes[0]
		b.writes = b.writes[1:]
		write()
	}
	return b.Backend.Commit(ctx, t)
}

// A Delete at whatever revision is not refused because a controller writes a status
// meanwhile. One at a revision is, and so is one whose object was made again.
func TestDeleteAtAnyRevisionSucceedsBesideOtherWriters(t *testing.T) {
	key := store.Key{Name: "a"}
	for _, c := range []struct {
		name  string
		at    store.Revision
		again bool // the object is deleted and made again meanwhile
		want  error
	}{
		{"any revision", 0, false, nil},
		{"a revision", 1, false, store.ErrConflict},
		{"another object", 0, true, store.ErrConflict},
	} {
		b := &busy{Backend: must(memory.New(nil))}
		direct, k := newDisks(b.Backend, 1), objects.Of(newDisks(b, 1))
		must(direct.Create(t.Context(), &disk{Meta: store.Meta{Name: "a"}}))
		touch := func() {
			o := must(direct.Get(t.Context(), key))
			o.Status.Made = !o.Status.Made
			must(direct.UpdateStatus(t.Context(), o))
		}
		b.writes = []func(){touch, touch, touch}
		if c.again {
			b.writes[1] = func() {
				must(0, direct.Delete(t.Context(), must(direct.Get(t.Context(), key))))
				must(direct.Create(t.Context(), &disk{Meta: store.Meta{Name: "a"}}))
			}
		}
		if err := k.Delete(t.Context(), key, c.at); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if _, err := direct.Get(t.Context(), key); errors.Is(err, store.ErrNotFound) != (c.want == nil) {
			t.Errorf("%s: then it is %v", c.name, err)
		}
	}
}

// sought is a secret that counts how often its forms are made.
type sought string

var searches atomic.Int64

func (s sought) String() string {
	searches.Add(1)
	return string(s)
}

// To take the secrets out of two conditions cost four searches for each object of a listing,
// and a thousand certificates more time than a scrape has.
func TestListingOfStatesLooksForNoSecret(t *testing.T) {
	type login struct {
		Password sought `tend:"secret"`
	}
	b := must(memory.New(nil))
	logins := must(store.New[login, status](b, "login", nil))
	for i := range 3 {
		o := &store.Object[login, status]{Meta: store.Meta{Name: fmt.Sprint("l", i)}, Spec: login{"hunter22"}}
		o.SetCondition(store.Condition{Type: store.ConditionReady, Status: store.False, Reason: "Refused", Message: "the server refused hunter22"})
		o.SetCondition(store.Condition{Type: store.ConditionSynced, Status: store.False, Reason: "Refused", Message: "the server refused hunter22"})
		_ = must(logins.Create(t.Context(), o))
	}
	c := must(cache.New(logins, nil))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }() // ended by cancel, waited for below
	<-c.Synced()
	defer func() { cancel(); <-done }()
	for name, k := range map[string]objects.Kind{"of a store": objects.Of(logins), "of a cache": objects.OfCache(c)} {
		searches.Store(0)
		var all []objects.Object
		for o, err := range objects.States(t.Context(), k, store.Selector{}) {
			if err != nil || len(o.Conditions) != 2 || o.Conditions[1].Status != store.False || o.Conditions[1].Type == "" || o.Conditions[1].Message != "" {
				t.Errorf("%s: states are %+v, error %v", name, o, err)
			}
			all = append(all, o)
		}
		if n := searches.Load(); n != 0 || len(all) != 3 {
			t.Errorf("%s: %d searches for states of %d objects, want none", name, n, len(all))
		}
		if m := all[0].WithTexts().Conditions[0].Message; m != "the server refused (secret)" {
			t.Errorf("%s: with texts it says %q", name, m)
		}
		searches.Store(0)
		for o, err := range k.All(t.Context(), store.Selector{}) {
			if err != nil || o.Conditions[1].Message != "the server refused (secret)" {
				t.Errorf("%s: %+v, error %v", name, o.Conditions, err)
			}
		}
		if n := searches.Load(); n != 3 {
			t.Errorf("%s: %d searches for 3 objects with their texts, want one each", name, n)
		}
		searches.Store(0)
		page, more, err := objects.List(t.Context(), k, objects.Query{Limit: 1})
		if err != nil || !more || len(page) != 1 || page[0].Conditions[0].Message != "the server refused (secret)" {
			t.Errorf("%s: the page is %+v, error %v", name, page, err)
		}
		if n := searches.Load(); n != 1 {
			t.Errorf("%s: %d searches for a page of one object, want 1", name, n)
		}
	}
	type inner = objects.Kind // a field Kind would hide the method
	other := struct{ inner }{objects.Of(logins)}
	for o, err := range objects.States(t.Context(), other, store.Selector{}) {
		if err != nil || o.Conditions[0].Message != "the server refused (secret)" {
			t.Errorf("of a kind that wraps another: %+v, error %v", o, err)
		}
	}
}

// A misspelt name is no success: the operator goes to bed, and the deletion waits on.
func TestFinalizerThatIsNotThereIsNotFound(t *testing.T) {
	b := must(memory.New(nil))
	disks := newDisks(b, 1)
	o := must(disks.Create(t.Context(), &disk{Meta: store.Meta{Name: "a", Finalizers: []string{"cloud.example/f"}}}))
	for name, k := range map[string]objects.Kind{"typed": objects.Of(disks), "bare": must(objects.Bare(b, "disk", false))} {
		if _, err := k.RemoveFinalizer(t.Context(), o.Key(), "cloud.example/g"); !errors.Is(err, store.ErrNotFound) || !strings.Contains(err.Error(), "cloud.example/f") {
			t.Errorf("%s: %v, want %v with the name that there is", name, err, store.ErrNotFound)
		}
	}
	if now := must(disks.Get(t.Context(), o.Key())); now.Revision != o.Revision {
		t.Errorf("it was written: %+v", now.Meta)
	}
}

// The objects of a cache of shards are not all there are, and its Kind says so.
func TestKindOfACacheOfShardsIsPartial(t *testing.T) {
	disks := newDisks(must(memory.New(nil)), 1)
	whole, part := must(cache.New(disks, nil)), must(cache.New(disks, &cache.Options[spec, status]{Shards: 2}))
	for name, c := range map[string]struct {
		kind objects.Kind
		want bool
	}{
		"a store": {objects.Of(disks), false}, "a cache": {objects.OfCache(whole), false},
		"a cache of shards": {objects.OfCache(part), true}, "nil": {nil, false},
	} {
		if got := objects.Partial(c.kind); got != c.want {
			t.Errorf("the objects of %s are partial: %t", name, got)
		}
	}
}

// What a caller gives and only the store writes is refused by its name: dropped in silence it
// would look as if it had been written. What is as it is stored may be there, as in what a list gave.
func TestWhatOnlyTheStoreWritesIsRefusedByItsName(t *testing.T) {
	disks := newDisks(must(memory.New(nil)), 1)
	k := objects.Of(disks)
	o := must(disks.Create(t.Context(), &disk{Meta: store.Meta{Name: "a"}, Spec: spec{1, "hunter2"}}))
	key := o.Key()
	for name, edit := range map[string]func(m *store.Meta){
		"uid":        func(m *store.Meta) { m.UID = "other" },
		"generation": func(m *store.Meta) { m.Generation = 7 },
		"created":    func(m *store.Meta) { m.Created = m.Created.Add(time.Hour) },
		"deleted":    func(m *store.Meta) { m.Deleted = time.Now() },
		"intent":     func(m *store.Meta) { m.Intent.ExternalName = "r-7" },
	} {
		meta := o.Meta
		edit(&meta)
		for _, at := range []store.Revision{o.Revision, 0} {
			if at == 0 {
				meta = store.Meta{}
				edit(&meta)
			}
			data := must(json.Marshal(map[string]any{"meta": meta, "spec": spec{2, "hunter3"}}))
			to := key
			if at == 0 {
				to.Name = "b"
			}
			if _, err := k.Put(t.Context(), to, at, data); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "meta."+name) {
				t.Errorf("%s at %d: %v", name, at, err)
			}
		}
	}
	if now := must(disks.Get(t.Context(), key)); now.Revision != o.Revision {
		t.Errorf("it was written: %+v", now)
	}
	if _, err := disks.Get(t.Context(), store.Key{Name: "b"}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("b: %v", err)
	}
	if _, err := k.Put(t.Context(), key, o.Revision, must(json.Marshal(map[string]any{"meta": o.Meta, "spec": spec{2, "hunter3"}}))); err != nil {
		t.Errorf("as it is stored: %v", err)
	}
}
