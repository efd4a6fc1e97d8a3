package ascii_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/tendhq/tend/internal/ascii"
)

func TestWhatDoesNotPrintIsEscapedAndReadsBackTheSame(t *testing.T) {
	for text, want := range map[string]string{
		"a\u202eb":     `"a\u202eb"`,
		"\x7f\u200b":   `"\u007f\u200b"`,
		"\U000e0041":   `"\udb40\udc41"`,
		"größe 漢字 😀 <": `"größe 漢字 😀 \u003c"`,
	} {
		var b bytes.Buffer
		if err := ascii.EncodeJSON(&b, text, ""); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); got != want+"\n" {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
		var back string
		if err := json.Unmarshal(b.Bytes(), &back); err != nil || back != text {
			t.Errorf("%q reads back as %q, %v", text, back, err)
		}
	}
	if err := ascii.EncodeJSON(new(bytes.Buffer), func() {}, " "); err == nil {
		t.Error("a function was encoded")
	}
}

func ExampleEncodeJSON() {
	var b bytes.Buffer
	_ = ascii.EncodeJSON(&b, map[string]string{"name": "exe\u202egpj"}, "")
	fmt.Print(b.String())
	// Output: {"name":"exe\u202egpj"}
}

func TestTextAndLineShowWhatTheyHold(t *testing.T) {
	const hostile = "a\x1b[2K\u009b1A\u202eb\r\nc\td\xffe\n größe 漢字 😀"
	if got, want := ascii.Text(hostile), "a\uFFFD[2K\uFFFD1A\uFFFDb\uFFFD\nc\td\uFFFDe\n größe 漢字 😀"; got != want {
		t.Errorf("Text: %q, want %q", got, want)
	}
	if got, want := ascii.Line(hostile), "a\uFFFD[2K\uFFFD1A\uFFFDb; c d\uFFFDe;  größe 漢字 😀"; got != want {
		t.Errorf("Line: %q, want %q", got, want)
	}
}
