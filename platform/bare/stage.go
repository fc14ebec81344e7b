package bare

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"tare/kernel/cgroup"
	"tare/kernel/clock"
	"tare/kernel/netns"
	"tare/kernel/process"
)

// stageName is the argv[0] under which this program is the stage: the moment
// between its start and the program's, in which a process sets on itself what
// nobody can set on it from outside without a race.
const stageName = "tare-enter"

// Descriptors of the stage, after the standard streams.
const (
	orderFD  = 3 // what to do, as JSON
	reportFD = 4 // what the stage itself used and what went wrong, as JSON; closed by the program's execution
)

// order is what the stage is given.
type order struct {
	Root      string       `json:"root"`
	Dir       string       `json:"dir"`
	Program   string       `json:"program"`
	Args      []string     `json:"args"`
	Env       []string     `json:"env"`
	Join      []string     `json:"join,omitempty"` // process files of cgroups
	CPUs      []int        `json:"cpus,omitempty"` // affinity; empty leaves it
	OpenFiles uint64       `json:"open_files"`
	CoreSize  uint64       `json:"core_size"`
	OOMScore  int          `json:"oom_score_adj"`
	ASLR      string       `json:"aslr,omitempty"`  // "on", "off"; empty leaves it
	NetNS     string       `json:"netns,omitempty"` // path that keeps a network namespace; empty leaves it
	User      process.User `json:"user"`
}

// report is a word of the stage: what CPU time it used and what the monotonic clock says, just before
// it becomes the program, or what went wrong.
type report struct {
	CPU   time.Duration `json:"cpu,omitempty"`
	At    time.Duration `json:"at,omitempty"`
	Error string        `json:"error,omitempty"`
	Errno int           `json:"errno,omitempty"`
}

// stageError is a report, as an error that a caller can match with errors.Is.
type stageError struct {
	text  string
	errno syscall.Errno
}

func (e *stageError) Error() string { return e.text }

func (e *stageError) Unwrap() error {
	if e.errno == 0 {
		return nil
	}
	return e.errno
}

// Reexec takes over this program where it was started as the stage of a
// launch, and does not return then. It is to be called first thing in main, and
// in TestMain of a test that launches.
func Reexec() {
	if len(os.Args) == 0 || os.Args[0] != stageName {
		return
	}
	// Affinity, identity and namespaces belong to a thread: the one that executes.
	runtime.LockOSThread()
	orders, reports := os.NewFile(orderFD, "orders"), os.NewFile(reportFD, "reports")
	process.CloseOnExec(orders)
	process.CloseOnExec(reports)
	err := enter(orders, reports)
	r := report{Error: err.Error()}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		r.Errno = int(errno)
	}
	_ = json.NewEncoder(reports).Encode(r)
	os.Exit(1)
}

// enter carries the order out. It returns only on an error.
func enter(orders io.Reader, reports io.Writer) error {
	var o order
	// An order cut short means that who gave it has died: nothing is started then.
	if err := json.NewDecoder(orders).Decode(&o); err != nil {
		return fmt.Errorf("reading the order: %w", err)
	}
	// Groups and scores are written through the host's files, and namespaces found by
	// them, before the root changes.
	if err := cgroup.Join(o.Join); err != nil {
		return err
	}
	if err := process.SetOOMScore(o.OOMScore); err != nil {
		return err
	}
	if len(o.CPUs) > 0 {
		if err := process.SetAffinity(o.CPUs); err != nil {
			return err
		}
	}
	if o.NetNS != "" {
		if err := netns.Enter(o.NetNS); err != nil {
			return err
		}
	}
	if err := process.ChangeRoot(o.Root, o.Dir); err != nil {
		return err
	}
	process.SetUmask(0o022)
	if err := process.GiveStreams(o.User.UID); err != nil {
		return err
	}
	if err := process.SetUser(o.User); err != nil {
		return err
	}
	if err := process.SetASLR(o.ASLR); err != nil {
		return err
	}
	// Last, since a limit would hold the steps before it too.
	if err := process.SetLimits(o.OpenFiles, o.CoreSize); err != nil {
		return err
	}
	// The program inherits the stage's account with its process.
	if used, err := process.CPUTime(); err == nil {
		_ = json.NewEncoder(reports).Encode(report{CPU: used, At: clock.Monotonic()})
	}
	return process.Execute(o.Program, o.Args, o.Env)
}

// readReport reads what a stage said, until the program's execution or the
// stage's end closes the pipe.
func readReport(r io.Reader, program string) (stage report, err error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return stage, fmt.Errorf("starting %s: %w", program, err)
	}
	words := json.NewDecoder(bytes.NewReader(b))
	for {
		var said report
		switch err := words.Decode(&said); {
		case err == io.EOF:
			return stage, nil
		case err != nil:
			return stage, fmt.Errorf("starting %s: the stage said %q", program, b)
		case said.Error != "":
			return stage, fmt.Errorf("starting %s: %w", program, &stageError{said.Error, syscall.Errno(said.Errno)})
		}
		stage = said
	}
}

// self is this program's own file, which holds the stage.
func self() string { return filepath.Join("/proc", "self", "exe") }
