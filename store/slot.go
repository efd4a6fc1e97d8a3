package store

// Slots is the number of hash slots. It never changes: backends that list or watch
// by slot keep the slot of each record.
const Slots = 1024

// Slot is the hash slot of a key, from 0 to Slots-1. It is the same in every
// process and version.
func Slot(k Key) int {
	h := uint64(14695981039346656037) // FNV-1a, 64 bits
	for _, s := range [3]string{k.Namespace, "/", k.Name} {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * 1099511628211
		}
	}
	// FNV alone leaves neighbouring slots correlated; this is splitmix64's finalizer.
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return int((h ^ h>>31) % Slots)
}
