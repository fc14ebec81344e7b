package network

import (
	"math"
	"strconv"
	"strings"

	"tare/study/kit"
)

// kilobyte is a thousand bytes.
const kilobyte = 1000

// Sizes are S4's messages, in bytes.
func Sizes() []int {
	return []int{1 * kilobyte, 10 * kilobyte, 30 * kilobyte, 50 * kilobyte, 70 * kilobyte, 100 * kilobyte}
}

// SmallSizes are of the length by which S4 explains another paper's loss of 80 % over the bridge, in bytes.
func SmallSizes() []int { return []int{64, 100, largestSmall} }

// largestSmall is the greatest of them.
const largestSmall = 200

// units of a size; without a unit it is in kilobytes, as in S4.
var units = []struct {
	suffix string
	bytes  float64
}{{"MB", 1e6}, {"KB", kilobyte}, {"B", 1}, {"", kilobyte}}

// ParseSize reads a message's size: "10" and "10KB" are 10,000 bytes, "64B" 64.
func ParseSize(text string) (int, error) {
	for _, u := range units {
		number, ok := strings.CutSuffix(strings.ToUpper(strings.TrimSpace(text)), u.suffix)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		bytes := math.Round(v * u.bytes)
		if err != nil || !(bytes >= LeastSize && bytes <= GreatestSize) {
			break
		}
		return int(bytes), nil
	}
	return 0, kit.Usagef("--size %s: want 1B to %s, such as 1, 10KB or 64B (a number alone is in KB of 1000 bytes)", text, sizeText(GreatestSize))
}

// sizeText writes a size as people do: "10 KB".
func sizeText(bytes int) string {
	if bytes < kilobyte {
		return strconv.Itoa(bytes) + " B"
	}
	return strconv.FormatFloat(float64(bytes)/kilobyte, 'f', -1, 64) + " KB"
}

// formatSizes and parseSizes keep a condition's sizes in its factors.
func formatSizes(sizes []int) string {
	all := make([]string, len(sizes))
	for i, s := range sizes {
		all[i] = strconv.Itoa(s)
	}
	return strings.Join(all, ",")
}

// parseSizes skips what is not a size, because others may have written the record.
func parseSizes(text string) []int {
	var sizes []int
	for _, one := range strings.Split(text, ",") {
		if s, err := strconv.Atoi(one); err == nil && s >= LeastSize && s <= GreatestSize {
			sizes = append(sizes, s)
		}
	}
	return sizes
}
