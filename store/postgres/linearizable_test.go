//go:build unix

package postgres_test

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
