package reconciletest

var StartStop = startStop
