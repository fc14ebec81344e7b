package process

import (
	"bytes"
	"strings"
	"testing"
)

func TestTailKeepsTheEnd(t *testing.T) {
	for _, most := range []int{1, 7, 1000} {
		tail := Tail{Most: most}
		var all []byte
		for i := range 100 {
			line := bytes.Repeat([]byte{byte('a' + i%26)}, i%13)
			if n, err := tail.Write(line); n != len(line) || err != nil {
				t.Fatal(n, err)
			}
			all = append(all, line...)
			if want := all[max(0, len(all)-most):]; !bytes.Equal(tail.Bytes(), want) {
				t.Fatalf("of %d bytes %q are kept, want %q", len(all), tail.Bytes(), want)
			}
			if tail.Cut() != (len(all) > most) {
				t.Fatalf("of %d bytes, %d kept: cut is %t", len(all), most, tail.Cut())
			}
			if cap(tail.kept) > 8*(most+13) {
				t.Fatalf("%d bytes are held for %d", cap(tail.kept), most)
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
		var tail Tail
		_, _ = tail.Write([]byte(text))
		if got := tail.LastLine(); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
