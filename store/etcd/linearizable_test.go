//go:build unix

package etcd_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/tendhq/tend/store/storetest/campaign"
)

// register is one record: its value and its revision.
var register = porcupine.Model{
	Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
		by := make(map[string][]porcupine.Operation)
		for _, op := range all {
			k := op.Input.(campaign.Input).Key
			by[k] = append(by[k], op)
		}
		var parts [][]porcupine.Operation
		for _, ops := range by {
			parts = append(parts, ops)
		}
		return parts
	},
	Init:              func() any { return campaign.Output{} },
	Step:              campaign.Step,
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v → %+v", in, out) },
}

func forPorcupine(ops []campaign.Operation) (all []porcupine.Operation) {
	for _, op := range ops {
		all = append(all, porcupine.Operation{ClientId: op.Client, Input: op.Input, Output: op.Output, Call: op.Call, Return: op.Return})
	}
	return all
}

// checkLinearizable fails on a history that is not, and on one that could not be judged in
// time; it leaves a picture.
func checkLinearizable(t *testing.T, ops []campaign.Operation) {
	t.Helper()
	result, info := porcupine.CheckOperationsVerbose(register, forPorcupine(ops), patience)
	if result != porcupine.Ok {
		name := "linearizability.html"
		if f, err := os.Create(name); err == nil {
			_ = porcupine.Visualize(register, info, f)
			f.Close()
		}
		t.Errorf("history is %s, want Ok; see %s", result, name)
	}
}

// The checker of linearizability must reject what is wrong.
func TestCheckersRejectBrokenHistories(t *testing.T) {
	w1 := campaign.Operation{Client: 1, Input: campaign.Input{Key: "a", Write: true, Value: "1"}, Output: campaign.Output{Revision: 5}, Call: 0, Return: 10}
	w2 := campaign.Operation{Client: 1, Input: campaign.Input{Key: "a", Write: true, Expect: 5, Value: "2"}, Output: campaign.Output{Revision: 6}, Call: 20, Return: 30}
	then := func(i campaign.Input, o campaign.Output) campaign.Operation {
		i.Key = "a"
		return campaign.Operation{Client: 2, Input: i, Output: o, Call: 40, Return: 50}
	}
	for name, c := range map[string]struct {
		ops []campaign.Operation
		ok  bool
	}{
		"sound":      {[]campaign.Operation{w1, w2, then(campaign.Input{}, campaign.Output{Revision: 6, Value: "2"})}, true},
		"stale read": {[]campaign.Operation{w1, w2, then(campaign.Input{}, campaign.Output{Revision: 5, Value: "1"})}, false},
		"lost write": {[]campaign.Operation{w1, w2, then(campaign.Input{Write: true, Expect: 5, Value: "3"}, campaign.Output{Revision: 7})}, false},
		"false conflict": {[]campaign.Operation{w1, then(campaign.Input{Write: true, Expect: 5, Value: "3"},
			campaign.Output{Conflict: true, Revision: 5, Value: "1"})}, false},
	} {
		if got := porcupine.CheckOperations(register, forPorcupine(c.ops)); got != c.ok {
			t.Errorf("%s: linearizable %v, want %v", name, got, c.ok)
		}
	}
}
