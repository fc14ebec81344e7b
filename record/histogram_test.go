package record

import (
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/go-cmp/cmp"
)

func TestHistogramsThatAreNone(t *testing.T) {
	if _, err := EncodeHistogram(nil); err == nil {
		t.Error("no histogram was encoded")
	}
	for _, h := range []Histogram{"", "????", "AAAA", Histogram(strings.Repeat("A", maxHistogram+1))} {
		if _, err := h.Decode(); err == nil {
			t.Errorf("%.10q was decoded", h)
		}
	}
}

func FuzzHistogram(f *testing.F) {
	for _, values := range [][]int64{nil, {1}, {1, 10, 100, 1e6}} {
		h := hdrhistogram.New(1, 60_000_000, 2)
		for _, v := range values {
			if err := h.RecordValue(v); err != nil {
				f.Fatal(err)
			}
		}
		encoded, err := EncodeHistogram(h)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(encoded))
	}
	f.Fuzz(func(t *testing.T, data string) {
		h, err := Histogram(data).Decode()
		if err != nil {
			return
		}
		again, err := EncodeHistogram(h)
		if err != nil {
			t.Fatal(err)
		}
		back, err := again.Decode()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(h.Distribution(), back.Distribution()); diff != "" {
			t.Error(diff)
		}
	})
}
