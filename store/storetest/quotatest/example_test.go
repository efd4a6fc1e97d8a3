//go:build unix

package quotatest_test

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"testing"

	"github.com/tendhq/tend/store"
	"github.com/tendhq/tend/store/storetest/campaign"
	"github.com/tendhq/tend/store/storetest/quotatest"
)

// open stands for the opening of a store that processes share.
func open() (store.Backend, error) { return nil, nil }

// A backend's test calls Run. Each server is a process of the test's own binary, whose
// TestMain calls Serve if it finds the configuration.
func ExampleRun() {
	_ = func(t *testing.T) { // TestServersCreateUnderOneQuota
		backend, err := open()
		if err != nil {
			t.Fatal(err)
		}
		quotatest.Run(t, 200, backend, func(c quotatest.Config) *campaign.Worker {
			return campaign.NewWorker(t, c.Name, "SERVER", c, nil, func(_ *campaign.Worker, line string) { t.Log(line) })
		})
	}
	_ = func(m *testing.M) { // TestMain
		var c quotatest.Config
		if text := os.Getenv("SERVER"); text == "" {
			os.Exit(m.Run())
		} else if err := json.Unmarshal([]byte(text), &c); err != nil {
			log.Fatal(err)
		}
		backend, err := open()
		if err != nil {
			log.Fatal(err)
		}
		if err := quotatest.Serve(context.Background(), backend, c); err != nil {
			log.Fatal(err)
		}
	}
}
