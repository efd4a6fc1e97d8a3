package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/internal/odd"
	"github.com/tendhq/tend/store/memory"
)

// WriteAlike makes random writes on backends made by newBackend, which are empty, and the same ones in memory. It fails t
// where the two differ: in what a write and a Get return, in whether a write was a change, in the generation, the
// kind of an error, and what pages and logs show. It fails too where what is read is not what JSON makes of
// what was written.
//
// [Run] does this in a small size. It is exported for campaigns: it goes on for d, with other writes each
// time; zero is the small size, with the same ones.
func WriteAlike(t testing.TB, newBackend func(testing.TB) store.Backend, d time.Duration) {
	t.Helper()
	seed, n := uint64(0), 0
	if d > 0 {
		seed = uint64(rand.Uint32())
	}
	for began := time.Now(); n == 0 || time.Since(began) < d; n++ {
		b := newBackend(t)
		if err := errors.Join(writeAlike(t.Context(), b, seed+uint64(n)), b.Close()); err != nil {
			t.Fatalf("seed %d: %v", seed+uint64(n), err)
		}
	}
	t.Logf("campaign: %d operations", n*3*randomWrites)
}

// randomWrites are those of a seed to each kind.
const randomWrites = 50

// writeAlike makes the writes of a seed on an empty backend.
func writeAlike(ctx context.Context, b store.Backend, seed uint64) error {
	m, err := memory.New(nil)
	if err != nil {
		return err
	}
	defer m.Close()
	for _, write := range []func(context.Context, store.Backend, store.Backend, *rand.Rand) error{
		writeKind[odd.Plain], writeKind[odd.Encoding], writeKind[odd.Nested],
	} {
		if err := write(ctx, m, b, rand.New(rand.NewPCG(seed, 0))); err != nil {
			return err
		}
	}
	return nil
}

func writeKind[S any](ctx context.Context, m, b store.Backend, r *rand.Rand) error {
	name := reflect.TypeFor[S]().Name()
	inMemory, errM := store.New[S, S](m, name, nil)
	here, errB := store.New[S, S](b, name, nil)
	if err := errors.Join(errM, errB); err != nil {
		return err
	}
	for n := range randomWrites {
		seed := r.Uint64()
		what, want := randomWrite(ctx, inMemory, seed)
		if _, got := randomWrite(ctx, here, seed); got != want {
			return fmt.Errorf("%s: write %d, %s: %s", name, n, what, firstDifference(want, got))
		}
	}
	return nil
}

// randomWrite makes the write of a seed, and tells what it did and what came of it.
func randomWrite[S any](ctx context.Context, s *store.Store[S, S], seed uint64) (what, came string) {
	r := &odd.Random{Rand: rand.New(rand.NewPCG(seed, 0))}
	at := store.Key{Name: "a"}
	was, err := s.Get(ctx, at)
	if err != nil {
		was = &store.Object[S, S]{Meta: store.Meta{Name: at.Name, Labels: map[string]string{store.LabelOwner: "me"}}}
	}
	given := s.Clone(was)
	part := reflect.ValueOf(&given.Spec).Elem()
	write, what := s.Update, "Update"
	if r.IntN(3) == 0 {
		part = reflect.ValueOf(&given.Status).Elem()
		write, what = s.UpdateStatus, "UpdateStatus"
	}
	switch n := r.IntN(8); {
	case err != nil: // all of it: a json.Number has no zero value
		r.Fill(reflect.ValueOf(&given.Spec).Elem(), 3)
		r.Fill(reflect.ValueOf(&given.Status).Elem(), 3)
	case n == 0: // another
		r.Fill(part, 3)
	case n == 1: // the same
	case n == 2: // one that is refused, maybe
		r.Odd = 4
		r.Change(part)
	default:
		r.Change(part)
	}
	switch n := r.IntN(12); {
	case err != nil:
		write, what = s.Create, "Create"
	case n < 2:
		write, what = func(ctx context.Context, o *store.Object[S, S]) (*store.Object[S, S], error) {
			return s.Mutate(ctx, at, func(is *store.Object[S, S]) error { is.Spec, is.Status = o.Spec, o.Status; return nil })
		}, "Mutate"
	case n < 5:
		write, what = func(ctx context.Context, o *store.Object[S, S]) (*store.Object[S, S], error) {
			did, err := s.Apply(ctx, []*store.Object[S, S]{{Meta: store.Meta{Name: at.Name}, Spec: o.Spec}}, "me", 0)
			if what += fmt.Sprintf("%+v", did); err != nil {
				return nil, err
			}
			return s.Get(ctx, at)
		}, "Apply"
	case n == 5:
		write, what = func(ctx context.Context, o *store.Object[S, S]) (*store.Object[S, S], error) {
			return nil, s.Delete(ctx, o)
		}, "Delete"
	}
	before := text(reflect.ValueOf(given).Elem())
	returned, err := write(ctx, given)
	var all strings.Builder
	fmt.Fprintf(&all, "%s, error: %s\n", what, class(err))
	if after := text(reflect.ValueOf(given).Elem()); after != before {
		fmt.Fprintf(&all, "given to the write, and changed: %s\n", firstDifference(before, after))
	}
	is, err := s.Get(ctx, at)
	fmt.Fprintf(&all, "Get, error: %s\n", class(err))
	if err != nil {
		return what, all.String()
	}
	if returned != nil {
		if wrote, read := text(reflect.ValueOf(*returned)), text(reflect.ValueOf(*is)); wrote != read {
			fmt.Fprintf(&all, "returned and read: %s\n", firstDifference(wrote, read))
		}
	}
	fmt.Fprintf(&all, "changed: %v, generation %d, spec %v\n", is.Revision > was.Revision, is.Generation, !s.SameSpec(was, is))
	fmt.Fprintf(&all, "spec %s\nstatus %s\n", text(reflect.ValueOf(is.Spec)), text(reflect.ValueOf(is.Status)))
	var again store.Object[S, S]
	data, err := json.Marshal(is)
	if err == nil {
		err = json.Unmarshal(data, &again)
	}
	if read, decoded := text(reflect.ValueOf(*is)), text(reflect.ValueOf(again)); err != nil || read != decoded {
		fmt.Fprintf(&all, "read, and as JSON reads it: %v, %s\n", err, firstDifference(read, decoded))
	}
	data, err = s.Show(is)
	if err != nil {
		fmt.Fprintf(&all, "Show, error: %s\n", class(err))
	}
	var shown struct{ Spec, Status json.RawMessage }
	_ = json.Unmarshal(data, &shown)
	fmt.Fprintf(&all, "shows %s\n%s\n", shown.Spec, shown.Status)
	fmt.Fprintf(&all, "logs %s\n", s.Redact(text(reflect.ValueOf(is.Spec)), is))
	field, old, now, err := s.SpecChange(was, is)
	fmt.Fprintf(&all, "%s from %s to %s, error: %s\n", field, old, now, class(err))
	return what, all.String()
}

// class is the kind of an error.
func class(err error) string {
	for _, kind := range []error{
		store.ErrNotFound, store.ErrExists, store.ErrConflict, store.ErrInvalid, store.ErrDecode, store.ErrNewer, store.ErrOwned, store.ErrUnknownOutcome,
	} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	return fmt.Sprint(err)
}

func firstDifference(want, got string) string {
	i := 0
	for i < min(len(want), len(got)) && want[i] == got[i] {
		i++
	}
	line := strings.LastIndexByte(want[:i], '\n') + 1
	what, _, _ := strings.Cut(want[line:], " ")
	from := max(line, i-80)
	return fmt.Sprintf("%s ...\n%s\nand\n%s", what, want[from:min(len(want), i+200)], got[from:min(len(got), i+200)])
}

// text prints all of a value, also what is not exported and what pointers refer to.
func text(v reflect.Value) string {
	var b strings.Builder
	printTo(&b, v)
	return b.String()
}

func printTo(b *strings.Builder, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			b.WriteString("nil")
			return
		}
		if v.Pointer() == reflect.ValueOf(time.Local).Pointer() { // it is made when it is used first
			b.WriteString("Local")
			return
		}
		if v.Type() == reflect.TypeFor[*time.Location]() { // a zone has many, and each has caches
			v = v.Elem()
			printTo(b, v.FieldByName("name"))
			printTo(b, v.FieldByName("zone"))
			return
		}
		b.WriteByte('&')
		printTo(b, v.Elem())
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice && v.IsNil() {
			b.WriteString("nil")
			return
		}
		b.WriteByte('[')
		for i := range v.Len() {
			printTo(b, v.Index(i))
			b.WriteByte(' ')
		}
		b.WriteByte(']')
	case reflect.Map:
		if v.IsNil() {
			b.WriteString("nil")
			return
		}
		entries := make(map[string]string)
		for k, x := range v.Seq2() {
			entries[text(k)] += text(x) // two keys may print the same
		}
		b.WriteByte('{')
		for _, k := range slices.Sorted(maps.Keys(entries)) {
			b.WriteString(k + ":" + entries[k] + " ")
		}
		b.WriteByte('}')
	case reflect.Struct:
		b.WriteByte('{')
		for t, f := range v.Fields() {
			b.WriteString(t.Name + ":")
			printTo(b, f)
			b.WriteByte(' ')
		}
		b.WriteByte('}')
	case reflect.String:
		fmt.Fprintf(b, "%q", v.String())
	default:
		fmt.Fprint(b, v)
	}
}
