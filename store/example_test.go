package store_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

type VolumeSpec struct{ SizeGiB int }

type VolumeStatus struct{ Device string }

type Volume = store.Object[VolumeSpec, VolumeStatus]

func Example() {
	ctx := context.Background()
	backend, err := memory.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer backend.Close()
	volumes, err := store.New[VolumeSpec, VolumeStatus](backend, "Volume", nil)
	if err != nil {
		log.Fatal(err)
	}

	v, err := volumes.Create(ctx, &Volume{
		Meta: store.Meta{Name: "data", Labels: map[string]string{"team": "search"}},
		Spec: VolumeSpec{SizeGiB: 10},
	})
	if err != nil {
		log.Fatal(err)
	}
	stale := *v

	v.Spec.SizeGiB = 20
	if v, err = volumes.Update(ctx, v); err != nil {
		log.Fatal(err)
	}
	fmt.Println("generation", v.Generation, "size", v.Spec.SizeGiB)

	stale.Spec.SizeGiB = 30
	_, err = volumes.Update(ctx, &stale)
	fmt.Println("stale write is a conflict:", errors.Is(err, store.ErrConflict))

	v.Status.Device = "/dev/sdb"
	v.SetReady()
	if v, err = volumes.UpdateStatus(ctx, v); err != nil {
		log.Fatal(err)
	}
	fmt.Println(v.Phase, "in generation", v.ObservedGeneration)
	// Output:
	// generation 2 size 20
	// stale write is a conflict: true
	// Ready in generation 2
}

func ExampleStore_Apply() {
	ctx := context.Background()
	backend, _ := memory.New(nil)
	defer backend.Close()
	volumes, _ := store.New[VolumeSpec, VolumeStatus](backend, "Volume", nil)

	declared := []*Volume{
		{Meta: store.Meta{Name: "a"}, Spec: VolumeSpec{SizeGiB: 1}},
		{Meta: store.Meta{Name: "b"}, Spec: VolumeSpec{SizeGiB: 1}},
	}
	done, err := volumes.Apply(ctx, declared, "volumes.yaml", 1)
	fmt.Printf("%+v %v\n", done, err)

	// The file came back empty: more would go than we allow at once.
	_, err = volumes.Apply(ctx, nil, "volumes.yaml", 1)
	var tooMany *store.CapError
	fmt.Println(errors.As(err, &tooMany), len(tooMany.Delete))
	// Output:
	// {Created:2 Updated:0 Deleted:0 Unchanged:0 Waiting:0} <nil>
	// true 2
}

// A kind moves to another backend. A copy that broke off is made again, and Copy compares
// all objects at the end.
func ExampleCopy() {
	ctx := context.Background()
	file, _ := memory.New(nil) // file.Open("state.db")
	database, _ := memory.New(nil)
	defer file.Close()
	defer database.Close() // postgres.Open(ctx, "postgres://app@db/app", nil)
	src, _ := store.New[VolumeSpec, VolumeStatus](file, "Volume", nil)
	dst, _ := store.New[VolumeSpec, VolumeStatus](database, "Volume", nil)
	_, _ = src.Create(ctx, &Volume{Meta: store.Meta{Name: "a"}, Spec: VolumeSpec{SizeGiB: 1}})

	fmt.Println(store.Copy(ctx, dst, src))
	fmt.Println(store.Copy(ctx, dst, src)) // again: nothing is left to do
	_, _ = src.Mutate(ctx, store.Key{Name: "a"}, func(v *Volume) error { v.Spec.SizeGiB = 2; return nil })
	_, err := store.Copy(ctx, dst, src)
	fmt.Println(err)
	// Output:
	// 1 <nil>
	// 0 <nil>
	// store: conflict: Volume a differs from its copy: delete the copy, and copy again
}

func ExampleParseSelector() {
	sel, err := store.ParseSelector("env in (prod, staging), team, !legacy")
	fmt.Println(sel, err)
	fmt.Println(sel.Matches(&store.Meta{Labels: map[string]string{"env": "prod", "team": "x"}}))
	fmt.Println(sel.Matches(&store.Meta{Labels: map[string]string{"env": "prod", "team": "x", "legacy": ""}}))
	// Output:
	// env in (prod,staging),team,!legacy <nil>
	// true
	// false
}
