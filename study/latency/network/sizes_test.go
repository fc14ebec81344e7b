package network

import (
	"errors"
	"slices"
	"testing"

	"tare/study/kit"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int{
		"1": 1000, "10KB": 10_000, "10 kb": 10_000, "0.5": 500, "1B": 1, "64b": 64, "1MB": 1_000_000, "16777216B": GreatestSize,
	} {
		if got, err := ParseSize(text); got != want || err != nil {
			t.Errorf("%q is %d bytes (%v), want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "-1", "0.0001", "17000KB", "ten", "KB", "1e300", "NaN", "1 GB"} {
		var wrong *kit.Usage
		if got, err := ParseSize(text); !errors.As(err, &wrong) {
			t.Errorf("%q was read as %d bytes (%v)", text, got, err)
		}
	}
}

func FuzzParseSize(f *testing.F) {
	f.Add("10KB")
	f.Add("0x1pB")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseSize(text)
		if err == nil && (got < LeastSize || got > GreatestSize) {
			t.Errorf("%q was read as %d bytes", text, got)
		}
	})
}

// Sizes are kept in a record as they were.
func FuzzSizesInARecord(f *testing.F) {
	f.Add(1000, 100_000, "x,,7")
	f.Fuzz(func(t *testing.T, a, b int, text string) {
		parseSizes(text) // whatever others wrote
		in := func(s int) int { return LeastSize + (s%GreatestSize+GreatestSize)%GreatestSize }
		want := []int{in(a), in(b)}
		if got := parseSizes(formatSizes(want)); !slices.Equal(got, want) {
			t.Errorf("%v came back as %v", want, got)
		}
	})
}
