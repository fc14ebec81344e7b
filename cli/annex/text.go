package annex

import (
	"math"
	"strconv"
	"time"
)

var sizeUnits = []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}

// sizeText is a size to three figures: "1.25 GiB".
func sizeText(bytes int64) string {
	value, unit := scaled(bytes)
	return value + " " + sizeUnits[unit]
}

// shortSize is a size in five columns at most: "1.2G", "512M".
func shortSize(bytes int64) string {
	v, unit := float64(bytes), 0
	for math.Abs(v) >= 999.5 && unit < len(sizeUnits)-1 {
		v /= 1024
		unit++
	}
	digits := 0
	if unit > 0 && math.Abs(v) < 9.95 && v != math.Trunc(v) {
		digits = 1
	}
	return strconv.FormatFloat(v, 'f', digits, 64) + sizeUnits[unit][:1]
}

func scaled(bytes int64) (value string, unit int) {
	v := float64(bytes)
	for math.Abs(v) >= 999.5 && unit < len(sizeUnits)-1 {
		v /= 1024
		unit++
	}
	digits := 0
	if unit > 0 {
		switch a := math.Abs(v); {
		case v == math.Trunc(v):
		case a < 9.995:
			digits = 2
		case a < 99.95:
			digits = 1
		}
	}
	return strconv.FormatFloat(v, 'f', digits, 64), unit
}

// shareText is a share in percent, in five columns: "0.2%", "12%", "100%".
func shareText(share *float64) string {
	if share == nil || math.IsNaN(*share) || math.IsInf(*share, 0) {
		return "-"
	}
	percent := 100 * *share
	switch {
	case percent == 0:
		return "0%"
	case math.Abs(percent) < 0.05:
		return "<0.1%"
	case math.Abs(percent) < 9.95:
		return strconv.FormatFloat(percent, 'f', 1, 64) + "%"
	}
	return strconv.FormatFloat(percent, 'f', 0, 64) + "%"
}

// spanText is a time in five columns: "85ms", "12s", "2m10s" as "2m", "3h", "4d". A part
// that is left out is cut off, not rounded up: what is expected in 119 s is not two minutes
// away.
func spanText(d time.Duration) string {
	sign := ""
	if d < 0 {
		sign, d = "-", -d
	}
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if d >= u.unit {
			return sign + strconv.FormatInt(int64(d/u.unit), 10) + u.name
		}
	}
	return sign + strconv.FormatInt(d.Milliseconds(), 10) + "ms"
}

func seconds(s float64) time.Duration {
	const most = float64(math.MaxInt64 / int64(time.Second))
	return time.Duration(min(max(s, -most), most) * float64(time.Second))
}

// plural is "1 page", "2 pages".
func plural(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.FormatInt(n, 10) + " " + noun
}
