// Package debug is a page that shows an operator why something does not run: one [net/http.Handler] over a [reconcile.Manager].
//
//	h, err := debug.New(&manager, nil)
//	…
//	mux.Handle("/debug", h)
//
// It begins with the verdict of package inspect: whether all is well, how many objects are in
// which state, and a line for each cause of what is wrong, with how many, since when, an example
// and what to do. Then come the kinds, a bar for each, and what is underneath; folded below are
// an hour of history and what else there is. The page of a key shows its last twenty runs.
//
// It shows the controllers, their workers and what each runs since when; every
// key with its state and why it is not running; last errors with their attempts;
// what waits for a time, by that time; buckets, leases and shards, caches and
// their revisions, drift and orphans, events, and a drawing of which kind wakes
// which controller. The page of a key that runs shows the stack of its run. Keys can
// be searched in all controllers at once, and filtered by state, sorted and paged
// through in one, however many there are.
//
// With [Options.Objects] it shows the objects themselves, without their secrets: by
// kind, found by name over all kinds, and one whole, with its conditions, what holds up
// its deletion, and with [Options.Needs] what it needs and what needs
// it, drawn in the order of creation. The page of a
// key shows the object that it is the key of, also if the queue does not know the key.
//
// The same comes as HTML that needs no script, as JSON (?format=json, or an Accept that names
// it), and as text for curl (?format=text); ?view=status is the verdict alone. A page loads
// itself again if asked to (?refresh=5).
//
// # Actions
//
// The page only shows, unless [Options.Authorise] is set. Then keys can be kicked,
// forgotten, paused and resumed, controllers paused and resumed, their workers set,
// and all their keys that failed retried; objects can be reconciled now, paused and resumed
// on every server, and a finalizer removed; a held prune can be released: by POST, asked of
// Authorise each time, refused when it comes from another site's page, and logged. A page asks before each
// action, and says what it does; a program posts the same form without being asked:
//
//	curl -d do=kick -d c=buckets -d key=logs http://localhost:8085/debug
//
// # What it promises
//
//   - A page costs a page. The queue is looked at in steps of a thousand keys. A page
//     that takes longer than [Options.Timeout] says so or shows what it has. At
//     most eight are made at once.
//   - Keys, errors and labels are escaped, cut to 1,000 characters, and what does not
//     print is shown by its number, in the text form too. A policy forbids the
//     browser to run anything.
//   - Objects of a kind from a cache cost their backend nothing.
//   - It never changes what it shows, other than by an action.
//
// # What it does not
//
// It does not authenticate its readers: put it on localhost, or behind something that
// does. What lies in fields tagged tend:"secret" is taken out; see [store.Store.Redact].
// Every view is of several moments: a key can have moved on between two lines.
package debug

// Design notes.
//
// All views are one address with a query, so that the handler can be mounted at
// any path, with or without http.StripPrefix, behind any proxy.
//
// A view is worked out once, as plain data, which is what JSON shows; HTML and text
// are two ways to print one list of tables made of it. That keeps the forms in
// step, and there is one place where text is cleaned. A picture always has a table that
// says the same, which keyboard and screen reader use.
//
// The history is 5.8 KB for each controller and bucket. The Manager samples while it runs
// ([reconcile.Manager.Sample]); without a handler nothing is sampled or kept.
//
// The files: debug.go has the handler, show.go answers a GET and act.go a POST; view.go chooses
// the view and has its data. Each view has a file that works it out, by a method of the handler,
// and prints it, by one of the printer: overview, verdict, controller (with filter, its query),
// key, objects (the list of a kind), object, needs, search, events, drift. layout.go has what all are
// printed with, html.go, text.go, page.html and page.css print it, and clean.go makes texts safe.
// A parameter of the query that is new is said in the comment of New.
//
// Rejected: a page that refreshes itself without being asked to (the reader loses the
// place), a diagram drawn by a script from elsewhere (the graph is SVG, drawn here; JSON
// has it as Mermaid's text too), and a button without a server-side check (a hidden
// button is no lock).
