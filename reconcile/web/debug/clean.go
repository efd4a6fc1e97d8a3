package debug

import (
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// maxText is how many characters of one text are shown.
const maxText = 1000

// cut shortens a text and says by how much.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	n := 0
	for i := range s {
		if n == limit {
			return fmt.Sprintf("%s… (%d bytes more)", s[:i], len(s)-i)
		}
		n++
	}
	return s
}

// printable shows what does not print by its number: control characters, which a
// terminal would obey, and marks that hide text or turn its direction. Line ends
// stay.
func printable(s string) string {
	plain := true
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\n' || c >= 0x7f {
			plain = false
			break
		}
	}
	if plain {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n' || unicode.IsPrint(r):
			b.WriteRune(r)
		case r == '\t':
			b.WriteByte(' ')
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		i += n
	}
	return b.String()
}

// clean is what may be shown of a text.
func clean(s string) string { return printable(cut(s, maxText)) }

// text is a long text of the program's own, which is not cut.
type text string

// cutAll shortens every string in v, so that none is forgotten.
func cutAll(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() && v.Type() == reflect.TypeFor[string]() && v.Len() > maxText {
			v.SetString(cut(v.String(), maxText))
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			cutAll(v.Elem())
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				cutAll(v.Field(i))
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			cutAll(v.Index(i))
		}
	}
}
