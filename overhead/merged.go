package overhead

import (
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/record"
)

// Merged is the histogram of that name of all of a condition's trials that count
// together; those of tainted blocks only where there are no others. It is nil
// where none was recorded.
func (r Reading) Merged(c record.Condition, name string) (*hdrhistogram.Histogram, error) {
	var clean, all []record.Histogram
	for _, t := range r.Trials(c) {
		text, ok := t.Histograms[name]
		if !ok {
			continue
		}
		all = append(all, text)
		if len(t.Taint) == 0 {
			clean = append(clean, text)
		}
	}
	if len(clean) == 0 {
		clean = all
	}
	var merged *hdrhistogram.Histogram
	for _, text := range clean {
		h, err := text.Decode()
		if err != nil {
			return nil, fmt.Errorf("histogram %s of %s: %w", name, c.ID, err)
		}
		if merged == nil {
			merged = h
			continue
		}
		merged.Merge(h)
	}
	return merged, nil
}
