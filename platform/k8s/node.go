package k8s

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"tare/kernel/accounting"
	"tare/kernel/process"
	"tare/kernel/procfs"
	"tare/platform"
)

// kubelet is the name of its program, in distributions where it is one of its own.
const kubelet = "kubelet"

// node is what is used of the node's kubelet.
type node struct {
	process process.Identity
	kubeletConfig
}

// kubeletConfig is what is read of a kubelet's configuration (kubelet.config.k8s.io/v1beta1).
type kubeletConfig struct {
	StaticPods      string `yaml:"staticPodPath"`
	Endpoint        string `yaml:"containerRuntimeEndpoint"`
	PodLogs         string `yaml:"podLogsDir"`
	CPUManager      string `yaml:"cpuManagerPolicy"`
	TopologyManager string `yaml:"topologyManagerPolicy"`
}

// flags are those of a kubelet's command line that stand over its configuration.
func (c *kubeletConfig) flags() map[string]*string {
	return map[string]*string{
		"pod-manifest-path":          &c.StaticPods,
		"container-runtime-endpoint": &c.Endpoint,
		"cpu-manager-policy":         &c.CPUManager,
		"topology-manager-policy":    &c.TopologyManager,
	}
}

// findNode finds the kubelet that runs on this host. The error is a *platform.Missing.
func findNode() (*node, error) {
	all, err := accounting.Take("/proc")
	if err != nil {
		return nil, err
	}
	for pid, running := range all.Processes {
		found := procfs.Host.Process(pid)
		if running.Command != kubelet || !found.Runs(0, []string{kubelet}) {
			continue
		}
		args, err := found.Args()
		if err != nil || len(args) == 0 {
			continue
		}
		identity, err := process.Identify(pid)
		if err != nil {
			continue
		}
		config, err := readConfig(args[1:], os.ReadFile)
		if err != nil {
			return nil, err
		}
		return &node{identity, config}, nil
	}
	return nil, &platform.Missing{
		What: "no kubelet runs on this host",
		Mend: "measure on a node of a cluster: kubectl tare weigh ... --nodes SELECTOR, or tare on the node itself",
	}
}

// readConfig reads the configuration that a kubelet's command line names, and what the line says
// itself. The error is a *platform.Missing.
func readConfig(args []string, readFile func(string) ([]byte, error)) (kubeletConfig, error) {
	c := kubeletConfig{Endpoint: "/run/containerd/containerd.sock", PodLogs: "/var/log/pods"}
	file := flagOf(args, "config")
	if file != "" {
		text, err := readFile(file)
		if err == nil {
			err = yaml.Unmarshal(text, &c)
		}
		if err != nil {
			why, _, _ := strings.Cut(err.Error(), "\n")
			return c, &platform.Missing{What: "the kubelet's configuration cannot be read", Mend: file + ": " + why}
		}
	}
	for name, value := range c.flags() {
		if given := flagOf(args, name); given != "" {
			*value = given
		}
	}
	if c.StaticPods == "" {
		if file == "" {
			file = "its configuration"
		}
		return c, &platform.Missing{
			What: "the kubelet reads no static pods, which tare makes",
			Mend: "set staticPodPath: /etc/kubernetes/manifests in " + file + ", make that directory, and restart the kubelet",
		}
	}
	if !filepath.IsAbs(c.StaticPods) {
		c.StaticPods = filepath.Join(filepath.Dir(file), c.StaticPods)
	}
	c.Endpoint = strings.TrimPrefix(c.Endpoint, "unix://")
	if strings.Contains(filepath.Base(c.Endpoint), "crio") {
		return c, &platform.Missing{What: "the kubelet's runtime is CRI-O, by " + c.Endpoint, Mend: "measure on a node with containerd"}
	}
	return c, nil
}

// flagOf is the last value of a flag, as --name=value or --name value; empty where it is not given.
func flagOf(args []string, name string) (value string) {
	for i, arg := range args {
		given, after, joined := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
		switch {
		case !strings.HasPrefix(arg, "-") || given != name:
		case joined:
			value = after
		case i+1 < len(args):
			value = args[i+1]
		}
	}
	return value
}

// version is what the kubelet's program calls itself, and the policies by which it gives CPUs.
func (n *node) version(ctx context.Context) string {
	number := ""
	if out, err := exec.CommandContext(ctx, procfs.Host.Process(n.process.PID).Path("exe"), "--version").Output(); err == nil {
		_, number, _ = strings.Cut(strings.TrimSpace(string(out)), " v") // "Kubernetes v1.30.14"
	}
	policy := func(name string) string {
		if name == "" {
			return "none"
		}
		return name
	}
	return strings.Join(slices.DeleteFunc([]string{
		kubelet, number, fmt.Sprintf("(CPU manager %s, topology manager %s)", policy(n.CPUManager), policy(n.TopologyManager)),
	}, func(s string) bool { return s == "" }), " ")
}
