// Package tick is a clock that costs little to ask often, where ticks of 4 ms are exact
// enough: how long keys wait in a queue, when runs began.
package tick
