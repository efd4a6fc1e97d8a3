package event

import "time"

// NewLogWith is NewLog with other bounds; zero: the usual one.
func NewLogWith(to Recorder, every time.Duration, keep, keepPerObject, queue int) *Log {
	return newLog(to, bounds{every, keep, keepPerObject, queue})
}

func (l *Log) Dropped() int { return l.drops() }
