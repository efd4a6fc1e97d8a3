package main

import (
	"context"
	"fmt"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
)

func main() {
	backend, err := memory.New(nil)
	if err != nil {
		panic(err)
	}
	names, err := store.New[string, string](backend, "name", nil)
	if err != nil {
		panic(err)
	}
	_, err = names.Create(context.Background(), &store.Object[string, string]{Meta: store.Meta{Name: "a"}, Spec: "b"})
	fmt.Println("created:", err == nil)
}
