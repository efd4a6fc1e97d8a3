package store_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

func key(id string) store.EncryptionKey {
	return store.EncryptionKey{ID: id, Secret: bytes.Repeat([]byte(id[:1]), 32)}
}

func encryption(t testing.TB, o *store.EncryptionOptions, keys ...store.EncryptionKey) *store.Encryption {
	t.Helper()
	e, err := store.NewEncryption(keys, o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func under(t testing.TB, b store.Backend, e *store.Encryption) *buckets {
	return newBuckets(t, b, &store.Options[bucketSpec, bucketStatus]{Encryption: e})
}

// Nothing of an object is in the bytes of a backend, and it behaves as any other: unknown
// fields, statuses, finalizers and watches included.
//
// Negative control: mutant "objects are stored in the clear".
func TestEncryptedObjectsAreNotInTheStoreAndReadBack(t *testing.T) {
	b := newMemory(t, &memory.Options{Encode: true})
	s := under(t, b, encryption(t, nil, key("one")))
	o := named("a")
	o.Spec.Region, o.Labels = "needle-region", map[string]string{"needle": "label"}
	o = must[*bucket](t)(s.Create(t.Context(), o))
	raw := func() []byte {
		r, err := b.Get(t.Context(), "Bucket", o.Key())
		if err != nil {
			t.Fatal(err)
		}
		return r.Bytes
	}
	before := raw()
	if bytes.Contains(before, []byte("needle")) || bytes.Contains(before, []byte("prod")) {
		t.Errorf("in the store: %q", before)
	}
	o.Status.ARN = "arn:1"
	o = must[*bucket](t)(s.UpdateStatus(t.Context(), o))
	if got := stored(t, s, o); got.Spec.Region != "needle-region" || got.Status.ARN != "arn:1" || got.Labels["needle"] != "label" {
		t.Errorf("read back %+v", got)
	}
	if again := must[*bucket](t)(s.UpdateStatus(t.Context(), o)); again.Revision != o.Revision {
		t.Error("the same status was written again")
	}
	if bytes.Equal(raw(), before) {
		t.Error("the write changed nothing")
	}

	_, err := newBuckets(t, b, nil).Get(t.Context(), o.Key())
	wantErr(t, "without a key", err, store.ErrDecode)
	_, err = under(t, b, encryption(t, nil, key("two"))).Get(t.Context(), o.Key())
	if wantErr(t, "with another key", err, store.ErrDecode); !strings.Contains(err.Error(), `"one"`) {
		t.Errorf("%v does not name the key", err)
	}
	same := key("two")
	same.ID = "one"
	_, err = under(t, b, encryption(t, nil, same)).Get(t.Context(), o.Key())
	wantErr(t, "with another secret", err, store.ErrDecode)
	if err := s.Delete(t.Context(), o); err != nil {
		t.Error(err)
	}
	_, err = s.Declaration(named("a"))
	wantErr(t, "a declaration", err, store.ErrInvalid)
}

// Negative control: mutant "encrypted bytes are bound to no record".
func TestEncryptedBytesOfAnotherRecordAreNotRead(t *testing.T) {
	b := newMemory(t, &memory.Options{Encode: true})
	s := under(t, b, encryption(t, nil, key("one")))
	a := must[*bucket](t)(s.Create(t.Context(), named("a")))
	r, err := b.Get(t.Context(), "Bucket", a.Key())
	if err != nil {
		t.Fatal(err)
	}
	for what, k := range map[string]store.Key{"name": {Namespace: "prod", Name: "b"}, "namespace": {Namespace: "test", Name: "a"}} {
		putRaw(t, b, k, string(r.Bytes))
		_, err := s.Get(t.Context(), k)
		wantErr(t, "moved to another "+what, err, store.ErrDecode)
	}
	for i := range r.Bytes {
		damaged := bytes.Clone(r.Bytes)
		damaged[i] ^= 1
		putRaw(t, b, a.Key(), string(damaged))
		_, err := s.Get(t.Context(), a.Key())
		wantErr(t, "damaged", err, store.ErrDecode)
	}
	for n := range len(r.Bytes) {
		putRaw(t, b, a.Key(), string(r.Bytes[:n]))
		_, err := s.Get(t.Context(), a.Key())
		wantErr(t, "cut", err, store.ErrDecode)
	}
}

// From plain to one key to the next, with stores of each stage reading at the same time.
//
// Negative control: mutant "a rewrite skips what is to be rewritten".
func TestKeysAreRotatedWhileServersRun(t *testing.T) {
	b := newMemory(t, &memory.Options{Encode: true})
	plain := newBuckets(t, b, nil)
	for _, name := range []string{"a", "b", "c"} {
		must[*bucket](t)(plain.Create(t.Context(), named(name)))
	}
	one, two := key("one"), key("two")
	strict := under(t, b, encryption(t, nil, one))
	_, err := strict.Get(t.Context(), named("a").Key())
	wantErr(t, "plain bytes", err, store.ErrDecode)

	accepting := under(t, b, encryption(t, &store.EncryptionOptions{AcceptPlain: true}, one))
	if n, err := store.Rewrite(t.Context(), accepting); n != 3 || err != nil {
		t.Fatalf("Rewrite encrypts %d, %v", n, err)
	}
	before := stored(t, strict, named("a"))

	ready := under(t, b, encryption(t, nil, one, two))
	next := under(t, b, encryption(t, nil, two, one))
	must[*bucket](t)(next.Create(t.Context(), named("d")))
	for name, s := range map[string]*buckets{"ready": ready, "next": next} {
		if all := must[[]*bucket](t)(s.List(t.Context(), store.Selector{})); len(all) != 4 {
			t.Errorf("%s reads %d", name, len(all))
		}
	}
	if n, err := store.Rewrite(t.Context(), next); n != 3 || err != nil {
		t.Errorf("Rewrite changes the key of %d, %v; want 3", n, err)
	}
	last := under(t, b, encryption(t, nil, two))
	if all := must[[]*bucket](t)(last.List(t.Context(), store.Selector{})); len(all) != 4 {
		t.Errorf("without the old key %d are read", len(all))
	}
	if o := stored(t, last, named("a")); o.UID != before.UID || o.Generation != before.Generation || !last.SameSpec(o, before) {
		t.Errorf("rewritten to %+v", o)
	}
}

func TestEncryptionKeysThatCannotBeAreRefused(t *testing.T) {
	short := key("one")
	short.Secret = short.Secret[:31]
	for name, keys := range map[string][]store.EncryptionKey{
		"none": nil, "short": {short}, "twice": {key("one"), key("one")}, "no ID": {{Secret: key("one").Secret}},
		"long ID": {{ID: strings.Repeat("x", 65), Secret: key("one").Secret}},
	} {
		_, err := store.NewEncryption(keys, nil)
		if wantErr(t, name, err, store.ErrInvalid); strings.Contains(err.Error(), "oooo") {
			t.Errorf("%v shows a secret", err)
		}
	}
}

// An encrypted object has the bound of any other, and one at the bound can be deleted.
func TestEncryptedObjectAtTheBoundOfItsSizeCanBeDeleted(t *testing.T) {
	b := newMemory(t, &memory.Options{Encode: true})
	s := under(t, b, encryption(t, nil, store.EncryptionKey{ID: strings.Repeat("i", 64), Secret: key("one").Secret}))
	for size := store.MaxObject; ; size-- {
		o := named("a")
		o.Finalizers, o.Spec.Region = []string{"x"}, strings.Repeat("r", size)
		made, err := s.Create(t.Context(), o)
		if err != nil {
			wantErr(t, "too large", err, store.ErrInvalid)
			continue
		}
		if err := s.Delete(t.Context(), made); err != nil {
			t.Error(err)
		}
		break
	}
}

// An object that leaves no room for what the store adds to it later is refused.
//
// Negative control: the mutant "no room is left for what is added to an object".
func TestObjectWithoutRoomForWhatIsAddedIsRefused(t *testing.T) {
	s := under(t, newMemory(t, &memory.Options{Encode: true}), nil)
	o := named("a")
	o.Spec.Region = strings.Repeat("r", store.MaxObject)
	_, err := s.Create(t.Context(), o)
	wantErr(t, "too large", err, store.ErrInvalid)
}

// The error of bytes that cannot be decrypted says why, and names the key that is missing.
func TestErrorOfWhatCannotBeDecryptedSaysWhy(t *testing.T) {
	b := newMemory(t, &memory.Options{Encode: true})
	one, two, changed := key("one"), key("two"), key("two")
	changed.ID = "one"
	at := named("a").Key()
	must[*bucket](t)(under(t, b, encryption(t, nil, one)).Create(t.Context(), named("a")))
	sealed := must[store.Record](t)(b.Get(t.Context(), "Bucket", at)).Bytes
	for want, c := range map[string]struct {
		data string
		e    *store.Encryption
	}{
		"encrypted, and the store has no Encryption":                   {string(sealed), nil},
		"not encrypted, and EncryptionOptions.AcceptPlain is not set":  {"{}", encryption(t, nil, one)},
		`encrypted with the key "one", which the store does not have`:  {string(sealed), encryption(t, nil, two)},
		`encrypted with the key "one": cipher: message authentication`: {string(sealed), encryption(t, nil, two, changed)},
		`encrypted with the key "on", which the store does not have`:   {"\x00tend\x01\x05on", encryption(t, nil, one)},
		`encrypted with the key "", which the store does not have`:     {"\x00tend\x01", encryption(t, nil, one)},
		`encrypted with the key "o", which the store does not have`:    {"\x00tend\x01\x01one", encryption(t, nil, one)},
	} {
		_, err := under(t, b, c.e).Decode(store.Record{Kind: "Bucket", Key: at, Revision: 1, Bytes: []byte(c.data)})
		if wantErr(t, want, err, store.ErrDecode); err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %s", err, want)
		}
	}
}

// An object at the bound of its size takes what is added to any object: the record of a
// create, its deletion, and what its status says in deletion. It takes nothing else.
//
// Negative control: mutant "the record of a create has no room".
func TestObjectAtTheBoundOfItsSizeTakesWhatIsAddedToAny(t *testing.T) {
	b := newMemory(t, &memory.Options{Encode: true})
	s := under(t, b, nil)
	small := must[*bucket](t)(s.Create(t.Context(), named("b")))
	room := store.MaxObject - len(must[store.Record](t)(b.Get(t.Context(), "Bucket", small.Key())).Bytes) - 50
	o := named("a")
	o.Finalizers, o.Spec.Region = []string{"x"}, strings.Repeat("r", room)
	o = must[*bucket](t)(s.Create(t.Context(), o))
	more := func(write func(context.Context, *bucket) (*bucket, error), want error, edit func(o *bucket)) {
		t.Helper()
		next := s.Clone(o)
		edit(next)
		next, err := write(t.Context(), next)
		if wantErr(t, "more", err, want); err == nil {
			o = next
		}
	}
	text := strings.Repeat("x", 200)
	more(s.UpdateStatus, store.ErrInvalid, func(o *bucket) { o.Status.ARN = text })
	more(s.Update, store.ErrInvalid, func(o *bucket) { o.Labels = map[string]string{"a": text} })
	more(s.UpdateIntent, nil, func(o *bucket) { o.Intent = store.Intent{Pending: time.Now(), ExternalName: text} })
	more(s.UpdateStatus, store.ErrInvalid, func(o *bucket) { o.Status.ARN = text })
	if err := s.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	o = stored(t, s, o)
	more(s.UpdateStatus, nil, func(o *bucket) { o.Status.ARN = text })
	more(s.UpdateStatus, store.ErrInvalid, func(o *bucket) { o.Status.ARN = strings.Repeat("x", 5000) })
}
