package oci_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

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
	hand := bundleByHand(b, p, state, spec)

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
	median := func(all []time.Duration) float64 {
		slices.Sort(all)
		return all[len(all)/2].Seconds()
	}
	b.ReportMetric(1000*median(theirs), "ms-by-hand")
	b.ReportMetric(1000*median(ours), "ms-launch")
	b.ReportMetric(median(ours)/median(theirs), "ratio")
}

// bundleByHand makes the bundle that a launch makes, with a mounted root of
// its own, to be run again and again.
func bundleByHand(b *testing.B, p platform.Platform, state string, spec platform.Spec) string {
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
	config["process"].(map[string]any)["args"] = []string{"true"}
	config["root"].(map[string]any)["path"] = root
	config["linux"].(map[string]any)["cgroupsPath"] = fmt.Sprintf("/tare/byhand-%d", os.Getpid())
	if text, err = json.Marshal(config); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(hand, "config.json"), text, 0o600); err != nil {
		b.Fatal(err)
	}
	return hand
}
