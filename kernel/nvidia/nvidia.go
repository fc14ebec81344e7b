// Package nvidia gives which of NVIDIA's devices a host has, and whether a CUDA program
// could use them, by files alone: what the driver says of itself in /proc, the device
// nodes, the driver's libraries. It starts nothing, loads no library and asks no device.
//
// What only the driver's library knows (compute modes, memory, names of parts of a device) the CUDA
// programs tell. Host's zero value is this host; a recorded tree can be read as well, in which a
// device node is a text: "c 195 0 0666 0 0", its type, major, minor, mode, owner and group.
//
// Sources: the driver's README ("The NVIDIA /proc Interface", "Device files"); the MIG user
// guide ("Device Nodes and Capabilities"); include/uapi/linux/major.h; ld.so(8),
// ldconfig(8).
package nvidia

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Host is where the files are read.
type Host struct {
	Root string // of the tree that holds proc, sys, dev, usr and so on; empty is "/"
}

func (h Host) path(elements ...string) string {
	return filepath.Join(append([]string{cmp.Or(h.Root, "/")}, elements...)...)
}

func (h Host) recorded() bool { return h.Root != "" && h.Root != "/" }

// Inventory is what a host has.
type Inventory struct {
	// Version is the kernel module's: "550.54.15"; empty where it is not loaded.
	Version string
	// Open: it is the open kernel module.
	Open bool
	GPUs []GPU // by their minor number
	// Control are the nodes that belong to no device: nvidiactl, nvidia-uvm,
	// nvidia-uvm-tools, nvidia-modeset, as far as they are there.
	Control []Node
	// Libraries are the driver's that a CUDA program loads, of one version.
	Libraries []Library
	// LibraryVersion is that of libcuda; empty where there is none, or its name does not say.
	LibraryVersion string
	// Firmware are the files that the driver loads into the devices' processors (GSP).
	Firmware []string
	// Sockets of daemons that programs speak to: nvidia-persistenced's.
	Sockets []string
	// Unbound are NVIDIA's devices on the PCI bus that its driver does not serve.
	Unbound []Unbound
	// WSL: the devices are the host's of a Windows subsystem, behind /dev/dxg.
	WSL bool
	// Hidden: what the driver says of itself in /proc is not shown here, as in a sandbox
	// such as gVisor's, and the devices are known by their nodes alone.
	Hidden bool
}

// GPU is one device that the driver serves.
type GPU struct {
	Bus      string // "0000:0a:00.0"
	Minor    int    // of its node: 0 is /dev/nvidia0
	Model    string // "NVIDIA H200"
	UUID     string // "GPU-..."; empty where the driver does not say it
	Firmware string // of its GSP: "550.54.15", "N/A"
	Excluded bool   // by the driver's options
	// Node is its device node; its Path is empty where that is missing.
	Node Node
	// Divided: it has GPU instances (MIG). Instances are the compute instances of those;
	// empty while nobody has made any, and then no program can use it. A device in MIG mode
	// without GPU instances does not show it in files.
	Divided   bool
	Instances []Instance
}

// Instance is a compute instance of a divided device.
type Instance struct {
	GPUInstance, ComputeInstance int
	// Nodes are the capabilities that using it takes: the GPU instance's and its own.
	Nodes []Node
}

// Node is a device node.
type Node struct {
	Path         string // from the host's root: "/dev/nvidia0"
	Major, Minor int
	Mode         fs.FileMode // permissions
	UID, GID     int
}

// Library is one of the driver's.
type Library struct {
	Name string // that programs load it by: "libcuda.so.1"
	Path string // of the file itself, from the host's root: "/usr/lib64/libcuda.so.550.54.15"
	For  string // "compiling PTX"
}

// Unbound is a device that NVIDIA's driver does not serve.
type Unbound struct {
	Bus    string
	Driver string // that serves it: "nouveau", "vfio-pci"; empty is none
}

// Cause is why no CUDA program can run.
type Cause string

// The causes, in the order in which they are looked for.
const (
	NoDevice   Cause = "no device"
	NoDriver   Cause = "no driver"
	NoLibrary  Cause = "no library"
	Mismatch   Cause = "driver and library of different versions"
	NoNodes    Cause = "no device nodes"
	Forbidden  Cause = "no permission"
	NoInstance Cause = "a divided device without instances"
)

// Unfit says in one line why no CUDA program can run here.
type Unfit struct {
	Cause Cause
	What  string
	Mend  string
}

func (u *Unfit) Error() string { return "no GPU for CUDA: " + u.What + ": " + u.Mend }

// loaded are the libraries that a CUDA program may load. VERSION stands for the
// driver's. Those for graphics and video are left out.
var loaded = []Library{
	{Name: "libcuda.so.1", For: "the driver API"},
	{Name: "libnvidia-ptxjitcompiler.so.1", For: "compiling PTX"},
	{Name: "libnvidia-nvvm.so.4", For: "compiling NVVM IR, linking at load time"},
	{Name: "libnvidia-gpucomp.so.VERSION", For: "compiling, from version 545"},
	{Name: "libnvidia-ml.so.1", For: "monitoring (NVML)"},
	{Name: "libcudadebugger.so.1", For: "debugging"},
}

// required is the library without which no CUDA program starts.
const required = "libcuda.so.1"

// standard are directories that hold the driver's libraries, before those that the
// dynamic linker is configured with. %s is the architecture.
var standard = []string{
	"/usr/lib/%s-linux-gnu", "/usr/lib/%s-linux-gnu/nvidia/current", "/lib/%s-linux-gnu", "/usr/lib64", "/usr/lib64/nvidia", "/lib64", "/usr/lib", "/lib",
	"/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/run/nvidia/driver/usr/lib/%s-linux-gnu",
	"/run/opengl-driver/lib", "/usr/lib/wsl/lib",
}

// Read takes stock. What is missing is no error; [Inventory.Unfit] says what of it
// matters. Files that can be found and not read are one.
func (h Host) Read() (*Inventory, error) {
	v := &Inventory{}
	text, err := os.ReadFile(h.path("proc/driver/nvidia/version"))
	switch {
	case err == nil:
		if v.Version, v.Open, err = parseVersion(bytes.NewReader(text)); err != nil {
			return nil, fmt.Errorf("/proc/driver/nvidia/version: %w", err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	for _, step := range []func(*Inventory) error{h.gpus, h.control, h.libraries, h.hidden, h.unbound} {
		if err := step(v); err != nil {
			return nil, err
		}
	}
	v.WSL = h.exists("dev/dxg") && v.Version == ""
	if v.Version != "" {
		for _, dir := range []string{"lib/firmware/nvidia", "usr/lib/firmware/nvidia"} {
			found, _ := filepath.Glob(h.path(dir, v.Version, "gsp*.bin")) // the pattern is a good one
			for _, f := range found {
				v.Firmware = append(v.Firmware, h.outside(f))
			}
			if len(found) > 0 {
				break
			}
		}
	}
	for _, socket := range []string{"/run/nvidia-persistenced/socket", "/var/run/nvidia-persistenced/socket"} {
		if h.exists(socket) {
			v.Sockets = append(v.Sockets, socket)
			break
		}
	}
	return v, nil
}

func (h Host) exists(path string) bool {
	_, err := os.Stat(h.path(path))
	return err == nil
}

// outside gives a path below the root as the host itself has it.
func (h Host) outside(path string) string {
	root := cmp.Or(h.Root, "/")
	return "/" + strings.TrimLeft(strings.TrimPrefix(path, filepath.Clean(root)), "/")
}

// parseVersion reads what the kernel module says:
//
//	NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build  (...)
func parseVersion(r io.Reader) (version string, open bool, err error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), "NVRM version:")
		if !ok {
			continue
		}
		for _, word := range strings.Fields(rest) {
			if isVersion(word) {
				return word, strings.Contains(rest, "Open Kernel Module"), nil
			}
		}
		return "", false, fmt.Errorf("no version in %q", lines.Text())
	}
	if err := lines.Err(); err != nil {
		return "", false, err
	}
	return "", false, errors.New("no line with the version (NVRM version)")
}

// isVersion: two or three numbers with points between them: 535.104.05.
func isVersion(word string) bool {
	parts := strings.Split(word, ".")
	if len(parts) < 2 || len(parts) > 3 {
		return false
	}
	return !slices.ContainsFunc(parts, func(p string) bool {
		_, err := strconv.ParseUint(p, 10, 16)
		return err != nil
	})
}

func (h Host) gpus(v *Inventory) error {
	dirs, err := os.ReadDir(h.path("proc/driver/nvidia/gpus"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, d := range dirs {
		text, err := os.ReadFile(h.path("proc/driver/nvidia/gpus", d.Name(), "information"))
		if err != nil {
			return err
		}
		g, err := parseInformation(bytes.NewReader(text))
		if err != nil {
			return fmt.Errorf("/proc/driver/nvidia/gpus/%s/information: %w", d.Name(), err)
		}
		if g.Bus == "" {
			g.Bus = d.Name()
		}
		if node, err := h.Node("/dev/nvidia" + strconv.Itoa(g.Minor)); err == nil {
			g.Node = node
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := h.instances(&g); err != nil {
			return err
		}
		v.GPUs = append(v.GPUs, g)
	}
	slices.SortFunc(v.GPUs, func(a, b GPU) int { return cmp.Compare(a.Minor, b.Minor) })
	return nil
}

// parseInformation reads a device's file, a line of "Key: value" each. A key that is not
// known is passed over, as drivers add some.
func parseInformation(r io.Reader) (GPU, error) {
	g := GPU{Minor: -1}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		key, value, ok := strings.Cut(lines.Text(), ":")
		if !ok {
			continue
		}
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "Model":
			g.Model = value
		case "GPU UUID":
			// Before a device was first used, its last part is question marks.
			if !strings.Contains(value, "?") {
				g.UUID = value
			}
		case "Bus Location":
			g.Bus = value
		case "Device Minor":
			n, err := strconv.ParseUint(value, 10, 16)
			if err != nil {
				return GPU{}, fmt.Errorf("device minor %q is no number", value)
			}
			g.Minor = int(n)
		case "GPU Firmware":
			g.Firmware = value
		case "GPU Excluded", "Blacklisted":
			g.Excluded = value == "Yes"
		}
	}
	if err := lines.Err(); err != nil {
		return GPU{}, err
	}
	if g.Minor < 0 {
		return GPU{}, errors.New("no line with the device's minor number (Device Minor)")
	}
	return g, nil
}

// instances finds what a device is divided into, by the capabilities that the driver shows:
// capabilities/gpu0/mig/gi3/ci0/access.
func (h Host) instances(g *GPU) error {
	base := h.path("proc/driver/nvidia/capabilities", "gpu"+strconv.Itoa(g.Minor), "mig")
	gis, err := os.ReadDir(base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	// The directory itself says nothing: the driver makes it for every device
	// (osRmCapRegisterGpu, open-gpu-kernel-modules).
	for _, gi := range gis {
		n, ok := numbered(gi.Name(), "gi")
		if !ok {
			continue
		}
		g.Divided = true
		own, err := h.capability(filepath.Join(base, gi.Name(), "access"))
		if err != nil {
			return err
		}
		cis, err := os.ReadDir(filepath.Join(base, gi.Name()))
		if err != nil {
			return err
		}
		for _, ci := range cis {
			m, ok := numbered(ci.Name(), "ci")
			if !ok {
				continue
			}
			its, err := h.capability(filepath.Join(base, gi.Name(), ci.Name(), "access"))
			if err != nil {
				return err
			}
			g.Instances = append(g.Instances, Instance{GPUInstance: n, ComputeInstance: m, Nodes: []Node{own, its}})
		}
	}
	slices.SortFunc(g.Instances, func(a, b Instance) int {
		return cmp.Or(cmp.Compare(a.GPUInstance, b.GPUInstance), cmp.Compare(a.ComputeInstance, b.ComputeInstance))
	})
	return nil
}

func numbered(name, prefix string) (int, bool) {
	digits, ok := strings.CutPrefix(name, prefix)
	n, err := strconv.ParseUint(digits, 10, 16)
	return int(n), ok && err == nil
}

// capability gives the node of a capability by its file, which says its minor number.
func (h Host) capability(file string) (Node, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return Node{}, err
	}
	minor, err := parseAccess(bytes.NewReader(text))
	if err != nil {
		return Node{}, fmt.Errorf("%s: %w", h.outside(file), err)
	}
	path := "/dev/nvidia-caps/nvidia-cap" + strconv.Itoa(minor)
	node, err := h.Node(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Node{Path: path, Minor: minor}, nil // its major is 0: it is missing
	}
	return node, err
}

// parseAccess reads "DeviceFileMinor: 12" among the lines of a capability.
func parseAccess(r io.Reader) (minor int, err error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ":")
		if strings.TrimSpace(key) != "DeviceFileMinor" {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 16)
		if err != nil {
			return 0, fmt.Errorf("minor %q is no number", strings.TrimSpace(value))
		}
		return int(n), nil
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	return 0, errors.New("no line with the node's minor number (DeviceFileMinor)")
}

// Node reads a device node by its path on the host, or what stands for one in a recorded
// tree.
func (h Host) Node(path string) (Node, error) {
	info, err := os.Stat(h.path(path))
	if err != nil {
		return Node{}, err
	}
	if h.recorded() {
		text, err := os.ReadFile(h.path(path))
		if err != nil {
			return Node{}, err
		}
		return parseNode(path, string(text))
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.Mode()&fs.ModeCharDevice == 0 {
		return Node{}, fmt.Errorf("%s is no device node", path)
	}
	major := int(s.Rdev>>8&0xfff | s.Rdev>>32&^0xfff)
	minor := int(s.Rdev&0xff | s.Rdev>>12&^0xff)
	return Node{
		Path:  path,
		Major: major,
		Minor: minor & 0xffffffff,
		Mode:  info.Mode().Perm(),
		UID:   int(s.Uid),
		GID:   int(s.Gid),
	}, nil
}

func parseNode(path, text string) (Node, error) {
	n := Node{Path: path}
	var mode uint32
	if _, err := fmt.Sscanf(text, "c %d %d %o %d %d", &n.Major, &n.Minor, &mode, &n.UID, &n.GID); err != nil {
		return Node{}, fmt.Errorf("%s: %q is no node of a recorded tree: write \"c 195 0 0666 0 0\"", path, text)
	}
	n.Mode = fs.FileMode(mode).Perm()
	return n, nil
}

func (h Host) control(v *Inventory) error {
	for _, path := range []string{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"} {
		node, err := h.Node(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		v.Control = append(v.Control, node)
	}
	return nil
}

// hidden finds devices by their nodes where the driver's own directory in /proc is not
// shown, and its control node and its library are.
func (h Host) hidden(v *Inventory) error {
	if v.Version != "" || len(v.GPUs) > 0 || len(v.Libraries) == 0 ||
		!slices.ContainsFunc(v.Control, func(n Node) bool { return n.Path == needed[0] }) {
		return nil
	}
	entries, err := os.ReadDir(h.path("dev"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		minor, ok := numbered(e.Name(), "nvidia")
		if !ok {
			continue
		}
		node, err := h.Node("/dev/" + e.Name())
		if err != nil {
			return err
		}
		v.GPUs = append(v.GPUs, GPU{Minor: minor, Node: node})
		v.Hidden = true
	}
	slices.SortFunc(v.GPUs, func(a, b GPU) int { return cmp.Compare(a.Minor, b.Minor) })
	return nil
}

// libraries finds the driver's where libcuda lies: of the module's version where there
// is one, else the one that its name leads to.
func (h Host) libraries(v *Inventory) error {
	dirs, err := h.directories()
	if err != nil {
		return err
	}
	for _, name := range []string{"libcuda.so." + v.Version, required} {
		for _, dir := range dirs {
			file, err := h.real(filepath.Join(dir, name))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			return h.librariesIn(v, dir, file)
		}
	}
	return nil
}

func (h Host) librariesIn(v *Inventory, dir, libcuda string) error {
	version := strings.TrimPrefix(filepath.Base(libcuda), "libcuda.so.")
	if isVersion(version) {
		v.LibraryVersion = version
	} else {
		version = v.Version
	}
	for _, l := range loaded {
		l.Name = strings.ReplaceAll(l.Name, "VERSION", version)
		stem, _, _ := strings.Cut(l.Name, ".so")
		l.Path = libcuda
		if l.Name != required {
			var err error
			for _, candidate := range []string{stem + ".so." + version, l.Name} {
				if l.Path, err = h.real(filepath.Join(dir, candidate)); err == nil {
					break
				}
			}
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
		}
		v.Libraries = append(v.Libraries, l)
	}
	return nil
}

// real follows links within the root.
func (h Host) real(path string) (string, error) {
	for range 16 {
		info, err := os.Lstat(h.path(path))
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			return path, nil
		}
		to, err := os.Readlink(h.path(path))
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = filepath.Clean(to)
	}
	return "", &fs.PathError{Op: "follow", Path: path, Err: syscall.ELOOP}
}

// directories are where the dynamic linker looks, the standard ones first.
func (h Host) directories() ([]string, error) {
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	var dirs []string
	for _, d := range standard {
		dirs = append(dirs, strings.ReplaceAll(d, "%s", arch))
	}
	more, err := h.configured("/etc/ld.so.conf", 8)
	if err != nil {
		return nil, err
	}
	return append(dirs, more...), nil
}

// configured reads ld.so.conf: a directory a line, and include with patterns.
func (h Host) configured(path string, depth int) ([]string, error) {
	f, err := os.Open(h.path(path))
	if errors.Is(err, fs.ErrNotExist) || depth == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	dirs, includes, err := parseConf(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, pattern := range includes {
		if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(filepath.Dir(path), pattern)
		}
		files, err := filepath.Glob(h.path(pattern))
		if err != nil {
			return nil, fmt.Errorf("%s: include %q is no pattern", path, pattern)
		}
		for _, file := range files {
			more, err := h.configured(h.outside(file), depth-1)
			if err != nil {
				return nil, err
			}
			dirs = append(dirs, more...)
		}
	}
	return dirs, nil
}

func parseConf(r io.Reader) (dirs, includes []string, err error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case words[0] == "include":
			includes = append(includes, words[1:]...)
		case strings.HasPrefix(words[0], "/"):
			dirs = append(dirs, filepath.Clean(words[0]))
		}
	}
	return dirs, includes, lines.Err()
}

// NVIDIA's number among PCI vendors, and what classes of devices begin with that can
// compute: display controllers.
const (
	vendor       = "0x10de"
	displayClass = "0x03"
)

func (h Host) unbound(v *Inventory) error {
	devices, err := os.ReadDir(h.path("sys/bus/pci/devices"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, d := range devices {
		word := func(name string) string {
			text, err := os.ReadFile(h.path("sys/bus/pci/devices", d.Name(), name))
			if err != nil {
				return "" // it went, or is no such device
			}
			return strings.TrimSpace(string(text))
		}
		if word("vendor") != vendor || !strings.HasPrefix(word("class"), displayClass) {
			continue
		}
		if slices.ContainsFunc(v.GPUs, func(g GPU) bool { return strings.EqualFold(g.Bus, d.Name()) }) {
			continue
		}
		u := Unbound{Bus: d.Name()}
		if link, err := os.Readlink(h.path("sys/bus/pci/devices", d.Name(), "driver")); err == nil {
			u.Driver = filepath.Base(link)
		}
		v.Unbound = append(v.Unbound, u)
	}
	return nil
}

// Unfit gives the first cause for which no CUDA program can run; nil where nothing
// speaks against it. The error is an *[Unfit].
func (v *Inventory) Unfit() error {
	if v.WSL {
		if len(v.Libraries) == 0 {
			return &Unfit{NoLibrary, "there is /dev/dxg, and no libcuda.so.1", "give /usr/lib/wsl/lib to the container, or install NVIDIA's driver in Windows"}
		}
		return nil
	}
	if v.Version == "" && !v.Hidden {
		return v.driverless()
	}
	if len(v.GPUs) == 0 {
		if len(v.Unbound) > 0 {
			return v.driverless()
		}
		return &Unfit{NoDevice, "NVIDIA's driver is loaded, and serves no device", "look for NVRM lines in dmesg"}
	}
	if len(v.Libraries) == 0 {
		return &Unfit{NoLibrary, "libcuda.so.1 is in no directory of the dynamic linker's", "install the driver's libraries of version " + v.Version + " (libcuda1), or give them to the container"}
	}
	if v.Version != "" && v.LibraryVersion != "" && v.LibraryVersion != v.Version {
		return &Unfit{Mismatch, fmt.Sprintf("the kernel module is of version %s, and libcuda of %s", v.Version, v.LibraryVersion), "reboot after an update of the driver, or give the container the host's library"}
	}
	return v.nodeless()
}

func (v *Inventory) driverless() error {
	if len(v.Unbound) == 0 {
		return &Unfit{NoDevice, "there is no device of NVIDIA's on the PCI bus", "run on a host that has one"}
	}
	u := v.Unbound[0]
	switch u.Driver {
	case "":
		return &Unfit{NoDriver, "the device " + u.Bus + " has no driver", "install NVIDIA's driver, or modprobe nvidia"}
	case "nvidia":
		return &Unfit{NoDriver, "the device " + u.Bus + " has NVIDIA's driver, and /proc/driver/nvidia does not show it", "run outside of the container, or give it /proc/driver/nvidia"}
	case "vfio-pci":
		return &Unfit{NoDriver, "the device " + u.Bus + " is given to a virtual machine (vfio-pci)", "run inside of that machine"}
	}
	return &Unfit{NoDriver, "the device " + u.Bus + " has the driver " + u.Driver, "install NVIDIA's driver instead"}
}

// needed are the control nodes without which CUDA does not start.
var needed = []string{"/dev/nvidiactl", "/dev/nvidia-uvm"}

func (v *Inventory) nodeless() error {
	for _, path := range needed {
		if !slices.ContainsFunc(v.Control, func(n Node) bool { return n.Path == path }) {
			return &Unfit{NoNodes, path + " is missing", "nvidia-modprobe -c 0 -u makes the nodes; or give them to the container"}
		}
	}
	present := slices.DeleteFunc(slices.Clone(v.GPUs), func(g GPU) bool { return g.Node.Path == "" })
	if len(present) == 0 {
		return &Unfit{NoNodes, fmt.Sprintf("/dev/nvidia%d is missing", v.GPUs[0].Minor), "nvidia-modprobe -c 0 -u makes the nodes; or give them to the container"}
	}
	if !slices.ContainsFunc(present, func(g GPU) bool { return !g.Divided || len(g.Instances) > 0 }) {
		return &Unfit{NoInstance, fmt.Sprintf("/dev/nvidia%d is divided (MIG), and has no compute instance", present[0].Minor), "nvidia-smi mig -cgi ... -C makes one; nvidia-smi -mig 0 ends the division"}
	}
	return nil
}

// Permitted reports whether this process may open the control nodes; the error is an
// *[Unfit] where it may not, which a node's mode or the device rules of a control group
// are the cause of. A device itself is not opened, which would start it.
func (h Host) Permitted(v *Inventory) error {
	for _, n := range v.Control {
		if !slices.Contains(needed, n.Path) {
			continue
		}
		f, err := os.OpenFile(h.path(n.Path), os.O_RDWR, 0)
		switch {
		case err == nil:
			if err := f.Close(); err != nil {
				return err
			}
		case errors.Is(err, fs.ErrPermission):
			mend := fmt.Sprintf("its mode is %04o, of user %d and group %d: join the group, or allow the device to the container's control group", n.Mode, n.UID, n.GID)
			return &Unfit{Forbidden, n.Path + " may not be opened", mend}
		case errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.ENXIO):
			return &Unfit{NoDriver, n.Path + " has no driver behind it", "modprobe nvidia nvidia-uvm, or make the node anew: its number may be another boot's"}
		default:
			return err
		}
	}
	return nil
}

// Hold opens the devices of an inventory, and gives what closes them. While somebody has a
// device open the driver keeps it initialized; where nobody else does (no
// nvidia-persistenced, persistence mode off) each program that begins alone would wait for
// that, for a second or more. A device that cannot be opened is passed over: who uses it
// learns why.
func (h Host) Hold(v *Inventory) (release func() error) {
	var held []*os.File
	for _, g := range v.GPUs {
		if g.Node.Path == "" || g.Excluded {
			continue
		}
		if f, err := os.OpenFile(h.path(g.Node.Path), os.O_RDWR, 0); err == nil {
			held = append(held, f)
		}
	}
	return func() error {
		var errs []error
		for _, f := range held {
			errs = append(errs, f.Close())
		}
		return errors.Join(errs...)
	}
}
