package cli

import (
	"crypto/rand"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// YAML's reader and writer make a float of each number that is no integer of 64 bits. A spec
// may have numbers of more digits: in a json.Number, in JSON of any form, or in an object whose
// type is not known. Such a number goes through YAML as the text that it is.

// numberForYAML gives a number of JSON a type that YAML prints as the same number.
func numberForYAML(n json.Number) any {
	text := n.String()
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i
	}
	if u, err := strconv.ParseUint(text, 10, 64); err == nil {
		return u
	}
	f, exact := asFloat(text)
	if exact {
		return f
	}
	node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!float", Value: text}
	if math.IsInf(f, 0) {
		node.Style = yaml.TaggedStyle // it would be read as a text
	}
	return node
}

// markNumbers makes texts, which begin with the mark, of the numbers below a node that a float
// does not hold.
func markNumbers(n *yaml.Node, mark string) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!float" {
		if text := asJSON(n.Value); json.Valid([]byte(text)) {
			if _, exact := asFloat(text); !exact {
				n.Tag, n.Value = "!!str", mark+text
			}
		}
	}
	for i, c := range n.Content {
		if n.Kind != yaml.MappingNode || i%2 == 1 { // keys are texts in JSON
			markNumbers(c, mark)
		}
	}
}

// newMark returns what no text begins with.
func newMark() string { return rand.Text() }

// unmarkNumbers makes numbers again of what markNumbers has marked.
func unmarkNumbers(v any, mark string) any {
	switch v := v.(type) {
	case string:
		if text, marked := strings.CutPrefix(v, mark); marked {
			return json.Number(text)
		}
	case []any:
		for i := range v {
			v[i] = unmarkNumbers(v[i], mark)
		}
	case map[string]any:
		for k := range v {
			v[k] = unmarkNumbers(v[k], mark)
		}
	}
	return v
}

// asJSON spells a float of YAML as JSON does.
func asJSON(text string) string {
	text = strings.TrimPrefix(strings.ReplaceAll(text, "_", ""), "+")
	sign := ""
	if rest, negative := strings.CutPrefix(text, "-"); negative {
		sign, text = "-", rest
	}
	if strings.HasPrefix(text, ".") {
		text = "0" + text
	}
	number, exponent := text, ""
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		number, exponent = text[:i], text[i:]
	}
	return sign + strings.TrimSuffix(number, ".") + exponent
}

// asFloat returns a number as a float, and whether that is printed as the same number.
func asFloat(text string) (f float64, exact bool) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return f, false
	}
	digits, exponent, ok := scientific(text)
	printed, exponentPrinted, _ := scientific(strconv.FormatFloat(f, 'e', -1, 64))
	return f, ok && digits == printed && exponent == exponentPrinted
}

// scientific returns the digits of a number, without zeros at their ends, and the power of ten
// that the first of them counts. A big.Rat would need a gigabyte for 1e999999999.
func scientific(text string) (digits string, exponent int, ok bool) {
	text = strings.TrimPrefix(text, "-") // a float has the same sign
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		var err error
		if exponent, err = strconv.Atoi(text[i+1:]); err != nil {
			return "", 0, false
		}
		text = text[:i]
	}
	whole, rest, _ := strings.Cut(text, ".")
	digits = strings.TrimLeft(whole+rest, "0")
	exponent += len(whole) - (len(whole+rest) - len(digits))
	if digits = strings.TrimRight(digits, "0"); digits == "" {
		return "", 0, true // zero
	}
	return digits, exponent, true
}
