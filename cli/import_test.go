package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tare/lab"
	"tare/overhead"
)

// figures are a file of results, of two conditions.
func figures(t *testing.T) string {
	t.Helper()
	return write(t, "figures.csv", "storage,elements,copy\nbare,1000,100\nbare,1000,100.2\nbare,1000,100.1\nbind,1000,90\nbind,1000,90.2\nbind,1000,90.1\n")
}

// imports makes a run of the figures and gives its id.
func imports(t *testing.T, home string, more ...string) string {
	t.Helper()
	args := append([]string{"import", figures(t), "--format", "csv", "--value", "copy", "--unit", "MB/s", "--condition", "storage", "--baseline", "bare", "--json", "-"}, more...)
	code, out, errOut := tare(t, home, args...)
	if code != exitSuccess {
		t.Fatalf("import: %d, %s", code, errOut)
	}
	var d overhead.Document
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatalf("--json -: %v\n%s", err, out)
	}
	if d.Run.Status != "imported" || d.Run.Study != "import" || len(d.Conditions) != 2 {
		t.Fatalf("%+v", d.Run)
	}
	return d.Run.ID
}

// lacking are words of which every page of what was imported must have each.
var lacking = []string{"not interleaved", "no a/a", "order: ", "repetitions: 3 runs a cell", "host: unknown"}

func hasAll(t *testing.T, where, page string, all []string) {
	t.Helper()
	page = strings.ToLower(strings.Join(strings.Fields(page), " "))
	for _, want := range all {
		if !strings.Contains(page, want) {
			t.Errorf("%s does not say %q:\n%s", where, want, page)
		}
	}
}

// All that works on a run works on an imported one, but to go on with it; and every
// page says what it lacks.
func TestImportedRunsAreRuns(t *testing.T) {
	home := t.TempDir()
	id := imports(t, home)
	code, out, _ := tare(t, home, "show", id, "--all")
	if code != exitSuccess {
		t.Fatalf("show: %d", code)
	}
	hasAll(t, "show", out, append([]string{"worse", "bind costs csv 10", "welch"}, lacking...))

	page := filepath.Join(home, "page.html")
	if code, _, errOut := tare(t, home, "show", id, "--html", page); code != exitSuccess {
		t.Fatalf("show --html: %d, %s", code, errOut)
	}
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"nobody says that the repetitions", "the baseline was not measured against itself"} {
		if !strings.Contains(string(html), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if _, out, _ := tare(t, home, "runs"); !strings.Contains(out, id) || !strings.Contains(out, "imported") {
		t.Errorf("runs: %s", out)
	}
	for format, want := range map[string]string{"csv": "csv@bind", "benchfmt": "/platform=bind/metric=copy", "json": `"imported": {`} {
		if code, out, errOut := tare(t, home, "export", id, "--format", format); code != exitSuccess || !strings.Contains(out, want) {
			t.Errorf("export %s: %d, %s\n%s", format, code, errOut, out)
		}
	}
	if code, _, errOut := tare(t, home, "resume", id); code != exitUsage || !strings.Contains(errOut, "measured elsewhere") {
		t.Errorf("resume: %d, %s", code, errOut)
	}

	second := imports(t, home)
	code, out, errOut := tare(t, home, "compare", id, second)
	if code != exitSuccess {
		t.Fatalf("compare: %d, %s", code, errOut)
	}
	hasAll(t, "compare", out, []string{"not interleaved", "no a/a"})

	// What was exported is read again, and is the same.
	_, exported, _ := tare(t, home, "export", id, "--format", "benchfmt")
	again := write(t, "again.txt", exported)
	code, _, errOut = tare(t, home, "import", again, "--format", "benchfmt", "--metric", "metric", "--condition", "platform", "--baseline", "bare")
	if code != exitSuccess {
		t.Fatalf("import of an export: %d, %s", code, errOut)
	}
	if code, out, errOut := tare(t, home, "show"); code != exitSuccess || !strings.Contains(out, "10") {
		t.Errorf("show: %d, %s, %s", code, out, errOut)
	}
}

// What was not read, what failed and why no verdict rests on the figures is on the page.
func TestImportOfOddFiles(t *testing.T) {
	t.Chdir("../record/foreign/testdata/odd")
	home := t.TempDir()
	for args, want := range map[string][]string{
		"mixed-exit.json --format hyperfine":                                                                                {"2 of 5 trials yielded nothing: 1 × ended by a signal, 1 × exit code 1"},
		"v7.csv --format redis-benchmark --factor storage=bare --condition storage":                                         {"note: not read: 1 tests that only prepare another"},
		"base.txt head.txt --format benchfmt --condition at --baseline base":                                                {"no verdict: not interleaved. the first caution", "all 11 comparisons changed alike"},
		"pooled.csv --format csv --value seconds --unit s --condition side --baseline a --ignore sample,run":                {"no verdict: dependent repetitions. the first caution", "--block", "--mean"},
		"pooled.csv --format csv --value seconds --unit s --condition side --baseline a --ignore sample --block run --mean": {"b is undecided", "6 runs a cell"},
		"key-value-with-commas.txt --format benchfmt --condition part1 --baseline TOML,sections=5,pages=1000":               {"against toml,sections=5,pages=1000, yaml,sections=5,pages=1000 is undecided"},
	} {
		code, out, errOut := tare(t, home, append([]string{"import"}, strings.Fields(args)...)...)
		if code != exitSuccess {
			t.Errorf("%s: %d, %s", args, code, errOut)
		}
		hasAll(t, args, out, want)
	}
}

// Claims of this host are not judged by other hosts' figures.
func TestImportedRunsAreNotThisHosts(t *testing.T) {
	home := t.TempDir()
	imports(t, home, "--claim", "S5.1", "--factor", "processes=1")
	code, out, errOut := tare(t, home, "claims", "S5", "--json", "-")
	if code != exitSuccess {
		t.Fatalf("claims: %d, %s", code, errOut)
	}
	if strings.Contains(out, "import-") || strings.Count(out, `"not yet run"`) != 3 {
		t.Errorf("claims of this host: %s", out)
	}
}

func TestBadImports(t *testing.T) {
	home, file := t.TempDir(), figures(t)
	for args, says := range map[string]string{
		"import":                                                    "FILE",
		"import " + file + " --format xml":                          `--format: "xml" is none of csv`,
		"import /nonexistent --format csv":                          "/nonexistent",
		"import " + home + " --format csv":                          "is a directory",
		"import " + file + " --format csv --value copy --unit MB/s": "--condition",
		"import " + file + " --format csv --value copy --unit MB/s --condition storage":                              "--baseline",
		"import " + file + " --format csv --value copy --condition storage --baseline bare":                          "--unit",
		"import " + file + " --format csv --value speed --unit MB/s --condition storage --baseline bare":             "--value",
		"import " + file + " --format csv --claim S4.1":                                                              "S5.1",
		"import " + file + " --format csv --claim S5.1 --value copy --unit MB/s":                                     "--claim S5.1: missing in the figures: processes; if one value holds for all, give --factor processes=NUMBER",
		"import " + file + " --format csv --claim S5.2 --value copy --unit MB/s":                                     "missing in the figures: particles and ranks",
		"import " + file + " --format csv --claim S5.3 --value copy --unit MB/s":                                     "missing in the figures: payload and pipeline",
		"import " + file + " --format csv --claim S5.1 --value copy --unit MB/s --factor processes=one":              `"one"`,
		"import " + file + " " + file + " --format csv --value copy --unit MB/s --condition storage --baseline bare": "named twice",
		"import " + file + " --format csv --claim S9.9":                                                              "S9.9",
		"import " + file + " --format csv --smallest-effect two":                                                     "--smallest-effect",
		"import " + file + " --format csv --value copy --unit MB/s --condition storage --baseline b --paired":        "--block",
		"import " + file + " --format csv --value copy --unit MB/s --condition storage --baseline b --mean":          "--block",
	} {
		code, _, errOut := tare(t, home, strings.Fields(args)...)
		if code != exitUsage || !strings.Contains(errOut, says) || strings.Count(strings.TrimSpace(errOut), "\n") != 0 {
			t.Errorf("%s: %d, %q, want a line with %q", args, code, errOut, says)
		}
	}
	if _, err := os.Stat(filepath.Join(home, storeFile)); err == nil {
		t.Error("a run was kept of what was refused")
	}
}

// What waits for a writer would wait for ever: it is refused before it is opened.
func TestImportOfNoRegularFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "figures.csv")
	if out, err := exec.Command("mkfifo", pipe).CombinedOutput(); err != nil {
		t.Skipf("no named pipe: %v %s", err, out)
	}
	code, _, errOut := tare(t, t.TempDir(), "import", figures(t), pipe, "--format", "csv", "--value", "copy", "--unit", "MB/s", "--condition", "storage", "--baseline", "bare")
	if code != exitUsage || !strings.Contains(errOut, pipe+" is no regular file") {
		t.Errorf("%d, %q", code, errOut)
	}
}

// An import that is stopped says so, and keeps nothing.
func TestImportStopped(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(lab.ErrStopped)
	home := t.TempDir()
	var out, errOut bytes.Buffer
	code := run(ctx, []string{"tare", "--home", home, "import", figures(t), "--format", "csv", "--value", "copy", "--unit", "MB/s", "--condition", "storage", "--baseline", "bare"}, &out, &errOut)
	if code != exitFailure || errOut.String() != "tare: import: stopped by the user; nothing was kept\n" {
		t.Errorf("%d, %q", code, errOut.String())
	}
	if _, err := os.Stat(filepath.Join(home, storeFile)); err == nil {
		t.Error("a run was kept of what was stopped")
	}
}

// The commands that docs/import.md and --help print work as they are printed, on
// files of the forms that they are for.
func TestImportExamplesWork(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	testdata, err := filepath.Abs("../record/foreign/testdata/s5")
	if err != nil {
		t.Fatal(err)
	}
	document, err := os.ReadFile("../docs/import.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for name, text := range map[string]string{
		"figures.csv": "storage,repetition,copy,add\nbare,1,100,50\nbare,2,101,51\nbind,1,99,50\nbind,2,98,49\n",
		"bare-p1.txt": "\"SET\",\"100\"\n",
		"bind-p1.txt": "\"SET\",\"90\"\n",
		"times.json":  `{"results":[{"command":"a","times":[0.1,0.11]},{"command":"b","times":[0.4,0.41]}]}`,
		"io.txt":      "BenchmarkRedis[pipeline=1]/platform=bare/metric=get 1 9 requests/s\nBenchmarkRedis[pipeline=1]/platform=docker/storage=bind/network=bridge/metric=get 1 8 requests/s\n",
		"redis.txt":   "BenchmarkRedis/platform=bare/metric=get 1 70000 requests/s\nBenchmarkRedis/platform=docker/metric=get 1 69000 requests/s\n",
		"series.csv":  "run,seconds\n1,10.1\n2,10.2\n3,10.0\n4,10.1\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(".", os.DirFS(testdata)); err != nil {
		t.Fatal(err)
	}
	// The parts of S5's data that are here have the names of their originals but for
	// the directory, and of HACC-IO two cells.
	for of, pattern := range map[string]string{"stream": "stream-*.csv", "haccio": "haccio-*.txt"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		if err := os.Mkdir(of, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if err := os.Rename(name, filepath.Join(of, strings.TrimPrefix(name, of+"-"))); err != nil {
				t.Fatal(err)
			}
		}
	}
	cells := strings.NewReplacer("particles=1e6,2.5e6,5e6,10e6,25e6,50e6 ranks=1,2,4,8", "particles=1e6 ranks=1,2", ",set,hset,mset,lrange_100", "")
	commands := importCommands(string(document))
	documented := len(commands)
	help := (&app{}).importing().Example
	for _, line := range strings.Split(help, "\n") {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "tare import") {
			commands = append(commands, line)
		}
	}
	if len(commands) < 10 {
		t.Fatalf("%d commands: %q", len(commands), commands)
	}
	for i, command := range commands {
		if i == documented { // the help makes its own file
			_, line, _ := strings.Cut(help, "printf '")
			contents, _, _ := strings.Cut(line, "'")
			if err := os.WriteFile("figures.csv", []byte(strings.ReplaceAll(contents, `\n`, "\n")), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		var args []string
		for _, word := range shellWords(cells.Replace(command))[1:] {
			if names, err := filepath.Glob(word); err == nil && strings.Contains(word, "*.") && len(names) > 0 {
				args = append(args, names...)
				continue
			}
			args = append(args, word)
		}
		if code, _, errOut := tare(t, home, args...); code != exitSuccess {
			t.Errorf("%s: %d, %s", command, code, errOut)
		}
	}
}

// importCommands are the indented command lines of a document that import files by
// name, continued lines joined.
func importCommands(document string) []string {
	var commands []string
	for _, line := range strings.Split(strings.ReplaceAll(document, "\\\n", " "), "\n") {
		if indented := strings.HasPrefix(line, "    "); indented && strings.HasPrefix(strings.TrimSpace(line), "tare import") && !strings.Contains(line, "FILE") {
			commands = append(commands, strings.TrimSpace(line))
		}
	}
	return commands
}

// shellWords splits a command line at spaces, single quotes kept together.
func shellWords(line string) []string {
	var words []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 0 {
			words = append(words, strings.Fields(part)...)
		} else {
			words = append(words, part)
		}
	}
	return words
}
