package host

import (
	"bufio"
	"io"
	"strings"
)

// CPUInfo is what tare needs of /proc/cpuinfo.
type CPUInfo struct {
	Model      string
	Vendor     string
	Processors int
	Hypervisor bool // the processor says that it is a virtual one (x86)
}

// ParseCPUInfo reads /proc/cpuinfo, whose fields differ between architectures.
func ParseCPUInfo(r io.Reader) CPUInfo {
	var c CPUInfo
	var implementer, part string
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20) // the flags grow with each generation
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), ":")
		if !ok {
			continue
		}
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(name) {
		case "processor":
			c.Processors++
		case "model name":
			c.Model = value
		case "vendor_id":
			c.Vendor = value
		case "CPU implementer":
			implementer = value
		case "CPU part":
			part = value
		case "flags":
			c.Hypervisor = c.Hypervisor || strings.Contains(" "+value+" ", " hypervisor ")
		}
	}
	if c.Model == "" && implementer != "" {
		// arm64 has no name here, only its maker's and its own number.
		c.Model = "implementer " + implementer + " part " + part
	}
	if c.Model == "" {
		c.Model = unknown
	}
	return c
}

// makers recognises hypervisors by what they write in the DMI tables.
var makers = []struct{ word, hypervisor string }{
	{"kvm", "kvm"},
	{"qemu", "qemu"},
	{"vmware", "vmware"},
	{"virtualbox", "virtualbox"},
	{"innotek", "virtualbox"},
	{"microsoft corporation virtual", "hyper-v"},
	{"xen", "xen"},
	{"amazon ec2", "kvm (Amazon EC2)"},
	{"google compute", "kvm (Google Compute Engine)"},
	{"openstack", "kvm (OpenStack)"},
	{"digitalocean", "kvm (DigitalOcean)"},
	{"parallels", "parallels"},
	{"bhyve", "bhyve"},
}

// hypervisor gives what a virtual machine runs on, from several hints: no
// single one is always there.
func (t tree) hypervisor(cpu CPUInfo) string {
	if strings.Contains(cpu.Vendor, "User Mode Linux") {
		return "uml"
	}
	if kind := t.text("sys/hypervisor/type"); kind != "" {
		return kind
	}
	switch source := t.text("sys/devices/system/clocksource/clocksource0/current_clocksource"); {
	case source == "kvm-clock":
		return "kvm"
	case source == "xen":
		return "xen"
	case strings.HasPrefix(source, "hyperv"):
		return "hyper-v"
	}
	described := strings.ToLower(strings.Join([]string{
		t.text("sys/class/dmi/id/sys_vendor"),
		t.text("sys/class/dmi/id/product_name"),
		t.text("sys/class/dmi/id/bios_vendor"),
		t.text("proc/device-tree/hypervisor/compatible"),
	}, " "))
	// A bare machine of Amazon's has its maker's name too; on x86 the
	// processor's own word goes before.
	if cpu.Hypervisor || cpu.Vendor == "" {
		for _, m := range makers {
			if strings.Contains(described, m.word) {
				return m.hypervisor
			}
		}
	}
	if cpu.Hypervisor {
		return unknown
	}
	return "none"
}
