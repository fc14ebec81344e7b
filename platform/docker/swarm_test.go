package docker_test

import (
	"context"
	"os"
	"slices"
	"testing"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/api/types/swarm"
	"github.com/moby/moby/client"

	"tare/platform"
	"tare/platform/conformance"
	"tare/platform/docker"
)

// inSwarm makes this host's engine the only node of a swarm for the test, unless
// it is in one.
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

func TestSwarmConformance(t *testing.T) {
	inSwarm(t)
	state := t.TempDir()
	conformance.Run(t, func(t *testing.T, ledger platform.Ledger) platform.Platform {
		return docker.NewSwarm(docker.Options{StateDir: state, Ledger: ledger})
	}, conformance.Image(t))
}
