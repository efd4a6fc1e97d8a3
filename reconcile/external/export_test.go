package external

import "reflect"

// Remembered is how many single resources the inventory keeps something of.
func (v *Inventory[S, T, R]) Remembered() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.written) + len(v.single) + len(v.detail)
}

// A Room is a map, by its address, and how many entries it has.
type Room struct {
	At  uintptr
	Len int
}

// Rooms are maps of what the inventory keeps of resources and of runs that
// waited, as they are now.
func (v *Inventory[S, T, R]) Rooms() map[string]Room {
	v.mu.Lock()
	defer v.mu.Unlock()
	rooms := map[string]Room{}
	for name, m := range map[string]any{"written": v.written, "detail": v.detail, "back": v.back} {
		rooms[name] = Room{reflect.ValueOf(m).Pointer(), reflect.ValueOf(m).Len()}
	}
	return rooms
}

// Sightings is how many records of creates r remembers.
func (r *Reconciler[S, T]) Sightings() int {
	r.seen.mu.Lock()
	defer r.seen.mu.Unlock()
	return len(r.seen.of)
}
