package kit

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"tare/kernel/cgroup"
)

// Sentence makes one of a clause; nothing of nothing.
func Sentence(clause string) string {
	if clause == "" {
		return ""
	}
	return strings.ToUpper(clause[:1]) + clause[1:] + "."
}

// Short writes a duration with three digits or so: "1.23 ms", "170 ms", "2 min 30 s".
func Short(d time.Duration) string {
	for unit := time.Second; unit > time.Nanosecond; unit /= 10 {
		if d.Abs() >= unit {
			return Exact(d.Round(unit / 100))
		}
	}
	return Exact(d)
}

// Bandwidth writes a CPU quota: "13 ms in each 100 ms".
func Bandwidth(b cgroup.Bandwidth) string {
	if b.Quota == 0 {
		return "unlimited"
	}
	text := fmt.Sprintf("%s in each %s", Short(b.Quota), Short(b.Period))
	if b.Burst > 0 {
		text += ", saving up to " + Short(b.Burst)
	}
	return text
}

// units are those of durations, the longest first.
var units = []struct {
	name   string
	length time.Duration
}{{"h", time.Hour}, {"min", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}, {"µs", time.Microsecond}, {"ns", 1}}

// Exact writes a duration with all its digits, as its String method does, with a space before each
// unit: "1.5 ms", "2 min 30 s".
func Exact(d time.Duration) string {
	if d < 0 {
		return "-" + Exact(-d)
	}
	var parts []string
	for _, u := range units {
		switch {
		case d < u.length:
		case u.length >= time.Minute:
			parts = append(parts, fmt.Sprintf("%d %s", d/u.length, u.name))
			d %= u.length
		default:
			number := strconv.FormatFloat(float64(d)/float64(u.length), 'f', -1, 64)
			return strings.Join(append(parts, number+" "+u.name), " ")
		}
	}
	if parts == nil {
		return "0 s"
	}
	return strings.Join(parts, " ")
}
