package event

import "time"

// NewLogWith is NewLog with other bounds; zero: the usual one.
func NewLogWith(to Recorder, every time.Duration, keep, keepPerObject, queue int) *Log {
	return newLog(to, bounds{every, keep, keepPerObject, queue})
}

// Dropped is how many events were not passed on because the queue was full or
// the recorder failed.
func (l *Log) Dropped() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropped
}
