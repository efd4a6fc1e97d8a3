package external_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tendhq/tend/reconcile/external"
)

// A cloud deletes up to three volumes by one call: the deletions of three runs share it, and each
// has its own outcome.
func ExampleNewBatch() {
	deleteVolumes := func(_ context.Context, ids []string) []external.Outcome[string] {
		fmt.Println("one call for", len(ids))
		all := make([]external.Outcome[string], len(ids))
		for i, id := range ids {
			if all[i].Value = id + " is gone"; id == "in use" {
				all[i] = external.Outcome[string]{Err: fmt.Errorf("volume %s: it has a server", id)}
			}
		}
		return all
	}
	deletions, err := external.NewBatch(deleteVolumes, &external.BatchOptions{Wait: time.Minute, Most: 3})
	if err != nil {
		panic(err)
	}
	ids := []string{"v-1", "v-2", "in use"}
	outcomes := make([]string, len(ids))
	var runs sync.WaitGroup
	for i, id := range ids {
		runs.Go(func() { // such as a client's DeleteFunc
			if said, err := deletions(context.Background(), id); err != nil {
				outcomes[i] = err.Error()
			} else {
				outcomes[i] = said
			}
		})
	}
	runs.Wait()
	for _, o := range outcomes {
		fmt.Println(o)
	}
	// Output:
	// one call for 3
	// v-1 is gone
	// v-2 is gone
	// volume in use: it has a server
}
