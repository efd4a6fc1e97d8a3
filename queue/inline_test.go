package queue_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// inlined are the helpers that add, get and settle use so often that the calls themselves
// would show in the time of a cycle.
var inlined = strings.Fields(`
	(*watch).now (*clock).isWarm (*clock).now (*clock).sample
	(*ages).begin (*ages).end (*ages).oldest
	(*Histogram).count (*Histogram).observe (*Histogram).put
	(*entry).status (*entry).set (*entry).is (*entry).since (*entry).setSince
	(*slab).at (*slab).tired (*shards).of (*shard).runs (*env).may (*shown).top flip
	(*table).segment (*segment).home (*segment).seek
	(*plain).lane (*plain).left (*plain).eldest (*plain).top (*deque).first
	onAddDuringRun status.start raises word.gives word.takesAdds word.ends
`)

// A helper of the hot way that outgrows the inliner's budget becomes a call, and no other
// test sees that. The compiler itself is asked, which also says when a name is gone.
func TestHotHelpersAreInlined(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	// -gcflags holds for this package alone: what it imports comes from the build cache.
	// Flags of the test run, such as those of coverage, are left out: they add to the costs.
	cmd := exec.Command(goTool, "build", "-gcflags=-m=2", "-o", os.DevNull, ".")
	cmd.Env = append(os.Environ(), "GOFLAGS=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%.2000s", err, out)
	}
	verdict := make(map[string]string)
	said := regexp.MustCompile(`(?m)^\S+:\d+:\d+: (can|cannot) inline ([^\s:]+)(.*)$`)
	for _, m := range said.FindAllStringSubmatch(string(out), -1) {
		verdict[m[2]] = m[1] + " inline" + m[3]
	}
	for _, name := range inlined {
		switch v, known := verdict[name]; {
		case !known:
			t.Errorf("the compiler says nothing of %s: was it renamed?", name)
		case !strings.HasPrefix(v, "can "):
			t.Errorf("%s is a call now: %s", name, v)
		}
	}
}
