//go:build peers

package bench

import (
	"testing"
	"time"
)

// BenchmarkMemory: what the queue holds per key, the header of the string
// included and its text not. One operation is the whole of it, so ns/op says
// nothing.
func BenchmarkMemory(b *testing.B) {
	states := []struct {
		name    string
		backoff time.Duration
		into    func(s subject[string], keys []string)
	}{
		{"queued", backoffBase, func(s subject[string], keys []string) { s.Fill(keys) }},
		{"delayed", backoffBase, func(s subject[string], keys []string) {
			for _, key := range keys {
				s.AddAfter(key, time.Hour)
			}
		}},
		{"failed", backoffMax / 2, func(s subject[string], keys []string) {
			s.Fill(keys)
			s.Take(len(keys))
			s.Fail()
		}},
		{"succeeded", backoffBase, func(s subject[string], keys []string) {
			s.Fill(keys)
			s.Take(len(keys))
			s.Fail()
			s.Take(len(keys))
			s.Succeed()
			time.Sleep(1500 * time.Millisecond) // tend gives back what was not in use for a second
		}},
	}
	for _, n := range *memoryFlag {
		keys := stringKeys(n)
		for _, st := range states {
			b.Run("keys="+short(n)+"/state="+st.name, func(b *testing.B) {
				each(b, func(b *testing.B, m maker[string]) {
					var perKey float64
					measure(b, func() {
						for range b.N {
							perKey = memory(b, m.make(b, st.backoff), keys, st.into)
						}
					})
					b.ReportMetric(perKey, "B/key")
				}, "limit", "least", "least-entry", "tend-batch")
			})
		}
	}
}

func memory(b *testing.B, s subject[string], keys []string, into func(subject[string], []string)) float64 {
	defer s.Close()
	before := heap()
	into(s, keys)
	s.Drop()
	after := heap()
	for range 20 { // implementations that work in goroutines of their own come to rest
		time.Sleep(50 * time.Millisecond)
		last := after
		if after = heap(); after > last-last/200 && after < last+last/200 {
			break
		}
	}
	if after < before {
		return 0
	}
	return float64(after-before) / float64(len(keys))
}
