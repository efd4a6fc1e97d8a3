// Package object is one run's hold on one object: what packages lifecycle and external stand
// on. It has the finalizers, the status, the request to look now, and the pause.
package object
