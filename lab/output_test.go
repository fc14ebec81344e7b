package lab

import (
	"bytes"
	"strings"
	"testing"
)

func TestOutputKeepsTheEnd(t *testing.T) {
	for _, most := range []int{1, 7, 1000} {
		o := Output{Most: most}
		var all []byte
		for i := range 100 {
			line := bytes.Repeat([]byte{byte('a' + i%26)}, i%13)
			if n, err := o.Write(line); n != len(line) || err != nil {
				t.Fatal(n, err)
			}
			all = append(all, line...)
			if want := all[max(0, len(all)-most):]; !bytes.Equal(o.Bytes(), want) {
				t.Fatalf("of %d bytes %q are kept, want %q", len(all), o.Bytes(), want)
			}
			if cap(o.kept) > 8*(most+13) {
				t.Fatalf("%d bytes are held for %d", cap(o.kept), most)
			}
		}
	}
}

func TestLastLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "",
		" \n\n":                          "",
		"one":                            "one",
		"one\ntwo\n\n":                   "two",
		"x\n" + strings.Repeat("a", 300): strings.Repeat("a", 200),
		"x\n\xff!":                       "?!",
	} {
		var o Output
		_, _ = o.Write([]byte(text))
		if got := o.LastLine(); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
