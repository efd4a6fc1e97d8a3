package declare

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/tendhq/tend/store"
)

// declaration is one object as a file declares it.
type declaration struct {
	Kind string `json:"kind"`
	Meta struct {
		Namespace   string            `json:"namespace,omitempty"`
		Name        string            `json:"name"`
		Labels      map[string]string `json:"labels,omitempty"`
		Annotations map[string]string `json:"annotations,omitempty"`
	} `json:"meta"`
	Spec json.RawMessage `json:"spec"`
}

// JSON returns a decoder of declarations, in a list or one after the other:
//
//	{"kind": "site", "meta": {"namespace": "eu", "name": "shop"}, "spec": {"Servers": 3}}
//
// The kind may be left out. Declarations of the kinds in others are left to the files of
// those: several Files may read one file. A field that is unknown or given twice in one spelling, and a
// kind that is neither, are errors, which name the line.
func JSON[S, T any](s *store.Store[S, T], others ...string) func(data []byte) ([]*store.Object[S, T], error) {
	others = slices.Clone(others)
	return func(data []byte) ([]*store.Object[S, T], error) {
		var set []*store.Object[S, T]
		err := eachJSON(data, func(line int, raw json.RawMessage) error {
			var d declaration
			dec := json.NewDecoder(bytes.NewReader(raw))
			dec.DisallowUnknownFields()
			err := dec.Decode(&d)
			switch {
			case err != nil:
				return fmt.Errorf("line %d: %w", line, err)
			case d.Kind != "" && d.Kind != s.Kind() && slices.Contains(others, d.Kind):
				return nil
			case d.Kind != "" && d.Kind != s.Kind():
				return fmt.Errorf("line %d: the kind %q is unknown here; expected %q", line, d.Kind, s.Kind())
			}
			o := map[string]any{"meta": d.Meta}
			if d.Spec != nil {
				o["spec"] = d.Spec
			}
			whole, err := json.Marshal(o)
			if err != nil {
				return err
			}
			parsed, err := s.Parse(whole, nil)
			if err != nil {
				return fmt.Errorf("line %d: %w", line, err)
			}
			set = append(set, parsed)
			return nil
		})
		return set, err
	}
}

// eachJSON calls f for each declaration in data, with the line on which it begins.
func eachJSON(data []byte, f func(line int, raw json.RawMessage) error) error {
	if err := noTwins(data); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	line, counted := 1, int64(0)
	lineAt := func(offset int64) int { // offsets that grow: each byte is looked at once
		offset = min(offset, int64(len(data)))
		line += bytes.Count(data[counted:max(offset, counted)], []byte("\n"))
		counted = max(offset, counted)
		return line
	}
	one := func() error {
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return fmt.Errorf("line %d: %w", lineAt(dec.InputOffset()), err)
		}
		return f(lineAt(dec.InputOffset()-int64(len(raw))), raw)
	}
	if rest := bytes.TrimLeft(data, " \t\r\n"); len(rest) == 0 {
		return errors.New("it is empty; expected declarations, or [] for none")
	} else if rest[0] != '[' {
		for dec.More() {
			if err := one(); err != nil {
				return err
			}
		}
		return nil
	}
	_, _ = dec.Token() // the bracket
	for dec.More() {
		if err := one(); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return fmt.Errorf("line %d: %w", lineAt(dec.InputOffset()), err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("line %d: there is more after the list", lineAt(dec.InputOffset()))
	}
	return nil
}

// noTwins refuses what is not JSON, and an object with a field twice, of which the
// decoder would take the last without a word.
func noTwins(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	type level struct {
		fields map[string]bool // nil: a list
		value  bool            // a field's value is next
	}
	var open []level
	for {
		token, err := dec.Token()
		wrong := func(format string, args ...any) error {
			line := 1 + bytes.Count(data[:dec.InputOffset()], []byte("\n"))
			return fmt.Errorf("line %d: %w", line, fmt.Errorf(format, args...))
		}
		switch {
		case err == io.EOF && len(open) == 0:
			return nil
		case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
			return wrong("it ends in the middle of a declaration")
		case err != nil:
			return wrong("%w", err)
		}
		if d, is := token.(json.Delim); is && (d == '}' || d == ']') {
			open = open[:len(open)-1]
			continue
		}
		if n := len(open) - 1; n >= 0 && open[n].fields != nil {
			if !open[n].value {
				name, _ := token.(string)
				if open[n].fields[name] {
					return wrong("the field %q is given twice", store.Clip(name))
				}
				open[n].fields[name], open[n].value = true, true
				continue
			}
			open[n].value = false
		}
		switch token {
		case json.Delim('{'):
			open = append(open, level{fields: make(map[string]bool)})
		case json.Delim('['):
			open = append(open, level{})
		}
	}
}
