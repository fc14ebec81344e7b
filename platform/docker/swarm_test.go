package docker_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/api/types/swarm"
	"github.com/moby/moby/client"

	"tare/kernel/process"
	"tare/kernel/procfs"
	"tare/platform"
	"tare/platform/conformance"
	"tare/platform/docker"
)

// swarmAllowed, set to 1, lets the tests put whichever engine answers into a
// swarm of its own and out of it again; killed in between, they leave it there.
const swarmAllowed = "TARE_TEST_SWARM"

// setUpsEngine is where scripts/setup.sh notes the engine that it started: its
// process' id and start.
const setUpsEngine = "/run/tare/dockerd.pid"

// startedBySetUp reports whether the engine at a unix socket is the one that the
// note names, and no other that came after it or stands beside it.
func startedBySetUp(note, host string) bool {
	text, err := os.ReadFile(note)
	if err != nil {
		return false
	}
	fields := strings.Fields(string(text))
	if len(fields) != 2 {
		return false
	}
	noted, err := process.ParseIdentity(fields[0], fields[1])
	if err != nil {
		return false
	}
	if now, err := process.Identify(noted.PID); err != nil || now != noted {
		return false
	}
	line, err := os.ReadFile(procfs.Host.Process(noted.PID).Path("cmdline"))
	return err == nil && slices.Contains(strings.Split(string(line), "\x00"), "--host="+host)
}

func TestStartedBySetUp(t *testing.T) {
	const host = "unix:///nowhere/docker.sock"
	cmd := exec.Command("sh", "-c", "read -r line", "sh", "--host="+host)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := process.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	note := filepath.Join(t.TempDir(), "pid")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(note, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if startedBySetUp(note, host) {
		t.Error("without a note, an engine is taken for set-up's")
	}
	pid, start := id.Strings()
	write(pid + " " + start + "0\n")
	if startedBySetUp(note, host) {
		t.Error("a process that has the id of set-up's engine by now is taken for it")
	}
	write(pid + " " + start + "\n")
	if !startedBySetUp(note, host) {
		t.Error("set-up's engine is not known again")
	}
	if startedBySetUp(note, host+"2") {
		t.Error("another engine beside set-up's is taken for it")
	}
	in.Close()
	_ = cmd.Wait()
	if startedBySetUp(note, host) {
		t.Error("set-up's engine that has ended is taken for one that answers")
	}
}

// inSwarm makes this host's engine the only node of a swarm for the test, unless
// it is in one. It does so with an engine that set-up started, and with another
// only where it may.
func inSwarm(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to read what is in force for a container's processes")
	}
	engine, err := client.New(client.FromEnv)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	answer, err := engine.Info(t.Context(), client.InfoOptions{})
	if err != nil {
		t.Skipf("needs an engine: %v", err)
	}
	switch answer.Info.Swarm.LocalNodeState {
	case swarm.LocalNodeStateActive:
		return
	case swarm.LocalNodeStateInactive:
	default:
		t.Skipf("the engine's swarm is %s", answer.Info.Swarm.LocalNodeState)
	}
	if os.Getenv(swarmAllowed) != "1" && !startedBySetUp(setUpsEngine, engine.DaemonHost()) {
		t.Skipf("needs a swarm: the engine at %s is in none, and scripts/setup.sh has not started it; %s=1 lets the test put it into one and out again", engine.DaemonHost(), swarmAllowed)
	}
	before := networks(t, engine)
	_, err = engine.SwarmInit(t.Context(), client.SwarmInitOptions{ListenAddr: "127.0.0.1:2377", AdvertiseAddr: "127.0.0.1"})
	if err != nil {
		t.Skipf("needs an engine that manages a swarm: %v", err)
	}
	t.Cleanup(func() {
		if _, err := engine.SwarmLeave(context.Background(), client.SwarmLeaveOptions{Force: true}); err != nil {
			t.Errorf("leave the swarm: %v", err)
		}
		for _, name := range networks(t, engine) {
			if slices.Contains(before, name) || name != "docker_gwbridge" {
				continue // the others go with the swarm
			}
			if _, err := engine.NetworkRemove(context.Background(), name, client.NetworkRemoveOptions{}); err != nil {
				t.Errorf("remove the network %s, which came with the swarm: %v", name, err)
			}
		}
	})
}

func networks(t *testing.T, engine *client.Client) []string {
	t.Helper()
	answer, err := engine.NetworkList(context.Background(), client.NetworkListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, n := range answer.Items {
		names = append(names, networkName(n))
	}
	return names
}

func networkName(n network.Summary) string { return n.Name }

// A swarm's tasks take seconds each to start, and are the engine's containers, whose suite is
// TestConformance: with TARE_TEST_ALL they have their own.
func TestSwarmConformance(t *testing.T) {
	if os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("takes minutes: set TARE_TEST_ALL=1")
	}
	inSwarm(t)
	state := conformance.OpenDir(t)
	conformance.Run(t, func(t *testing.T, ledger platform.Ledger) platform.Platform {
		return docker.NewSwarm(docker.Options{StateDir: state, Ledger: ledger})
	}, conformance.Image(t))
}
