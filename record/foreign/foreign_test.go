package foreign_test

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/record"
	"tare/record/foreign"
	"tare/stats"
)

var when = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func read(t *testing.T, opt foreign.Options, files ...string) record.Run {
	t.Helper()
	run, err := readFiles(t, opt, files...)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func readFiles(t *testing.T, opt foreign.Options, patterns ...string) (record.Run, error) {
	t.Helper()
	var files []foreign.File
	for _, pattern := range patterns {
		names, err := filepath.Glob(filepath.Join("testdata", pattern))
		if err != nil || len(names) == 0 {
			t.Fatalf("no test data %s: %v", pattern, err)
		}
		for _, name := range names {
			files = append(files, foreign.File{Name: name, Open: func() (io.ReadCloser, error) { return os.Open(name) }})
		}
	}
	opt.When = when
	return foreign.Read(t.Context(), files, opt)
}

// text reads one file whose contents are given.
func text(opt foreign.Options, contents string) (record.Run, error) {
	opt.When = when
	return foreign.Read(context.Background(), []foreign.File{holding("results.csv", strings.NewReader(contents))}, opt)
}

// holding is a file with contents.
func holding(name string, contents io.Reader) foreign.File {
	return foreign.File{Name: name, Open: func() (io.ReadCloser, error) { return io.NopCloser(contents), nil }}
}

func condition(t *testing.T, run record.Run, id string) record.Condition {
	t.Helper()
	i := slices.IndexFunc(run.Conditions, func(c record.Condition) bool { return c.ID == id })
	if i < 0 {
		var ids []string
		for _, c := range run.Conditions {
			ids = append(ids, c.ID)
		}
		t.Fatalf("no condition %s among %s", id, strings.Join(ids, "; "))
	}
	return run.Conditions[i]
}

// values are a metric's values under a condition, in order of their repetitions.
func values(t *testing.T, run record.Run, id, metric string) []float64 {
	t.Helper()
	condition(t, run, id)
	var all []float64
	for _, trial := range run.Trials {
		for _, s := range trial.Samples {
			if trial.Condition == id && s.Metric == metric && trial.Error == "" {
				all = append(all, s.Value)
			}
		}
	}
	return all
}

// lost is what a condition loses against another, in percent of a rate.
func lost(t *testing.T, run record.Run, base, id, metric string) float64 {
	t.Helper()
	return 100 * (1 - stats.UnpairedRatio(values(t, run, base, metric), values(t, run, id, metric), 0.95).Value)
}

// S5's STREAM: a matrix a file, whose name tells storage and repetition.
func stream() foreign.Options {
	return foreign.Options{
		Format: foreign.CSV, Workload: "stream", Condition: []string{"storage"}, Baseline: []string{"bare"}, Block: "block",
		Name: "stream-{storage}-{block}.csv", Columns: "{elements}_{processes}", Scale: []string{"elements=1e6"},
		Rows: []string{"copy", "scale", "add", "triad"}, Units: []string{"MB/s"},
		Rename: []string{"storage:local=bare,bindMount=bind"}, Factors: []string{"io=stream"}, Order: "one after the other",
	}
}

func TestMatrix(t *testing.T) {
	run := read(t, stream(), "s5/stream-*.csv")
	if run.Status != record.Imported || len(run.Conditions) != 12 || len(run.Trials) != 60 {
		t.Fatalf("%s, %d conditions, %d trials", run.Status, len(run.Conditions), len(run.Trials))
	}
	told := run.Plan.Imported
	if told == nil || told.Format != "csv" || len(told.Sources) != 15 || len(told.Sources[0].SHA256) != 64 || told.Paired || told.Order != "one after the other" {
		t.Errorf("%+v", told)
	}
	if first := run.Conditions[0]; !first.Baseline || first.ID != "stream[processes=1]@bare" || first.Label != "bare" {
		t.Errorf("the first condition is %+v", first)
	}
	bind := condition(t, run, "stream[processes=1]@bind")
	for factor, want := range map[string]string{"elements": "50000000", "processes": "1", "storage": "bind", "io": "stream"} {
		if bind.Factors[factor] != want {
			t.Errorf("%s is %q, want %q", factor, bind.Factors[factor], want)
		}
	}
	if _, counts := bind.Factors["block"]; counts {
		t.Error("the repetition is a factor of the condition")
	}
	// Known of these data: 0.72 % and 0.36 %, by another analysis.
	for id, want := range map[string]float64{"bind": 0.72, "volume": 0.36} {
		if got := lost(t, run, "stream[processes=1]@bare", "stream[processes=1]@"+id, "copy"); math.Abs(got-want) > 0.02 {
			t.Errorf("%s: %.2f %%, want %v", id, got, want)
		}
	}
	// MB/s are B/s in a run.
	if got := values(t, run, "stream[processes=1]@bare", "copy"); len(got) != 5 || got[0] != 17717e6 {
		t.Errorf("bare copies at %v B/s", got)
	}
}

// Pairs are none unless it is said.
func TestPairedIsSaid(t *testing.T) {
	opt := stream()
	opt.Paired = true
	if paired, apart := read(t, opt, "s5/stream-*.csv"), read(t, stream(), "s5/stream-*.csv"); paired.Plan.Unpaired() || !apart.Plan.Unpaired() {
		t.Errorf("paired %+v, apart %+v", paired.Plan.Imported, apart.Plan.Imported)
	}
}

func haccio() foreign.Options {
	return foreign.Options{
		Format: foreign.Haccio, Condition: []string{"storage"}, Baseline: []string{"local"}, Block: "block",
		Name: "haccio-{storage}-{block}.txt", Cells: "particles=1e6 ranks=1,2",
	}
}

func TestHaccio(t *testing.T) {
	run := read(t, haccio(), "s5/haccio-*.txt")
	if len(run.Conditions) != 6 || len(run.Trials) != 18 {
		t.Fatalf("%d conditions, %d trials", len(run.Conditions), len(run.Trials))
	}
	one := condition(t, run, "haccio[ranks=1]@local")
	if one.Factors["particles"] != "1000000" || one.Factors["ranks"] != "1" {
		t.Errorf("factors %v", one.Factors)
	}
	// 1957.93 MiB/s, as 63165824 bytes in 0.030767 s show.
	first := run.Trials[slices.IndexFunc(run.Trials, func(t record.Trial) bool { return t.Condition == one.ID && t.Block == 1 })]
	if first.Samples[0].Metric != "write" || math.Abs(first.Samples[0].Value-63165824/0.030767) > 1e6 {
		t.Errorf("%+v", first.Samples)
	}
	// Bytes tell that the cells were run in another order.
	opt := haccio()
	opt.Cells = "particles=1e6 ranks=2,1"
	_, err := readFiles(t, opt, "s5/haccio-local-1.txt")
	wants(t, "cells in another order", err, "cells")
}

// S5's Redis: a row a value, one run a cell, columns by other names.
func TestRows(t *testing.T) {
	run := read(t, foreign.Options{
		Format: foreign.CSV, Workload: "redis", Values: []string{"requests_per_second"}, Metric: "command", Units: []string{"requests/s"},
		Condition: []string{"storage"}, Baseline: []string{"local"},
		Rename: []string{"io_threads=io-threads", "client_threads=threads", "threads:=none", "metric:GET=get"}, Only: []string{"metric:get"},
	}, "s5/redis.csv")
	if len(run.Trials) != 12 {
		t.Fatalf("%d trials", len(run.Trials))
	}
	const cell = "redis[io-threads=8,pipeline=10,threads=24]@"
	if got := lost(t, run, cell+"local", cell+"volume", "get"); math.Abs(got-27.6) > 0.05 {
		t.Errorf("%.1f %%", got)
	}
	if c := condition(t, run, "redis[io-threads=1,pipeline=1,threads=none]@bindMount"); c.Factors["payload_bytes"] != "3" || c.Metrics[0].Unit != "requests/s" {
		t.Errorf("%+v", c)
	}
	if notes := strings.Join(run.Plan.Notes, "\n"); !strings.Contains(notes, "connections=512") {
		t.Errorf("nothing says what is the same throughout: %q", notes)
	}
}

// Repetitions that nothing counts are those in which values come; samples may differ
// in size.
func TestRepetitionsInOrder(t *testing.T) {
	run, err := text(foreign.Options{Format: foreign.CSV, Values: []string{"copy", "add"}, Units: []string{"MB/s"}, Condition: []string{"storage"}, Baseline: []string{"bare"}},
		"storage,copy,add\nbare,100,50\nbare,101,\nbare,102,52\nbind,99,49\nbind,98,48\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(run.Trials) != 5 || run.Trials[1].Block != 2 || !run.Trials[0].Started.Equal(when) {
		t.Errorf("%+v", run.Trials)
	}
	if got := values(t, run, "csv@bare", "add"); len(got) != 2 {
		t.Errorf("%v of what was measured twice", got)
	}
}

// What tare exports it reads again.
func TestBenchfmtOfOurOwn(t *testing.T) {
	const exported = `run: weigh-1
goarch: amd64
cpu: Some CPU
Unit requests/s better=higher
BenchmarkRedis/platform=bare/metric=get 1 70000 requests/s
BenchmarkRedis/platform=docker/metric=get 1 69000 requests/s
BenchmarkRedis/platform=bare/metric=get 1 70100 requests/s
BenchmarkRedis/platform=docker/metric=get 1 69100 requests/s
`
	run, err := text(foreign.Options{Format: foreign.Benchfmt, Metric: "metric", Condition: []string{"platform"}, Baseline: []string{"bare"}}, exported)
	if err != nil {
		t.Fatal(err)
	}
	c := condition(t, run, "benchfmt@docker")
	if len(c.Metrics) != 1 || c.Metrics[0].Name != "get" || c.Metrics[0].Better != "higher" || c.Factors["benchmark"] != "Redis" {
		t.Errorf("%+v", c)
	}
	if run.Host.CPUModel != "Some CPU" || run.Host.Arch != "amd64" {
		t.Errorf("host %+v", run.Host)
	}
	if got := values(t, run, c.ID, "get"); !slices.Equal(got, []float64{69000, 69100}) {
		t.Errorf("%v", got)
	}
}

// The Go tool's own output: several values a line, named by their units.
func TestBenchfmtOfGo(t *testing.T) {
	run, err := text(foreign.Options{Format: foreign.Benchfmt, Condition: []string{"sort"}, Baseline: []string{"quick"}},
		"pkg: x\nBenchmarkSort/sort=quick/10-8 100 200 ns/op 16 B/op\nBenchmarkSort/sort=heap/10-8 100 300 ns/op 16 B/op\n")
	if err != nil {
		t.Fatal(err)
	}
	c := condition(t, run, "benchfmt@heap")
	if len(c.Metrics) != 2 || c.Metrics[0].Name != "sec/op" || c.Metrics[0].Better != "lower" || c.Factors["procs"] != "8" || c.Factors["part2"] != "10" {
		t.Errorf("%+v", c)
	}
}

func TestHyperfine(t *testing.T) {
	const exported = `{"results":[
	 {"command":"sleep 0.1","mean":0.1,"times":[0.1,0.11,0.12],"exit_codes":[0,0,0]},
	 {"command":"docker run x sleep 0.1","times":[0.4,0.41,0.42],"exit_codes":[0,1,null]}]}`
	run, err := text(foreign.Options{Format: foreign.Hyperfine}, exported)
	if err != nil {
		t.Fatal(err)
	}
	if !condition(t, run, "hyperfine@sleep 0.1").Baseline {
		t.Error("the first command is not the baseline")
	}
	if got := values(t, run, "hyperfine@docker run x sleep 0.1", "time"); !slices.Equal(got, []float64{0.4}) {
		t.Errorf("programs that failed count: %v", got)
	}
}

func TestRedisBenchmark(t *testing.T) {
	files := []foreign.File{
		holding("bare-p1.txt", strings.NewReader("\"SET\",\"117647.06\"\n\"LPUSH (needed to benchmark LRANGE)\",\"5\"\n")),
		holding("bind-p1.txt", strings.NewReader("====== SET ======\n  1000 requests completed in 0.85 seconds\n  512 parallel clients\n  3 bytes payload\n\n110000.00 requests per second\n")),
	}
	opt := foreign.Options{Format: foreign.RedisBenchmark, Name: "{storage}-p{pipeline}.txt", Condition: []string{"storage"}, Baseline: []string{"bare"}, Workload: "redis", Ignore: []string{"clients", "payload"}}
	run, err := foreign.Read(t.Context(), files, opt)
	if err != nil {
		t.Fatal(err)
	}
	c := condition(t, run, "redis@bind")
	if c.Factors["pipeline"] != "1" || len(c.Metrics) != 1 || c.Metrics[0].Name != "set" {
		t.Errorf("%+v", c)
	}
}

// Two packages may have a benchmark of one name, and so may two systems: they are cells,
// and no repetitions.
func TestBenchmarksOfSeveralPackages(t *testing.T) {
	const results = "goos: linux\npkg: a\nBenchmarkX/at=bare 1 100 ns/op\nBenchmarkX/at=docker 1 110 ns/op\npkg: b\nBenchmarkX/at=bare 1 7 ns/op\nBenchmarkX/at=docker 1 8 ns/op\n"
	run, err := text(foreign.Options{Format: foreign.Benchfmt, Better: []string{"lower"}, Condition: []string{"at"}, Baseline: []string{"bare"}}, results)
	if err != nil {
		t.Fatal(err)
	}
	if len(run.Conditions) != 4 {
		t.Errorf("%d conditions of two packages by two platforms", len(run.Conditions))
	}
	for id, want := range map[string]float64{"benchfmt[pkg=a]@bare": 100e-9, "benchfmt[pkg=b]@bare": 7e-9} {
		if got := values(t, run, id, "sec/op"); len(got) != 1 || math.Abs(got[0]/want-1) > 1e-9 {
			t.Errorf("%s: %v, want %v alone", id, got, want)
		}
	}
	if c := condition(t, run, "benchfmt[pkg=a]@bare"); c.Factors["goos"] != "linux" {
		t.Errorf("factors %v", c.Factors)
	}
}

// Nothing may be counted, and a repetition that failed has no time.
func TestZeroOfACount(t *testing.T) {
	run, err := text(foreign.Options{Format: foreign.CSV, Units: []string{"faults"}, Better: []string{"lower"}, Condition: []string{"storage"}, Baseline: []string{"bare"}}, "storage,value\nbare,0\nbind,2\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := values(t, run, "csv@bare", "value"); !slices.Equal(got, []float64{0}) {
		t.Errorf("%v", got)
	}
	if _, err := text(foreign.Options{Format: foreign.Hyperfine}, `{"results":[{"command":"x","times":[0,1],"exit_codes":[1,0]}]}`); err != nil {
		t.Error(err)
	}
}

// A column of measurements that was not named a value would make each row a cell.
func TestMeasurementsLeftOver(t *testing.T) {
	const rows = "storage,repetition,copy,add\nbare,1,100,50\nbare,2,101,51\nbind,1,99,50\nbind,2,98,49\n"
	opt := foreign.Options{Format: foreign.CSV, Values: []string{"copy"}, Units: []string{"MB/s"}, Condition: []string{"storage"}, Baseline: []string{"bare"}}
	_, err := text(opt, rows)
	wants(t, "a column of measurements", err, "value")
	for _, hint := range []string{"add looks like a measurement", "--value copy,add", "--ignore add", "--block repetition"} {
		if err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("%v does not say %q", err, hint)
		}
	}
	mended := opt
	mended.Values, mended.Block = []string{"copy", "add"}, "repetition"
	if run, err := text(mended, rows); err != nil || len(run.Conditions) != 2 {
		t.Errorf("as the hint has it: %d conditions, %v", len(run.Conditions), err)
	}
	// A sweep is none: under each condition it has the same levels.
	if _, err := text(opt, "storage,elements,copy\nbare,1000,9\nbare,2000,8\nbind,1000,7\nbind,2000,6\n"); err != nil {
		t.Error(err)
	}
	// One condition is compared with another run's.
	if _, err := text(opt, "storage,elements,copy\nbare,1000,9\nbare,2000,8\nbare,3000,7\n"); err != nil {
		t.Error(err)
	}
}

// A factor that some values have and others have not is given the level that those
// lack, in whatever format: what tare exports tells no setting that is the usual one.
func TestLevelOfWhatIsNotTold(t *testing.T) {
	run, err := text(foreign.Options{
		Format: foreign.Benchfmt, Metric: "metric", Rename: []string{"kind:=layer", "storage=kind"},
		Condition: []string{"platform", "kind"}, Baseline: []string{"bare", "layer"},
	}, "BenchmarkRedis/platform=bare/metric=get 1 9 requests/s\nBenchmarkRedis/platform=docker/metric=get 1 8 requests/s\nBenchmarkRedis/platform=docker/storage=bind/metric=get 1 7 requests/s\n")
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]float64{"benchfmt@bare layer": 9, "benchfmt@docker layer": 8, "benchfmt@docker bind": 7} {
		if got := values(t, run, id, "get"); !slices.Equal(got, []float64{want}) {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
	}
}

// Where nothing stands beside the baseline, what parts them is told.
func TestNothingBesideTheBaseline(t *testing.T) {
	opt := foreign.Options{Format: foreign.CSV, Units: []string{"MB/s"}, Condition: []string{"platform"}, Baseline: []string{"bare"}, Factors: []string{"io=stream", "a=b"}, Unsaid: []string{"io"}}
	run, err := text(opt, "platform,storage,n,value\nbare,bare,1,9\ndocker,bind,1,8\nbare,bare,2,9\ndocker,,2,8\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"the same throughout: a=b", "no cell holds bare beside another condition: it differs from all of them in storage (bare; of the others bind, none): name that in --condition and --baseline too, leave it out by --ignore, or give it one level by --rename"}
	if !slices.Equal(run.Plan.Notes, want) {
		t.Errorf("%q, want %q", run.Plan.Notes, want)
	}
	if run.Conditions[0].Factors["io"] != "stream" {
		t.Error("what no note tells is no factor any more")
	}
}

// wants checks that an error names the flag that mends it.
func wants(t *testing.T, what string, err error, flag string) {
	t.Helper()
	var wanted *foreign.Wanted
	if !errors.As(err, &wanted) || wanted.Flag != flag {
		t.Errorf("%s: %v, want a word on --%s", what, err, flag)
	} else if strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: more than a line: %v", what, err)
	}
}

// Whatever is missing or at odds is told by the flag that mends it.
func TestWanted(t *testing.T) {
	const rows = "storage,block,value\nbare,1,100\nbind,1,99\n"
	fine := foreign.Options{Format: foreign.CSV, Units: []string{"MB/s"}, Condition: []string{"storage"}, Baseline: []string{"bare"}, Block: "block"}
	if _, err := text(fine, rows); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		change func(*foreign.Options)
		flag   string
	}{
		"no format":                {func(o *foreign.Options) { o.Format = "" }, "format"},
		"no condition":             {func(o *foreign.Options) { o.Condition = nil }, "condition"},
		"an unknown condition":     {func(o *foreign.Options) { o.Condition = []string{"colour"} }, "condition"},
		"no baseline":              {func(o *foreign.Options) { o.Baseline = nil }, "baseline"},
		"an unknown baseline":      {func(o *foreign.Options) { o.Baseline = []string{"moon"} }, "baseline"},
		"an unknown block":         {func(o *foreign.Options) { o.Block = "n" }, "block"},
		"the condition as block":   {func(o *foreign.Options) { o.Block = "storage" }, "block"},
		"pairs of nothing":         {func(o *foreign.Options) { o.Paired, o.Block = true, "" }, "block"},
		"no unit":                  {func(o *foreign.Options) { o.Units = nil }, "unit"},
		"no direction":             {func(o *foreign.Options) { o.Units = []string{"bananas"} }, "better"},
		"a strange direction":      {func(o *foreign.Options) { o.Better = []string{"up"} }, "better"},
		"a unit of no metric":      {func(o *foreign.Options) { o.Units = append(o.Units, "foo=MB/s") }, "unit"},
		"a direction of no metric": {func(o *foreign.Options) { o.Better = []string{"foo=higher"} }, "better"},
		"no such value":            {func(o *foreign.Options) { o.Values = []string{"speed"} }, "value"},
		"no such metric":           {func(o *foreign.Options) { o.Metric = "command" }, "metric"},
		"no such unit column":      {func(o *foreign.Options) { o.UnitColumn = "unit" }, "unit-column"},
		"no such factor":           {func(o *foreign.Options) { o.Rename = []string{"colour=storage"} }, "rename"},
		"half a renaming":          {func(o *foreign.Options) { o.Rename = []string{"storage:bare"} }, "rename"},
		"a scale of words":         {func(o *foreign.Options) { o.Scale = []string{"storage=2"} }, "scale"},
		"half a scale":             {func(o *foreign.Options) { o.Scale = []string{"block"} }, "scale"},
		"nothing chosen":           {func(o *foreign.Options) { o.Only = []string{"storage:moon"} }, "only"},
		"chosen by nothing":        {func(o *foreign.Options) { o.Only = []string{"colour:red"} }, "only"},
		"a factor at odds":         {func(o *foreign.Options) { o.Factors = []string{"storage=tmpfs"} }, "factor"},
		"half a factor":            {func(o *foreign.Options) { o.Factors = []string{"storage"} }, "factor"},
		"a name of another form":   {func(o *foreign.Options) { o.Name = "{storage}_{run}.csv" }, "name"},
		"a name without factors":   {func(o *foreign.Options) { o.Name = "*.csv" }, "name"},
		"a matrix of other cells":  {func(o *foreign.Options) { o.Columns = "{elements}_{processes}" }, "columns"},
		"rows of no matrix":        {func(o *foreign.Options) { o.Rows = []string{"copy"} }, "columns"},
		"cells of no haccio":       {func(o *foreign.Options) { o.Cells = "ranks=1" }, "cells"},
	} {
		opt := fine
		c.change(&opt)
		_, err := text(opt, rows)
		wants(t, what, err, c.flag)
	}
	many := fine
	many.Block = ""
	_, err := text(many, "storage,block,value\n"+strings.Repeat("bare,1,100\n", 2001))
	wants(t, "samples for repetitions", err, "block")
	opt := haccio()
	opt.Cells = ""
	_, err = readFiles(t, opt, "s5/haccio-local-1.txt")
	wants(t, "no cells", err, "cells")
	opt.Cells = "particles=1e6 ranks=1,2,4"
	_, err = readFiles(t, opt, "s5/haccio-local-1.txt")
	wants(t, "too many cells", err, "cells")
	opt.Cells = "particles=1e6 ranks=1"
	_, err = readFiles(t, opt, "s5/haccio-local-1.txt")
	wants(t, "too few cells", err, "cells")
}

// What a file holds amiss is told by file and line.
func TestMalformed(t *testing.T) {
	csv := foreign.Options{Format: foreign.CSV, Units: []string{"MB/s"}, Condition: []string{"storage"}, Baseline: []string{"bare"}}
	counted := csv
	counted.Block = "block"
	cells := foreign.Options{Format: foreign.Haccio, Condition: []string{"storage"}, Baseline: []string{"bare"}, Factors: []string{"storage=bare"}, Cells: "n=1"}
	for what, c := range map[string]struct {
		opt      foreign.Options
		contents string
		says     []string
	}{
		"empty":               {csv, "", []string{"results.csv", "empty"}},
		"headings alone":      {csv, "storage,value\n", []string{"results.csv", "no figures"}},
		"a word for a value":  {csv, "storage,value\nbare,fast\n", []string{"results.csv:2", "fast"}},
		"an infinite value":   {csv, "storage,value\nbare,inf\n", []string{"results.csv:2", "inf"}},
		"an endless value":    {csv, "storage,value\nbare,1e308\n", []string{"results.csv:2", "beyond"}},
		"a rate below zero":   {csv, "storage,value\nbare,1\nbare,-1\n", []string{"results.csv:3", "value is -1 MB/s"}},
		"no rate":             {csv, "storage,value\nbare,0\n", []string{"results.csv:2", "value is 0 MB/s"}},
		"no time":             {foreign.Options{Format: foreign.Hyperfine}, `{"results":[{"command":"x","times":[0]}]}`, []string{"results.csv", "time is 0 s"}},
		"a row too short":     {csv, "storage,value\nbare\n", []string{"results.csv:2"}},
		"a column twice":      {csv, "storage,x,x,value\nbare,1,2,3\n", []string{"results.csv:1", "column 3"}},
		"a repetition twice":  {counted, "storage,block,value\nbare,1,3\nbare,1,4\n", []string{"results.csv:3", "results.csv:2", "--block"}},
		"no redis-benchmark":  {foreign.Options{Format: foreign.RedisBenchmark}, "hello\n", []string{"results.csv", "redis-benchmark"}},
		"no JSON":             {foreign.Options{Format: foreign.Hyperfine}, "hello\n", []string{"--export-json"}},
		"a mean alone":        {foreign.Options{Format: foreign.Hyperfine}, `{"results":[{"command":"x","mean":1}]}`, []string{"no times"}},
		"a broken benchmark":  {foreign.Options{Format: foreign.Benchfmt}, "BenchmarkX 1 fast ns/op\n", []string{"results.csv:1"}},
		"contents not read":   {cells, "WRITE Checkpoint Perf: 1 BW[MB/s] 1048576 Bytes 1 MaxTime[sec]\nCONTENTS VERIFIED... Failed\n", []string{"results.csv:2"}},
		"a rate at odds":      {cells, "WRITE Checkpoint Perf: 7 BW[MB/s] 1048576 Bytes 1 MaxTime[sec]\n", []string{"results.csv:1", "7 MB/s"}},
		"another line format": {cells, "WRITE 7 BW[MB/s]\n", []string{"results.csv:1"}},
	} {
		_, err := text(c.opt, c.contents)
		var malformed *foreign.Malformed
		if !errors.As(err, &malformed) {
			t.Errorf("%s: %v", what, err)
			continue
		}
		for _, want := range c.says {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is not in %q", what, want, err)
			}
		}
	}
}

// Any bytes are refused, or read into a run whose trials have conditions and figures.
func fuzzed(f *testing.F, opt foreign.Options) {
	f.Fuzz(func(t *testing.T, data string) {
		run, err := text(opt, data)
		if err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Error("an error that says nothing")
			}
			return
		}
		if len(run.Conditions) == 0 || len(run.Trials) == 0 {
			t.Errorf("%d conditions, %d trials, and no error", len(run.Conditions), len(run.Trials))
		}
		for _, trial := range run.Trials {
			if trial.Block < 1 || !slices.ContainsFunc(run.Conditions, func(c record.Condition) bool { return c.ID == trial.Condition }) {
				t.Errorf("trial %+v", trial)
			}
			for _, s := range trial.Samples {
				if math.IsNaN(s.Value) || math.IsInf(s.Value, 0) {
					t.Errorf("sample %+v", s)
				}
			}
		}
	})
}

// seed adds files to what is fuzzed.
func seed(f *testing.F, names ...string) {
	f.Helper()
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join("testdata", "odd", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
}

func FuzzRows(f *testing.F) {
	f.Add("storage,value\nbare,1\nbind,2\n")
	f.Add("# a\nstorage,block,value\n\"ba\"\"re\",1,1e300\n#,b,1\n\n")
	f.Add("\xff\xfes\x00,\x00v\x00")
	seed(f, "german.csv", "bom-crlf-quoted.csv")
	fuzzed(f, foreign.Options{Format: foreign.CSV, Units: []string{"MB/s"}, Condition: []string{"storage"}, Baseline: []string{"bare"}, Rename: []string{"storage:=bare"}})
}

func FuzzMatrix(f *testing.F) {
	f.Add(",bare_1,bind_1\ncopy,1,2\n")
	f.Add("# a\n,bare_1,bind_1\n#copy,1,2\ncopy,,2\n")
	fuzzed(f, foreign.Options{Format: foreign.CSV, Units: []string{"MB/s"}, Columns: "{storage}_{n}", Condition: []string{"storage"}, Baseline: []string{"bare"}})
}

func FuzzHaccio(f *testing.F) {
	f.Add("WRITE Checkpoint Perf: 1 BW[MB/s] 1048576 Bytes 1 MaxTime[sec]\nREAD Restart Perf: 1 BW[MB/s] 1048576 Bytes 1 MaxTime[sec]\nCONTENTS VERIFIED... Success\n")
	fuzzed(f, foreign.Options{Format: foreign.Haccio, Cells: "storage=bare", Condition: []string{"storage"}, Baseline: []string{"bare"}})
}

func FuzzBenchfmt(f *testing.F) {
	f.Add("a: b\nUnit x better=lower\nBenchmarkX/platform=bare/y-8 1 2 ns/op 3 x\n--- FAIL: BenchmarkX\n")
	seed(f, "key-value-with-commas.txt", "base.txt")
	fuzzed(f, foreign.Options{Format: foreign.Benchfmt, Better: []string{"lower"}, Condition: []string{"platform"}, Baseline: []string{"bare"}})
}

func FuzzHyperfine(f *testing.F) {
	f.Add(`{"results":[{"command":"x","times":[1],"exit_codes":[null],"parameters":{"a":"b"}}]}`)
	seed(f, "nan.json", "mixed-exit.json", "same-command-twice.json")
	fuzzed(f, foreign.Options{Format: foreign.Hyperfine})
}

func FuzzRedisBenchmark(f *testing.F) {
	f.Add("SET: 117647.06 requests per second\r\n")
	seed(f, "plain-two.txt", "two-set.csv", "inner-quotes.csv", "inf.csv", "v7.csv")
	fuzzed(f, foreign.Options{Format: foreign.RedisBenchmark, Factors: []string{"storage=bare"}, Condition: []string{"storage"}})
}

// A file counts once; two that hold the same and whose names do not tell them apart are
// one.
func TestTheSameTwice(t *testing.T) {
	const contents = "storage,value\nbare,1\nbind,2\n"
	opt := foreign.Options{Format: foreign.CSV, Units: []string{"MB/s"}, Condition: []string{"storage"}, Baseline: []string{"bare"}}
	named := opt
	named.Name, named.Block = "{any}-{n}.csv", "n"
	for what, c := range map[string]struct {
		opt   foreign.Options
		files []string
		says  string // empty where it is read
	}{
		"one file twice":                 {opt, []string{"d.csv", "d.csv"}, "d.csv: is named twice"},
		"one file twice, by levels":      {named, []string{"d-1.csv", "d-1.csv"}, "d-1.csv: is named twice"},
		"a copy":                         {opt, []string{"d.csv", "e.csv"}, "e.csv: holds what d.csv holds"},
		"the same in two repetitions":    {named, []string{"d-1.csv", "d-2.csv"}, ""},
		"a copy in another directory":    {named, []string{"a/d-1.csv", "b/d-1.csv"}, "b/d-1.csv: holds what a/d-1.csv holds"},
		"the last of three, the first's": {named, []string{"d-1.csv", "d-2.csv", "d-1.csv"}, "d-1.csv: is named twice"},
	} {
		var files []foreign.File
		for _, name := range c.files {
			files = append(files, holding(name, strings.NewReader(contents)))
		}
		_, err := foreign.Read(t.Context(), files, c.opt)
		var malformed *foreign.Malformed
		if c.says == "" && err != nil || c.says != "" && (!errors.As(err, &malformed) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", what, err, c.says)
		}
	}
}
