// Package platform says where a program runs: the interfaces that bare metal,
// OCI runtimes and container engines (and, later, agents inside virtual
// machines) implement, the settings they grant, and what of those settings
// the kernel reports as really in force.
//
// It does not decide what runs, how often, or in which order (package lab
// does), and it does not measure.
//
// # Life cycle
//
//	p, err := bare.New(bare.Options{...})
//	if err := p.Check(ctx); err != nil { ... }          // what this host lacks, with the mend
//	if err := p.Supports(setting); err != nil { ... }   // "means nothing here", typed
//	if err := p.Prepare(ctx, img); err != nil { ... }   // once an image, slow (an engine loads it)
//	inst, err := p.Launch(ctx, platform.Spec{...})      // the program is running, or has already ended
//	force, err := inst.InForce()                        // as the kernel has it
//	exit, err := inst.Wait(ctx)                         // ends by itself, or ...
//	err = inst.Stop(ctx)                                // ... is ended; nothing of it is left
//	err = p.Release(ctx)                                // images it prepared are removed
//
// Every thing that Launch or Prepare makes on the host (process, cgroup,
// mount, namespace, link, container, image, directory) is entered in the
// [Ledger] before it exists and crossed out after it is gone, so that a crash
// at any moment leaves a list of what may remain. [Platform.Remove] takes one
// such entry and removes what it names, if it is still there and still ours.
package platform

import (
	"context"
	"errors"
	"io"
	"time"

	"tare/image"
)

// Platform runs programs from images under settings. Its methods may be called
// from several goroutines.
type Platform interface {
	// Name is the path that selects it: "bare", "cgroup", "oci:runc", "docker".
	Name() string
	// Check reports whether this host has what the platform needs. The error
	// is a *Missing.
	Check(ctx context.Context) error
	// Supports reports whether the setting means something here. The error is
	// an *Unsupported, naming the key and why.
	Supports(s Setting) error
	// Prepare makes the image ready to launch from. Calling it again is cheap.
	Prepare(ctx context.Context, img image.Image) error
	// Launch starts the program. When it returns an error nothing is left.
	Launch(ctx context.Context, spec Spec) (Instance, error)
	// Release removes what Prepare made.
	Release(ctx context.Context) error
	// Remove removes what a ledger entry of this platform names. Removing what
	// is gone already, or what is no longer the thing that was entered (a
	// recycled process id), succeeds and does nothing.
	Remove(ctx context.Context, e Entry) error
	// Version says what implements the platform ("runc 1.1.5", "Docker
	// 20.10.24, containerd 1.6.20, runc 1.1.5"); empty where nothing does.
	Version(ctx context.Context) string
}

// Instance is one launched program.
type Instance interface {
	// Address is where a client on the host reaches the program's port:
	// "127.0.0.1:6379", "172.17.0.2:6379".
	Address(port int) string
	// Processes lists the host's process ids of the program, the first
	// process first.
	Processes() ([]int, error)
	// InForce reads back from the kernel what holds for the first process.
	InForce() (InForce, error)
	// Usage is the resources used so far, by all processes of the program.
	Usage() (Usage, error)
	// Wait blocks until the program ends by itself. It may be called again.
	Wait(ctx context.Context) (Exit, error)
	// Signal sends a signal to the program's first process.
	Signal(sig int) error
	// Stop ends the program (with SIGKILL) if it runs still, and removes
	// everything that Launch made. It may be called again.
	Stop(ctx context.Context) error
}

// Spec is one program to launch.
type Spec struct {
	// Name is unique among running instances: lower-case letters, digits, '-'.
	Name  string
	Image image.Image
	// Args is the whole command; never a shell line. What follows is of [Spec.Process],
	// over what the image's configuration says.
	Args    []string
	Env     []string // NAME=VALUE; NAME alone takes the image's variable away
	Dir     string   // working directory inside; the image's if empty
	User    string   // USER or USER:GROUP, by name or id; the image's if empty
	Setting Setting
	// Group is the cgroup below [CgroupParent] in which the instance's own is made, as
	// "box-1/idle"; empty is CgroupParent itself. It exists ([Box.Group]) and outlives
	// the instance.
	Group string
	// Ports are the TCP ports that the program serves.
	Ports []int
	// Data are the directories inside that the program writes; Setting.Storage
	// says what lies behind them. They start empty, but for what the image has there.
	Data []string
	// Edits are what the program is given of the host besides: [Spec.Grant] adds what
	// the setting grants. A machine's platforms have none of this host's.
	Edits Edits
	// granted: the setting's are among the edits.
	granted bool
	// Stdout and Stderr receive the program's output as it comes; nil discards it.
	// Standard input is /dev/null everywhere.
	Stdout, Stderr io.Writer
}

// Exit is how a program ended.
type Exit struct {
	Code      int  // exit status; 128 + signal where a signal ended it
	OOMKilled bool // by the kernel, for its memory limit
	// Elapsed is the time to the program's end, as seen by tare, from the
	// moment at which the program's files (root, data, network) and cgroup have
	// been laid out and everything is entered in the ledger. So it holds what
	// the runtime or the engine takes to start and to reap, an engine's making
	// of the container included, and nothing of tare's own preparation, whose
	// cost is the ledger's disk and not the platform's. How long a program that
	// was created first ([Creator]) lay at rest is not counted. Where neither
	// runtime nor engine stands between (bare, cgroup), that moment is the
	// program's execution, and FromExecution is set.
	Elapsed       time.Duration
	FromExecution bool
}

// Usage is what the processes of an instance have used.
type Usage struct {
	CPU           time.Duration // user and system
	ThrottledTime time.Duration // waiting for quota
	Throttled     int64         // periods in which quota ran out
	Periods       int64         // periods of the quota in which something ran
	MemoryPeak    int64         // bytes; 0 where the kernel does not tell
}

// InForce is what the kernel reports for an instance's first process: the
// truth against which a Setting is checked.
type InForce struct {
	CPUQuota   time.Duration `json:"cpu_quota_ns,omitempty"` // in each period; 0 is none
	CPUPeriod  time.Duration `json:"cpu_period_ns,omitempty"`
	CPUBurst   time.Duration `json:"cpu_burst_ns,omitempty"`
	CPUShares  int           `json:"cpu_shares,omitempty"`   // v1 scale; v2 weights are converted and so approximate
	CPUSet     string        `json:"cpuset_cpus"`            // Cpus_allowed_list of the process
	Memory     int64         `json:"memory,omitempty"`       // bytes; 0 is none
	NetworkNS  string        `json:"network_ns"`             // "host" or "own"
	Namespaces []string      `json:"namespaces,omitempty"`   // those that differ from the host's: "mnt", "pid", ...
	RootFS     string        `json:"root_fs"`                // file system type of the program's root: "ext4", "overlay"
	DataFS     []string      `json:"data_fs,omitempty"`      // file system type behind each of Spec.Data
	Seccomp    int           `json:"seccomp"`                // 0 off, 1 strict, 2 filter (/proc/PID/status)
	LSM        string        `json:"lsm,omitempty"`          // /proc/PID/attr/current
	ASLR       string        `json:"aslr,omitempty"`         // "on" or "off", by /proc/PID/personality; empty where unknown
	Cgroups    []string      `json:"cgroups,omitempty"`      // /proc/PID/cgroup, as the host sees it
	OpenFiles  uint64        `json:"open_files_limit"`       // soft RLIMIT_NOFILE
	CoreSize   uint64        `json:"core_size_limit"`        // soft RLIMIT_CORE
	OOMScore   int           `json:"oom_score_adj"`          // /proc/PID/oom_score_adj
	Env        []string      `json:"env,omitempty"`          // sorted, as the program received it
	Stdin      string        `json:"stdin,omitempty"`        // /proc/PID/fd/0: "/dev/null"
	Stdout     string        `json:"stdout,omitempty"`       // "pipe" or a path
	Capability string        `json:"capabilities,omitempty"` // CapEff, hexadecimal
	GPUs       []string      `json:"gpus,omitempty"`         // nodes of GPUs that the process sees: "/dev/nvidia0"
}

// Surroundings are the same for every platform, bare metal included, so that
// no difference between them is a difference of surroundings.
var Surroundings = struct {
	Env       []string // what an engine sets of its own accord; [Spec.Process] says what stands over it
	Hostname  string
	OpenFiles uint64 // RLIMIT_NOFILE, soft and hard
	CoreSize  uint64 // RLIMIT_CORE, soft and hard
	OOMScore  int
}{
	Env: []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOSTNAME=tare",
	},
	Hostname:  "tare",
	OpenFiles: 16384,
	CoreSize:  0,
	OOMScore:  0,
}

// CgroupParent is the cgroup below which all platforms put their programs, in
// every hierarchy; bare metal's programs stay beside it and are only followed.
const CgroupParent = "/tare"

// Ledger keeps the list of things on the host that are ours.
type Ledger interface {
	// Add enters a thing before it is made, durably. done crosses it out and
	// is called after the thing is gone.
	Add(e Entry) (done func(), err error)
}

// Entry names one thing on the host.
type Entry struct {
	Platform string            `json:"platform"` // Name of the platform that can remove it
	Kind     string            `json:"kind"`     // "process", "cgroup", "mount", "container", "image", ...
	ID       string            `json:"id"`
	Attrs    map[string]string `json:"attrs,omitempty"` // what else Remove needs, such as a process' start time
}

// Missing says that this host lacks what a platform needs.
type Missing struct {
	What string // "no Docker engine answers at /var/run/docker.sock"
	Mend string // the command or capability that mends it
}

func (m *Missing) Error() string {
	if m.Mend == "" {
		return m.What
	}
	return m.What + ": " + m.Mend
}

// Unsupported says that a setting means nothing on a platform.
type Unsupported struct {
	Platform string
	Key      string
	Reason   string
}

func (u *Unsupported) Error() string {
	return u.Platform + " has no " + u.Key + ": " + u.Reason
}

// ErrGone is wrapped by an error that tells that the engine or the instance
// went away while it was in use.
var ErrGone = errors.New("gone")
