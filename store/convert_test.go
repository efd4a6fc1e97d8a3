package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

// Version 1 had a field "place", version 2 called it "region", version 3 writes rules
// instead of a list of prefixes.
var conversions = []store.Conversion{
	func(o map[string]any) error {
		spec, _ := o["spec"].(map[string]any)
		spec["region"] = spec["place"]
		delete(spec, "place")
		return nil
	},
	func(o map[string]any) error {
		spec, _ := o["spec"].(map[string]any)
		prefixes, _ := spec["prefixes"].([]any)
		var rules []any
		for _, p := range prefixes {
			text, ok := p.(string)
			if !ok {
				return fmt.Errorf("a prefix is a %T", p)
			}
			rules = append(rules, map[string]any{"prefix": text, "days": json.Number("7")})
		}
		delete(spec, "prefixes")
		if rules != nil {
			spec["rules"] = rules
		}
		return nil
	},
}

const (
	version1 = `{"schema":1,"meta":{"name":"a","namespace":"prod","uid":"u1","generation":4,"labels":{"big":"1"}},"spec":{"place":"eu-1","prefixes":["x","y"],"later":12345678901234567890},"status":{"arn":"arn:a"}}`
	version2 = `{"schema":2,"meta":{"name":"b","namespace":"prod","uid":"u2","generation":1},"spec":{"region":"eu-2","prefixes":["z"]},"status":{}}`
	version3 = `{"schema":3,"meta":{"name":"c","namespace":"prod","uid":"u3","generation":1},"spec":{"region":"eu-3"},"status":{}}`
)

func inThreeVersions(t *testing.T) (store.Backend, *buckets) {
	b := newMemory(t, &memory.Options{Encode: true})
	for name, data := range map[string]string{"a": version1, "b": version2, "c": version3} {
		putRaw(t, b, store.Key{Namespace: "prod", Name: name}, data)
	}
	return b, newBuckets(t, b, &store.Options[bucketSpec, bucketStatus]{Version: 3, Convert: conversions})
}

// Negative control: mutant "a conversion is left out".
func TestObjectsOfEarlierVersionsAreReadInTheFormOfThisOne(t *testing.T) {
	b, s := inThreeVersions(t)
	all := must[[]*bucket](t)(s.List(t.Context(), store.Selector{}))
	got := map[string]string{}
	for _, o := range all {
		got[o.Name] = fmt.Sprint(o.Spec.Region, o.Spec.Rules, o.Status.ARN, o.Generation)
	}
	for name, want := range map[string]string{"a": "eu-1[{x 7 []} {y 7 []}]arn:a4", "b": "eu-2[{z 7 []}]1", "c": "eu-3[]1"} {
		if got[name] != want {
			t.Errorf("%s is %s, want %s", name, got[name], want)
		}
	}
	// A status write stores the whole object in the new form, with the generation and the
	// fields that this program does not know.
	a := stored(t, s, named("a"))
	a.Status.ARN = "arn:b"
	a = must[*bucket](t)(s.UpdateStatus(t.Context(), a))
	if a.Generation != 4 || a.Spec.Region != "eu-1" {
		t.Errorf("after a status write it is %+v", a)
	}
	raw := rawJSON(t, b, a.Key())
	if spec := raw["spec"].(map[string]any); raw["schema"] != float64(3) || spec["place"] != nil || spec["region"] != "eu-1" || spec["later"] == nil {
		t.Errorf("stored as %v", raw)
	}
	r, err := b.Get(t.Context(), "Bucket", a.Key())
	if data, _ := r.Encode(); err != nil || !strings.Contains(string(data), `"later":12345678901234567890`) {
		t.Errorf("stored as %s: digits of a number are lost", data)
	}
	older := newBuckets(t, b, &store.Options[bucketSpec, bucketStatus]{Version: 2, Convert: conversions[:1]})
	_, err = older.UpdateStatus(t.Context(), must[*bucket](t)(older.Get(t.Context(), a.Key())))
	if err != nil { // nothing changed, so nothing is refused
		t.Error(err)
	}
	back := must[*bucket](t)(older.Get(t.Context(), a.Key()))
	back.Status.ARN = "older"
	_, err = older.UpdateStatus(t.Context(), back)
	wantErr(t, "a write by the earlier version", err, store.ErrNewer)
}

// Negative control: mutant "a rewrite skips what is to be rewritten".
func TestRewriteStoresAllInTheNewFormAndCanGoOn(t *testing.T) {
	b, s := inThreeVersions(t)
	broken := store.Key{Namespace: "prod", Name: "broken"}
	putRaw(t, b, broken, `{"schema":2,"meta":{"name":"broken"},"spec":{"prefixes":[1]}}`)
	putRaw(t, b, store.Key{Namespace: "prod", Name: "newer"}, `{"schema":4,"meta":{"name":"newer"},"spec":{}}`)

	ctx, cancel := context.WithCancel(t.Context())
	cancelling := &cancelAfter{Backend: b, n: 1, cancel: cancel}
	part, err := store.Rewrite(ctx, newBuckets(t, cancelling, &store.Options[bucketSpec, bucketStatus]{Version: 3, Convert: conversions}))
	if part != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("ended after one it says %d, %v", part, err)
	}
	n, err := store.Rewrite(t.Context(), s)
	var undecodable *store.DecodeError
	wantErr(t, "Rewrite beside a newer version", err, store.ErrNewer)
	if n != 1 || !errors.As(err, &undecodable) || undecodable.Key != broken || !strings.Contains(err.Error(), "from version 2: a prefix is a") {
		t.Errorf("the rest: %d, %v; want one, and the one that is broken", n, err)
	}
	for _, name := range []string{"a", "b"} {
		if raw := rawJSON(t, b, store.Key{Namespace: "prod", Name: name}); raw["schema"] != float64(3) {
			t.Errorf("%s is stored as %v", name, raw)
		}
	}
	rev := must[*bucket](t)(s.Get(t.Context(), named("a").Key())).Revision
	if n, _ := store.Rewrite(t.Context(), s); n != 0 {
		t.Errorf("a third time %d are written", n)
	}
	if o := stored(t, s, named("a")); o.Revision != rev || o.Generation != 4 || o.UID != "u1" {
		t.Errorf("it is %+v", o.Meta)
	}
}

// cancelAfter cancels after n commits.
type cancelAfter struct {
	store.Backend
	n      int
	cancel func()
}

func (b *cancelAfter) Commit(ctx context.Context, t store.Txn) (store.Revision, error) {
	if b.n == 0 {
		b.cancel()
		return 0, context.Cause(ctx)
	}
	b.n--
	return b.Backend.Commit(ctx, t)
}

func TestConversionsThatCannotWorkAreRefused(t *testing.T) {
	b := newMemory(t, nil)
	for name, o := range map[string]*store.Options[bucketSpec, bucketStatus]{
		"too few":    {Version: 3, Convert: conversions[:1]},
		"too many":   {Version: 2, Convert: conversions},
		"a nil":      {Version: 2, Convert: []store.Conversion{nil}},
		"no version": {Convert: conversions},
	} {
		_, err := store.New(b, "Bucket", o)
		wantErr(t, name, err, store.ErrInvalid)
	}
}

// promise R3
func TestConversionThatPanicsMakesOneObjectUndecodable(t *testing.T) {
	b := newMemory(t, &memory.Options{Encode: true})
	putRaw(t, b, named("a").Key(), version1)
	s := newBuckets(t, b, &store.Options[bucketSpec, bucketStatus]{Version: 2, Convert: []store.Conversion{func(map[string]any) error { panic("secret value") }}})
	_, err := s.Get(t.Context(), named("a").Key())
	if wantErr(t, "Get", err, store.ErrDecode); err != nil && strings.Contains(err.Error(), "secret value") {
		t.Errorf("%v shows what was panicked with", err)
	}
}

func TestDeclarationOfAConvertedKindWaitsForTheRewrite(t *testing.T) {
	b, s := inThreeVersions(t)
	o := named("a")
	o.Spec.Region = "eu-9"
	d, err := s.Declaration(o)
	if err != nil {
		t.Fatal(err)
	}
	if data, err := d.Stored(); err != nil || strings.Contains(string(data), "converts") {
		t.Errorf("a new object is stored as %s, %v", data, err)
	}
	_, err = d.Over([]byte(version1))
	wantErr(t, "over an object of version 1", err, store.ErrInvalid)
	if _, err := store.Rewrite(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	r, err := b.Get(t.Context(), "Bucket", o.Key())
	if err != nil {
		t.Fatal(err)
	}
	data, err := d.Over(r.Bytes)
	if err != nil || !strings.Contains(string(data), "eu-9") || strings.Contains(string(data), "converts") {
		t.Errorf("after the rewrite: %s, %v", data, err)
	}
}

func TestDefaultsAreFilledInBeforeValidateAndChangeNothingAgain(t *testing.T) {
	for name, o := range map[string]*memory.Options{"values": nil, "bytes": {Encode: true}} {
		t.Run(name, func(t *testing.T) {
			s := newBuckets(t, newMemory(t, o), &store.Options[bucketSpec, bucketStatus]{
				Default: func(o *bucket) {
					if o.Spec.Region == "" {
						o.Spec.Region = "eu-1"
					}
					o.Name, o.Status.ARN, o.Generation = "other", "other", 99 // has no effect
				},
				Validate: func(o *bucket) error {
					if o.Spec.Region == "" {
						return errors.New("no region")
					}
					return nil
				},
			})
			given := &bucket{Meta: store.Meta{Name: "a"}}
			made := must[*bucket](t)(s.Create(t.Context(), given))
			if made.Spec.Region != "eu-1" || made.Name != "a" || made.Status.ARN != "" || made.Generation != 1 || given.Spec.Region != "" {
				t.Errorf("created %+v of %+v", made, given)
			}
			made.Spec.Region = ""
			same := must[*bucket](t)(s.Update(t.Context(), made))
			if same.Revision != made.Revision || same.Generation != 1 {
				t.Errorf("a spec that only leaves out the default was written: %+v", same.Meta)
			}
			next := must[*bucket](t)(s.Mutate(t.Context(), made.Key(), func(o *bucket) error { o.Spec = bucketSpec{Tags: map[string]string{"a": "b"}}; return nil }))
			if next.Generation != 2 || next.Spec.Region != "eu-1" {
				t.Errorf("changed to %+v", next)
			}
		})
	}
}

// wrong is a backend of which one call fails: the failing-th, counted over all. before is called before each call.
type wrong struct {
	store.Backend
	failing, calls int
	why            error
	before         func(method string)
}

func (w *wrong) call(method string) error {
	if w.calls++; w.calls == w.failing {
		return w.why
	}
	if w.before != nil {
		w.before(method)
	}
	return nil
}

func (w *wrong) Get(ctx context.Context, kind string, key store.Key) (store.Record, error) {
	if err := w.call("Get"); err != nil {
		return store.Record{}, err
	}
	return w.Backend.Get(ctx, kind, key)
}

func (w *wrong) List(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
	if err := w.call("List"); err != nil {
		return store.Page{}, err
	}
	o.Limit = 2
	return w.Backend.List(ctx, kind, o)
}

func (w *wrong) Commit(ctx context.Context, txn store.Txn) (store.Revision, error) {
	if err := w.call("Commit"); err != nil {
		return 0, err
	}
	return w.Backend.Commit(ctx, txn)
}

// fiveOld is a store with five objects of an earlier version and one of this one.
func fiveOld(t *testing.T) store.FullBackend {
	b := newMemory(t, &memory.Options{Encode: true})
	for i := range 5 {
		putRaw(t, b, store.Key{Namespace: "prod", Name: fmt.Sprint("old", i)}, fmt.Sprintf(`{"schema":1,"meta":{"uid":"u%d","generation":1},"spec":{"place":"eu-1"}}`, i))
	}
	putRaw(t, b, store.Key{Namespace: "prod", Name: "new"}, `{"schema":3,"meta":{"uid":"n","generation":1},"spec":{"region":"eu-3"}}`)
	return b
}

func inThisVersion(t *testing.T, b store.Backend) *buckets {
	return newBuckets(t, b, &store.Options[bucketSpec, bucketStatus]{Version: 3, Convert: conversions})
}

// countNew is how many objects are stored in the form of this version.
func countNew(t *testing.T, b store.Backend) (n int) {
	for _, r := range must[store.Page](t)(b.List(t.Context(), "Bucket", store.ListOptions{})).Records {
		if strings.Contains(string(must[[]byte](t)(r.Encode())), `"schema":3`) {
			n++
		}
	}
	return n
}

// Whatever call of the store fails, a Rewrite and a Copy end there with its error, say how much
// they did, and are finished by another one. A list that took too long is begun again.
//
// Negative controls: mutants "a rewrite goes on past an error of the store" and "a rewrite gives
// up a list that took too long".
func TestRewriteAndCopyOfAStoreThatFailsOnce(t *testing.T) {
	for n := 1; ; n++ {
		b := fiveOld(t)
		w := &wrong{Backend: b, failing: n, why: errBroken}
		did, err := store.Rewrite(t.Context(), inThisVersion(t, w))
		if w.calls < n {
			break // there is no such call
		}
		wantErr(t, fmt.Sprint("Rewrite whose call ", n, " fails"), err, errBroken)
		if w.calls != n || did != countNew(t, b)-1 {
			t.Errorf("Rewrite whose call %d fails made %d calls, and says %d of %d", n, w.calls, did, countNew(t, b)-1)
		}
		if rest, err := store.Rewrite(t.Context(), inThisVersion(t, b)); err != nil || rest != 5-did || countNew(t, b) != 6 {
			t.Errorf("the rest after call %d: %d, error %v; want %d", n, rest, err, 5-did)
		}
	}
	for n := 1; ; n++ {
		src, dst := fiveOld(t), newMemory(t, &memory.Options{Encode: true})
		putRaw(t, src, store.Key{Namespace: "prod", Name: "zz"}, `{"schema":3,"meta":{"uid":"z","generation":1},"spec":{}}`)
		from, to := &wrong{Backend: src, failing: n, why: errBroken}, &wrong{Backend: dst}
		did, err := store.Copy(t.Context(), inThisVersion(t, to), inThisVersion(t, from))
		if from.calls < n {
			break
		}
		wantErr(t, fmt.Sprint("Copy whose call ", n, " fails"), err, errBroken)
		if from.calls != n || did != countNew(t, dst) {
			t.Errorf("Copy whose call %d fails made %d calls, and says %d of %d", n, from.calls, did, countNew(t, dst))
		}
		if rest, err := store.Copy(t.Context(), inThisVersion(t, dst), inThisVersion(t, src)); err != nil || rest != 7-did {
			t.Errorf("the rest after call %d: %d, error %v; want %d", n, rest, err, 7-did)
		}
	}
	for data, want := range map[string]error{`{"schema":4,"meta":{"uid":"x","generation":1},"spec":{}}`: store.ErrNewer, `{`: store.ErrDecode} {
		src, dst := fiveOld(t), newMemory(t, &memory.Options{Encode: true})
		putRaw(t, src, store.Key{Namespace: "prod", Name: "x"}, data)
		did, err := store.Copy(t.Context(), inThisVersion(t, dst), inThisVersion(t, src))
		wantErr(t, "Copy of what it cannot read", err, want)
		if n := countNew(t, dst); did != n {
			t.Errorf("Copy that ends at %s says %d, and %d are there", data, did, n)
		}
	}
	b := fiveOld(t)
	late := &wrong{Backend: b, why: store.ErrCompacted}
	late.before = func(method string) {
		if method == "Commit" && late.failing == 0 {
			late.failing = -1
		}
		if method == "List" && late.failing == -1 {
			late.failing = late.calls + 1 // the Get or List after it
		}
	}
	if did, err := store.Rewrite(t.Context(), inThisVersion(t, late)); err != nil || did != 5 {
		t.Errorf("Rewrite whose list took too long: %d, error %v, want 5", did, err)
	}
	stale := &wrong{Backend: fiveOld(t), failing: 1, why: store.ErrCompacted}
	if did, err := store.Rewrite(t.Context(), inThisVersion(t, stale)); !errors.Is(err, store.ErrCompacted) || did != 0 {
		t.Errorf("Rewrite of which nothing was done before the list broke off: %d, error %v, want ErrCompacted", did, err)
	}
}

// What another has rewritten or deleted since the list is left alone, and not counted.
//
// Negative control: mutant "an object that another has rewritten is written again".
func TestRewriteLeavesWhatAnotherHasRewritten(t *testing.T) {
	b := fiveOld(t)
	w := &wrong{Backend: b}
	w.before = func(method string) {
		if method == "Get" && w.before != nil {
			w.before = nil
			deleted := must[store.Record](t)(b.Get(t.Context(), "Bucket", store.Key{Namespace: "prod", Name: "old4"}))
			must[store.Revision](t)(b.Commit(t.Context(), store.Txn{Ops: []store.Op{{Kind: "Bucket", Key: deleted.Key}}}))
			if did, err := store.Rewrite(t.Context(), inThisVersion(t, b)); err != nil || did != 4 {
				t.Errorf("the other wrote %d, error %v, want 4", did, err)
			}
		}
	}
	revision := func() store.Revision {
		return must[store.Page](t)(b.List(t.Context(), "Bucket", store.ListOptions{})).Revision
	}
	before := revision()
	if did, err := store.Rewrite(t.Context(), inThisVersion(t, w)); err != nil || did != 0 || revision() != before+5 {
		t.Errorf("after the other %d were written, error %v, at %d; want none, at %d", did, err, revision(), before+5)
	}
}

// An object that another writes each time between the read and the write is tried again, as often as that is.
func TestRewriteTriesAnObjectAgainUntilNoOtherWritesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := fiveOld(t)
		w, conflicts := &wrong{Backend: b}, 0
		w.before = func(method string) {
			if conflicts == 4 || method != "Commit" {
				return
			}
			conflicts++
			for _, r := range must[store.Page](t)(b.List(t.Context(), "Bucket", store.ListOptions{})).Records {
				must[store.Revision](t)(b.Commit(t.Context(), store.Txn{Ops: []store.Op{{Kind: "Bucket", Key: r.Key, Put: store.Bytes(r.Bytes)}}}))
			}
		}
		if did, err := store.Rewrite(t.Context(), inThisVersion(t, w)); err != nil || did != 5 || conflicts != 4 || countNew(t, b) != 6 {
			t.Errorf("%d were rewritten, error %v, after %d conflicts, and %d are new; want 5, after 4, and 6", did, err, conflicts, countNew(t, b))
		}
	})
}

// An earlier version without conversions is an earlier form too: new fields may have defaults.
func TestRewriteStoresAVersionWithoutConversionsAgain(t *testing.T) {
	b := newMemory(t, &memory.Options{Encode: true})
	o := must[*bucket](t)(newBuckets(t, b, nil).Create(t.Context(), named("a")))
	s := newBuckets(t, b, &store.Options[bucketSpec, bucketStatus]{Version: 2})
	for want := 1; want >= 0; want-- {
		if n, err := store.Rewrite(t.Context(), s); err != nil || n != want {
			t.Errorf("%d were rewritten, error %v, want %d", n, err, want)
		}
	}
	if raw, now := rawJSON(t, b, o.Key()), stored(t, s, o); raw["schema"] != float64(2) || now.Generation != 1 || now.UID != o.UID {
		t.Errorf("it is stored as %v, at generation %d", raw, now.Generation)
	}
}

// compacting is a backend of which only the first page can be read.
type compacting struct {
	store.Backend
	lists int
}

func (b *compacting) List(ctx context.Context, kind string, o store.ListOptions) (store.Page, error) {
	switch b.lists++; {
	case b.lists > 9:
		return store.Page{}, errBroken
	case b.lists > 1:
		return store.Page{}, store.ErrCompacted
	}
	o.Limit = 2
	return b.Backend.List(ctx, kind, o)
}

// A list that took too long is begun again as long as something is done between: where nothing is, it ends.
func TestRewriteEndsWhereNoListComesFurther(t *testing.T) {
	b := &compacting{Backend: fiveOld(t)}
	if did, err := store.Rewrite(t.Context(), inThisVersion(t, b)); !errors.Is(err, store.ErrCompacted) || did == 0 || did > 2 || b.lists != 3 {
		t.Errorf("%d were rewritten, error %v, after %d lists; want those of the first page, ErrCompacted, and 3", did, err, b.lists)
	}
}

// An object whose new form cannot be stored is left and named, and the others are rewritten.
func TestRewriteLeavesWhatCannotBeStoredInTheNewForm(t *testing.T) {
	s := newBuckets(t, fiveOld(t), &store.Options[bucketSpec, bucketStatus]{Version: 2, Convert: []store.Conversion{func(o map[string]any) error {
		if meta, ok := o["meta"].(map[string]any); ok && meta["uid"] == "u2" {
			o["spec"] = map[string]any{"region": strings.Repeat("x", store.MaxValue)}
		}
		return nil
	}}})
	did, err := store.Rewrite(t.Context(), s)
	if wantErr(t, "of what is too long", err, store.ErrInvalid); did != 4 || !strings.Contains(fmt.Sprint(err), "old2") || strings.Contains(fmt.Sprint(err), "old3") {
		t.Errorf("%d were rewritten, error %.300v, want 4, and the one that is too long named", did, err)
	}
}
