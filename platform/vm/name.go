package vm

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/go-units"
)

// Engine is what runs the code of virtual machines: QEMU, by the accelerator of that name.
type Engine string

// The engines.
const (
	KVM Engine = "kvm" // the processor itself runs the guest's code
	TCG Engine = "tcg" // the guest's code is translated: slow, and it runs anywhere
)

var engines = []Engine{KVM, TCG}

// The guest's CPU models that have a name of our own; others are QEMU's names.
const (
	CPUHost    = "host"    // as much of the host's own as the engine has
	CPUDefault = "default" // QEMU's default model, which lacks most of what is new
)

// inners are the platforms that a machine's agent has.
var inners = []string{"bare", "cgroup", "oci:runc", "oci:crun"}

// Name is the path of a platform in a virtual machine, in parts:
// "vm:kvm+cpus=4+memory=2g+cpu=host/oci:runc".
type Name struct {
	Engine Engine // empty: the pool chooses (see [Pool.Resolve])
	CPUs   int    // of the machine; 0 as the setting says
	Memory int64  // of the machine in bytes; 0 as the setting says
	CPU    string // the guest's CPU model; empty is [CPUHost]
	Inner  string // the platform in the machine
}

// sized reports whether the path says how large the machine is, so that the setting
// is the inner platform's alone.
func (n Name) sized() bool { return n.CPUs > 0 || n.Memory > 0 }

// BadName says what is wrong with a path.
type BadName struct {
	Name, Part, Want string
}

func (b *BadName) Error() string {
	return fmt.Sprintf("platform %q: %q is not %s", b.Name, b.Part, b.Want)
}

// Is reports whether a platform's name is meant for this package.
func Is(name string) bool {
	head, _, _ := strings.Cut(name, "/")
	head, _, _ = strings.Cut(head, "+")
	head, _, _ = strings.Cut(head, ":")
	return head == "vm"
}

// The bounds of a machine that a path asks for. QEMU's own are 255 CPUs without an
// interrupt remapper; below 256 MiB the guest's kernel and agent leave nothing.
const (
	mostCPUs    = 255
	leastMemory = 256 << 20
	mostMemory  = 1 << 46
)

var modelShape = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// ParseName reads a path such as "vm/bare", "vm:tcg/oci:crun" or
// "vm:kvm+cpus=4+memory=2g+cpu=host/oci". The error is a [*BadName].
func ParseName(name string) (Name, error) {
	var n Name
	bad := func(part, want string) (Name, error) { return Name{}, &BadName{name, part, want} }
	machine, inner, found := strings.Cut(name, "/")
	if !found || inner == "" {
		return bad(name, "a machine and what runs in it, such as vm/bare or vm:tcg/oci:runc")
	}
	words := strings.Split(machine, "+")
	head, engine, hasEngine := strings.Cut(words[0], ":")
	if head != "vm" {
		return bad(head, "vm")
	}
	if hasEngine {
		if n.Engine = Engine(engine); !slices.Contains(engines, n.Engine) {
			return bad(engine, "an engine: kvm or tcg")
		}
	}
	seen := map[string]bool{}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		if seen[key] {
			return bad(word, "said once")
		}
		seen[key] = true
		switch key {
		case "cpus":
			v, err := strconv.Atoi(value)
			if err != nil || v < 1 || v > mostCPUs {
				return bad(word, fmt.Sprintf("a whole number of virtual CPUs, cpus=1 to cpus=%d", mostCPUs))
			}
			n.CPUs = v
		case "memory":
			v, err := units.RAMInBytes(value)
			if err != nil || v < leastMemory || v > mostMemory {
				return bad(word, "a machine's memory of 256m or more, such as memory=2g")
			}
			n.Memory = v &^ (1<<20 - 1)
		case "cpu":
			if !modelShape.MatchString(value) {
				return bad(word, "a model of CPU: cpu=host, cpu=default or a name that qemu-system-x86_64 -cpu help lists")
			}
			n.CPU = value
		default:
			return bad(word, "one of cpus=NUMBER, memory=SIZE, cpu=MODEL")
		}
	}
	if n.CPU == CPUHost {
		n.CPU = ""
	}
	if inner == "oci" {
		inner = "oci:runc"
	}
	if Is(inner) {
		return bad(inner, "what a machine can run: machines in machines are not made")
	}
	if !slices.Contains(inners, inner) {
		return bad(inner, "a platform that machines have: "+strings.Join(inners, ", "))
	}
	n.Inner = inner
	return n, nil
}

// String is the canonical path, which [ParseName] reads.
func (n Name) String() string { return n.machine() + "/" + n.Inner }

// machine is the path's part before the inner platform.
func (n Name) machine() string {
	var b strings.Builder
	b.WriteString("vm")
	if n.Engine != "" {
		b.WriteString(":" + string(n.Engine))
	}
	if n.CPUs > 0 {
		fmt.Fprintf(&b, "+cpus=%d", n.CPUs)
	}
	if n.Memory > 0 {
		b.WriteString("+memory=" + size(n.Memory))
	}
	if n.CPU != "" {
		b.WriteString("+cpu=" + n.CPU)
	}
	return b.String()
}

// size writes whole mebibytes as the docker command line does.
func size(bytes int64) string {
	if bytes%(1<<30) == 0 {
		return strconv.FormatInt(bytes>>30, 10) + "g"
	}
	return strconv.FormatInt(bytes>>20, 10) + "m"
}
