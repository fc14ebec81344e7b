package stats

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
)

func TestFilledBucketsAreThoseOfTheDistribution(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, lowest := range []int64{1, 2, 3, 1000, 1024} {
		for digits := 1; digits <= 5; digits++ {
			h := hdrhistogram.New(lowest, 3_600_000_000, digits)
			for range 2000 {
				if err := h.RecordValue(int64(1) << r.IntN(31) * (1 + r.Int64N(3)) / 2); err != nil {
					t.Fatal(err)
				}
			}
			want := slices.DeleteFunc(h.Distribution(), func(b hdrhistogram.Bar) bool { return b.Count == 0 })
			if got := filled(h); !slices.Equal(got, want) {
				t.Errorf("from %d, %d digits: %v, want %v", lowest, digits, got, want)
			}
		}
	}
	if got := filled(hdrhistogram.New(1, 1000, 3)); len(got) > 0 {
		t.Errorf("an empty one has %v", got)
	}
}
