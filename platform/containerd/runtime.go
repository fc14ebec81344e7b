package containerd

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/containerd/containerd/api/types/runc/options"
)

const (
	// runcShim is the shim for runc and whatever has runc's command line.
	runcShim      = "io.containerd.runc.v2"
	defaultBinary = "runc"
	// shimPrefix begins the name of every shim.
	shimPrefix = "io.containerd."
)

// runtime is what containerd is asked to start a container by.
type runtime struct {
	shim   string // "io.containerd.runc.v2"
	binary string // the OCI runtime that runc's shim calls; empty where the shim is another
}

// runtimeOf reads the setting: a shim's name ("io.containerd.kata.v2"), or an
// OCI runtime on PATH that runc's shim is to call; empty is runc.
func runtimeOf(setting string) (runtime, error) {
	if strings.HasPrefix(setting, shimPrefix) && setting != runcShim {
		program, ok := shimProgram(setting)
		if _, err := exec.LookPath(program); !ok || err != nil {
			return runtime{}, unsupported("runtime="+setting, "the shim would be "+program+", which is not on PATH")
		}
		return runtime{shim: setting}, nil
	}
	r := runtime{shim: runcShim, binary: setting}
	if setting == "" || setting == runcShim {
		r.binary = defaultBinary
		return r, nil // Check sees to it
	}
	if _, err := exec.LookPath(setting); err != nil {
		return runtime{}, unsupported("runtime="+setting, "no OCI runtime "+setting+" on PATH: apt-get install "+filepath.Base(setting))
	}
	return r, nil
}

// shimProgram is the file that a shim's name stands for: "io.containerd.kata.v2"
// is containerd-shim-kata-v2.
func shimProgram(name string) (program string, ok bool) {
	parts := strings.Split(name, ".")
	if len(parts) < 2 {
		return name, false
	}
	last := parts[len(parts)-2:]
	return "containerd-shim-" + last[0] + "-" + last[1], last[0] != "" && last[1] != ""
}

func (r runtime) String() string {
	if r.binary == "" {
		return r.shim
	}
	return r.binary
}

// options are what the shim is given; nil for shims that are not runc's.
func (r runtime) options() any {
	if r.binary == "" {
		return nil
	}
	return &options.Options{BinaryName: r.binary}
}

// bursts remembers what runtimes answered, by their name.
var bursts sync.Map

// knowsBurst asks the runtime itself: the specification has had the burst since
// version 1.1, and the runtimes that know it say which version they know. One
// that has no such question, as of before 2022, does not know the burst either.
func (r runtime) knowsBurst() bool {
	if r.binary == "" {
		return false
	}
	if known, ok := bursts.Load(r.binary); ok {
		return known.(bool)
	}
	out, err := exec.Command(r.binary, "features").Output()
	known := err == nil && specifies(out, 1, 1)
	bursts.Store(r.binary, known)
	return known
}

// specifies reports whether a runtime's features (runtime specification,
// features.md) are of that version of the specification, or a later one.
func specifies(features []byte, major, minor int) bool {
	var reported struct {
		OCIVersionMax string `json:"ociVersionMax"`
	}
	if json.Unmarshal(features, &reported) != nil {
		return false
	}
	parts := strings.SplitN(reported.OCIVersionMax, ".", 3)
	if len(parts) < 2 {
		return false
	}
	a, err := strconv.Atoi(parts[0])
	if err != nil {
		return false
	}
	b, err := strconv.Atoi(parts[1])
	if err != nil {
		return false
	}
	return a > major || a == major && b >= minor
}
