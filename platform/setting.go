package platform

import (
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/docker/go-units"

	"tare/kernel/cgroup"
)

// Setting is what a platform grants a program: one field a kernel knob.
//
// The zero value grants everything and asks for each platform's ordinary
// manner. Keys and values are written as the docker command line writes them
// ("cpus=1.5", "memory=512m"); [Setting.Set] parses one, [Setting.Pairs]
// gives them back in a canonical order, so that two equal settings print
// equally.
type Setting struct {
	// CPUs is the bandwidth limit in CPUs (quota over period); 0 is no limit.
	// Bare metal, which has no quota, takes a whole number as an affinity to
	// that many CPUs, as S2 did.
	CPUs float64
	// CPUPeriod is the bandwidth period; 0 is the kernel's 100 ms.
	CPUPeriod time.Duration
	// CPUBurst is the unused quota that may be saved up; 0 is none.
	CPUBurst time.Duration
	// CPUShares is the relative weight, 2 to 262144; 0 is the default 1024.
	CPUShares int
	// CPUSet lists the CPUs allowed, such as "0-1,3"; empty is all.
	CPUSet string
	// Memory is the limit in bytes; 0 is none.
	Memory int64
	// Storage says where the program's writable data lies.
	Storage Storage
	// Network says what lies between the program and its clients.
	Network Network
	// Root says how the root file system is provided.
	Root Root
	// Seccomp is "default" (the engine's standard profile; empty means this)
	// or "unconfined".
	Seccomp string
	// LSM is "default" (empty means this) or "unconfined".
	LSM string
	// ASLR is whether the kernel draws the addresses of the program's memory: "on",
	// "off"; empty is the host's default.
	ASLR string
	// LogDriver is the engine's: "json-file" (empty means this), "local", "none".
	LogDriver string
	// Runtime is the OCI runtime that an engine uses; empty is its own default.
	Runtime string
	// GPU lists the host's GPUs that the program is given, by the numbers of their nodes
	// ("0,2"), or is "all"; empty is none.
	GPU string
}

// Storage says where the program's data directories lie.
type Storage string

// The kinds of storage. The zero value is StorageLayer.
const (
	StorageLayer  Storage = "layer"  // the container's own root (the plain directory on bare metal)
	StorageBind   Storage = "bind"   // a host directory, bind-mounted
	StorageVolume Storage = "volume" // a volume of the engine
	StorageTmpfs  Storage = "tmpfs"  // memory
)

// Network says what lies between the program and its clients.
type Network string

// The kinds of network. The zero value is NetworkHost.
const (
	NetworkHost   Network = "host"         // the host's own stack
	NetworkNone   Network = "none"         // a namespace with loopback alone
	NetworkBridge Network = "bridge"       // veth and bridge, reached at the container's own address
	NetworkProxy  Network = "bridge:proxy" // a published port through the engine's userland proxy
	NetworkNAT    Network = "bridge:nat"   // a published port through the host's NAT rules

	NetworkClusterIP Network = "bridge:clusterip" // the cluster's address of a Service
	NetworkNodePort  Network = "bridge:nodeport"  // a port of the node that a Service has
)

// Root says how the root file system is provided.
type Root string

// The kinds of root. The zero value is the platform's ordinary one: overlay
// for containers, a directory for bare metal.
const (
	RootDir     Root = "dir"     // the image's directory, read-only, with writable binds at the data directories
	RootOverlay Root = "overlay" // an overlay over it
)

// Key describes one knob for help texts and for refusing unknown ones.
type Key struct {
	Name   string
	Values string // shape of the value, with unit and range
	Doc    string
}

// RefuseService refuses, by an *Unsupported, a network that leads through a Service of Kubernetes: pods alone
// have one.
func (s Setting) RefuseService(platform string) error {
	if s.Network != NetworkClusterIP && s.Network != NetworkNodePort {
		return nil
	}
	return &Unsupported{Platform: platform, Key: "network=" + string(s.Network),
		Reason: "only pods are reached through a Service: kubectl tare with --platform k8s"}
}

// Keys lists every knob in canonical order.
var Keys = []Key{
	{"cpus", "NUMBER, 0.001 to the host's CPUs", "CPU bandwidth limit (quota over period); on bare metal an affinity to that many CPUs"},
	{"cpu-period", "DURATION, 1ms to 1s", "bandwidth period; default 100ms"},
	{"cpu-burst", "DURATION, 0 to the quota", "unused quota that may be saved up"},
	{"cpu-shares", "NUMBER, 2 to 262144", "relative weight against neighbours; default 1024"},
	{"cpuset-cpus", "LIST, such as 0-1,3", "CPUs the program may run on"},
	{"memory", "SIZE, such as 512m", "memory limit"},
	{"storage", "layer|bind|volume|tmpfs", "where the program's data directories lie"},
	{"network", "host|none|bridge|bridge:proxy|bridge:nat|bridge:clusterip|bridge:nodeport", "what lies between the program and its clients"},
	{"root", "dir|overlay", "how the root file system is provided"},
	{"seccomp", "default|unconfined", "system call filter"},
	{"lsm", "default|unconfined", "security module profile"},
	{"aslr", "on|off", "whether the kernel draws the addresses of the program's memory at random"},
	{"log-driver", "json-file|local|none", "where an engine writes the program's output"},
	{"runtime", "NAME", "OCI runtime that an engine uses"},
	{"gpu", "all|none|LIST, such as 0,2", "GPUs of NVIDIA's that the program is given, with the driver's libraries; default none"},
}

// KeyNames lists the names of [Keys].
func KeyNames() []string {
	names := make([]string, len(Keys))
	for i, k := range Keys {
		names[i] = k.Name
	}
	return names
}

// Set parses value and sets the knob named key. Its error names the key, the
// value and what is allowed.
func (s *Setting) Set(key, value string) error {
	refuse := func(allowed string) error {
		return fmt.Errorf("%s=%s: want %s", key, value, allowed)
	}
	oneOf := func(allowed ...string) error {
		for _, a := range allowed {
			if value == a {
				return nil
			}
		}
		return refuse(strings.Join(allowed, ", "))
	}
	switch key {
	case "cpus":
		v, err := strconv.ParseFloat(value, 64)
		if err != nil || math.IsNaN(v) || v < leastCPUs || v > 1<<20 {
			return refuse("a number of CPUs from 0.001, such as 1.5")
		}
		s.CPUs = v
	case "cpu-period":
		v, err := time.ParseDuration(value)
		if err != nil || v < cgroup.LeastPeriod || v > cgroup.GreatestPeriod || v%time.Microsecond != 0 {
			return refuse("a duration from 1ms to 1s in whole microseconds, such as 10ms")
		}
		s.CPUPeriod = v
	case "cpu-burst":
		v, err := time.ParseDuration(value)
		if err != nil || v < 0 || v > time.Hour || v%time.Microsecond != 0 {
			return refuse("a duration in whole microseconds, such as 20ms")
		}
		s.CPUBurst = v
	case "cpu-shares":
		v, err := strconv.Atoi(value)
		if err != nil || v < 2 || v > 262144 {
			return refuse("a whole number from 2 to 262144")
		}
		s.CPUShares = v
	case "cpuset-cpus":
		cpus, err := ParseCPUList(value)
		if err != nil || len(cpus) == 0 {
			return refuse("a list of CPUs, such as 0-1,3")
		}
		s.CPUSet = FormatCPUList(cpus)
	case "memory":
		v, err := units.RAMInBytes(value)
		if err != nil || v <= 0 {
			return refuse("a size such as 512m or 2g")
		}
		s.Memory = v
	case "storage":
		err := oneOf(string(StorageLayer), string(StorageBind), string(StorageVolume), string(StorageTmpfs))
		if err != nil {
			return err
		}
		s.Storage = Storage(value)
	case "network":
		err := oneOf(
			string(NetworkHost), string(NetworkNone), string(NetworkBridge), string(NetworkProxy), string(NetworkNAT),
			string(NetworkClusterIP), string(NetworkNodePort))
		if err != nil {
			return err
		}
		s.Network = Network(value)
	case "root":
		if err := oneOf(string(RootDir), string(RootOverlay)); err != nil {
			return err
		}
		s.Root = Root(value)
	case "seccomp":
		if err := oneOf("default", "unconfined"); err != nil {
			return err
		}
		s.Seccomp = value
	case "lsm":
		if err := oneOf("default", "unconfined"); err != nil {
			return err
		}
		s.LSM = value
	case "aslr":
		if err := oneOf("on", "off"); err != nil {
			return err
		}
		s.ASLR = value
	case "log-driver":
		if err := oneOf("json-file", "local", "none"); err != nil {
			return err
		}
		s.LogDriver = value
	case "runtime":
		if value == "" ||
			strings.ContainsFunc(
				value,
				func(r rune) bool { return r == '/' || !unicode.IsGraphic(r) || unicode.IsSpace(r) },
			) {
			return refuse("the name of a runtime that the engine knows")
		}
		s.Runtime = value
	case "gpu":
		if value != AllGPUs && value != NoGPU {
			numbers, err := ParseCPUList(value)
			if err != nil || len(numbers) == 0 {
				return refuse("all, none, or a list of numbers, such as 0,2")
			}
			value = FormatCPUList(numbers)
		}
		s.GPU = value
	default:
		return fmt.Errorf("unknown setting %q: want one of %s", key, strings.Join(KeyNames(), ", "))
	}
	return nil
}

// Pair is one knob and its value as written.
type Pair struct{ Key, Value string }

// Pairs gives the knobs that differ from the zero Setting, in the order of [Keys].
func (s Setting) Pairs() []Pair {
	var pairs []Pair
	add := func(set bool, key, value string) {
		if set {
			pairs = append(pairs, Pair{key, value})
		}
	}
	add(s.CPUs != 0, "cpus", strconv.FormatFloat(s.CPUs, 'g', -1, 64))
	add(s.CPUPeriod != 0, "cpu-period", s.CPUPeriod.String())
	add(s.CPUBurst != 0, "cpu-burst", s.CPUBurst.String())
	add(s.CPUShares != 0, "cpu-shares", strconv.Itoa(s.CPUShares))
	add(s.CPUSet != "", "cpuset-cpus", s.CPUSet)
	add(s.Memory != 0, "memory", formatBytes(s.Memory))
	add(s.Storage != "", "storage", string(s.Storage))
	add(s.Network != "", "network", string(s.Network))
	add(s.Root != "", "root", string(s.Root))
	add(s.Seccomp != "", "seccomp", s.Seccomp)
	add(s.LSM != "", "lsm", s.LSM)
	add(s.ASLR != "", "aslr", s.ASLR)
	add(s.LogDriver != "", "log-driver", s.LogDriver)
	add(s.Runtime != "", "runtime", s.Runtime)
	add(s.GPU != "", "gpu", s.GPU)
	return pairs
}

// String writes the setting as "cpus=1.5,network=bridge"; empty for the zero Setting.
func (s Setting) String() string {
	parts := make([]string, 0, 4)
	for _, p := range s.Pairs() {
		parts = append(parts, p.Key+"="+p.Value)
	}
	return strings.Join(parts, ",")
}

// Quota is the CPU bandwidth limit as the kernel has it. limited is false
// where no quota is set.
func (s Setting) Quota() (quota, period time.Duration, limited bool) {
	if s.CPUs == 0 {
		return 0, 0, false
	}
	period = s.CPUPeriod
	if period == 0 {
		period = 100 * time.Millisecond
	}
	return time.Duration(math.Round(s.CPUs*float64(period.Microseconds()))) * time.Microsecond, period, true
}

// Limits are those of the setting as the program's control group is to have them.
func (s Setting) Limits() cgroup.Limits {
	l := cgroup.Limits{Shares: s.CPUShares, CPUs: s.CPUSet, Memory: s.Memory}
	if quota, period, limited := s.Quota(); limited {
		l.Bandwidth = cgroup.Bandwidth{Quota: quota, Period: period, Burst: s.CPUBurst}
	}
	return l
}

func formatBytes(n int64) string {
	for _, u := range []struct {
		suffix string
		size   int64
	}{{"g", 1 << 30}, {"m", 1 << 20}, {"k", 1 << 10}} {
		if n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.suffix
		}
	}
	return strconv.FormatInt(n, 10) + "b"
}

// ParseCPUList reads the kernel's list format ("0-2,5", Documentation/admin-guide/cputopology).
func ParseCPUList(list string) ([]int, error) {
	seen := map[int]bool{}
	for _, part := range strings.Split(strings.TrimSpace(list), ",") {
		if part == "" {
			continue
		}
		from, to, ranged := strings.Cut(part, "-")
		lo, err := strconv.Atoi(from)
		if err != nil || lo < 0 {
			return nil, fmt.Errorf("CPU list %q: %q is not a CPU number", list, from)
		}
		hi := lo
		if ranged {
			hi, err = strconv.Atoi(to)
			if err != nil || hi < lo || hi > 1<<16 {
				return nil, fmt.Errorf("CPU list %q: %q is not a range", list, part)
			}
		}
		for c := lo; c <= hi; c++ {
			seen[c] = true
		}
	}
	cpus := make([]int, 0, len(seen))
	for c := range seen {
		cpus = append(cpus, c)
	}
	sort.Ints(cpus)
	return cpus, nil
}

// FormatCPUList writes cpus, sorted, in the kernel's list format.
func FormatCPUList(cpus []int) string {
	var parts []string
	for i := 0; i < len(cpus); {
		j := i
		for j+1 < len(cpus) && cpus[j+1] == cpus[j]+1 {
			j++
		}
		if i == j {
			parts = append(parts, strconv.Itoa(cpus[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", cpus[i], cpus[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// Clear gives the knob named key back to its zero value.
func (s *Setting) Clear(key string) {
	switch key {
	case "cpus":
		s.CPUs = 0
	case "cpu-period":
		s.CPUPeriod = 0
	case "cpu-burst":
		s.CPUBurst = 0
	case "cpu-shares":
		s.CPUShares = 0
	case "cpuset-cpus":
		s.CPUSet = ""
	case "memory":
		s.Memory = 0
	case "storage":
		s.Storage = ""
	case "network":
		s.Network = ""
	case "root":
		s.Root = ""
	case "seccomp":
		s.Seccomp = ""
	case "lsm":
		s.LSM = ""
	case "aslr":
		s.ASLR = ""
	case "log-driver":
		s.LogDriver = ""
	case "runtime":
		s.Runtime = ""
	case "gpu":
		s.GPU = ""
	}
}

// Normal is the setting with every knob that merely names its default left
// out, so that "network=host" and nothing are one condition.
func (s Setting) Normal() Setting {
	if s.CPUs == 0 || s.CPUPeriod == 100*time.Millisecond {
		s.CPUPeriod = 0
	}
	if s.CPUShares == 1024 {
		s.CPUShares = 0
	}
	if s.Storage == StorageLayer {
		s.Storage = ""
	}
	if s.Network == NetworkHost {
		s.Network = ""
	}
	if s.Seccomp == "default" {
		s.Seccomp = ""
	}
	if s.LSM == "default" {
		s.LSM = ""
	}
	if s.LogDriver == "json-file" {
		s.LogDriver = ""
	}
	if s.GPU == NoGPU {
		s.GPU = ""
	}
	return s
}

// leastCPUs is the least quota that the kernel accepts, in the greatest period.
const leastCPUs = float64(cgroup.LeastQuota) / float64(cgroup.GreatestPeriod)

// Contradiction says, in one line, why no platform of a host with these CPUs
// could grant the setting; it is empty where one could.
func (s Setting) Contradiction(hostCPUs []int) string {
	quota, period, limited := s.Quota()
	switch {
	case limited && quota < cgroup.LeastQuota:
		return fmt.Sprintf("cpus=%g in a period of %v is a quota of %v: the kernel's least is 1ms; raise cpus or cpu-period", s.CPUs, period, quota)
	case s.CPUs > float64(len(hostCPUs)):
		return fmt.Sprintf("cpus=%g: this host has %d", s.CPUs, len(hostCPUs))
	case s.CPUPeriod != 0 && !limited:
		return "cpu-period means nothing without cpus"
	case s.CPUBurst != 0 && !limited:
		return "cpu-burst means nothing without cpus"
	case s.CPUBurst > quota:
		return fmt.Sprintf("cpu-burst=%v is more than the quota of %v", s.CPUBurst, quota)
	}
	if s.CPUSet == "" {
		return ""
	}
	allowed := map[int]bool{}
	for _, c := range hostCPUs {
		allowed[c] = true
	}
	set, err := ParseCPUList(s.CPUSet)
	if err != nil {
		return err.Error()
	}
	for _, c := range set {
		if !allowed[c] {
			return fmt.Sprintf("cpuset-cpus=%s: CPU %d is not one of this host's %s", s.CPUSet, c, FormatCPUList(hostCPUs))
		}
	}
	if s.CPUs > float64(len(set)) {
		return fmt.Sprintf("cpus=%g and cpuset-cpus=%s contradict: the set holds %d", s.CPUs, s.CPUSet, len(set))
	}
	return ""
}
