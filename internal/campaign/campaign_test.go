package campaign_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/internal/campaign"
)

func TestSmallSizeIsTheSameEachTime(t *testing.T) {
	if got := slices.Collect(campaign.Seeds(t, 3, 0)); !slices.Equal(got, []uint64{0, 1, 2}) {
		t.Errorf("seeds %d, want 0, 1, 2", got)
	}
}

// Negative control: with the seeds of a campaign from 0 too this failed.
func TestCampaignTriesWhatNoOtherDid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := map[uint64]bool{}
		for range 5 {
			began := time.Now()
			var all []uint64
			for seed := range campaign.Seeds(t, 3, time.Minute) {
				time.Sleep(10 * time.Second) // in fake time: the work
				all = append(all, seed)
			}
			if took := time.Since(began); len(all) != 6 || all[5] != all[0]+5 || took != time.Minute {
				t.Errorf("seeds %d in %v, want six in a row in a minute", all, took)
			}
			begun[all[0]] = true
		}
		if len(begun) < 4 { // two may be alike by chance, once in 400 million
			t.Errorf("five campaigns began with %d different seeds", len(begun))
		}
	})
}

func TestSeedsEndWithTheTest(t *testing.T) {
	n := 0
	for range campaign.Seeds(t, 3, 0) {
		n++
		break
	}
	if n != 1 {
		t.Errorf("went on %d times after the end", n-1)
	}
}

type printer struct{}

func (printer) Logf(format string, args ...any) { fmt.Printf(format+"\n", args...) }

func ExampleSeeds() {
	var t printer // a *testing.T
	for seed := range campaign.Seeds(t, 2, campaign.Length()) {
		fmt.Println("try", seed)
	}
	// Output:
	// try 0
	// try 1
	// campaign: 2 seeds
}
