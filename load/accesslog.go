package load

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"
)

// Limits of an access log.
const (
	MostReplayed = 100_000
	mostLine     = 64 << 10
	mostTarget   = 8 << 10
	// disorder is how much earlier than its predecessors a line may be: servers write a line
	// when its request has been answered.
	disorder = time.Minute
)

// Replay is the requests of an access log, each at its own moment.
type Replay struct {
	Moments  []time.Duration // since the first, ascending
	requests []HTTPRequest
	// Left counts the lines that were left out, by reason.
	Left map[string]int
	// Spread tells that the log has whole seconds only: the requests of one second are spread
	// evenly over it, in the order of their lines.
	Spread bool
	// Cut tells that requests after the time or the number that was asked for follow.
	Cut bool
}

// logged is one line.
type logged struct {
	at             time.Time
	method, target string
}

// The reasons for which a line is left out.
const (
	leftLine   = "not combined format or JSON with time, method and path"
	leftLong   = "longer than 64 KiB"
	leftTarget = "target is not a path"
	leftLate   = "outside of the time that is replayed"
)

// ReadAccessLog reads requests of an HTTP access log: lines in the combined or common format,
// or of JSON. It takes those of some methods whose target is a path, in the time that begins
// with the first, and at most [MostReplayed]. The error says that none could be taken.
func ReadAccessLog(from io.Reader, methods []string, span time.Duration) (*Replay, error) {
	r := &Replay{Left: map[string]int{}}
	var all []logged
	lines := bufio.NewReaderSize(from, mostLine)
	for {
		line, long, err := readLogLine(lines)
		if err != nil && err != io.EOF {
			return nil, err
		}
		if err == io.EOF && len(line) == 0 && !long {
			break
		}
		one, why := takeLine(line, long, methods)
		switch {
		case why != "":
			r.Left[why]++
		case len(all) > 0 && one.at.Sub(all[0].at) > span+disorder, len(all) == MostReplayed:
			r.Cut = true
		case one.at.IsZero(): // an empty line
		default:
			all = append(all, one)
		}
		if r.Cut || err == io.EOF {
			break
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no request can be replayed: %s", r.LeftOut())
	}
	slices.SortStableFunc(all, func(a, b logged) int { return a.at.Compare(b.at) })
	r.place(all, span)
	return r, nil
}

// readLogLine reads a line; of one that is too long only that.
func readLogLine(from *bufio.Reader) (line []byte, long bool, err error) {
	line, err = from.ReadSlice('\n')
	for errors.Is(err, bufio.ErrBufferFull) {
		long = true
		_, err = from.ReadSlice('\n')
	}
	if long {
		return nil, true, err
	}
	return bytes.TrimSpace(line), false, err
}

func takeLine(line []byte, long bool, methods []string) (one logged, why string) {
	switch {
	case long:
		return one, leftLong
	case len(line) == 0:
		return one, ""
	case line[0] == '{':
		one = parseJSONLine(line)
	default:
		one = parseCombined(string(line))
	}
	switch {
	case one.at.IsZero() || one.method == "" || one.target == "":
		return logged{}, leftLine
	case !slices.Contains(methods, one.method):
		return logged{}, "method " + methodName(one.method)
	case !isPath(one.target):
		return logged{}, leftTarget
	}
	return one, ""
}

// methodName keeps what a client chose to call its method off the screen.
func methodName(method string) string {
	for _, known := range []string{
		http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions, http.MethodConnect, http.MethodTrace,
	} {
		if method == known {
			return method
		}
	}
	return "unknown"
}

func isPath(target string) bool {
	return len(target) <= mostTarget && strings.HasPrefix(target, "/") && !strings.HasPrefix(target, "//") &&
		!strings.ContainsFunc(target, func(c rune) bool { return c <= ' ' || c == 0x7f })
}

const combinedTime = "02/Jan/2006:15:04:05 -0700"

// parseCombined reads: client identity user [time] "METHOD TARGET PROTOCOL" status ...
func parseCombined(line string) (one logged) {
	_, rest, ok := strings.Cut(line, "[")
	if !ok {
		return one
	}
	at, rest, ok := strings.Cut(rest, "]")
	if !ok {
		return one
	}
	_, rest, ok = strings.Cut(rest, `"`)
	if !ok {
		return one
	}
	request, _, ok := strings.Cut(rest, `"`) // a quote in a target is escaped, and makes it no path
	if !ok {
		return one
	}
	one.method, one.target = splitRequest(request)
	one.at = parseTime(at)
	return one
}

func splitRequest(request string) (method, target string) {
	fields := strings.Fields(request)
	if len(fields) < 2 || len(fields) > 3 || strings.Contains(request, `\`) {
		return "", ""
	}
	return fields[0], fields[1]
}

// The names that servers' JSON logs have, the first that is there.
var (
	jsonTimes   = []string{"time", "timestamp", `\@timestamp`, "ts", "time_iso8601", "time_local", "msec", "StartUTC"}
	jsonMethods = []string{"method", "request_method", "request.method", "RequestMethod"}
	jsonTargets = []string{"uri", "request_uri", "path", "url", "target", "request.uri", "RequestPath"}
)

func parseJSONLine(line []byte) (one logged) {
	if !gjson.ValidBytes(line) {
		return one
	}
	of := gjson.ParseBytes(line)
	first := func(names []string) string {
		for _, name := range names {
			if v := of.Get(name); v.Type == gjson.String || v.Type == gjson.Number {
				return v.String()
			}
		}
		return ""
	}
	one.method, one.target = first(jsonMethods), first(jsonTargets)
	if request := of.Get("request"); request.Type == gjson.String {
		one.method, one.target = splitRequest(request.String())
	}
	one.at = parseTime(first(jsonTimes))
	return one
}

// parseTime reads a time; the zero one of anything else. Numbers are seconds since 1970, or
// where they are too large for that milliseconds, microseconds or nanoseconds.
func parseTime(text string) time.Time {
	for _, layout := range []string{combinedTime, time.RFC3339Nano, "2006-01-02T15:04:05.999999999-0700"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at
		}
	}
	number, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(number) || number <= 0 || number > 1e19 {
		return time.Time{}
	}
	scale := 1.0
	for number/scale > 1e11 {
		scale *= 1000
	}
	seconds, part := math.Modf(number / scale)
	return time.Unix(int64(seconds), int64(math.Round(part*1e6))*1000)
}

// place gives sorted requests their moments.
func (r *Replay) place(all []logged, span time.Duration) {
	began := all[0].at
	r.Spread = !slices.ContainsFunc(all, func(l logged) bool { return l.at.Nanosecond() != 0 })
	for i := 0; i < len(all); {
		same := i + 1
		for r.Spread && same < len(all) && all[same].at.Equal(all[i].at) {
			same++
		}
		for n, one := range all[i:same] {
			moment := one.at.Sub(began) + time.Second*time.Duration(n)/time.Duration(same-i)
			if moment >= span {
				r.Cut = true
				r.Left[leftLate]++
				continue
			}
			r.Moments = append(r.Moments, moment)
			r.requests = append(r.requests, HTTPRequest{Method: one.method, Path: one.target})
		}
		i = same
	}
}

// LeftOut says which lines were left out; empty where none was.
func (r *Replay) LeftOut() string {
	reasons := make([]string, 0, len(r.Left))
	for why := range r.Left {
		reasons = append(reasons, why)
	}
	slices.SortFunc(reasons, func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Left[b], r.Left[a]), cmp.Compare(a, b))
	})
	for i, why := range reasons {
		lines := "lines"
		if r.Left[why] == 1 {
			lines = "line"
		}
		reasons[i] = fmt.Sprintf("%d %s left out: %s", r.Left[why], lines, why)
	}
	if len(reasons) == 0 && len(r.requests) == 0 {
		return "it has no lines"
	}
	return strings.Join(reasons, "; ")
}

// Target is a service that is sent the requests, each over a connection of its own, since a
// log does not tell which came over one. Any answer below 500 is right: a log holds requests
// for what is not there. It is for one [Run], with the replay's moments.
func (r *Replay) Target(address string) HTTP {
	var next atomic.Int64
	return HTTP{
		Address: address, NewConnections: true, StatusBelow: http.StatusInternalServerError,
		Next: func() HTTPRequest { return r.requests[min(int(next.Add(1)), len(r.requests))-1] },
	}
}

// First is the first of the requests.
func (r *Replay) First() HTTPRequest { return r.requests[0] }
