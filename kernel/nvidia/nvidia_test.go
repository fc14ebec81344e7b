package nvidia

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// tree writes a host's files: "link -> target" is a symbolic link, and a name that ends in a
// slash a directory.
func tree(t testing.TB, files map[string]string) Host {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(path, 0o755)
		} else if target, ok := strings.CutPrefix(text, "-> "); ok {
			err = os.Symlink(target, path)
		} else {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return Host{Root: root}
}

// information as the driver's README has it, with tabs and spaces as the driver writes them.
func information(model, uuid, bus, minor string) string {
	return "Model: \t\t " + model + "\nIRQ:   \t\t 186\nGPU UUID: \t " + uuid + "\nVideo BIOS: \t 96.00.74.00.01\nBus Type: \t PCIe\n" +
		"DMA Size: \t 52 bits\nDMA Mask: \t 0xfffffffffffff\nBus Location: \t " + bus + "\nDevice Minor: \t " + minor + "\nGPU Firmware: \t 550.54.15\nGPU Excluded:\t No\n"
}

const (
	closedModule = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n"
	openModule   = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build  (dvs-builder@U16-I3-B03-3-2)  Tue Mar  5 22:15:33 UTC 2024\nGCC version:\n"
	uuid0        = "GPU-2f5ab1c3-0000-4111-8222-0123456789ab"
	uuid1        = "GPU-2f5ab1c3-0000-4111-8222-0123456789ac"
)

var multiarch = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]

// debian is a host with two devices and the driver of a package.
func debian() map[string]string {
	lib := "usr/lib/" + multiarch + "-linux-gnu/"
	return map[string]string{
		"proc/driver/nvidia/version":                       closedModule,
		"proc/driver/nvidia/gpus/0000:41:00.0/information": information("NVIDIA H200", uuid1, "0000:41:00.0", "1"),
		"proc/driver/nvidia/gpus/0000:0a:00.0/information": information("NVIDIA H200", uuid0, "0000:0a:00.0", "0"),
		"dev/nvidia0":                                      "c 195 0 0666 0 0",
		"dev/nvidia1":                                      "c 195 1 0666 0 0",
		"dev/nvidiactl":                                    "c 195 255 0666 0 0",
		"dev/nvidia-uvm":                                   "c 510 0 0666 0 0",
		"dev/nvidia-uvm-tools":                             "c 510 1 0666 0 0",
		"dev/nvidia-modeset":                               "c 195 254 0666 0 0",
		lib + "libcuda.so.1":                               "-> libcuda.so.550.54.15",
		lib + "libcuda.so.550.54.15":                       "",
		lib + "libcuda.so":                                 "-> libcuda.so.1",
		lib + "libnvidia-ptxjitcompiler.so.1":              "-> libnvidia-ptxjitcompiler.so.550.54.15",
		lib + "libnvidia-ptxjitcompiler.so.550.54.15":      "",
		lib + "libnvidia-nvvm.so.4":                        "-> libnvidia-nvvm.so.550.54.15",
		lib + "libnvidia-nvvm.so.550.54.15":                "",
		lib + "libnvidia-gpucomp.so.550.54.15":             "",
		lib + "libnvidia-ml.so.1":                          "-> libnvidia-ml.so.550.54.15",
		lib + "libnvidia-ml.so.550.54.15":                  "",
		lib + "libGLX_nvidia.so.550.54.15":                 "", // for graphics
		"lib/firmware/nvidia/550.54.15/gsp_ga10x.bin":      "",
		"lib/firmware/nvidia/550.54.15/gsp_tu10x.bin":      "",
		"lib/firmware/nvidia/535.104.05/gsp_tu10x.bin":     "", // an older one's
		"run/nvidia-persistenced/socket":                   "",
		"sys/bus/pci/devices/0000:0a:00.0/vendor":          "0x10de\n",
		"sys/bus/pci/devices/0000:0a:00.0/class":           "0x030200\n",
		"sys/bus/pci/devices/0000:41:00.0/vendor":          "0x10de\n",
		"sys/bus/pci/devices/0000:41:00.0/class":           "0x030200\n",
		"sys/bus/pci/devices/0000:0a:00.1/vendor":          "0x10de\n",
		"sys/bus/pci/devices/0000:0a:00.1/class":           "0x040300\n", // its sound
		"sys/bus/pci/devices/0000:00:00.0/vendor":          "0x8086\n",
		"sys/bus/pci/devices/0000:00:00.0/class":           "0x060000\n",
		"proc/driver/nvidia/capabilities/mig/config":       "DeviceFileMinor: 1\nDeviceFileMode: 256\nDeviceFileModify: 1\n",
		"proc/driver/nvidia/capabilities/mig/monitor":      "DeviceFileMinor: 2\nDeviceFileMode: 292\nDeviceFileModify: 1\n",
		"proc/driver/nvidia/capabilities/fabric-imex-mgmt": "DeviceFileMinor: 0\n",
		"proc/driver/nvidia/capabilities/gpu0/mig/":        "", // every device has it, divided or not
		"proc/driver/nvidia/capabilities/gpu1/mig/":        "",
	}
}

// divided is the same with the second device divided into two.
func divided() map[string]string {
	files := debian()
	for name, minor := range map[string]string{"gi1/access": "12", "gi1/ci0/access": "13", "gi13/access": "102", "gi13/ci0/access": "103", "gi13/ci1/access": "104"} {
		files["proc/driver/nvidia/capabilities/gpu1/mig/"+name] = "DeviceFileMinor: " + minor + "\nDeviceFileMode: 292\nDeviceFileModify: 1\n"
		files["dev/nvidia-caps/nvidia-cap"+minor] = "c 237 " + minor + " 0444 0 0"
	}
	return files
}

func without(files map[string]string, names ...string) map[string]string {
	for _, n := range names {
		for f := range files {
			if f == n || strings.HasPrefix(f, n+"/") {
				delete(files, f)
			}
		}
	}
	return files
}

func with(files map[string]string, more map[string]string) map[string]string {
	for name, text := range more {
		files[name] = text
	}
	return files
}

func TestRead(t *testing.T) {
	v, err := tree(t, debian()).Read()
	if err != nil {
		t.Fatal(err)
	}
	if v.Version != "550.54.15" || v.Open || v.LibraryVersion != "550.54.15" || v.WSL || len(v.Unbound) != 0 {
		t.Errorf("%+v", v)
	}
	if len(v.GPUs) != 2 || v.GPUs[0].UUID != uuid0 || v.GPUs[1].UUID != uuid1 || v.GPUs[1].Minor != 1 || v.GPUs[0].Model != "NVIDIA H200" || v.GPUs[0].Divided {
		t.Errorf("devices %+v", v.GPUs)
	}
	if n := v.GPUs[1].Node; n != (Node{Path: "/dev/nvidia1", Major: 195, Minor: 1, Mode: 0o666}) {
		t.Errorf("node %+v", n)
	}
	if len(v.Control) != 4 || v.Control[1] != (Node{Path: "/dev/nvidia-uvm", Major: 510, Minor: 0, Mode: 0o666}) {
		t.Errorf("control %+v", v.Control)
	}
	var libraries []string
	for _, l := range v.Libraries {
		libraries = append(libraries, l.Name+" "+filepath.Base(l.Path))
	}
	want := []string{
		"libcuda.so.1 libcuda.so.550.54.15", "libnvidia-ptxjitcompiler.so.1 libnvidia-ptxjitcompiler.so.550.54.15",
		"libnvidia-nvvm.so.4 libnvidia-nvvm.so.550.54.15", "libnvidia-gpucomp.so.550.54.15 libnvidia-gpucomp.so.550.54.15",
		"libnvidia-ml.so.1 libnvidia-ml.so.550.54.15",
	}
	if !slices.Equal(libraries, want) {
		t.Errorf("libraries %q", libraries)
	}
	if !slices.Equal(v.Firmware, []string{"/lib/firmware/nvidia/550.54.15/gsp_ga10x.bin", "/lib/firmware/nvidia/550.54.15/gsp_tu10x.bin"}) || !slices.Equal(v.Sockets, []string{"/run/nvidia-persistenced/socket"}) {
		t.Errorf("firmware %q, sockets %q", v.Firmware, v.Sockets)
	}
	if err := v.Unfit(); err != nil {
		t.Error(err)
	}
}

func TestReadDivided(t *testing.T) {
	v, err := tree(t, divided()).Read()
	if err != nil {
		t.Fatal(err)
	}
	g := v.GPUs[1]
	var instances []string
	for _, i := range g.Instances {
		s := ""
		for _, n := range i.Nodes {
			s += " " + filepath.Base(n.Path)
		}
		instances = append(instances, string(rune('a'+i.GPUInstance))+string(rune('a'+i.ComputeInstance))+s)
	}
	if !g.Divided || v.GPUs[0].Divided || !slices.Equal(instances, []string{"ba nvidia-cap12 nvidia-cap13", "na nvidia-cap102 nvidia-cap103", "nb nvidia-cap102 nvidia-cap104"}) {
		t.Errorf("%q of %+v", instances, g)
	}
	if g.Instances[0].Nodes[0] != (Node{Path: "/dev/nvidia-caps/nvidia-cap12", Major: 237, Minor: 12, Mode: 0o444}) {
		t.Errorf("node %+v", g.Instances[0].Nodes[0])
	}
	if err := v.Unfit(); err != nil {
		t.Error(err)
	}
}

// Each cause is distinguished, in one line that ends in something to do.
func TestUnfit(t *testing.T) {
	lib := "usr/lib/" + multiarch + "-linux-gnu"
	pci := map[string]string{"sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de\n", "sys/bus/pci/devices/0000:01:00.0/class": "0x030000\n"}
	for _, c := range []struct {
		name  string
		files map[string]string
		cause Cause
		says  string
	}{
		{"nothing", map[string]string{"proc/version": ""}, NoDevice, "no device of NVIDIA's on the PCI bus"},
		{"no driver", with(map[string]string{}, pci), NoDriver, "0000:01:00.0 has no driver"},
		{"another driver", with(map[string]string{"sys/bus/pci/devices/0000:01:00.0/driver": "-> ../../../bus/pci/drivers/nouveau"}, pci), NoDriver, "has the driver nouveau"},
		{"a guest's", with(map[string]string{"sys/bus/pci/devices/0000:01:00.0/driver": "-> ../../../bus/pci/drivers/vfio-pci"}, pci), NoDriver, "given to a virtual machine"},
		{"hidden", with(map[string]string{"sys/bus/pci/devices/0000:01:00.0/driver": "-> ../../../bus/pci/drivers/nvidia"}, pci), NoDriver, "does not show it"},
		{"fallen off", without(debian(), "proc/driver/nvidia/gpus", "sys"), NoDevice, "serves no device"},
		{"no library", without(debian(), lib), NoLibrary, "libcuda.so.1"},
		{"an update", with(without(debian(), lib), map[string]string{lib + "/libcuda.so.1": "-> libcuda.so.560.28.03", lib + "/libcuda.so.560.28.03": ""}), Mismatch, "550.54.15, and libcuda of 560.28.03"},
		{"no control node", without(debian(), "dev/nvidiactl"), NoNodes, "/dev/nvidiactl is missing"},
		{"no memory node", without(debian(), "dev/nvidia-uvm"), NoNodes, "/dev/nvidia-uvm is missing"},
		{"no device node", without(debian(), "dev/nvidia0", "dev/nvidia1"), NoNodes, "/dev/nvidia0 is missing"},
		{"empty division", with(without(debian(), "dev/nvidia0"), map[string]string{"proc/driver/nvidia/capabilities/gpu1/mig/gi1/access": "DeviceFileMinor: 12\n"}), NoInstance, "/dev/nvidia1 is divided"},
		{"old nodes", without(debian(), "proc", "sys", lib), NoDevice, "no device of NVIDIA's on the PCI bus"},
		{"subsystem", map[string]string{"dev/dxg": "c 10 125 0666 0 0"}, NoLibrary, "/dev/dxg"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := tree(t, c.files).Read()
			if err != nil {
				t.Fatal(err)
			}
			var unfit *Unfit
			err = v.Unfit()
			if !errors.As(err, &unfit) || unfit.Cause != c.cause || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") || unfit.Mend == "" {
				t.Errorf("%v", err)
			}
		})
	}
}

// One device that can be used is enough, wherever its library lies.
func TestFit(t *testing.T) {
	lib := "usr/lib/" + multiarch + "-linux-gnu"
	moved := func(dir string, more map[string]string) map[string]string {
		files := with(without(debian(), lib), more)
		files[dir+"/libcuda.so.1"] = "-> libcuda.so.550.54.15"
		files[dir+"/libcuda.so.550.54.15"] = ""
		return files
	}
	for name, files := range map[string]map[string]string{
		"one node of two":  without(debian(), "dev/nvidia0"),
		"one divided":      divided(),
		"in a container":   moved("usr/local/nvidia/lib64", nil),
		"configured":       moved("opt/nvidia/lib", map[string]string{"etc/ld.so.conf": "# all\ninclude /etc/ld.so.conf.d/*.conf\n", "etc/ld.so.conf.d/nvidia.conf": "/opt/nvidia/lib # ours\n"}),
		"beside an older":  moved("usr/lib64", map[string]string{lib + "/libcuda.so.1": "-> libcuda.so.535.104.05", lib + "/libcuda.so.535.104.05": ""}),
		"library unversed": with(without(debian(), lib), map[string]string{"usr/lib64/libcuda.so.1": ""}),
		"subsystem":        {"dev/dxg": "c 10 125 0666 0 0", "usr/lib/wsl/lib/libcuda.so.1": ""},
		"hidden":           without(debian(), "proc", "sys"),
		"open module":      with(debian(), map[string]string{"proc/driver/nvidia/version": openModule}),
	} {
		t.Run(name, func(t *testing.T) {
			v, err := tree(t, files).Read()
			if err != nil {
				t.Fatal(err)
			}
			if err := v.Unfit(); err != nil {
				t.Error(err)
			}
			if len(v.Libraries) == 0 || v.Open != (name == "open module") {
				t.Errorf("%+v", v)
			}
		})
	}
}

func TestReadRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		says  string
	}{
		"version":  {with(debian(), map[string]string{"proc/driver/nvidia/version": "NVRM version: none\n"}), "no version in"},
		"empty":    {with(debian(), map[string]string{"proc/driver/nvidia/version": ""}), "no line with the version"},
		"minor":    {with(debian(), map[string]string{"proc/driver/nvidia/gpus/0000:0a:00.0/information": information("X", uuid0, "0000:0a:00.0", "many")}), `minor "many"`},
		"no minor": {with(debian(), map[string]string{"proc/driver/nvidia/gpus/0000:0a:00.0/information": "Model: X\n"}), "Device Minor"},
		"node":     {with(debian(), map[string]string{"dev/nvidia0": "b 1"}), "no node of a recorded tree"},
		"access":   {with(divided(), map[string]string{"proc/driver/nvidia/capabilities/gpu1/mig/gi1/access": "DeviceFileMinor: x\n"}), `minor "x"`},
		"loop":     {with(debian(), map[string]string{"usr/lib/" + multiarch + "-linux-gnu/libnvidia-ml.so.550.54.15": "-> libnvidia-ml.so.550.54.15"}), "too many levels"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tree(t, c.files).Read()
			if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v", err)
			}
		})
	}
}

// A device whose number was not read yet has none.
func TestUUIDBeforeFirstUse(t *testing.T) {
	g, err := parseInformation(strings.NewReader(information("NVIDIA T4", "GPU-????????-????-????-????-????????????", "0000:00:04.0", "0")))
	if err != nil || g.UUID != "" || g.Bus != "0000:00:04.0" {
		t.Errorf("%+v, %v", g, err)
	}
}

func TestPermitted(t *testing.T) {
	h := tree(t, debian())
	v, err := h.Read()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Permitted(v); err != nil {
		t.Error(err)
	}
	if os.Geteuid() == 0 {
		t.Skip("root may open whatever there is")
	}
	if err := os.Chmod(filepath.Join(h.Root, "dev/nvidiactl"), 0); err != nil {
		t.Fatal(err)
	}
	var unfit *Unfit
	if err := h.Permitted(v); !errors.As(err, &unfit) || unfit.Cause != Forbidden {
		t.Errorf("%v", err)
	}
}

// Where the driver's directory in /proc is not shown, as in gVisor, devices are known by
// their nodes.
func TestReadHidden(t *testing.T) {
	v, err := tree(t, without(debian(), "proc", "sys")).Read()
	if err != nil {
		t.Fatal(err)
	}
	if !v.Hidden || v.Version != "" || len(v.GPUs) != 2 || v.GPUs[1].Minor != 1 || v.GPUs[1].Node.Path != "/dev/nvidia1" || v.GPUs[0].Divided {
		t.Errorf("%+v", v)
	}
	if v, err = tree(t, debian()).Read(); err != nil || v.Hidden {
		t.Errorf("%+v, %v", v, err)
	}
}

// What is held is open until it is released.
func TestHold(t *testing.T) {
	h := tree(t, without(debian(), "dev/nvidia0"))
	v, err := h.Read()
	if err != nil {
		t.Fatal(err)
	}
	node := filepath.Join(h.Root, "dev/nvidia1")
	open := func() bool {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
			to, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name()))
			return err == nil && to == node
		})
	}
	release := h.Hold(v)
	if !open() {
		t.Error("the device is not open")
	}
	if err := release(); err != nil || open() {
		t.Errorf("the device is open still: %v", err)
	}
}

// On whatever host this runs, there is an answer.
func TestThisHost(t *testing.T) {
	h := Host{}
	v, err := h.Read()
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Unfit(); err != nil {
		var unfit *Unfit
		if !errors.As(err, &unfit) {
			t.Fatal(err)
		}
		t.Log(err)
		return
	}
	if err := h.Permitted(v); err != nil {
		t.Log(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(closedModule)
	f.Add(openModule)
	f.Add(information("NVIDIA H200", uuid0, "0000:0a:00.0", "0"))
	f.Add("DeviceFileMinor: 12\nDeviceFileMode: 292\n")
	f.Add("include /etc/*.conf # more\n/opt/lib\n")
	f.Add("c 195 0 0666 0 0")
	f.Fuzz(func(t *testing.T, text string) {
		if version, _, err := parseVersion(strings.NewReader(text)); err == nil && !isVersion(version) {
			t.Errorf("version %q", version)
		}
		if g, err := parseInformation(strings.NewReader(text)); err == nil && g.Minor < 0 {
			t.Errorf("%+v", g)
		}
		if minor, err := parseAccess(strings.NewReader(text)); err == nil && minor < 0 {
			t.Errorf("minor %d", minor)
		}
		if dirs, _, err := parseConf(strings.NewReader(text)); err == nil {
			for _, d := range dirs {
				if !filepath.IsAbs(d) {
					t.Errorf("directory %q", d)
				}
			}
		}
		if n, err := parseNode("/dev/x", text); err == nil && n.Mode != n.Mode.Perm() {
			t.Errorf("%+v", n)
		}
	})
}
