// Package browser tests the debug page in a headless Chromium: that it fits its screens, in
// both colour schemes, that its links and forms work, and that what it shows cannot run. It
// is here, in a module that is not released, because it drives the browser by a library.
package browser
