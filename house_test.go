// Package tare_test holds the house's own rules, as tests: which package may
// import which, who may make raw system calls, what packages are called, how
// wide lines are, and that the documents name only what exists. docs/architecture.md says why.
package tare_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"tare/cli"
)

const module = "tare"

// tower lists the floors from the top. A package belongs to the floor that its
// path begins with, and imports only from floors below, or from its own.
var tower = []string{
	"cmd",
	"bench",
	"contrib",
	"cli",
	"nodes",
	"study",
	"advise",
	"report",
	"lab",
	"claim",
	"overhead",
	"record",
	"platform",
	"workload",
	"image",
	"load",
	"annex",
	"census",
	"container",
	"probe",
	"model",
	"nearest",
	"stats",
	"terminal",
	"kernel",
	"programs",
}

// ground are the floors whose packages import nothing of ours, not even a
// neighbour.
var ground = []string{"nearest", "stats", "terminal", "kernel", "programs"}

// climbs are the imports that run up the tower all the same, each with the
// reason why it may.
var climbs = map[edge]string{
	{"kernel/cgroup", "kernel/procfs"}:                     "hierarchies are found among the mounts, and mountinfo is parsed once, in procfs",
	{"kernel/cgroup", "kernel/process"}:                    "its test needs a thread that process gives and ends",
	{"kernel/host", "kernel/accounting"}:                   "the fingerprint gathers what its neighbours read",
	{"kernel/host", "kernel/cgroup"}:                       "the fingerprint gathers what its neighbours read",
	{"kernel/host", "kernel/hugepages"}:                    "the fingerprint gathers what its neighbours read",
	{"kernel/host", "kernel/mount"}:                        "the fingerprint gathers what its neighbours read",
	{"kernel/host", "kernel/process"}:                      "abilities are tried on a thread of process's that can be thrown away",
	{"kernel/host", "kernel/procfs"}:                       "the fingerprint gathers what its neighbours read",
	{"kernel/mount", "kernel/procfs"}:                      "mounts are found in mountinfo, which is parsed once, in procfs",
	{"kernel/mount", "kernel/process"}:                     "work in a namespace takes a thread that process gives and ends",
	{"kernel/netns", "kernel/process"}:                     "work in a namespace takes a thread that process gives and ends",
	{"kernel/procfs", "kernel/filesystem/fusetest"}:        "its test needs a file system that does not answer",
	{"kernel/process", "kernel/procfs"}:                    "a process is told from a later one with its id by the start time that procfs reads",
	{"kernel/swap", "kernel/procfs"}:                       "mounts are found in mountinfo, which is parsed once, in procfs",
	{"kernel/accounting", "kernel/small"}:                  "the kernel's short files are read in one way",
	{"kernel/cgroup", "kernel/small"}:                      "the kernel's short files are read in one way",
	{"kernel/pressure", "kernel/small"}:                    "the kernel's short files are read in one way",
	{"kernel/process", "kernel/small"}:                     "the kernel's short files are read in one way",
	{"kernel/procfs", "kernel/small"}:                      "the kernel's short files are read in one way",
	{"kernel/swap", "kernel/small"}:                        "the kernel's short files are read in one way",
	{"kernel/swap/swaptest", "kernel/swap"}:                "tests put swap to use by what they test",
	{"kernel/swap/swaptest", "kernel/filesystem/fusetest"}: "a device that fails is a file that a test serves",
	{"kernel/mount", "kernel/filesystem/fusetest"}:         "its test needs a file system that does not answer",
	{"kernel/mount", "kernel/file"}:                        "whether a file system answers is asked of a file that is held",
	{"kernel/swap/swaptest", "kernel/file"}:                "where files lie that nobody else may reach is looked at once, in file",
	{"stats/coverage", "stats"}:                            "a generator: it simulates the estimators beside it for the documents",
	{"kernel/process", "kernel/file"}:                      "a path in a root that others fill is followed in one way",
	{"kernel/overlay", "kernel/file"}:                      "a path in a root that others fill is followed in one way",
	{"kernel/overlay", "kernel/procfs"}:                    "mounts are found in mountinfo, which is parsed once, in procfs",
}

// systemCalls are the raw system calls outside kernel/, each with the reason
// why it may stand there.
var systemCalls = map[systemCall]string{
	{"programs/thrift/server", "syscall.Timespec"}:          threadClock,
	{"programs/thrift/server", "syscall.Syscall"}:           threadClock,
	{"programs/thrift/server", "syscall.SYS_CLOCK_GETTIME"}: threadClock,
}

const threadClock = "a program inside an image, which burns CPU time by its thread's own clock; the standard library does not read it"

// plainSyscall matches what any package may use of package syscall: names for
// what the standard library hands out or takes, none of which enters the
// kernel. Raw calls are kernel/'s.
var plainSyscall = regexp.MustCompile(`^(` + strings.Join([]string{
	`SIG[A-Z0-9]+`, `Signal`, // to send through os.Process
	`E[A-Z0-9]+`, `Errno`, // to recognise with errors.Is and errors.As
	`SysProcAttr`, `Credential`, `CLONE_NEW[A-Z]+`, // what exec.Cmd takes
	`WaitStatus`, `Rusage`, // what os.ProcessState gives
	`Stat_t`,   // what fs.FileInfo gives
	`O_[A-Z]+`, // what os.OpenFile takes
}, "|") + `)$`)

// vague are names under which anything would fit.
var vague = []string{"base", "common", "helper", "helpers", "manager", "misc", "shared", "util", "utils"}

type edge struct{ from, to string }

// systemCall is a package and what it uses: a name of syscall, or the path of
// a package below golang.org/x/sys.
type systemCall struct{ pkg, what string }

func (c systemCall) String() string { return c.pkg + " uses " + c.what }

func (e edge) String() string { return e.from + " imports " + e.to }

// goPackage is what these tests read of `go list -json`.
type goPackage struct {
	ImportPath   string
	Dir          string
	Name         string
	Doc          string
	GoFiles      []string
	TestGoFiles  []string
	XTestGoFiles []string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// path is the package's directory below the module: "platform/bare".
func (p goPackage) path() string { return strings.TrimPrefix(p.ImportPath, module+"/") }

func (p goPackage) files() []string {
	return slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles)
}

func (p goPackage) imports() []string {
	all := slices.Concat(p.Imports, p.TestImports, p.XTestImports)
	slices.Sort(all)
	return slices.Compact(all)
}

// With -e: a package that does not compile still has imports and a name, and
// its own fault shows where it is built.
var listPackages = sync.OnceValues(func() ([]goPackage, error) {
	out, err := exec.Command("go", "list", "-e", "-json", "./...").Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return nil, fmt.Errorf("go list: %s", exit.Stderr)
		}
		return nil, fmt.Errorf("go list: %w", err)
	}
	var all []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if p.ImportPath != module { // these tests
			all = append(all, p)
		}
	}
})

func packages(t *testing.T) []goPackage {
	t.Helper()
	all, err := listPackages()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("go list names no package: these tests would say nothing")
	}
	return all
}

// floor is the place in the tower of a package path, counted from the top;
// false where it has none.
func floor(pkg string) (int, bool) {
	head, _, _ := strings.Cut(pkg, "/")
	i := slices.Index(tower, head)
	return i, i >= 0
}

// climb says why from may not import to, both paths below the module; empty
// where it may.
func climb(from, to string) string {
	a, ok := floor(from)
	if !ok {
		return from + " has no floor: give it one in the tower"
	}
	b, ok := floor(to)
	if !ok {
		return to + " has no floor: give it one in the tower"
	}
	switch {
	case b < a:
		return fmt.Sprintf("runs up the tower, from %s to %s", tower[a], tower[b])
	case a == b && slices.Contains(ground, tower[a]):
		return tower[a] + " imports nothing of ours"
	}
	return ""
}

func TestClimb(t *testing.T) {
	for _, c := range []struct {
		from, to string
		refused  bool
	}{
		{"cli", "lab", false},
		{"cmd/tare", "cli", false},
		{"platform/docker", "platform", false},
		{"platform/bare", "kernel/cgroup", false},
		{"lab", "cli", true},
		{"image", "platform/bare", true},
		{"kernel/cgroup", "kernel/procfs", true},
		{"kernel/cgroup", "stats", true},
		{"attic", "stats", true},
		{"cli", "attic", true},
	} {
		if why := climb(c.from, c.to); (why != "") != c.refused {
			t.Errorf("climb(%s, %s) = %q, want refused: %t", c.from, c.to, why, c.refused)
		}
	}
}

func TestImportsRunDownTheTower(t *testing.T) {
	used := map[edge]bool{}
	for _, p := range packages(t) {
		if _, ok := floor(p.path()); !ok {
			t.Errorf("%s has no floor: give it one in the tower", p.path())
		}
		for _, i := range p.imports() {
			// An external test imports the package that it tests.
			if i == p.ImportPath || !strings.HasPrefix(i, module+"/") {
				continue
			}
			e := edge{p.path(), strings.TrimPrefix(i, module+"/")}
			why := climb(e.from, e.to)
			if why == "" {
				continue
			}
			if used[e] = true; climbs[e] == "" {
				t.Errorf("%s: %s", e, why)
			}
		}
	}
	for e := range climbs {
		if !used[e] {
			t.Errorf("%s no longer, or need not be excused: take it off the list", e)
		}
	}
}

// The client of Kubernetes is as large as all of tare: only the plugin of kubectl links it.
func TestOnlyTheKubectlPluginLinksKubernetes(t *testing.T) {
	for program, want := range map[string]bool{"tare": false, "annex": false, "annexd": false, "kubectl-tare": true} {
		out, err := exec.Command("go", "list", "-deps", "./cmd/"+program).Output()
		if err != nil {
			t.Fatalf("go list -deps ./cmd/%s: %v", program, err)
		}
		if got := bytes.Contains(out, []byte("k8s.io/")); got != want {
			t.Errorf("%s links packages of Kubernetes: %t, want %t", program, got, want)
		}
	}
}

func TestSystemCallsStayInKernel(t *testing.T) {
	used := map[systemCall]bool{}
	refuse := func(at, pkg, what string) {
		c := systemCall{pkg, what}
		if used[c] = true; systemCalls[c] == "" {
			t.Errorf("%s uses %s: give kernel/ a typed function instead", at, what)
		}
	}
	for _, p := range packages(t) {
		if strings.HasPrefix(p.path(), "kernel/") {
			continue
		}
		for _, i := range p.imports() {
			if strings.HasPrefix(i, "golang.org/x/sys/") {
				refuse(p.path(), p.path(), i)
			}
		}
		for _, u := range uses(t, p, "syscall", p.files()) {
			if !plainSyscall.MatchString(u.name) {
				refuse(u.at, p.path(), "syscall."+u.name)
			}
		}
	}
	for c := range systemCalls {
		if !used[c] {
			t.Errorf("%s no longer: take it off the list", c)
		}
	}
}

// forTests reports whether tests alone import a package. What it prints, a test reads.
func forTests(pkg string) bool { return strings.Contains(pkg+"/", "test/") }

func TestProgramsHoldNothingForTests(t *testing.T) {
	for _, p := range packages(t) {
		for _, i := range p.Imports {
			if strings.HasPrefix(i, module+"/") && forTests(i) && !forTests(p.path()) {
				t.Errorf("%s imports %s, which is for tests", p.path(), i)
			}
		}
	}
}

func TestNothingBelowCliPrints(t *testing.T) {
	prints := map[string]*regexp.Regexp{
		"fmt": regexp.MustCompile(`^Print`),
		"os":  regexp.MustCompile(`^(Stdout|Stderr)$`),
		"log": regexp.MustCompile(``),
	}
	bottom := slices.Index(tower, "cli")
	for _, p := range packages(t) {
		// A generator is a command of its own, beside what it generates for.
		if f, ok := floor(p.path()); !ok || f <= bottom || p.Name == "main" || forTests(p.path()) {
			continue
		}
		for pkg, names := range prints {
			for _, u := range uses(t, p, pkg, p.GoFiles) {
				if names.MatchString(u.name) {
					t.Errorf("%s uses %s.%s: return a value or an error, and let cli print", u.at, pkg, u.name)
				}
			}
		}
	}
}

// streams are the files that use the standard streams, each with the reason why it may.
var streams = map[string]string{
	"cli/cli.go":             "hands them to the command line, which wraps them",
	"cli/command/command.go": "hands them to the command line, which wraps them",
	"cli/annexd/annexd.go":   "hands them to the command line, which wraps them",
	"cli/results/main.go":    "prints why it failed: it has no command line of its own",
	"cli/reference/main.go":  "prints why it failed: it has no command line of its own",
	"cli/signals.go":         "ends the program beside a command that may be stuck",
}

// Text that others wrote reaches people through package terminal alone, which escapes it: the
// command line prints by its functions, and control sequences are its own.
func TestOnlyTerminalPrints(t *testing.T) {
	used := map[string]bool{}
	for _, p := range packages(t) {
		if forTests(p.path()) {
			continue
		}
		for _, name := range p.GoFiles {
			at := path.Join(p.path(), name)
			src, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			faults, standard, err := printsIn(at, src, p.path() == "cli" || strings.HasPrefix(p.path(), "cli/"))
			if err != nil {
				t.Fatal(err)
			}
			if p.path() != "terminal" && at != "platform/vm/console.go" { // which takes a guest's away
				for _, fault := range faults {
					t.Error(fault)
				}
			}
			if standard && strings.HasPrefix(at, "cli/") {
				if used[at] = true; streams[at] == "" {
					t.Errorf("%s uses a standard stream: print to the command's own", at)
				}
			}
		}
	}
	for at := range streams {
		if !used[at] {
			t.Errorf("%s uses no standard stream any longer: take it off the list", at)
		}
	}
}

// printsIn finds control sequences in a file, prints by package fmt to standard error, and, in
// the command line, to anything but memory; and whether it uses a standard stream.
func printsIn(name string, src []byte, commandLine bool) (faults []string, standard bool, err error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, false, err
	}
	selected := func(e ast.Node, pkg, prefix string) bool {
		sel, ok := e.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		x, ok := sel.X.(*ast.Ident)
		return ok && x.Name == pkg && strings.HasPrefix(sel.Sel.Name, prefix)
	}
	fault := func(n ast.Node, what string) {
		faults = append(faults, fmt.Sprintf("%s:%d %s", name, set.Position(n.Pos()).Line, what))
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && strings.Contains(text, "\x1b") {
				fault(n, "holds a control sequence: use one of package terminal's")
			}
		case *ast.SelectorExpr:
			standard = standard || selected(n, "os", "Std")
			if commandLine && selected(n, "fmt", "Print") {
				fault(n, "prints past package terminal: use its functions")
			}
		case *ast.CallExpr:
			if !selected(n.Fun, "fmt", "Fprint") || len(n.Args) == 0 {
				break
			}
			_, memory := n.Args[0].(*ast.UnaryExpr) // the address of a builder
			if commandLine && !memory || selected(n.Args[0], "os", "Stderr") && !strings.HasPrefix(name, "programs/") && !strings.HasPrefix(name, "stats/") {
				fault(n, "prints past package terminal: use its functions")
			}
		}
		return true
	})
	return faults, standard, nil
}

func TestPrintsIn(t *testing.T) {
	for src, want := range map[string]int{
		`fmt.Fprintf(out, "x")`: 1, `fmt.Fprintln(os.Stderr, "x")`: 1, `fmt.Println("x")`: 1, `x = "\x1b[K"`: 1, `x = '\033'`: 1,
		`fmt.Fprintf(&b, "x")`: 0, `terminal.Fprintf(out, "x")`: 0, `x = fmt.Sprint("x")`: 0,
	} {
		faults, _, err := printsIn("cli/p.go", []byte("package p\nfunc f() { "+src+" }"), true)
		if err != nil || len(faults) != want {
			t.Errorf("%s: %q, %v; want %d", src, faults, err, want)
		}
	}
}

// use is one name of an imported package, where it is used.
type use struct {
	at   string // file:line
	name string // "*" where all names are imported
}

// uses lists what the given files of a package use of the imported one.
func uses(t *testing.T, p goPackage, imported string, files []string) []use {
	t.Helper()
	var all []use
	for _, name := range files {
		src, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		in, err := usesIn(path.Join(p.path(), name), src, imported)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, in...)
	}
	return all
}

func usesIn(name string, src []byte, imported string) ([]use, error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	at := func(n ast.Node) string { return fmt.Sprintf("%s:%d", name, set.Position(n.Pos()).Line) }
	local := ""
	for _, i := range f.Imports {
		switch {
		case i.Path.Value != strconv.Quote(imported):
		case i.Name == nil:
			local = path.Base(imported)
		case i.Name.Name == ".":
			return []use{{at(i), "*"}}, nil
		default:
			local = i.Name.Name
		}
	}
	if local == "" {
		return nil, nil
	}
	var all []use
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == local {
				all = append(all, use{at(sel), sel.Sel.Name})
			}
		}
		return true
	})
	return all, nil
}

func TestUsesIn(t *testing.T) {
	for _, c := range []struct {
		what, src string
		want      []use
	}{
		{"another package", `package p; import "os"; var _ = os.Args`, nil},
		{"names", "package p\nimport \"syscall\"\nvar _ = syscall.SIGKILL\nvar _ = syscall.Mount", []use{{"p.go:3", "SIGKILL"}, {"p.go:4", "Mount"}}},
		{"renamed", `package p; import sc "syscall"; var _ = sc.RawSyscall`, []use{{"p.go:1", "RawSyscall"}}},
		{"all names", `package p; import . "syscall"; var _ = Mount`, []use{{"p.go:1", "*"}}},
	} {
		got, err := usesIn("p.go", []byte(c.src), "syscall")
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: found %v, want %v", c.what, got, c.want)
		}
	}
}

func TestPlainSyscall(t *testing.T) {
	for _, name := range []string{"SIGKILL", "ENOSPC", "SysProcAttr", "Stat_t"} {
		if !plainSyscall.MatchString(name) {
			t.Errorf("syscall.%s is refused", name)
		}
	}
	for _, name := range []string{"Mount", "RawSyscall", "Kill", "Exec", "Statfs", "SYS_MOUNT", "*"} {
		if plainSyscall.MatchString(name) {
			t.Errorf("syscall.%s is let through", name)
		}
	}
}

func TestPackagesAreNamedAndDescribed(t *testing.T) {
	for _, p := range packages(t) {
		for _, word := range strings.Split(p.path(), "/") {
			if slices.Contains(vague, word) {
				t.Errorf("%s: %q says nothing of what it holds", p.path(), word)
			}
		}
		if slices.Contains(vague, p.Name) {
			t.Errorf("%s: package %s says nothing of what it holds", p.path(), p.Name)
		}
		want := "Package " + p.Name + " "
		if p.Name == "main" {
			want = "Command " + path.Base(p.path()) + " "
		}
		if !strings.HasPrefix(p.Doc, want) {
			t.Errorf("%s: its doc comment begins %.40q, want %q", p.path(), p.Doc, want)
		}
	}
}

// tracked lists the files that git keeps.
func tracked(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("git", "ls-files", "-z").Output()
	if err != nil {
		t.Skipf("git ls-files: %v: which files belong to the project is told by git", err)
	}
	names := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
	if names[0] == "" {
		t.Fatal("git keeps no file: these tests would say nothing")
	}
	return names
}

var (
	// machinePath matches directories of one person's machine.
	machinePath = regexp.MustCompile(`(?:/home|/Users)/[A-Za-z0-9_.]+|/root/(?:go\b|\.[a-z])`)
	// nobodysPath are those of the persons whom examples are about.
	nobodysPath = regexp.MustCompile(`^/(?:home|Users)/(?:alice|bob|user)$`)
)

// standardDirs are the directories of the file system hierarchy, which may be
// named although a checkout may lie in one.
var standardDirs = []string{"/", "/home", "/mnt", "/opt", "/root", "/srv", "/tmp", "/usr/src", "/var/tmp"}

func TestNoFileNamesOneMachine(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	local := []string{here + "/"}
	if up := filepath.Dir(here); !slices.Contains(standardDirs, up) {
		local = append(local, up+"/")
	}
	for _, name := range tracked(t) {
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed, and not yet committed so
		}
		if err != nil {
			t.Fatal(err)
		}
		if bytes.IndexByte(text, 0) >= 0 {
			continue // not text
		}
		n := 0
		for line := range strings.Lines(string(text)) {
			n++
			found := machinePath.FindString(line)
			if nobodysPath.MatchString(found) {
				found = ""
			}
			for _, l := range local {
				if strings.Contains(line, l) {
					found = l
				}
			}
			if found != "" && name != "house_test.go" {
				t.Errorf("%s:%d names %s, which is one machine's", name, n, found)
			}
		}
	}
}

// A figure of three digits in this form is 1.02e+03 from a thousand on.
var exponents = regexp.MustCompile(`%\+?\.[1-3]g`)

func TestFiguresForPeopleHaveNoExponent(t *testing.T) {
	for _, name := range tracked(t) {
		floor, _, _ := strings.Cut(name, "/")
		if !slices.Contains([]string{"advise", "cli", "report", "study"}, floor) || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			continue
		}
		src, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if found := exponents.Find(src); found != nil {
			t.Errorf("%s writes a figure by %s, which may have an exponent: use report.Rounded", name, found)
		}
	}
}

// processName matches code that puts a process id into a name.
var processName = regexp.MustCompile(`Sprintf\(.*os\.Getpid\(\)`)

// A number is used again: tare clean would remove a thing of a living process by the name of a dead one's.
func TestNothingIsNamedByAProcessNumber(t *testing.T) {
	for _, name := range tracked(t) {
		if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || forTests(path.Dir(name)) { // which remove their own by the number
			continue
		}
		src, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if found := processName.Find(src); found != nil {
			t.Errorf("%s names something by %s: use platform.Unique", name, found)
		}
	}
}

// codeColumns is the greatest width of a line of code, with a tab as four columns. What
// strings hold does not count: a text for users is no better cut.
const codeColumns = 120

func TestLinesOfCodeAreShort(t *testing.T) {
	for _, name := range tracked(t) {
		if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			continue
		}
		src, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed, and not yet committed so
		}
		if err != nil {
			t.Fatal(err)
		}
		if bytes.HasPrefix(src, []byte("// Code generated")) {
			continue
		}
		for _, n := range wideLines(src) {
			t.Errorf("%s:%d has more than %d columns, strings not counted: break it, or give a part a name", name, n, codeColumns)
		}
	}
}

// wideLines are the numbers of the lines of a Go file that have more than codeColumns.
func wideLines(src []byte) (numbers []int) {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(src))
	s.Init(file, src, nil, scanner.ScanComments)
	code := bytes.Clone(src)
	for at, tok, text := s.Scan(); tok != token.EOF; at, tok, text = s.Scan() {
		if tok != token.STRING && tok != token.CHAR {
			continue
		}
		held := code[file.Offset(at)+1 : file.Offset(at)+len(text)-1]
		for i := range held {
			if held[i] != '\n' {
				held[i] = 0
			}
		}
	}
	counted := strings.NewReplacer("\x00", "", "\t", "    ", "\n", "")
	n := 0
	for line := range strings.Lines(string(code)) {
		if n++; utf8.RuneCountInString(counted.Replace(line)) > codeColumns {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

func TestWideLines(t *testing.T) {
	code := strings.Repeat("a", codeColumns-4)
	for _, c := range []struct {
		name, src string
		want      []int
	}{
		{"a tab is four columns", "package p\n\t" + code + "\n\t" + code + "a\n", []int{3}},
		{"what a string holds", "package p\nconst s = \"" + code + code + "\"\n", nil},
		{"what follows one", "package p\nconst s = \"" + code + "\" // " + code + "\n", []int{2}},
		{"a string of lines", "package p\nconst s = `" + code + code + "\n" + code + code + "`\n", nil},
		{"letters and not bytes", "package p\n// " + strings.Repeat("ä", codeColumns-3) + "\n", nil},
	} {
		if got := wideLines([]byte(c.src)); !slices.Equal(got, c.want) {
			t.Errorf("%s: lines %d, want %d", c.name, got, c.want)
		}
	}
}

// documents lists the tracked Markdown files.
func documents(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(tracked(t), func(name string) bool { return path.Ext(name) != ".md" })
}

var (
	makeTarget = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):(?:[^=]|$)`)
	// In running text a make target stands in backquotes; in a block it opens
	// the line.
	makeMention = regexp.MustCompile("(?m)(?:`|^\\s*(?:\\$ )?|&& )make ((?:[a-z][a-z0-9-]* ?)+)")
)

func TestDocumentsNameRealTargets(t *testing.T) {
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, m := range makeTarget.FindAllStringSubmatch(string(makefile), -1) {
		targets = append(targets, m[1])
	}
	if !slices.Contains(targets, "weigh") {
		t.Fatalf("the Makefile's targets were read as %q, without weigh", targets)
	}
	for _, name := range documents(t) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range makeMention.FindAllStringSubmatch(code(screens.ReplaceAllString(string(text), "")), -1) {
			for _, target := range strings.Fields(m[1]) {
				if !slices.Contains(targets, target) {
					t.Errorf("%s names make %s, which the Makefile does not have", name, target)
				}
			}
		}
	}
}

var (
	codeBlock = regexp.MustCompile("(?ms)^ *```[^\n]*\n(.*?)^ *```")
	codeSpan  = regexp.MustCompile("`[^`\n]+`")
)

// code keeps what of a Markdown text is written as code, a span or a line of a
// block a line.
func code(markdown string) string {
	var b strings.Builder
	prose := codeBlock.ReplaceAllStringFunc(markdown, func(block string) string {
		b.WriteString(codeBlock.FindStringSubmatch(block)[1])
		return "\n"
	})
	for _, span := range codeSpan.FindAllString(prose, -1) {
		b.WriteString(span + "\n")
	}
	return b.String()
}

func TestArchitectureShowsTheTower(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `([a-z0-9/-]+)` ")
	var shown, shownFloors, standing, standingFloors []string
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		head, _, _ := strings.Cut(m[1], "/")
		shown = append(shown, m[1])
		shownFloors = append(shownFloors, head)
	}
	for _, p := range packages(t) {
		standing = append(standing, p.path())
	}
	for _, f := range tower {
		if slices.ContainsFunc(standing, func(p string) bool { return p == f || strings.HasPrefix(p, f+"/") }) {
			standingFloors = append(standingFloors, f)
		}
	}
	if shownFloors = slices.Compact(shownFloors); !slices.Equal(shownFloors, standingFloors) {
		t.Errorf("docs/architecture.md shows the floors\n\t%q\nthe tower stands as\n\t%q", shownFloors, standingFloors)
	}
	for _, p := range standing {
		if !slices.Contains(shown, p) {
			t.Errorf("docs/architecture.md has no row for %s", p)
		}
	}
	for _, p := range shown {
		if !slices.Contains(standing, p) {
			t.Errorf("docs/architecture.md has a row for %s, which does not stand", p)
		}
	}
}

// tareMention matches a command of tare as documents write it.
var tareMention = regexp.MustCompile("(?m)(?:`|^\\s*(?:\\$ )?(?:sudo )?)(?:\\./)?(?:bin/)?tare ([a-z][a-z-]*)")

func TestReadmeNamesRealCommands(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("no README.md")
	}
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range tareMention.FindAllStringSubmatch(code(string(text)), -1) {
		if name := m[1]; !seen[name] {
			seen[name] = true
			program, out := cli.Command(), new(strings.Builder)
			program.SetArgs([]string{name, "--help"})
			program.SetOut(out)
			program.SetErr(out)
			if err := program.Execute(); err != nil || !strings.Contains(out.String(), "tare "+name) {
				t.Errorf("README.md names tare %s, whose --help says (%v):\n%s", name, err, out)
			}
		}
	}
	if !seen["weigh"] {
		t.Errorf("README.md names the commands %v, without weigh", seen)
	}
}
