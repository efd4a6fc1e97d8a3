// Package web is one HTTP handler with all that an operator asks of a service.
//
//	page, err := web.Listen("127.0.0.1:8080", &manager, &web.Options{
//		Objects: []objects.Kind{objects.OfCache(controller.Cache())},
//	})
//	err = manager.Register(controller, page)
//
// With [Options.Program] the kinds, inventories, quotas and so on of a program.Program are shown
// without a line for each; [Options.API] serves the objects. [Mount] does so below a prefix of a
// mux of the program's own.
//
//	/livez        for a supervisor: 503 when only a restart can help, see [reconcile.Manager.Live]
//	/readyz       for load balancers and rolling updates: 503 until everything has synced, and
//	              while it is stopping
//	/healthz      for people and alerts: a line for each check; 503 when something is wrong
//	/metrics      for Prometheus: the manager's, Go's and the process's own
//	/debug        for people: package debug
//	/debug/pprof/ profiles of Go, with [Options.Pprof]
//
// A store that is away fails /readyz and /healthz, and not /livez: a restart brings no
// store back, and loses what is in memory. A supervisor that asks /healthz kills a
// service for what it cannot help.
//
// None of these has a password. Requests for other hosts than [Options.Hosts] are
// refused, as by package debug, and [Options.Allow] may ask for more; then /livez and
// /readyz, which it does not guard, give a status and no reason. Bind it to loopback or
// to a private network.
//
// # Design notes
//
// Profiles are served here and not by net/http/pprof: importing that adds them to
// http.DefaultServeMux, and so to each server of the host that uses it.
package web
