package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
)

// Outputs are what a create or an update of an external resource returned and what no later look can
// show, a generated password for example: values by their names, both secret to whatever prints, logs or
// marshals them. The zero value has none. Outputs with the same values are equal.
//
// They are for [Intent].Outputs, and not for a spec or a status.
type Outputs struct {
	values string // as they are stored; empty: none
}

// NewOutputs returns outputs with the values. A value may have any bytes; a name is UTF-8.
func NewOutputs(values map[string]string) Outputs {
	if len(values) == 0 {
		return Outputs{}
	}
	all := make(map[string][]byte, len(values))
	for name, value := range values {
		all[name] = []byte(value)
	}
	data, _ := json.Marshal(all) // in the order of the names
	return Outputs{string(data)}
}

// Values returns a copy of the values by their names.
func (o Outputs) Values() map[string]string {
	var all map[string][]byte
	if o.values == "" || json.Unmarshal([]byte(o.values), &all) != nil {
		return nil
	}
	values := make(map[string]string, len(all))
	for name, value := range all {
		values[name] = string(value)
	}
	return values
}

// Equal reports whether both have the same values; it is for packages that compare structs, as go-cmp does.
func (o Outputs) Equal(other Outputs) bool { return o == other }

// hidden is what is shown of outputs.
func (o Outputs) hidden() string {
	if o.values == "" {
		return ""
	}
	return Redacted
}

// Format implements [fmt.Formatter]: no verb prints a value.
func (o Outputs) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, o.hidden()) }

// LogValue implements [slog.LogValuer].
func (o Outputs) LogValue() slog.Value { return slog.StringValue(o.hidden()) }

// MarshalJSON implements [json.Marshaler].
func (o Outputs) MarshalJSON() ([]byte, error) { return json.Marshal(o.hidden()) }

// storedOutputs are outputs in the stored object. They are apart from the rest of the intent, so that
// the JSON of an object that people and programs get has nothing of them.
type storedOutputs Outputs

// outputsField has them in the stored object.
const outputsField = "outputs"

func (o storedOutputs) MarshalJSON() ([]byte, error) { return []byte(o.values), nil }

func (o *storedOutputs) UnmarshalJSON(data []byte) error {
	var all map[string][]byte
	if err := json.Unmarshal(data, &all); err != nil {
		return fmt.Errorf("%s: %w", outputsField, err)
	}
	values := make(map[string]string, len(all))
	for name, value := range all {
		values[name] = string(value)
	}
	*o = storedOutputs(NewOutputs(values))
	return nil
}

// decodeObject reads a stored object, with its outputs.
func decodeObject(data []byte, o object) error {
	if err := decodeJSON(data, o); err != nil || !bytes.Contains(data, []byte(`"`+outputsField+`"`)) {
		return err
	}
	var with struct {
		Outputs storedOutputs `json:"outputs"`
	}
	err := json.Unmarshal(data, &with)
	o.meta().Intent.Outputs = Outputs(with.Outputs)
	return err
}

// outputSecrets are the values of the outputs of an object.
func outputSecrets(o object, v *secrets) {
	for _, value := range o.meta().Intent.Outputs.Values() {
		v.Text(value)
	}
}

// hides reports whether something of the objects is not to be shown.
func (s *core) hides(objects ...object) bool {
	for _, o := range objects {
		if m := o.meta(); m != nil && m.Intent.Outputs.values != "" {
			return true
		}
	}
	return s.secret
}

// hidesOf is hides without a list of another type, which would cost every kind an allocation.
func (s *Store[S, T]) hidesOf(objects []*Object[S, T]) bool {
	return s.core.secret || slices.ContainsFunc(objects, func(o *Object[S, T]) bool { return o != nil && o.Intent.Outputs.values != "" })
}
