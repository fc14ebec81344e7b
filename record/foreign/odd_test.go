package foreign_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"tare/record"
	"tare/record/foreign"
)

// odd is a file of public reports of people who import such files, rebuilt.
func odd(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "odd", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

var (
	hyperfine = foreign.Options{Format: foreign.Hyperfine}
	redis     = foreign.Options{Format: foreign.RedisBenchmark, Factors: []string{"storage=bare"}, Condition: []string{"storage"}}
	rows      = foreign.Options{Format: foreign.CSV, Values: []string{"seconds"}, Units: []string{"s"}, Condition: []string{"storage"}, Baseline: []string{"bare"}}
	gobench   = foreign.Options{Format: foreign.Benchfmt, Better: []string{"lower"}, Condition: []string{"at"}, Baseline: []string{"base"}}
)

// with gives options a change.
func with(o foreign.Options, change func(*foreign.Options)) foreign.Options {
	change(&o)
	return o
}

func utf16Text(order binary.AppendByteOrder, text string) string {
	var data []byte
	for _, unit := range utf16.Encode([]rune("\ufeff" + text)) {
		data = order.AppendUint16(data, unit)
	}
	return string(data)
}

// Files that other programs write, and that others read wrongly, are read right: each value
// under its own condition and metric.
func TestOddFilesAreRead(t *testing.T) {
	const head = `"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"` + "\n"
	const plainCSV = "storage,seconds\nbare,1.5\nbind,2\n"
	two := map[string][]float64{"csv@bare seconds": {1.5}, "csv@bind seconds": {2}}
	for what, c := range map[string]struct {
		opt      foreign.Options
		contents string
		want     map[string][]float64 // by condition and metric
		notes    []string             // each is in one of the run's
	}{
		"one command twice": {hyperfine, odd(t, "same-command-twice.json"),
			map[string][]float64{"hyperfine@app time": {1, 1.01, .99, 1}, "hyperfine@app (2) time": {1.05, 1.06, 1.04, 1.05}}, []string{`this one is "app (2)"`}},
		"one name with two parameters": {hyperfine, `{"results":[{"command":"app","times":[1],"exit_codes":[0],"parameters":{"n":"1"}},{"command":"app","times":[2],"exit_codes":[0],"parameters":{"n":"2"}}]}`,
			map[string][]float64{"hyperfine[n=1]@app time": {1}, "hyperfine[n=2]@app time": {2}}, nil},
		"runs that failed": {hyperfine, odd(t, "mixed-exit.json"),
			map[string][]float64{"hyperfine@app --old time": {2.01, 1.99, 2.02, 2}, "hyperfine@app --new time": {2.03, 2.02, 2.04}}, nil},
		"no exit codes": {hyperfine, `{"results":[{"command":"app","times":[1,2]}]}`,
			map[string][]float64{"hyperfine@app time": {1, 2}}, []string{`1 results without exit codes, of which failed runs count as any other, at results.csv: "app"`}},
		"a word that looks like no number, in a command": {hyperfine, `{"results":[{"command":"app \"NaN","times":[1],"exit_codes":[0]}]}`,
			map[string][]float64{"hyperfine@app \"NaN time": {1}}, nil},

		"a section with a command of its own": {redis, odd(t, "plain-two.txt"),
			map[string][]float64{"redis-benchmark@bare get": {117647.06}, "redis-benchmark@bare set key:__rand_int__ value": {55000}}, nil},
		"SET beside a command that sets": {redis, odd(t, "two-set.csv"),
			map[string][]float64{"redis-benchmark@bare set": {100000}, "redis-benchmark@bare set key:__rand_int__ value": {50000}}, nil},
		"quotes in a title": {redis, odd(t, "inner-quotes.csv"),
			map[string][]float64{`redis-benchmark@bare eval return "x" 0`: {81967.21}, "redis-benchmark@bare get": {117647.06}}, nil},
		"quotes and commas in a title": {redis, head + `"eval return {"a","b"} 0","10","1","1","1","1","1","1"` + "\n",
			map[string][]float64{`redis-benchmark@bare eval return {"a","b"} 0`: {10}}, nil},
		"Redis 7": {redis, odd(t, "v7.csv"),
			map[string][]float64{"redis-benchmark@bare get": {117647.06}, "redis-benchmark@bare lrange_100": {50000}}, []string{`1 tests that only prepare another, at results.csv:3: "lpush"`}},
		"Redis 7 without its headings": {redis, strings.TrimPrefix(odd(t, "v7.csv"), head), map[string][]float64{"redis-benchmark@bare get": {117647.06}, "redis-benchmark@bare lrange_100": {50000}}, []string{"1 tests that only prepare"}},
		"Redis 6.0, with an exponent":  {redis, "\"GET\",\"1.17647e+05\"\r\n", map[string][]float64{"redis-benchmark@bare get": {117647}}, nil},
		"-q with a colon in a title and a warning": {redis, "WARNING: Could not fetch server CONFIG\nget a:b: rps=0.0 (overall: -nan)\rget a:b: 5.5 requests per second, p50=0.1 msec\n",
			map[string][]float64{"redis-benchmark@bare get a:b": {5.5}}, []string{`1 lines that hold no result, at results.csv:1: "WARNING`}},
		"Redis 2, with two of one first word": {redis, "\"PING (inline)\",\"1\"\n\"PING\",\"2\"\n", map[string][]float64{"redis-benchmark@bare PING (inline)": {1}, "redis-benchmark@bare ping": {2}}, nil},

		"commas in a name": {with(gobench, func(o *foreign.Options) {
			o.Condition, o.Baseline = []string{"part1"}, []string{"TOML", "sections=5", "pages=1000"} // as the flag splits it
		}), odd(t, "key-value-with-commas.txt"),
			map[string][]float64{"benchfmt@TOML,sections=5,pages=1000 B/op": {68518904, 68483199}, "benchfmt@YAML,sections=5,pages=1000 B/op": {78518904, 78483199}}, nil},
		"commas in cells": {gobench, "BenchmarkX/a,b=1/at=base 1 2 B/op\nBenchmarkX/a/at=base 1 3 B/op\n",
			map[string][]float64{`benchfmt[part1="a,b=1"]@base B/op`: {2}, "benchfmt[part1=a]@base B/op": {3}}, nil},
		"seconds and nanoseconds": {with(gobench, func(o *foreign.Options) { o.Baseline = []string{"old"} }), odd(t, "seconds-and-ns.txt"),
			map[string][]float64{"benchfmt@old sec/op": {1.5, 1.51}, "benchfmt@new sec/op": {1.7, 1.71}}, nil},
		"benchmarks that fail": {gobench, "goos: linux\nBenchmarkY\n--- FAIL: BenchmarkY\nBenchmarkX/at=base\nBenchmarkX/at=base-8 \t 1 2 B/op\n    x_test.go:3: log\npanic: oh\nFAIL\nexit status 1\nFAIL\tx\t1s\n",
			map[string][]float64{"benchfmt@base B/op": {2}}, []string{
				`5 lines that tell of a failure, the first at results.csv:3: "--- FAIL: BenchmarkY"`,
				`1 benchmarks that began and have no result, at results.csv:2: "BenchmarkY"`,
				`1 lines that hold no result, at results.csv:6: "x_test.go:3: log"`}},
		"what a program prints as it dies is no setting": {gobench, "panic: a\nBenchmarkX/at=base 1 2 B/op\npanic: b\nBenchmarkX/at=base 1 3 B/op\n", map[string][]float64{"benchfmt@base B/op": {2, 3}}, []string{"2 lines that tell of a failure"}},
		"two CPUs":        {gobench, "cpu: A\nBenchmarkX/at=base 1 2 B/op\ncpu: B\nBenchmarkX/at=base 1 3 B/op\n", map[string][]float64{"benchfmt@base B/op": {2, 3}}, []string{`several hosts: "A" at first, and "B" at results.csv`}},
		"nothing dropped": {gobench, "goos: linux\npkg: x\nUnit B/op better=lower\nBenchmarkX/at=base 1 2 B/op\nPASS\nok  \tx\t1s\n?   \ty\t[no test files]\n", map[string][]float64{"benchfmt@base B/op": {2}}, nil},

		"a mark before a quoted heading": {with(rows, func(o *foreign.Options) { o.Ignore = []string{"note"} }), odd(t, "bom-crlf-quoted.csv"),
			map[string][]float64{"csv@bare seconds": {1.234, 1.240}, "csv@bind seconds": {1.301, 1.299}}, nil},
		"UTF-16 of Windows":      {rows, utf16Text(binary.LittleEndian, plainCSV), two, nil},
		"UTF-16, the other way":  {rows, utf16Text(binary.BigEndian, plainCSV), two, nil},
		"carriage returns alone": {rows, strings.ReplaceAll(plainCSV, "\n", "\r"), two, nil},
		"comments": {rows, "# measured on a Monday\nstorage,seconds\nbare,1.5\n# bind, on a Tuesday\n\nbind,2\n#\n", two,
			[]string{`3 lines that begin with #, the first at results.csv:1: "# measured on a Monday"`}},
		"a comment in quotes is a level":       {rows, "storage,seconds\nbare,1\n\"#1\",2\n", map[string][]float64{"csv@bare seconds": {1}, "csv@#1 seconds": {2}}, nil},
		"a line of a field that begins with #": {with(rows, func(o *foreign.Options) { o.Ignore = []string{"note"} }), "storage,note,seconds\nbare,\"a\n# b,c,1\",1.5\nbind,x,2\n", two, nil},
		"empty values":                         {rows, "storage,seconds\nbare,1.5\nbare,\nbind,2\nbind,\n", two, []string{"2 empty values, which count as not measured, the first at results.csv:3"}},
	} {
		run, err := text(c.opt, c.contents)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		got := map[string][]float64{}
		for _, condition := range run.Conditions {
			for _, m := range condition.Metrics {
				got[condition.ID+" "+m.Name] = values(t, run, condition.ID, m.Name)
			}
		}
		for key, want := range c.want {
			if !slices.EqualFunc(got[key], want, func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }) {
				t.Errorf("%s: %s is %v, want %v; there are %v", what, key, got[key], want, got)
			}
		}
		for _, note := range c.notes {
			if !slices.ContainsFunc(run.Plan.Notes, func(n string) bool { return strings.Contains(n, note) }) {
				t.Errorf("%s: no note %q among %q", what, note, run.Plan.Notes)
			}
		}
		for _, n := range run.Plan.Notes {
			if len(c.notes) == 0 && strings.HasPrefix(n, "not read") {
				t.Errorf("%s: %q", what, n)
			}
		}
	}
}

// One command in two files may be one condition, or two: it is said how it is taken.
func TestCommandInTwoFiles(t *testing.T) {
	old := [2]string{"old.json", `{"results":[{"command":"app","times":[1,1.1],"exit_codes":[0,0]}]}`}
	now := [2]string{"new.json", strings.ReplaceAll(old[1], "1.1", "2")}
	says := func(opt foreign.Options) (conditions int, said bool) {
		_, run := unjudged(t, opt, old, now)
		return len(run.Conditions), slices.ContainsFunc(run.Plan.Notes, func(n string) bool {
			return strings.Contains(n, `"app" is in new.json, old.json, and counts as one condition`)
		})
	}
	if conditions, said := says(hyperfine); conditions != 1 || !said {
		t.Errorf("%d conditions, told: %v", conditions, said)
	}
	apart := with(hyperfine, func(o *foreign.Options) { o.Name, o.Condition = "{file}.json", []string{"file"} })
	if conditions, said := says(apart); conditions != 2 || said {
		t.Errorf("by their names: %d conditions, told: %v", conditions, said)
	}
}

// What cannot be read for sure is refused, by its line and with what to do.
func TestOddFilesAreRefused(t *testing.T) {
	for what, c := range map[string]struct {
		opt      foreign.Options
		contents string
		says     []string
	}{
		"no number among times":     {hyperfine, odd(t, "nan.json"), []string{`result 1 ("app")`, "time 2"}},
		"Infinity among times":      {hyperfine, `{"results":[{"command":"a","times":[-Infinity],"exit_codes":[0]}]}`, []string{`result 1 ("a")`, "time 1"}},
		"too few exit codes":        {hyperfine, `{"results":[{"command":"a","times":[1,2],"exit_codes":[0]}]}`, []string{"2 times and 1 exit codes"}},
		"broken JSON":               {hyperfine, "{\n\"results\":[\n}", []string{"results.csv:3", "--export-json"}},
		"two exports in a file":     {hyperfine, "{\"results\":[]}\n{\"results\":[]}", []string{"results.csv:2"}},
		"times of text":             {hyperfine, "{\"results\":[\n{\"command\":\"a\",\"times\":[\"1\"]}]}", []string{"results.csv:2", "times"}},
		"an infinite rate":          {redis, odd(t, "inf.csv"), []string{"results.csv:2", "PING_INLINE", "-n"}},
		"an infinite rate of -q":    {redis, "GET: inf requests per second\n", []string{"results.csv:1", "GET"}},
		"an infinite rate in text":  {redis, "====== GET ======\n  1 requests completed in 0.00 seconds\n\ninf requests per second\n", []string{"results.csv:1", "GET"}},
		"a decimal comma of redis":  {redis, "\"GET\",\"117647,06\"\n", []string{"results.csv:1", "decimal point"}},
		"a line cut short":          {redis, "\"GET\",\"117647.06\n", []string{"results.csv:1"}},
		"a column more":             {redis, "\"test\",\"rps\"\n\"GET\",\"1\",\"2\"\n", []string{"results.csv:2"}},
		"two rates under one title": {redis, "====== GET ======\n  1 requests completed in 0.01 seconds\n\n5 requests per second\n6 requests per second\n", []string{"results.csv:5", "title"}},
		"a title of two lines":      {redis, "====== eval a\nb ======\n  1 requests completed in 0.01 seconds\n\n5 requests per second\n", []string{"results.csv:1", "one line"}},
		"a server that refuses":     {redis, "====== SET ======\nError from server: LOADING\n", []string{"results.csv:2", "LOADING"}},
		"a benchmark that prints":   {gobench, "pkg: x\nBenchmarkX/at=base-8   hello\n   1 2 ns/op\n", []string{"results.csv:2", "prints"}},
		"one unit twice on a line":  {gobench, "BenchmarkX/at=base 1 2 ns/op 3 sec/op\n", []string{"results.csv:1", "two values in sec/op"}},
		"one key twice in a name":   {gobench, "BenchmarkX/at=base/at=head 1 2 ns/op\n", []string{"results.csv:1", "at twice"}},
		"go test -json":             {gobench, "{\"Action\":\"output\"}\n", []string{"holds no figures", `begins with "{\"Action`}},
		"semicolons":                {with(rows, func(o *foreign.Options) { o.Values = []string{"sekunden"} }), odd(t, "german.csv"), []string{"results.csv:1", `";"`, "tr ',;' '.,'"}},
		"semicolons and a comma":    {rows, "storage;time, s;x\nbare;1,2;3\n", []string{"results.csv:1", `";"`}},
		"tabs":                      {rows, "storage\tseconds\nbare\t1\n", []string{"results.csv:1", `tr ',\t' '.,'`}},
		"bars":                      {rows, "storage|seconds\nbare|1\n", []string{"results.csv:1", `"|"`}},
		"a spreadsheet's mark":      {rows, "sep=,\nstorage,seconds\nbare,1\n", []string{"results.csv:1", "remove the line"}},
		"a decimal comma":           {rows, "storage,seconds\nbare,\"1,234\"\n", []string{"results.csv:2", `"1,234"`, "decimal point"}},
		"a hexadecimal number":      {rows, "storage,seconds\nbare,0x10\n", []string{"results.csv:2", "0x10"}},
		"a number with its unit":    {rows, "storage,seconds\nbare,1.5s\n", []string{"results.csv:2", "1.5s"}},
		"a row that begins with #":  {rows, "storage,seconds\nbare,1\n#1,2\n", []string{"results.csv:3", "begins with #"}},
		"headings that begin so":    {rows, "#storage,seconds\nbare,1\nbind,2\n", []string{"results.csv:1", "begins with #"}},
		"headings after a space":    {rows, "# storage,seconds\nbare,1\nbind,2\n", []string{"results.csv:1", "begins with #"}},
		"a row too long":            {rows, "storage,seconds\nbare,1,2\n", []string{"results.csv:2", "3 fields, and 2 headings"}},
		"a quote within a field":    {rows, "storage,seconds\nba\"re,1\n", []string{"results.csv:2", "doubled"}},
		"Latin-1":                   {rows, "storage,seconds\nbare,1\nm\xfcll,2\n", []string{"results.csv:3", "0xfc", "UTF-8"}},
		"zero bytes":                {rows, "storage,seconds\nba\x00re,1\n", []string{"results.csv:2", "zero byte"}},
		"UTF-16 cut short":          {rows, utf16Text(binary.LittleEndian, "storage,seconds\nbare,1\n") + "x", []string{"UTF-16"}},
	} {
		_, err := text(c.opt, c.contents)
		var malformed *foreign.Malformed
		if !errors.As(err, &malformed) {
			t.Errorf("%s: %v", what, err)
			continue
		}
		for _, want := range c.says {
			if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %q is not in %q", what, want, err)
			}
		}
	}
}

// A comment may have as many fields as there are headings, and numbers in them.
func TestCommentsWithCommas(t *testing.T) {
	run, err := text(rows, "# node 7, kernel 6.1\nstorage,seconds\n# warm, 2\nbare,1\n#see a, b\nbind,2\n# bind, 3\n#\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(run.Trials) != 2 || !slices.Contains(run.Plan.Notes, `not read: 5 lines that begin with #, the first at results.csv:1: "# node 7, kernel 6.1"`) {
		t.Errorf("%d trials, notes %q", len(run.Trials), run.Plan.Notes)
	}
}

// Levels of which a list is made stay apart, whatever is in them.
func TestLevelsStayApart(t *testing.T) {
	opt := with(rows, func(o *foreign.Options) { o.Condition, o.Baseline = []string{"a", "b"}, []string{"x y", "z"} })
	run, err := text(opt, "a,b,seconds\nx y,z,1\nx,y z,2\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(run.Conditions) != 2 || !run.Conditions[0].Baseline || run.Conditions[1].Baseline {
		t.Errorf("%+v", run.Conditions)
	}
	cells, err := text(with(rows, func(o *foreign.Options) { o.Baseline = nil }), "storage,p,q,seconds\nbare,\"1,q=2\",,1\nbare,1,2,2\n")
	if err != nil || len(cells.Conditions) != 2 {
		t.Errorf("%d conditions of two cells, %v", len(cells.Conditions), err)
	}
}

// unjudged reads files, and gives why no verdict rests on them.
func unjudged(t *testing.T, opt foreign.Options, files ...[2]string) (string, record.Run) {
	t.Helper()
	var all []foreign.File
	for _, f := range files {
		all = append(all, holding(f[0], strings.NewReader(f[1])))
	}
	run, err := foreign.Read(t.Context(), all, opt)
	if err != nil {
		t.Fatal(err)
	}
	return run.Plan.Imported.Unjudged, run
}

// Conditions in files of their own were not interleaved, and no verdict rests on them, but
// where each has several files, or somebody says what was measured together.
func TestNotInterleaved(t *testing.T) {
	base, head := [2]string{"base.txt", odd(t, "base.txt")}, [2]string{"head.txt", odd(t, "head.txt")}
	why, _ := unjudged(t, gobench, base, head)
	for _, want := range []string{"not interleaved: base is in base.txt, and head in head.txt", "All 11 comparisons changed alike, by +10.4 to +12.1 %", "--name '{block}-*' --block block --paired"} {
		if !strings.Contains(why, want) {
			t.Errorf("%q does not say %q", why, want)
		}
	}
	if why, _ := unjudged(t, gobench, [2]string{"both.txt", base[1] + head[1]}); why != "" {
		t.Errorf("of one file: %q", why)
	}
	const one, two = "BenchmarkX/at=%s 1 2 ns/op\n", "BenchmarkX/at=%s 1 3 ns/op\n"
	as := func(name, line, at string) [2]string { return [2]string{name, strings.ReplaceAll(line, "%s", at)} }
	blocks := with(gobench, func(o *foreign.Options) { o.Name, o.Block = "{block}-*", "block" })
	if why, _ := unjudged(t, blocks, as("1-base", one, "base"), as("1-head", two, "head"), as("2-base", two, "base"), as("2-head", one, "head")); why != "" {
		t.Errorf("of several files each: %q", why)
	}
	blocks.Paired = true
	if why, _ := unjudged(t, blocks, as("1-base", one, "base"), as("1-head", two, "head")); why != "" {
		t.Errorf("of pairs: %q", why)
	}
	if why, _ := unjudged(t, gobench, base); why != "" {
		t.Errorf("of one condition: %q", why)
	}
}

// Only the comparisons that use what was not interleaved, or depends, lose their verdict.
func TestVerdictsOfOtherCellsStay(t *testing.T) {
	const line = "Benchmark%s/at=%s 1 %d ns/op\n"
	together := fmt.Sprintf(line, "X", "base", 1) + fmt.Sprintf(line, "X", "head", 2) + fmt.Sprintf(line, "Y", "base", 3)
	why, run := unjudged(t, gobench, [2]string{"both.txt", together}, [2]string{"late.txt", fmt.Sprintf(line, "Y", "head", 4)})
	if !strings.HasPrefix(why, "not interleaved (1 of 2 comparisons): base is in both.txt, and head in late.txt") {
		t.Error(why)
	}
	for id, want := range map[string]string{"benchfmt[benchmark=X]@head": "", "benchfmt[benchmark=Y]@head": record.NotInterleaved} {
		if got := run.Plan.Imported.Why(id); got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
	var csv strings.Builder
	csv.WriteString("storage,cell,seconds\n")
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 60 {
		fmt.Fprintf(&csv, "bare,a,%v\nbind,a,%v\nbare,b,%v\nbind,b,%v\n", 1+random.Float64(), 1+random.Float64(), 1+random.Float64(), 1+float64(i)/60)
	}
	why, run = unjudged(t, rows, [2]string{"all.csv", csv.String()})
	if !strings.HasPrefix(why, "dependent repetitions (1 of 2 comparisons): the 60 values of seconds of csv[cell=b]@bind") {
		t.Error(why)
	}
	if a, b := run.Plan.Imported.Why("csv[cell=a]@bind"), run.Plan.Imported.Why("csv[cell=b]@bind"); a != "" || b != record.DependentRepetitions {
		t.Errorf("a: %q, b: %q", a, b)
	}
}

// The advice for files of their own keeps what the files' names tell already.
func TestAdviceKeepsWhatNamesTell(t *testing.T) {
	const line = "BenchmarkX 1 2 ns/op\n"
	for _, c := range []struct{ pattern, block, dir, want string }{
		{"{at}.txt", "", "", "into files such as 1-base.txt and 1-head.txt, and import them by --name '{block}-{at}.txt' --block block --paired"},
		{"out/{at}.txt", "", "out/", "--name 'out/{block}-{at}.txt' --block block --paired"},
		{"{run}-*/{at}.txt", "run", "1-x/", "--name '{run}-*/{at}.txt' --block run --paired"},
	} {
		opt := with(gobench, func(o *foreign.Options) { o.Name, o.Block = c.pattern, c.block })
		why, _ := unjudged(t, opt, [2]string{c.dir + "base.txt", line}, [2]string{c.dir + "head.txt", line + "\n"})
		if !strings.Contains(why, c.want) {
			t.Errorf("%s: %q is not in %q", c.pattern, c.want, why)
		}
	}
}

// Counts are exact where several processes had them, as far as the files tell.
func TestFewProcesses(t *testing.T) {
	const line = "BenchmarkX/at=%s 1 7 allocs/op\n"
	of := func(n int, after string) [2]string {
		return [2]string{"all.txt", strings.Repeat(fmt.Sprintf(line+line, "base", "head")+after, n)}
	}
	both := []string{"benchfmt@base", "benchfmt@head"}
	rowsOfRuns := "storage,run,seconds\n"
	for run := range 5 {
		rowsOfRuns += fmt.Sprintf("bare,%d,1\n", run)
	}
	for what, c := range map[string]struct {
		opt  foreign.Options
		file [2]string
		want []string
	}{
		"one process":    {gobench, of(9, ""), both},
		"four processes": {gobench, of(4, "PASS\nok  \tx\t0.1s\n"), both},
		"five processes": {gobench, of(5, "PASS\n"), nil},
		"unknown":        {with(rows, func(o *foreign.Options) { o.Ignore = []string{"run"} }), [2]string{"a.csv", rowsOfRuns}, []string{"csv@bare"}},
		"counted runs":   {with(rows, func(o *foreign.Options) { o.Block = "run" }), [2]string{"a.csv", rowsOfRuns}, nil},
		"hyperfine":      {hyperfine, [2]string{"a.json", `{"results":[{"command":"a","times":[1,2,3,4,5],"exit_codes":[0,0,0,0,0]}]}`}, nil},
	} {
		if _, run := unjudged(t, c.opt, c.file); !slices.Equal(run.Plan.Imported.FewProcesses, c.want) {
			t.Errorf("%s: %q, want %q", what, run.Plan.Imported.FewProcesses, c.want)
		}
	}
}

// Samples of a few runs are no repetitions: they are noticed, and --mean makes one value of
// each run.
func TestDependentRepetitions(t *testing.T) {
	opt := foreign.Options{
		Format: foreign.CSV, Values: []string{"seconds"}, Units: []string{"s"}, Better: []string{"lower"},
		Condition: []string{"side"}, Baseline: []string{"a"}, Ignore: []string{"sample", "run"},
	}
	pooled := [2]string{"pooled.csv", odd(t, "pooled.csv")}
	why, _ := unjudged(t, opt, pooled)
	for _, want := range []string{"dependent repetitions: the 300 values of seconds of csv@", "--block", "--ignore", "--mean"} {
		if !strings.Contains(why, want) {
			t.Errorf("%q does not say %q", why, want)
		}
	}
	opt.Ignore, opt.Block, opt.Mean = []string{"sample"}, "run", true
	why, run := unjudged(t, opt, pooled)
	if got := values(t, run, "csv@a", "seconds"); why != "" || len(got) != 6 || math.Abs(got[0]-0.9920) > 0.0005 {
		t.Errorf("%q; means %v", why, got)
	}
	opt.Mean = false
	if _, err := text(opt, pooled[1]); err == nil || !strings.Contains(err.Error(), "--mean") {
		t.Errorf("samples of one run: %v", err)
	}
	opt.Mean, opt.Block = true, ""
	_, err := text(opt, pooled[1])
	wants(t, "means of nothing", err, "block")
}
