package foreign

import (
	"bufio"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// HACC-IO prints, for each checkpoint, how fast it was written and read back:
//
//	WRITE Checkpoint Perf: 1957.93 BW[MB/s] 63165824 Bytes 0.030767 MaxTime[sec]
//	READ Restart Perf: 3099.71 BW[MB/s] 63165824 Bytes 0.019434 MaxTime[sec]
//	CONTENTS VERIFIED... Success
//
// Its MB are MiB, which bytes and time of the same line show. It does not say how many
// particles and ranks it had: the order of the cells does.
var (
	haccioLine     = regexp.MustCompile(`^(WRITE|READ) \S+ Perf: +([0-9.eE+-]+) BW\[MB/s\] +([0-9]+) Bytes +([0-9.eE+-]+) MaxTime\[sec\]$`)
	haccioRule     = regexp.MustCompile(`^-+[A-Za-z ]*-+$`)
	haccioVerified = regexp.MustCompile(`^CONTENTS VERIFIED\.*(.*)$`)
)

// particleBytes is what HACC-IO writes of a particle: seven floats, an integer of 64
// bits and one of 16.
const particleBytes = 38

// haccioSlack is what a rank's file may hold besides its particles: a header of
// 24 MiB, as it is written, and as much again.
const haccioSlack = 48 << 20

func (t *told) readHaccio(file string, r io.Reader) ([]observation, error) {
	var all []observation
	count := map[string]int{} // of the lines of each metric, and so of cells
	total := 1
	for _, s := range t.cells {
		total *= len(s.levels)
	}
	scanner := bufio.NewScanner(r)
	line := 1
	for ; scanner.Scan(); line++ {
		at := position{file, line}
		text := strings.TrimSpace(scanner.Text())
		if m := haccioVerified.FindStringSubmatch(text); m != nil && !strings.EqualFold(strings.TrimSpace(m[1]), "success") {
			return nil, malformed(at, "what was read back is not what was written: %q", text)
		}
		m := haccioLine.FindStringSubmatch(text)
		if m == nil {
			if strings.Contains(text, "BW[MB/s]") {
				return nil, malformed(at, "%.80q is not as HACC-IO writes it: WRITE Checkpoint Perf: 1957.93 BW[MB/s] 63165824 Bytes 0.030767 MaxTime[sec]", text)
			}
			if text != "" && !haccioVerified.MatchString(text) && !haccioRule.MatchString(text) {
				t.unread.add(noResult, at, text)
			}
			continue
		}
		metric := strings.ToLower(m[1])
		if count[metric] == total {
			return nil, wanted("cells", "names %d cells, and %s has more", total, at)
		}
		o := observation{metric: metric, unit: "B/s", higher: true, factors: cell(t.cells, count[metric]), at: at}
		count[metric]++
		var bytes int64
		var err error
		if o.value, bytes, err = haccioRate(m[2], m[3], m[4], at); err != nil {
			return nil, err
		}
		if err := o.holds(bytes); err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	if err := scanner.Err(); err != nil {
		return nil, malformed(position{file, line}, "%v: want what HACC-IO prints, and no other data", err)
	}
	for _, metric := range []string{"write", "read"} {
		if n := count[metric]; n != total {
			return nil, wanted("cells", "names %d cells, and %s has %d of %s", total, file, n, metric)
		}
	}
	return all, nil
}

// haccioRate gives the bytes a second of a line. The line's own rate has more digits
// than its time; in which unit it is, bytes and time tell.
func haccioRate(rateText, bytesText, secondsText string, at position) (rate float64, bytes int64, err error) {
	if rate, err = number(rateText, at); err != nil {
		return 0, 0, err
	}
	seconds, err := number(secondsText, at)
	if err != nil {
		return 0, 0, err
	}
	if bytes, err = strconv.ParseInt(bytesText, 10, 64); err != nil {
		return 0, 0, malformed(at, "%s bytes are no number of bytes", bytesText)
	}
	if !(rate > 0) || !(seconds > 0) || bytes <= 0 {
		return 0, 0, malformed(at, "a rate, a size and a time must be positive")
	}
	for _, unit := range []float64{1 << 20, 1e6} {
		if math.Abs(rate*unit*seconds/float64(bytes)-1) < 0.01 {
			return rate * unit, bytes, nil
		}
	}
	return 0, 0, malformed(at, "%s MB/s is not %s bytes in %s s, neither in MB nor in MiB", rateText, bytesText, secondsText)
}

// holds refuses a cell whose particles are not in its bytes, where it names them:
// the cells are then not in the order that was said.
func (o *observation) holds(bytes int64) error {
	particles, ok := o.of("particles")
	ranks, also := o.of("ranks")
	if !ok || !also {
		return nil
	}
	p, err := strconv.ParseFloat(particles, 64)
	n, err2 := strconv.ParseFloat(ranks, 64)
	if err != nil || err2 != nil {
		return nil
	}
	if least := particleBytes * p * n; float64(bytes) < least || float64(bytes) > least+haccioSlack*n {
		return wanted("cells", "%s: %s particles of %d bytes by %s ranks are not %d bytes: the cells are in another order, or have other levels", o.at, particles, particleBytes, ranks, bytes)
	}
	return nil
}
