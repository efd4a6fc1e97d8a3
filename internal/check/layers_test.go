package check

import (
	"errors"
	"go/build"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
)

// layers gives every package of the root module its layer. A package that is
// missing here fails the test: a new package has to say where it stands.
var layers = map[string]int{
	"":                             -1, // documentation only, imports nothing
	"internal/ascii":               -1, // below all
	"internal/body":                -1,
	"internal/origin":              -1,
	"internal/campaign":            0,  // for tests
	"internal/check":               10, // for tests
	"internal/contain":             -1,
	"internal/joints":              0, // for tests
	"internal/debugworld":          9, // for tests
	"internal/endless":             -2,
	"internal/mutate":              0, // for tests
	"internal/pipes":               0, // for tests
	"internal/promises":            0, // for tests
	"internal/release":             0, // a command
	"store/storetest/quotatest":    8, // for tests
	"store/storetest/leasetest":    8, // for tests
	"internal/sleep":               -1,
	"internal/spin":                -1,
	"internal/wall":                -1,
	"internal/written":             -1,
	"queue/ratelimit":              -1,
	"queue":                        0,
	"store":                        0,
	"queue/workqueue":              2,
	"reconcile/lease":              2,
	"store/cache":                  2,
	"store/file":                   2,
	"store/memory":                 2,
	"store/objects":                3,
	"store/storetest":              3,
	"store/storetest/campaign":     2,
	"internal/declared":            2,
	"internal/introspect":          1,
	"reconcile/internal/inrun":     1,
	"reconcile/internal/match":     2,
	"reconcile/internal/recent":    2,
	"reconcile":                    3,
	"reconcile/internal/ofobjects": 4,
	"reconcile/depend":             5,
	"reconcile/event":              4,
	"reconcile/program":            6,
	"reconcile/quota":              4,
	"reconcile/children":           7,
	"reconcile/declare":            7,
	"reconcile/webhook":            4,
	"reconcile/internal/object":    4,
	"reconcile/lifecycle":          6,
	"reconcile/external":           7,
	"metrics":                      8,
	"reconcile/web/api":            8,
	"reconcile/web/debug":          8,
	"reconcile/reconciletest":      8,
	"store/storetest/dependtest":   8, // for tests
	"store/storetest/upgradetest":  8, // for tests
	"reconcile/web":                9,
	"store/internal/odd":           -1, // for tests
	"store/internal/shape":         -1,
	"reconcile/internal/cause":     2,
	"reconcile/inspect":            6,
}

// thirdParty names every module outside the standard library that a package's
// own code (not its tests) may import. What is absent may import none.
var thirdParty = map[string][]string{
	"store/cache": {"github.com/puzpuzpuz/xsync/v4"},
	"store/file":  {"go.etcd.io/bbolt"},
	// Limits are rate.Limit in every API.
	"queue/ratelimit":           {"golang.org/x/time/rate"},
	"reconcile/quota":           {"golang.org/x/time/rate"},
	"reconcile/reconciletest":   {"golang.org/x/time/rate"},
	"store/storetest/quotatest": {"golang.org/x/time/rate"},
	"store/storetest/leasetest": {"golang.org/x/time/rate"},
	// client_model names the argument of client_golang's Metric.Write.
	"metrics":       {"github.com/prometheus/client_golang", "github.com/prometheus/client_model"},
	"reconcile/web": {"github.com/prometheus/client_golang"},
}

// forTests may be imported by the tests of any package.
var forTests = []string{
	"go.uber.org/goleak", "pgregory.net/rapid", "github.com/google/go-cmp",
	"github.com/prometheus/client_golang", "go.etcd.io/bbolt", "golang.org/x/time/rate",
}

func TestImportsPointDown(t *testing.T) {
	for _, p := range listPackages(t) {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		layer, known := layers[name]
		if !known {
			t.Errorf("package %q has no layer: add it to layers in this file", name)
			continue
		}
		for _, imp := range p.Imports {
			if err := checkImport(name, layer, imp); err != nil {
				t.Error(err)
			}
		}
		for _, imp := range slices.Concat(p.TestImports, p.XTestImports) {
			if isThirdParty(imp) && !hasPrefix(forTests, imp) && !hasPrefix(thirdParty[name], imp) {
				t.Errorf("tests of %q import %s, which is not among the test dependencies", name, imp)
			}
		}
	}
}

// The test above must be able to fail: an import up, one sideways and a
// dependency that was not agreed on are each refused.
func TestImportCheckRefusesWhatItShould(t *testing.T) {
	for _, c := range []struct {
		from, imp string
		ok        bool
	}{
		{"reconcile", module + "/queue", true},
		{"queue", module + "/reconcile", false},
		{"queue", module + "/store", false},
		{"store/memory", module + "/store/cache", false},
		{"store/file", "go.etcd.io/bbolt", true},
		{"store", "go.etcd.io/bbolt", false},
		{"reconcile", "github.com/prometheus/client_golang/prometheus", false},
		{"queue", "container/heap", true},
	} {
		if err := checkImport(c.from, layers[c.from], c.imp); (err == nil) != c.ok {
			t.Errorf("checkImport(%q, %q) = %v, want ok %v", c.from, c.imp, err, c.ok)
		}
	}
}

func checkImport(name string, layer int, imp string) error {
	if rest, ours := strings.CutPrefix(imp, module+"/"); ours {
		if l, known := layers[rest]; !known || l >= layer {
			return errors.New(name + " (layer of its own) imports " + rest + ", which is not below it")
		}
		return nil
	}
	if isThirdParty(imp) && !hasPrefix(thirdParty[name], imp) {
		return errors.New(name + " imports " + imp + ", which it may not depend on")
	}
	return nil
}

func isThirdParty(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	return strings.Contains(first, ".") && !strings.HasPrefix(imp, module)
}

func hasPrefix(allowed []string, imp string) bool {
	return slices.ContainsFunc(allowed, func(a string) bool { return imp == a || strings.HasPrefix(imp, a+"/") })
}

// packages are those of the root module, by build.ImportDir.
var packages = sync.OnceValues(func() (ps []*build.Package, err error) {
	all, err := readTree()
	seen := map[string]bool{}
	for _, s := range all {
		if folder := s.folder(); s.isGo() && !seen[folder] && !nested(folder) {
			seen[folder] = true
			p, err := build.ImportDir(folder, 0)
			if err != nil {
				return nil, err
			}
			p.ImportPath = path.Join(module, folder)
			ps = append(ps, p)
		}
	}
	return ps, err
})

func listPackages(t *testing.T) []*build.Package {
	t.Helper()
	ps, err := packages()
	if err != nil {
		t.Fatal(err)
	}
	if len(ps) < 20 {
		t.Fatalf("found %d packages: the walk is broken", len(ps))
	}
	return ps
}
