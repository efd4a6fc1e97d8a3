// Package tick is a clock that costs little to ask often, for those who can do with
// ticks of 4 ms: how long keys wait in a queue, when runs began.
package tick
