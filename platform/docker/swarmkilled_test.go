package docker_test

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"tare/platform"
	"tare/platform/conformance"
	"tare/platform/docker"
)

// killedState tells the test's own program that it is the one to be killed, and
// where its state is.
const killedState = "TARE_TEST_KILLED_STATE"

// loudLedger says on standard output what is entered.
type loudLedger struct{}

const entered = "entered: "

func (l loudLedger) Add(e platform.Entry) (func(), error) {
	line, err := json.Marshal(e)
	if err == nil {
		_, err = os.Stdout.WriteString(entered + string(line) + "\n")
	}
	return func() {}, err
}

// TestLaunchAndBeKilled is no test but the program that another kills.
func TestLaunchAndBeKilled(t *testing.T) {
	state := os.Getenv(killedState)
	if state == "" {
		t.Skip("is run by TestSwarmKilled")
	}
	s := docker.NewSwarm(docker.Options{StateDir: state, Ledger: loudLedger{}})
	img := conformance.Image(t)
	if err := s.Prepare(t.Context(), img); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Launch(t.Context(), platform.Spec{
		Name: "to-be-killed", Image: img, Args: []string{"sleep", "3600"}, Data: []string{"/data"},
		Setting: platform.Setting{Storage: platform.StorageVolume},
	}); err != nil {
		t.Fatal(err)
	}
	select {} // until it is killed
}

// TestSwarmKilled kills a launch at its moments, and lets another tare remove
// what the ledger lists; nothing of it comes to be afterwards.
func TestSwarmKilled(t *testing.T) {
	inSwarm(t)
	engine, err := client.New(client.FromEnv)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	for _, moment := range []string{"entered", "create", "start"} {
		t.Run(moment, func(t *testing.T) {
			state := t.TempDir()
			entries, mark := killAt(t, engine, state, moment)
			next := docker.NewSwarm(docker.Options{StateDir: state})
			for n := len(entries) - 1; n >= 0; n-- {
				if err := next.Remove(t.Context(), entries[n]); err != nil {
					t.Errorf("Remove %s %s: %v", entries[n].Kind, entries[n].ID, err)
				}
			}
			ours := client.Filters{}.Add("label", "tare.ledger="+mark)
			services, err := engine.ServiceList(t.Context(), client.ServiceListOptions{Filters: ours})
			if err != nil || len(services.Items) > 0 {
				t.Errorf("services left: %v %v", services.Items, err)
			}
			containers, err := engine.ContainerList(t.Context(), client.ContainerListOptions{All: true, Filters: ours})
			if err != nil || len(containers.Items) > 0 {
				t.Errorf("containers left: %v %v", containers.Items, err)
			}
			volumes, err := engine.VolumeList(t.Context(), client.VolumeListOptions{Filters: ours})
			if err != nil || len(volumes.Items) > 0 {
				t.Errorf("volumes left: %v %v", volumes.Items, err)
			}
			tasks, err := engine.TaskList(t.Context(), client.TaskListOptions{})
			if err != nil {
				t.Error(err)
			}
			for _, task := range tasks.Items {
				if task.Spec.ContainerSpec != nil && task.Spec.ContainerSpec.Labels["tare.ledger"] == mark {
					t.Errorf("task left: %s, %s", task.ID, task.Status.State)
				}
			}
		})
	}
}

// killAt launches in another process, kills that when it has entered the service
// or its container has come so far, and gives what it had entered.
func killAt(t *testing.T, engine *client.Client, state, moment string) (entries []platform.Entry, mark string) {
	t.Helper()
	before := strconv.FormatInt(time.Now().Unix(), 10)
	cmd := exec.Command(os.Args[0], "-test.run=^TestLaunchAndBeKilled$")
	cmd.Env = append(os.Environ(), killedState+"="+state, "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Cleanup(func() {
		if !t.Failed() {
			return // the test has removed them; to look for each again takes seconds
		}
		next := docker.NewSwarm(docker.Options{StateDir: state})
		for _, e := range slices.Backward(entries) {
			if err := next.Remove(context.Background(), e); err != nil {
				t.Errorf("Remove %s %s: %v", e.Kind, e.ID, err)
			}
		}
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		text, isEntry := strings.CutPrefix(lines.Text(), entered)
		if !isEntry {
			continue
		}
		var e platform.Entry
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			kill()
			t.Fatal(err)
		}
		entries = append(entries, e)
		if e.Kind == "service" {
			mark = e.Attrs["tare.ledger"]
			break
		}
	}
	if mark == "" {
		kill()
		t.Fatalf("it ended before it entered a service; it had entered %v", entries)
	}
	if moment != "entered" {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream := engine.Events(ctx, client.EventsListOptions{Since: before, Filters: client.Filters{}.Add("type", "container").Add("event", moment).Add("label", "tare.ledger="+mark)})
		select {
		case <-stream.Messages:
		case err := <-stream.Err:
			kill()
			t.Fatalf("follow its container: %v", err)
		}
	}
	kill()
	return entries, mark
}
