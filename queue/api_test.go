package queue

import "time"

// This file is where the tests that came from outside call what the queue has more
// than one way to say.

func addReplacing[K comparable](q *Queue[K], key K, o AddOptions) error {
	o.Replace = true
	return q.AddWith(key, o)
}

func hold[K comparable](q *Queue[K], over Scope[K], most time.Duration) {
	q.Hold(over, Hold{Name: "operator", Reason: "test", Max: most})
}

func pauseKey[K comparable](q *Queue[K], key K, most time.Duration) { hold(q, q.OfKey(key), most) }

func resumeKey[K comparable](q *Queue[K], key K) bool { return q.Release(q.OfKey(key), "operator") }

func pauseQueue[K comparable](q *Queue[K], most time.Duration) { hold(q, q.Whole(), most) }

func resumeQueue[K comparable](q *Queue[K]) bool { return q.Release(q.Whole(), "operator") }

func pauseTenant[K comparable](q *Queue[K], tenant string, most time.Duration) {
	hold(q, q.OfTenant(tenant), most)
}

func resumeTenant[K comparable](q *Queue[K], tenant string) bool {
	return q.Release(q.OfTenant(tenant), "operator")
}

func holdKey[K comparable](q *Queue[K], key K, most time.Duration) (release func()) {
	return q.Hold(q.OfKey(key), Hold{Reason: "test", Max: most})
}
