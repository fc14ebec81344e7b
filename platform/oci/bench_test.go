package oci_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/kernel/cgroup"
	"tare/kernel/mount"
	"tare/platform"
	"tare/platform/conformance"
	"tare/platform/oci"
)

// BenchmarkLaunch compares launching a program that ends at once through this
// package with the same bundle run by hand ("runc run" in the foreground), in
// turns, so that both see the same host. It reports the medians and their
// ratio: what the instrument adds to a launch.
func BenchmarkLaunch(b *testing.B) {
	const runtime = "runc"
	state := b.TempDir()
	img := conformance.Image(b)
	p := oci.New(runtime, oci.Options{StateDir: state})
	if err := p.Check(b.Context()); err != nil {
		b.Skip(err)
	}
	if err := p.Prepare(b.Context(), img); err != nil {
		b.Fatal(err)
	}
	spec := platform.Spec{Name: "bench", Image: img, Args: []string{"true"}}
	hand := bundleByHand(b, p, state, spec, "true")

	var ours, theirs []time.Duration
	for b.Loop() {
		began := time.Now()
		if out, err := exec.Command(runtime, "--root", filepath.Join(hand, "notes"), "run", "--bundle", hand, "byhand").CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		theirs = append(theirs, time.Since(began))

		inst, err := p.Launch(b.Context(), spec)
		if err != nil {
			b.Fatal(err)
		}
		exit, err := inst.Wait(b.Context())
		if err != nil || exit.Code != 0 {
			b.Fatalf("%+v, %v", exit, err)
		}
		ours = append(ours, exit.Elapsed)
		if err := inst.Stop(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	report(b, theirs, ours, "ms-launch")
}

// report gives both medians and their ratio.
func report(b *testing.B, theirs, ours []time.Duration, unit string) {
	b.Helper()
	median := func(all []time.Duration) float64 {
		slices.Sort(all)
		return all[len(all)/2].Seconds()
	}
	b.ReportMetric(1000*median(theirs), "ms-by-hand")
	b.ReportMetric(1000*median(ours), unit)
	b.ReportMetric(median(ours)/median(theirs), "ratio")
}

// BenchmarkStart compares the start of a container at rest with the same
// bundle started by hand, by the same verbs, in turns. By hand, too, the cgroup
// is there before and what the runtime must not see is out of its sight.
func BenchmarkStart(b *testing.B) {
	for _, runtime := range []string{"runc", "crun"} {
		b.Run(runtime, func(b *testing.B) { benchmarkStart(b, runtime) })
	}
}

func benchmarkStart(b *testing.B, runtime string) {
	state := b.TempDir()
	img := conformance.Image(b)
	p := oci.New(runtime, oci.Options{StateDir: state})
	if err := p.Check(b.Context()); err != nil {
		b.Skip(err)
	}
	if err := p.Prepare(b.Context(), img); err != nil {
		b.Fatal(err)
	}
	spec := platform.Spec{Name: "bench", Image: img, Args: []string{"sleep", "3600"}}
	hand := bundleByHand(b, p, state, spec, spec.Args...)
	var theirs, ours []time.Duration
	for b.Loop() {
		c, err := p.(platform.Creator).Create(b.Context(), spec)
		if err != nil {
			b.Fatal(err)
		}
		byHand(b, runtime, hand, func(start func() error) {
			// Neither is always the second, which meets what the first has left to do.
			both := []func(){
				func() { theirs = append(theirs, timed(b, start)) },
				func() { ours = append(ours, timed(b, func() error { return c.Start(b.Context()) })) },
			}
			if len(ours)%2 == 1 {
				slices.Reverse(both)
			}
			both[0]()
			both[1]()
		})
		if err := c.Stop(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	report(b, theirs, ours, "ms-start")
}

func timed(b *testing.B, f func() error) time.Duration {
	b.Helper()
	began := time.Now()
	if err := f(); err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}

// byHand readies what the start by hand needs, has it timed, and clears it away.
func byHand(b *testing.B, runtime, hand string, timing func(start func() error)) {
	b.Helper()
	layout, err := cgroup.Host()
	if err != nil {
		b.Fatal(err)
	}
	var hidden []string
	if unified, ok := layout.Unified(); ok && runtime == "crun" && layout.Mode() != "v2" {
		hidden = []string{unified.Mount}
	}
	group := layout.At(groupByHand)
	if err := group.Create("cpu", "cpuset", "memory", "pids", "io"); err != nil {
		b.Fatal(err)
	}
	notes := filepath.Join(hand, "notes")
	starts, started := make(chan struct{}), make(chan error)
	over := make(chan error, 1)
	go func() {
		over <- mount.Hiding(hidden, func() error {
			for range starts {
				started <- runByHand(runtime, notes, hand)
			}
			return exec.Command(runtime, "--root", notes, "delete", "--force", "byhand").Run()
		})
	}()
	timing(func() error { starts <- struct{}{}; return <-started })
	close(starts)
	if err := <-over; err != nil {
		b.Fatal(err)
	}
	// The runtime has removed what of it it has seen.
	if err := group.Remove(b.Context()); err != nil {
		b.Fatal(err)
	}
}

func runByHand(runtime, notes, hand string) error {
	for n, verb := range oci.Verbs(runtime) {
		args := append([]string{"--root", notes}, strings.Fields(verb)...)
		if n == 0 {
			args = append(args, "--bundle", hand, "--pid-file", filepath.Join(hand, "pid"))
		}
		if err := exec.Command(runtime, append(args, "byhand")...).Run(); err != nil {
			return fmt.Errorf("%s %s: %w", runtime, verb, err)
		}
	}
	return nil
}

// groupByHand is the cgroup of what is run by hand.
var groupByHand = fmt.Sprintf("%s/byhand-%d", platform.CgroupParent, os.Getpid())

// bundleByHand makes the bundle that a launch makes, with a mounted root of
// its own, to be run again and again.
func bundleByHand(b *testing.B, p platform.Platform, state string, spec platform.Spec, args ...string) string {
	b.Helper()
	spec.Args = []string{"sleep", "3600"}
	inst, err := p.Launch(b.Context(), spec)
	if err != nil {
		b.Fatal(err)
	}
	text, reading := os.ReadFile(filepath.Join(state, "trials", spec.Name, "config.json"))
	if err := inst.Stop(b.Context()); err != nil || reading != nil {
		b.Fatal(err, reading)
	}
	hand := b.TempDir()
	for _, d := range []string{"upper", "work", "root"} {
		if err := os.Mkdir(filepath.Join(hand, d), 0o755); err != nil {
			b.Fatal(err)
		}
	}
	root := filepath.Join(hand, "root")
	if err := mount.Overlay(spec.Image.Root, filepath.Join(hand, "upper"), filepath.Join(hand, "work"), root); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := mount.Unmount(root); err != nil {
			b.Error(err)
		}
	})
	var config map[string]any
	if err := json.Unmarshal(text, &config); err != nil {
		b.Fatal(err)
	}
	config["process"].(map[string]any)["args"] = args
	config["root"].(map[string]any)["path"] = root
	config["linux"].(map[string]any)["cgroupsPath"] = groupByHand
	if text, err = json.Marshal(config); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(hand, "config.json"), text, 0o600); err != nil {
		b.Fatal(err)
	}
	return hand
}
