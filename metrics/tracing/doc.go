// Package tracing shows with OpenTelemetry what tend does: a span for each run of
// a reconciler, under it the calls that the run makes to stores and clouds, and a
// link to what made it run.
//
//	t, err := tracing.New(provider, nil)
//	backend = t.Backend(backend)                          // before stores and caches are made of it
//	client := &http.Client{Transport: t.Transport(nil)}   // for the cloud
//	ctl, err := reconcile.New("disks", r, tracing.With(t, options))
//
// A trace then looks like this:
//
//	reconcile disks          tend.key=a tend.attempt=0 tend.result=success
//	│  link: written by ──▶  store commit, in the trace that changed a's spec
//	├─ store get             Disk a
//	├─ HTTP PUT              api.cloud.example 200
//	└─ store commit          Disk a, revision 17
//
// It uses OpenTelemetry's API only; the SDK is the program's choice.
//
// # Links
//
// A run is the root of a trace of its own, because one run answers for any number
// of causes: keys are coalesced. It is linked to
//
//   - the writes that woke it (tend.cause=write): every change of an object, also
//     one that was mapped to this key, that was written through [Tracer.Backend]
//     in this process within a span;
//   - the run before it (retry), if that failed or asked to be run again at once; not if it
//     asked for a time (RequeueAfter), or failed with Terminal;
//   - the span that was given to [Cause] before adding the key (add): a webhook's
//     handler, an operator's command.
//
// A link is not promised. What another process wrote is not known here, nor what
// was there when the process started, and memory is bounded: of more than
// [Options.remember] writes, or waiting keys, the oldest have no link.
//
// # Logs and metrics
//
// The log lines of a traced run carry its trace_id and span_id. [Exemplar] makes the
// histograms of package metrics lead to traces. The example examples/guide/06-production
// wires all of it, with an exporter.
//
// # Cost
//
// A span needs the run's context, so a traced run costs the allocations that an
// untraced one, which never looks at its context, saves, besides those of the SDK.
// Calls to a store or a cloud outside of any span make none: the renewals of
// leases and the watches of caches are not traced.
//
// # Design notes
//
// Writing the trace's id into the object, as an annotation, was rejected: it
// would link processes too, but it edits what is the user's, and each trace would
// be a write.
//
// A child span of the writer's instead of a link was rejected: the writer's trace
// would never end, and of two writers that caused one run only one could have it.
package tracing
