//go:build unix

package leasetest_test

import (
	"encoding/json"
	"log"
	"os"
	"testing"
	"time"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/storetest/campaign"
	"github.com/tendhq/tend/store/storetest/leasetest"
)

// open stands for the opening of a store that processes share, and restart for its crash.
func open() (store.Backend, error) { return nil, nil }

func restart() {}

// A backend's test calls Run. Each server is a process of the test's own binary, whose
// TestMain calls Serve if it finds the configuration.
func ExampleRun() {
	_ = func(t *testing.T) { // TestShardedServersTakeOver
		backend, err := open()
		if err != nil {
			t.Fatal(err)
		}
		leasetest.Run(t, leasetest.Fleet{
			Backend: backend, TTL: 2 * time.Second, Restart: restart,
			Start: func(c leasetest.Config, hear func(w *campaign.Worker, line string)) *campaign.Worker {
				return campaign.NewWorker(t, c.Name, "SERVER", c, nil, hear)
			},
		})
	}
	_ = func(m *testing.M) { // TestMain
		var c leasetest.Config
		text := os.Getenv("SERVER")
		if text == "" {
			os.Exit(m.Run())
		}
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			log.Fatal(err)
		}
		backend, err := open()
		if err != nil {
			log.Fatal(err)
		}
		if err := leasetest.Serve(campaign.UntilReleased(), backend, c); err != nil {
			log.Fatal(err)
		}
	}
}
