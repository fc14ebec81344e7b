package docker_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare/kernel/procfs"
	"tare/platform"
	"tare/platform/conformance"
	"tare/platform/docker"
)

// TestRootless tests one rootless engine, which takes its time to start.
func TestRootless(t *testing.T) {
	host := rootlessEngine(t)
	t.Run("Conformance", func(t *testing.T) {
		if os.Getenv("TARE_TEST_ALL") == "" {
			t.Skip("takes a minute: set TARE_TEST_ALL=1")
		}
		testRootlessConformance(t, host, conformance.HostNetworkApart, conformance.NoControlGroups)
	})
	t.Run("Figures", func(t *testing.T) { testRootlessFigures(t, host) })
	t.Run("BindsWhereItsUserMayLook", func(t *testing.T) { testRootlessBinds(t, host) })
}

// TestRootlessOfHost tests a rootless engine of the host's, whose control groups are systemd's.
func TestRootlessOfHost(t *testing.T) {
	host := os.Getenv("DOCKER_ROOTLESS_HOST")
	if host == "" {
		t.Skip("needs a rootless engine under systemd: name its socket by DOCKER_ROOTLESS_HOST")
	}
	testRootlessConformance(t, host, conformance.HostNetworkApart)
}

func testRootlessConformance(t *testing.T, host string, traits ...conformance.Trait) {
	state := conformance.OpenDir(t)
	conformance.Run(t, func(t *testing.T, ledger platform.Ledger) platform.Platform {
		return docker.NewRootless(docker.Options{Host: host, StateDir: state, Ledger: ledger})
	}, conformance.Image(t), traits...)
}

// testRootlessFigures: what is known of a program that has no control group.
func testRootlessFigures(t *testing.T, host string) {
	p := docker.NewRootless(docker.Options{Host: host, StateDir: conformance.OpenDir(t)})
	img := conformance.Image(t)
	if err := p.Prepare(t.Context(), img); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Release(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if version := p.Version(t.Context()); !strings.HasSuffix(version, ", rootless") || !strings.Contains(version, "Docker ") {
		t.Errorf("version %q does not say that it is rootless", version)
	}

	ready, stdout := io.Pipe()
	inst, err := p.Launch(t.Context(), platform.Spec{
		Name: "rootless-figures", Image: img, Stdout: stdout, Data: []string{"/data"},
		Setting: platform.Setting{Storage: platform.StorageBind},
		// A child that has been waited for has its time in its parent's.
		Args: []string{"sh", "-c", "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; sleep 3600 & echo ready; wait"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := inst.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if _, err := bufio.NewReader(ready).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if usage, err := inst.Usage(); err != nil || usage.CPU <= 0 || usage.MemoryPeak != 0 {
		t.Errorf("after work: %+v, %v; want CPU time, and no peak of memory, which nobody keeps", usage, err)
	}
	pids, err := inst.Processes()
	if err != nil || len(pids) != 2 {
		t.Errorf("processes %v (%v), want two", pids, err)
	}
	force, err := inst.InForce()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(force.Namespaces, "user") || force.NetworkNS != "own" {
		t.Errorf("namespaces %v, network %q; want a user's, and the engine's own network", force.Namespaces, force.NetworkNS)
	}
	if len(force.DataFS) != 1 || force.DataFS[0] == "overlay" {
		t.Errorf("bound data lies on %v", force.DataFS)
	}

	engine := p.EnginePIDs(t.Context())
	users := processesOfEngine()
	for _, pid := range engine {
		if stat, err := procfs.Host.Process(pid).Stat(); err != nil || stat.Zombie() {
			continue // has ended, such as a shim that nobody in the engine waits for
		}
		if !slices.Contains(users, pid) {
			t.Errorf("process %d counts as the engine's, and is not of its user", pid)
		}
	}
	var commands []string
	for _, pid := range engine {
		if stat, err := procfs.Host.Process(pid).Stat(); err == nil {
			commands = append(commands, stat.Comm)
		}
	}
	for _, want := range []string{"dockerd", "containerd", "rootlesskit", "slirp4netns", "containerd-shim"} {
		if !slices.Contains(commands, want) {
			t.Errorf("the engine's processes are %q, without %s", commands, want)
		}
	}
}

// testRootlessBinds: a directory that is closed to the
// engine's user is named, before anything is made.
func testRootlessBinds(t *testing.T, host string) {
	closed := filepath.Join(conformance.OpenDir(t), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	p := docker.NewRootless(docker.Options{Host: host, StateDir: filepath.Join(closed, "state")})
	img := conformance.Image(t)
	_, err := p.Launch(t.Context(), platform.Spec{
		Name: "rootless-closed", Image: img, Args: []string{"true"}, Data: []string{"/data"},
		Setting: platform.Setting{Storage: platform.StorageBind},
	})
	unsupported := new(platform.Unsupported)
	if !errors.As(err, &unsupported) || unsupported.Key != "storage=bind" || !strings.Contains(unsupported.Reason, "chmod o+x "+closed) {
		t.Errorf("Launch: %v, want what opens %s", err, closed)
	}
}
