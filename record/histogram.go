package record

import (
	"errors"
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// maxHistogram is above what the finest histogram in use (five digits from a
// microsecond to an hour) takes, and keeps a hostile one from being inflated.
const maxHistogram = 4 << 20

// EncodeHistogram gives h as it is stored.
func EncodeHistogram(h *hdrhistogram.Histogram) (Histogram, error) {
	if h == nil {
		return "", &Invalid{What: "histogram", Why: "there is none"}
	}
	data, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return "", fmt.Errorf("encode a histogram: %w", err)
	}
	return Histogram(data), nil
}

// Decode gives the histogram back.
func (h Histogram) Decode() (*hdrhistogram.Histogram, error) {
	if len(h) > maxHistogram {
		return nil, fmt.Errorf("decode a histogram: %d bytes are more than any of ours has", len(h))
	}
	decoded, err := hdrhistogram.Decode([]byte(h))
	if err != nil {
		return nil, fmt.Errorf("decode a histogram: %w", err)
	}
	if decoded == nil {
		return nil, errors.New("decode a histogram: it is empty")
	}
	return decoded, nil
}
