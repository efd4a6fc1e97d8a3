package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/tendhq/tend/examples/fleet"
)

// inTurns are steps of the two versions: the first number does it. They are done by both versions in both roles.
var inTurns = []struct {
	by   int
	verb string
}{
	{0, "create"},
	{1, "plant"},
	{1, "edit"},
	{0, "edit"},
	{0, "edit"},
	{1, "edit"},
	{1, "edit"},
	{0, "delete"},
	{1, "finish"},
	{0, "declare 1"},
	{1, "declare 1"},
	{0, "declare 1"},
	{1, "declare 2"},
	{0, "declare 2"},
	{0, "declare 1"},
	{1, "declare 1"},
	{1, "undeclare"},
	{0, "create an earlier one"},
	{1, "rewrite"},
	{0, "convert"},
	{1, "refuse the later form"},
	{1, "convert"},
	{0, "lose the answer of a create"},
	{1, "reconcile"},
	{0, "reconcile"},
	{0, "edit the site"},
	{1, "reconcile"},
	{1, "edit the site"},
	{0, "reconcile"},
	{0, "delete the site"},
	{1, "reconcile"},
}

// unknown are the fields of a stored object that a version does not know. What no version knows is "later".
var unknown = map[string][]string{
	"old": {"ownNew", "later", "fieldOwners", "outputs", "outputsDue", "replacing"},
	"new": {"ownOld", "later"},
}

// conduct has both versions do all steps on one store. After each step both must see the same, in which nothing is lost
// that the one that did it does not know.
func conduct(on, with string) (err error) {
	dir, err := os.MkdirTemp("", "records")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p := place{Store: on, At: filepath.Join(dir, "store"), Cloud: filepath.Join(dir, "cloud")}
	if err := os.Mkdir(p.Cloud, 0o700); err != nil {
		return err
	}
	if on != "file" {
		f, err := fleet.New(io.Discard, fleet.Options{Place: fleet.Place{Store: on}})
		if err != nil {
			return err
		}
		defer f.Close()
		if p.At = f.Place().Endpoint; on == fleet.Postgres {
			p.At, p.Schema = f.Place().DSN, f.Place().Schema
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	old, err := start("old", with, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, old.end()) }()
	now, err := start("new", self, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, now.end()) }()

	n := 0
	for _, roles := range [][2]*version{{old, now}, {now, old}} {
		for _, s := range inTurns {
			if err := step(roles[s.by], roles[1-s.by], s.verb+" in "+roles[0].name); err != nil {
				return err
			}
			n++
		}
	}
	for _, s := range []struct {
		by, other *version
		step      string
	}{
		{now, old, "create a site whose outputs are not published"}, {old, now, "look"}, {now, old, "publish the outputs"}, {old, now, "look"},
	} {
		if err := step(s.by, s.other, s.step); err != nil {
			return err
		}
		n++
	}
	fmt.Printf("%d steps, after each of which both read the same; %d objects are left\n", n, len(now.last.Objects))
	return nil
}

// version is a process of one version.
type version struct {
	name    string
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *json.Decoder
	last    answer
}

func start(name, program string, p place) (*version, error) {
	place, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	v := &version{name: name, cmd: exec.Command(program)}
	v.cmd.Env = append(os.Environ(), placeEnv+"="+string(place))
	v.cmd.Stderr = os.Stderr
	if v.in, err = v.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := v.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	v.answers = json.NewDecoder(bufio.NewReader(out))
	return v, v.cmd.Start()
}

func (v *version) end() error { return errors.Join(v.in.Close(), v.cmd.Wait()) }

func (v *version) ask(step string) error {
	if _, err := fmt.Fprintln(v.in, step); err != nil {
		return err
	}
	var a answer
	if err := v.answers.Decode(&a); err != nil {
		return err
	}
	v.last = a
	if a.Error != "" {
		return fmt.Errorf("%s", a.Error)
	}
	return nil
}

// step has one do a step, and compares what both see then.
func step(by, other *version, what string) error {
	before := other.last
	if err := by.ask(what); err != nil {
		return fmt.Errorf("%s, by the %s version: %w", what, by.name, err)
	}
	if err := other.ask("look"); err != nil {
		return fmt.Errorf("%s, by the %s version; then the %s one: %w", what, by.name, other.name, err)
	}
	x, y := by.last, other.last
	x.Objects, y.Objects = known(x.Objects), known(y.Objects)
	if !reflect.DeepEqual(x, y) {
		return fmt.Errorf("%s, by the %s version, which reads then\n%s\nand the other\n%s", what, by.name, text(x), text(y))
	}
	for _, part := range []func(answer) map[string]any{func(a answer) map[string]any { return a.Objects }, func(a answer) map[string]any { return a.Raw }} {
		was, is := part(before), part(other.last)
		for name := range was {
			if is[name] == nil {
				continue // deleted
			}
			if lost := fields(was[name], unknown[by.name]); !reflect.DeepEqual(lost, fields(is[name], unknown[by.name])) {
				return fmt.Errorf("%s, by the %s version, does to %s what it does not know: it was\n%s\nand is\n%s", what, by.name, name, text(was[name]), text(is[name]))
			}
		}
	}
	return nil
}

// fields are those of the names, wherever they stand, by their paths.
func fields(v any, names []string) map[string]any {
	found := make(map[string]any)
	var walk func(path string, v any)
	walk = func(path string, v any) {
		object, _ := v.(map[string]any)
		for name, value := range object {
			if at := path + "." + name; slices.Contains(names, name) {
				found[at] = value
			} else {
				walk(at, value)
			}
		}
	}
	walk("", v)
	return found
}

// known is a copy of v without what one of the versions does not know.
func known(v map[string]any) map[string]any {
	v = maps.Clone(v)
	for name, value := range v {
		switch object, is := value.(map[string]any); {
		case slices.Contains(unknown["old"], name) || slices.Contains(unknown["new"], name):
			delete(v, name)
		case is:
			v[name] = known(object)
		}
	}
	return v
}

func text(v any) string {
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(data)
}
