package web

import (
	"cmp"
	"fmt"
	"net/http"
	"runtime/pprof"
	"runtime/trace"
	"slices"
	"strconv"
	"time"

	"github.com/tendhq/tend/internal/sleep"
)

// maxProfile is how long a profile of time may take.
const maxProfile = 5 * time.Minute

// profile serves what go tool pprof and go tool trace ask for:
//
//	/debug/pprof/                     the names, as text
//	/debug/pprof/heap?debug=1         one of runtime/pprof's profiles, as text with debug
//	/debug/pprof/profile?seconds=30   processor time
//	/debug/pprof/trace?seconds=1      an execution trace
func profile(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet { // the pattern lets HEAD in, for which one would be made and not sent
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "only GET", http.StatusMethodNotAllowed)
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(maxProfile + writeTime))
	w.Header().Set("Cache-Control", "no-store")
	switch name := r.PathValue("name"); name {
	case "":
		list(w)
	case "profile":
		during(w, r, 30, func() error { return pprof.StartCPUProfile(w) }, pprof.StopCPUProfile)
	case "trace":
		during(w, r, 1, func() error { return trace.Start(w) }, trace.Stop)
	default:
		p := pprof.Lookup(name)
		if p == nil {
			http.Error(w, "there is no such profile", http.StatusNotFound)
			return
		}
		level, _ := strconv.Atoi(r.URL.Query().Get("debug"))
		w.Header().Set("Content-Type", "application/octet-stream")
		if level != 0 {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		}
		_ = p.WriteTo(w, level) // a client that went away is no news
	}
}

func list(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	all := pprof.Profiles()
	slices.SortFunc(all, func(a, b *pprof.Profile) int { return cmp.Compare(a.Name(), b.Name()) })
	for _, p := range all {
		fmt.Fprintf(w, "%s %d\n", p.Name(), p.Count())
	}
	fmt.Fprintln(w, "profile\ntrace")
}

// during writes what start begins and stop ends, over the seconds asked for.
func during(w http.ResponseWriter, r *http.Request, seconds float64, start func() error, stop func()) {
	if text := r.URL.Query().Get("seconds"); text != "" {
		asked, err := strconv.ParseFloat(text, 64)
		if err != nil || !(asked > 0 && asked <= maxProfile.Seconds()) {
			http.Error(w, fmt.Sprintf("seconds must be above 0 and at most %g", maxProfile.Seconds()), http.StatusBadRequest)
			return
		}
		seconds = asked
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if err := start(); err != nil { // another one is being made
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	defer stop()
	sleep.For(r.Context(), time.Duration(seconds*float64(time.Second)))
}
