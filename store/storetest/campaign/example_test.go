package campaign_test

import (
	"fmt"

	"github.com/tendhq/tend/store/storetest/campaign"
)

// A checker of linearizability asks Step, the model of one record, whether each answer may
// be given in the order that it tries.
func ExampleStep() {
	record := any(campaign.Output{}) // there is none yet
	for _, call := range []struct {
		in  campaign.Input
		out campaign.Output
	}{
		{campaign.Input{Key: "a", Write: true, Value: "one"}, campaign.Output{Revision: 7}},
		{campaign.Input{Key: "a"}, campaign.Output{Revision: 7, Value: "one"}},
		{campaign.Input{Key: "a"}, campaign.Output{}}, // a read that does not see the write
	} {
		possible, after := campaign.Step(record, call.in, call.out)
		fmt.Println(possible)
		record = after
	}
	// Output:
	// true
	// true
	// false
}
