// Package api serves the objects of stores as JSON over HTTP: for commands, scripts and
// pages of a program's own. The command tend speaks it.
//
//	h, err := api.New([]objects.Kind{objects.Of(buckets)}, &api.Options{Allow: allow})
//	…
//	mux.Handle("/objects", h)
//
// # Requests
//
// All are about one address with a query, so that keys of any text can be named and the
// handler can be mounted anywhere:
//
//	GET    ?                       the kinds
//	GET    ?kind=K                 objects by key; with namespace, labels (a selector),
//	                               q (part of the key), limit (500) and after (a key);
//	                               a page ends early at 8 MiB, and next is the key to go on after
//	GET    ?kind=K&watch=true      changes as server-sent events; with namespace and after
//	                               (a revision)
//	GET    ?kind=K&key=X           one object; its revision is the ETag
//	PUT    ?kind=K&key=X           creates it (If-None-Match: *), or replaces its spec and
//	                               metadata (If-Match: "revision"), and reads the whole of it
//	PATCH  ?kind=K&key=X&owner=O   declares fields under the name O, as store.Store.ApplyFields does; with force=true too
//	DELETE ?kind=K&key=X           asks for its deletion (If-Match: "revision" or *); the answer
//	                               is its metadata, {"gone": true}, or {"requested": true} if
//	                               what is left of it cannot be read
//	POST   ?kind=K&key=X&do=A      reconcile, pause, resume, remove-finalizer (&finalizer=F), created and adopt (&externalName=N),
//	                               not-created, forget-location, outputs-restored (see objects.Answer); the answer is
//	                               the object's metadata
//
// An answer that is no success is {"error": text}: 400 for a request that cannot be
// understood, 403 what is not allowed, 404 what does not exist, 405 for a kind that
// cannot be written, 408 a body that does not come in, 409 what exists already or was written by a newer version of the program,
// 412 another revision, an object that asks nothing, or a field that is another's (a PATCH writes the others), 413 a body that is too long, 414 a query beyond 8 KiB, 422 an object that its kind refuses, 428 no revision, 503 anything else.
//
// An event of a watch is named "object" and holds {"type", "key", "revision", "object"};
// the types are snapshot, synced, put, deleted and broken. After a lost connection a
// client goes on with Last-Event-ID, or after. A second synced means that the history
// was gone and the snapshot before it is whole: what is not in it does not exist.
//
// # What it promises
//
//   - Nothing is allowed, also no reading, unless [Options.Allow] says so; it is asked
//     about each request. Every write, and every refusal, is in the log.
//   - Writes compare the revision, are validated, and carry the guards of the store.
//   - Secrets are not in any answer. A caller that may replace an object can test guesses at short ones.
//   - Requests of other host names are refused, and writes of other sites' pages. Their reads
//     too, over HTTPS and at localhost, so that no page takes the place of a watch; over plain
//     HTTP to an IP address a browser does not say which page a read comes from.
//
// # What it does not
//
// It does not authenticate: Allow sees the request and knows how. Permission for a watch
// is asked for once, when it begins.
//
// [objects.Kind]: https://pkg.go.dev/github.com/tendhq/tend/store/objects#Kind
package api
