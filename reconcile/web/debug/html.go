package debug

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
)

//go:embed page.css
var style string

//go:embed page.html
var markup string

// policy lets the browser show text in our style and send our forms back to us,
// and nothing else: what got past the escaping would not run.
var policy = "default-src 'none'; style-src 'sha256-" + sum(style) + "'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func sum(s string) string {
	h := sha256.Sum256([]byte(s))
	return base64.StdEncoding.EncodeToString(h[:])
}

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"style": func() template.CSS { return template.CSS(style) },
	"label": func(columns []string, i int) string {
		if i < len(columns) {
			return columns[i]
		}
		return ""
	},
}).Parse(markup))
