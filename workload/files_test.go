package workload

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/image"
)

func TestParseFileTimes(t *testing.T) {
	times, err := ParseFileTimes(recorded(t, "files.json"))
	if err != nil {
		t.Fatal(err)
	}
	var operations []string
	for _, s := range times.Series {
		operations = append(operations, s.Operation)
		if s.Operation == "copyup" {
			continue
		}
		if h := s.Histogram(); h.TotalCount() != s.Count {
			t.Errorf("%s: %d of %d times in the histogram", s.Operation, h.TotalCount(), s.Count)
		}
		if m := s.MiddleHalf(); m < float64(s.Min) || m > float64(s.Max) || s.Mean() < float64(s.Min) || s.Mean() > float64(s.Max) {
			t.Errorf("%s: the middle half's mean is %g, the mean %g, of %d to %d", s.Operation, m, s.Mean(), s.Min, s.Max)
		}
	}
	if want := []string{"write", "open", "create", "copyup", "walk"}; !slices.Equal(operations, want) {
		t.Errorf("operations %q, want %q", operations, want)
	}
}

func TestFileTimesRefused(t *testing.T) {
	good := string(recorded(t, "files.json"))
	series := func(of string) string { return `{"clock_ns":1,"series":[` + of + `]}` }
	for name, c := range map[string]struct{ output, want string }{
		"nothing":            {"", "end of JSON"},
		"cut short":          {good[:len(good)-9], "unexpected end"},
		"no series":          {series(""), "measured nothing"},
		"no times":           {series(`{"operation":"open"}`), "0 times"},
		"fewer bars":         {strings.Replace(good, `"count":50`, `"count":51`, 1), "lacks 1 of its 51 times"},
		"more bars":          {strings.Replace(good, `"count":50`, `"count":49`, 1), "bars"},
		"bars out of order":  {series(`{"operation":"open","count":2,"min_ns":1,"max_ns":2,"sum_ns":3,"bars_ns":[[2,1],[1,1]]}`), "out of order"},
		"a negative bar":     {series(`{"operation":"open","count":1,"min_ns":1,"max_ns":2,"sum_ns":3,"bars_ns":[[1,2],[2,-1]]}`), "out of order"},
		"extremes reversed":  {series(`{"operation":"open","count":1,"min_ns":3,"max_ns":2,"sum_ns":3,"bars_ns":[[2,1]]}`), "from 3 to 2"},
		"no file":            {series(`{"operation":"copyup","files":[]}`), "no file"},
		"a file in no time":  {series(`{"operation":"copyup","files":[{"size":1,"first_open_ns":0,"second_open_ns":1}]}`), "times"},
		"a number too large": {series(`{"operation":"open","count":1e30}`), "cannot unmarshal"},
	} {
		if _, err := ParseFileTimes([]byte(c.output)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func FuzzParseFileTimes(f *testing.F) {
	f.Add(recorded(f, "files.json"))
	f.Add([]byte(`{"clock_ns":1,"series":[{"operation":"open","count":2,"min_ns":1,"max_ns":2,"sum_ns":3,"bars_ns":[[1,1],[2,1]]}]}`))
	f.Fuzz(func(t *testing.T, output []byte) {
		times, err := ParseFileTimes(output)
		if err != nil {
			return
		}
		for _, s := range times.Series {
			if s.Operation == "copyup" {
				continue
			}
			if m := s.MiddleHalf(); math.IsNaN(m) || m < 0 || s.Histogram().TotalCount() != s.Count {
				t.Errorf("accepted %+v", s)
			}
		}
	})
}

// The middle half's mean, worked out from a list.
func TestMiddleHalf(t *testing.T) {
	for _, c := range []struct {
		bars [][2]int64
		want float64
	}{
		{[][2]int64{{10, 1}}, 10},
		{[][2]int64{{10, 1}, {20, 2}, {1000, 1}}, 20},
		{[][2]int64{{1, 2}, {2, 2}, {3, 2}, {4, 2}}, 2.5},
		{[][2]int64{{1, 1}, {5, 1}}, 3},
		{[][2]int64{{1, 3}, {5, 1}}, 1}, // the fourth quarter is left out
	} {
		s := FileSeries{Bars: c.bars}
		for _, bar := range c.bars {
			s.Count += bar[1]
		}
		if got := s.MiddleHalf(); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("of %v: %g, want %g", c.bars, got, c.want)
		}
	}
}

func TestFilesDrive(t *testing.T) {
	one := `{"clock_ns":20,"series":[{"operation":"%s","count":4,"min_ns":10,"max_ns":1000,"sum_ns":1050,"bars_ns":[[10,1],[20,2],[1000,1]]}]}`
	tr := &trial{params: resolve(t, files{}), stdout: fmt.Sprintf(one, "write"), exit: Exit{Elapsed: time.Second, CPU: time.Second}}
	if err := (files{}).Drive(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	checkRecorded(t, files{}, tr)
	if got := tr.records; got["time"][0] != 20 || got["mean"][0] != 262.5 || got["longest"][0] != 1000 {
		t.Errorf("recorded %v", got)
	}
	tr.stdout = fmt.Sprintf(one, "open")
	if err := (files{}).Drive(t.Context(), tr); err == nil || !strings.Contains(err.Error(), "not the one operation") {
		t.Errorf("of another operation: %v", err)
	}
	tr.exit.Code, tr.stderr = 1, "files: write in /data: No space left on device\n"
	if err := (files{}).Drive(t.Context(), tr); err == nil || !strings.Contains(err.Error(), "No space left") {
		t.Errorf("of a program that failed: %v", err)
	}
}

func TestFilesProgram(t *testing.T) {
	for _, c := range []struct {
		pairs []string
		args  string
		data  string
	}{
		{nil, "write --count 20000 --dir /data --size 4096 --sync none", image.FilesData},
		{[]string{"size", "1048576"}, "write --count 512 --dir /data --size 1048576 --sync none", image.FilesData},
		{[]string{"sync", "fsync"}, "write --count 200 --dir /data --size 4096 --sync fsync", image.FilesData},
		{[]string{"operation", "open", "count", "7"}, "open --count 7 --file /shelf/file --mode read", image.FilesShelf},
		{[]string{"operation", "create"}, "create --count 5000 --dir /data", image.FilesData},
		{[]string{"operation", "walk"}, "walk --count 20 --dir /tree", image.FilesData},
	} {
		program, err := (files{}).Program(resolve(t, files{}, c.pairs...))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(program.Args[1:], " "); got != c.args || program.Data[0] != c.data {
			t.Errorf("%q: %q over %q, want %q over %q", c.pairs, got, program.Data, c.args, c.data)
		}
	}
	for name, value := range map[string]string{"operation": "fly", "size": "0", "sync": "yes", "count": "0"} {
		_, err := Resolve(files{}, map[string]string{name: value})
		refusedAs[*WrongValue](t, err, name+"="+value)
	}
}
