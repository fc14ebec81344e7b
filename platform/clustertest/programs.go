package clustertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"tare/kernel/cgroup"
	"tare/kernel/file"
)

// kubernetes are the programs that are built, of which tools/cluster pins the version.
var kubernetes = []string{"kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubelet"}

// What the host has to have, and what of it is used.
const (
	etcdProgram       = "/usr/bin/etcd"
	containerdProgram = "/usr/bin/containerd"
	ctrProgram        = "/usr/bin/ctr"
	pluginsAt         = "/usr/lib/cni"
)

// check says what this host lacks.
func check() error {
	if os.Geteuid() != 0 {
		return errors.New("a cluster needs root")
	}
	for _, path := range []string{
		etcdProgram, containerdProgram, ctrProgram, pluginsAt + "/bridge", pluginsAt + "/host-local", pluginsAt + "/portmap",
	} {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("a cluster needs %s: as root: scripts/setup.sh nodes", path)
		}
	}
	if busyboxProgram() == "" {
		return errors.New("a cluster needs a static busybox: as root: scripts/setup.sh packages")
	}
	layout, err := cgroup.Host()
	if err != nil {
		return err
	}
	if lacks := layout.Lacks("cpu", "cpuset", "memory", "pids"); lacks != "" {
		return fmt.Errorf("a kubelet needs the control group controller %s, which this host lacks", lacks)
	}
	return nil
}

// Programs gives the directory of Kubernetes' programs in the user's cache, which is named by their
// version. It builds those that are not there.
func Programs(ctx context.Context, log func(format string, args ...any)) (dir string, err error) {
	source, err := moduleDir(ctx)
	if err != nil {
		return "", err
	}
	version, err := run(ctx, source, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(cache, "tare", "kubernetes", version)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	// Several tests may want them at once.
	return dir, file.Hold(ctx, filepath.Join(dir, "lock"), func(*os.File) error {
		for _, program := range kubernetes {
			if err := build(ctx, source, version, filepath.Join(dir, program), log); err != nil {
				return err
			}
		}
		return nil
	})
}

func build(ctx context.Context, source, version, to string, log func(format string, args ...any)) error {
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	program := filepath.Base(to)
	log("building %s %s", program, version)
	began := time.Now()
	major, minor, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	const stamp = " -X k8s.io/component-base/version."
	flags := "-s -w" + stamp + "gitVersion=" + version + stamp + "gitMajor=" + major + stamp + "gitMinor=" + minor
	_, err := run(ctx, source, "go", "build", "-trimpath", "-tags", "providerless", "-ldflags", flags,
		"-o", to+".new", "k8s.io/kubernetes/cmd/"+program)
	if err != nil {
		return err
	}
	log("%s was built in %v", program, time.Since(began).Round(time.Second))
	return os.Rename(to+".new", to)
}

// moduleDir is tools/cluster of the checkout that the working directory is in.
func moduleDir(ctx context.Context) (string, error) {
	module, err := run(ctx, ".", "go", "env", "GOMOD")
	if err != nil {
		return "", err
	}
	dir := filepath.Join(filepath.Dir(module), "tools", "cluster")
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		return "", fmt.Errorf("building Kubernetes needs a checkout of tare: run it in one (%w)", err)
	}
	return dir, nil
}

// run gives what a command prints, without the newline at its end.
func run(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return "", fmt.Errorf("%s %s: %w: %s", name, args[0], err, strings.TrimSpace(string(exit.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}
