package sample

import "testing"

func TestBox(t *testing.T) {
	b := Open()
	if err := b.Put(1); err != nil || b.sum != 2 {
		t.Fatal(err, b.sum)
	}
	if b.Put(3) == nil {
		t.Fatal("3 was kept")
	}
	if at, ok := b.Find(1); at != 0 || !ok {
		t.Fatal(at, ok)
	}
}

func TestKind(t *testing.T) {
	if k := Kind(-1); k != "negative" {
		t.Fatal(k)
	}
}

func TestThatSeesNothing(t *testing.T) { _ = Kind(-1) }
