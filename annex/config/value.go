package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

type unit struct {
	name  string
	bytes int64
}

// units are those of sizes, the binary ones first: memory is counted in them, and the
// endurance of devices in the decimal ones.
var units = []unit{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1},
}

// ParseSize reads a size: a number and its unit, "64MiB", "1.5GiB", "600TB". The unit is not
// left out, since a bare number would be taken for bytes by one and for MiB by another.
func ParseSize(s string) (int64, error) {
	for _, u := range units {
		number, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		number = strings.TrimSuffix(number, " ")
		n, err := strconv.ParseFloat(number, 64)
		if err != nil || strings.ContainsAny(number, "xXpPeEiInN_+-") {
			break
		}
		bytes := n * float64(u.bytes)
		if bytes >= math.MaxInt64 || bytes != math.Trunc(bytes) {
			return 0, fmt.Errorf("%q is no whole number of bytes below 8 EiB", s)
		}
		return int64(bytes), nil
	}
	return 0, fmt.Errorf("%q is no size, which is a number with B, KiB, MiB, GiB, TiB, kB, MB, GB or TB", s)
}

// FormatSize writes a size as ParseSize reads it, in the largest unit of which it is a whole
// number.
func FormatSize(bytes int64) string {
	best := unit{"B", 1}
	for _, u := range units {
		if bytes != 0 && bytes%u.bytes == 0 && u.bytes > best.bytes {
			best = u
		}
	}
	return strconv.FormatInt(bytes/best.bytes, 10) + best.name
}

// ParseShare reads a share in percent: "10%", "0.2%".
func ParseShare(s string) (float64, error) {
	number, ok := strings.CutSuffix(s, "%")
	number = strings.TrimSuffix(number, " ")
	n, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || strings.ContainsAny(number, "xXpPiInN_") {
		return 0, fmt.Errorf("%q is no share: want percent, as \"10%%\" or \"0.2%%\"", s)
	}
	return n / 100, nil
}

// FormatShare writes a share as ParseShare reads it.
func FormatShare(share float64) string {
	// Fifteen digits are what a float64 surely keeps: the one that was written is found.
	return strconv.FormatFloat(share*100, 'g', 15, 64) + "%"
}

// FormatDuration writes a time without the parts that are nothing: "2m", not "2m0s".
func FormatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
