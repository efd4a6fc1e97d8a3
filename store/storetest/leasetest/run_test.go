//go:build unix

package leasetest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/memory"
	"github.com/tendhq/tend/store/storetest/campaign"
)

// failing says what fails in TestFailing, which is run by TestRunEndsWithTheReasonWhenWhatItNeedsFails.
const failing = "TEND_TEST_FAILING"

// away is a store whose writes wait for a server that has ended.
type away struct{ store.Backend }

func (away) Commit(ctx context.Context, _ store.Txn) (store.Revision, error) {
	<-ctx.Done()
	return 0, context.Cause(ctx)
}

// full is one that refuses all writes.
type full struct{ store.Backend }

func (full) Commit(context.Context, store.Txn) (store.Revision, error) {
	return 0, errors.New("no space left on device")
}

func TestFailing(t *testing.T) {
	what := os.Getenv(failing)
	if what == "" {
		t.Skip("run by TestRunEndsWithTheReasonWhenWhatItNeedsFails")
	}
	var b store.Backend
	b, err := memory.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	worker := func(name string) *campaign.Worker {
		return campaign.NewWorker(t, name, brokenEnv, "", nil, func(*campaign.Worker, string) {})
	}
	switch what {
	case "a server":
	case "the store's server":
		worker("store")
		b = away{b}
	case "writes":
		b = full{b}
	}
	Run(t, Fleet{
		Backend: b, TTL: time.Second, Restart: func() {},
		Start: func(c Config, _ func(*campaign.Worker, string)) *campaign.Worker { return worker(c.Name) },
	})
}

// On the old code a process that ended was noticed by nothing: writes to a store that was gone were tried
// again for ever, and the other wait was for as long as servers may take to settle.
func TestRunEndsWithTheReasonWhenWhatItNeedsFails(t *testing.T) {
	for what, with := range map[string]struct{ patience, want string }{
		"a server":           {"1h", `server\d ended, though not told to: exit status 1: no space left on device`},
		"the store's server": {"1h", `store ended, though not told to: exit status 1: no space left on device`},
		"writes":             {"100ms", `base-0 is not created: 100ms are over: .*no space left on device`},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			inner := exec.Command(os.Args[0], "-test.run=^TestFailing$", "-test.timeout=60s", "-patience="+with.patience)
			inner.Env = append(os.Environ(), failing+"="+what)
			out, err := inner.CombinedOutput()
			if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 || !regexp.MustCompile(with.want).Match(out) {
				t.Errorf("%v; want a failure that says %q: %s", err, with.want, out)
			}
		})
	}
}
