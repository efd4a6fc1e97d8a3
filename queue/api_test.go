package queue

import "time"

// This file is where the tests that came from outside call what the queue has more
// than one way to say.

func addReplacing[K comparable](q *Queue[K], key K, o AddOptions) error { return q.Replace(key, o) }

func addUrgently[K comparable](q *Queue[K], key K) error {
	return q.AddWith(key, AddOptions{Urgent: true})
}

func pauseKey[K comparable](q *Queue[K], key K, most time.Duration) { q.PauseKey(key, "test", most) }

func resumeKey[K comparable](q *Queue[K], key K) bool { return q.ResumeKey(key) }

func pauseQueue[K comparable](q *Queue[K], most time.Duration) { q.Pause("test", most) }

func resumeQueue[K comparable](q *Queue[K]) bool { return q.Resume() }

func pauseTenant[K comparable](q *Queue[K], tenant string, most time.Duration) {
	q.PauseTenant(tenant, "test", most)
}

func resumeTenant[K comparable](q *Queue[K], tenant string) bool { return q.ResumeTenant(tenant) }

func holdKey[K comparable](q *Queue[K], key K, most time.Duration) (release func()) {
	return q.Hold(key, "test", most)
}
